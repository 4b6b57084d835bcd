//! Spares that say themselves that they are the array's ([`container::spare_note`]): those that were spares before the array was
//! started, and those that are plugged in again.

use super::{FAILURES_MAX, LOOK_EVERY, Told, Watch, is_used, not_taken};
use crate::event_kinds::Kind;
use crate::events::tell_spare_refused;
use crate::runtime::Shared;
use crate::status::{MemberStatus, Status};
use container::probe::Probed;
use container::spare_note;
use drives::drive::Drive;
use metadata::imsm::Mpb;
use std::path::Path;
use std::sync::Arc;

/// What is to be done with a spare of the array.
#[derive(Debug, PartialEq, Eq)]
enum SpareStep {
    /// The array has it.
    Leave,
    /// The array has not noticed yet that it was pulled out.
    Wait,
    /// It stays outside, for this reason.
    Refuse(String),
    /// It is taken. If it failed in this process, the failed drive of this number is removed first.
    Take { failed: Option<u8> },
}

fn step(status: &Status, path: &str, serial: &str) -> SpareStep {
    let members = status.members.iter();
    let known: Vec<&MemberStatus> = members.filter(|one| one.serial == serial).collect();
    if let Some(used) = known.iter().find(|one| is_used(one)) {
        return match is_same_path(&used.name, path) {
            true => SpareStep::Leave,
            false => SpareStep::Wait,
        };
    }
    if known.len() >= FAILURES_MAX {
        return SpareStep::Refuse(format!(
            "it has left the array {} times since the array was started; `fullstripe add-spare {path}` takes it all the same",
            known.len()
        ));
    }
    let failed = known.iter().find(|one| one.state == "failed");
    SpareStep::Take {
        failed: failed.map(|one| one.id),
    }
}

fn is_same_path(one: &str, other: &str) -> bool {
    let whole = |path: &str| {
        let path = Path::new(path);
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    };
    whole(one) == whole(other)
}

impl Watch {
    /// As [`Watch::try_to_take`], of a spare of the array. A drive that has got other content in the meantime is refused as one
    /// that `add-spare` is to add.
    pub(super) fn try_to_take_spare(&self, path: &str, probed: &Probed, is_last: bool) -> bool {
        match step(&self.shared.status(), path, &probed.serial.to_string()) {
            SpareStep::Leave => true,
            SpareStep::Wait => false,
            SpareStep::Refuse(why) => {
                (self.tell)(not_taken(path, &why));
                true
            }
            SpareStep::Take { failed } => match self.take_spare(path, failed) {
                Ok(sentence) => {
                    (self.tell)(taken(path, &sentence));
                    true
                }
                Err(why) if is_last => {
                    (self.tell)(tell_spare_refused(path, &why));
                    true
                }
                Err(_) => false,
            },
        }
    }

    fn take_spare(&self, path: &str, failed: Option<u8>) -> Result<String, String> {
        if let Some(id) = failed {
            self.remove(engine::units::MemberId(id))?;
        }
        self.add(path)
    }
}

/// The event that a spare of the array was taken; `sentence` says as what.
fn taken(drive: &str, sentence: &str) -> Told {
    let text = format!("{drive} was a spare of this array before: {sentence}");
    let mut told = Told::of_process(Kind::DriveTaken, text, false);
    told.member = Some(drive.to_owned());
    told
}

/// Has the spares that the array has at its start say so: they may come from an older version, or from md. What cannot be written
/// now is only missed when the drive is plugged in again.
pub(super) fn note_all(shared: &Shared, mpb: &Mpb) {
    while shared.updates() == 0 && !shared.has_quit() {
        std::thread::sleep(LOOK_EVERY);
    }
    // The write path may wait for this thread.
    drives::flusher::join();
    let (status, drives) = (shared.status(), shared.drives());
    for member in &status.members {
        let drive: Option<&Arc<Drive>> =
            drives.get(usize::from(member.id)).and_then(Option::as_ref);
        if let Some(drive) = drive.filter(|_| member.state == "spare") {
            let _ = spare_note::write(drive, mpb);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::member;

    fn status(states: &[&str]) -> Status {
        let named = |(id, state): (u8, &&str)| MemberStatus {
            name: format!("/dev/old{id}"),
            serial: "S".to_owned(),
            ..member(id, state)
        };
        Status {
            members: (0..).zip(states).map(named).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_spare_is_taken_unless_the_array_has_it_or_it_keeps_failing() {
        let step = |states: &[&str], path| step(&status(states), path, "S");
        let take = |failed| SpareStep::Take { failed };
        assert_eq!(step(&[], "/dev/new"), take(None));
        assert_eq!(step(&["removed", "failed"], "/dev/new"), take(Some(1)));
        assert_eq!(step(&["failed", "spare"], "/dev/new"), SpareStep::Wait);
        assert_eq!(step(&["failed", "spare"], "/dev/old1"), SpareStep::Leave);
        let refused = step(&["failed", "removed", "failed"], "/dev/new");
        assert!(
            matches!(&refused, SpareStep::Refuse(why) if why.starts_with("it has left the array 3 times")),
            "{refused:?}"
        );
    }
}
