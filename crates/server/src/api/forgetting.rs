//! A spare that is removed by an order says no more that it is one of the array's ([`spare_note`]), or the next start would take it
//! again.

use super::names;
use super::spare::open;
use crate::runtime::Shared;
use crate::status::{MemberStatus, Status};
use container::probe::parse_spec;
use container::spare_note;
use drives::spec::Target;

/// Erases the note of `member`, which has been removed and is still attached if it was well; `status` is from before. Returns a
/// sentence if a spare that was well still has its note. A failed one may take long to answer, or never does, and is not waited
/// for.
pub fn forget(shared: &Shared, status: &Status, member: &MemberStatus) -> Option<String> {
    match member.state.as_str() {
        "spare" => {
            let drives = shared.drives();
            let drive = drives.get(usize::from(member.id))?.as_ref()?;
            let why = spare_note::erase(drive).err()?;
            Some(format!(
                "it still says that it is a spare of this array, and the next start takes it again: {why:#}"
            ))
        }
        "failed" if names::places(status, member).is_empty() => {
            let member = member.clone();
            // If no thread can be started, the drive is taken again, as one is that was pulled out before it was removed.
            let _ = std::thread::Builder::new().spawn(move || erase_failed(&member));
            None
        }
        _ => None,
    }
}

/// The array has closed the drive when it failed, so it is opened anew. If it is gone or cannot be written, it keeps its note, and
/// is taken back when it is plugged in again.
fn erase_failed(member: &MemberStatus) {
    let Ok(spec) = parse_spec(&member.name) else {
        return;
    };
    if !matches!(&spec.target, Target::Path(path) if path.exists()) {
        return;
    }
    if let Ok(probed) = open(spec)
        && probed.serial.to_string() == member.serial
        && spare_note::container_noted(&probed).is_some()
    {
        let _ = spare_note::erase(&probed.drive);
    }
}
