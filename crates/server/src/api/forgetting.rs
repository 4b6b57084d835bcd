//! A spare that is removed by an order says no more that it is one of the array's ([`spare_note`]), or the next start would take it
//! again.

use super::names;
use super::spare::open;
use crate::runtime::Shared;
use crate::status::{MemberStatus, Status};
use container::probe::parse_spec;
use container::spare_note;
use drives::drive::Drive;
use drives::spec::Target;
use std::sync::Arc;

/// What the array has attached of a drive that is about to be removed. The array may let go of it as soon as it is removed
/// ([`letting_go`](super::letting_go)).
pub fn attached(shared: &Shared, member: &MemberStatus) -> Option<Arc<Drive>> {
    shared.drives().get(usize::from(member.id))?.clone()
}

/// Erases the note of `member`, which has been removed; `status` and what was `attached` are from before. Returns a
/// sentence if a spare that was well still has its note. A failed one may take long to answer, or never does, and is not waited
/// for.
pub fn forget(
    status: &Status,
    member: &MemberStatus,
    attached: Option<Arc<Drive>>,
) -> Option<String> {
    match (member.state.as_str(), attached) {
        ("spare", Some(drive)) => {
            let why = spare_note::erase(&drive).err()?;
            Some(format!(
                "it still says that it is a spare of this array, and the next start takes it again: {why:#}"
            ))
        }
        // A spare that is not attached has just failed.
        ("spare" | "failed", _) if names::places(status, member).is_empty() => {
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
