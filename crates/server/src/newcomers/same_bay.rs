//! An empty drive that appears in the bay of a drive of the array that has failed or was removed is probably meant to replace it.
//!
//! What is done with it is a function of the status and of what was found on the drive ([`step`]). A drive that holds anything is
//! left alone, whatever it is, and so is a drive that the array had before: it may have been erased because it was failing.
//!
//! The bays are remembered as long as the process runs. A drive that failed before that is in no bay that is known.

use super::{Kind, MemberStatus, Status, Told, is_used};
use container::bay::bay_of;
use container::machine::SYSFS_BLOCK;
use drives::drive::Drive;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The bay of the device with this path; `None` if it has none or is gone.
pub(super) type BayOf = Box<dyn Fn(&str) -> Option<String> + Send>;

/// The bays of the array's drives, also of those that are gone.
pub(super) struct Bays {
    bay_of: BayOf,
    /// By member, from when it was first seen: once a drive is gone, its path may be another drive's.
    known: BTreeMap<u8, Option<String>>,
}

impl Bays {
    pub fn new(bay_of: BayOf) -> Bays {
        Bays {
            bay_of,
            known: BTreeMap::new(),
        }
    }

    pub fn of_this_machine() -> Bays {
        Bays::new(Box::new(|path| {
            bay_of(Path::new(SYSFS_BLOCK), Path::new(path))
        }))
    }

    /// Finds out the bays of the drives that have joined. `drives` are those in use, by member.
    pub fn learn(&mut self, drives: &[Option<Arc<Drive>>]) {
        for (member, drive) in (0u8..).zip(drives) {
            if let Some(drive) = drive {
                let bay = || (self.bay_of)(drive.name());
                self.known.entry(member).or_insert_with(bay);
            }
        }
    }

    /// The drive of the array that is, or was last, in the bay of the device with this path.
    pub fn last_in_bay_of<'a>(&self, path: &str, status: &'a Status) -> Option<&'a MemberStatus> {
        let bay = (self.bay_of)(path)?;
        // Numbers are given out once, in ascending order.
        let mut known = self.known.iter().rev();
        let (last, _) = known.find(|(_, of)| of.as_ref() == Some(&bay))?;
        status.members.iter().find(|member| member.id == *last)
    }
}

/// A drive that has appeared and does not belong to the array. The reasons are sentences.
pub(super) struct Newcomer<'a> {
    pub path: &'a str,
    pub serial: String,
    /// What it holds.
    pub content: Option<String>,
    /// Why no drive like it can be a spare.
    pub unfit: Option<String>,
    /// Who uses it.
    pub users: Option<String>,
}

/// What is to be done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BayStep {
    /// The array has it, or has the drive that was there before in another bay.
    Leave,
    /// It is looked at again; this is why it is not taken if it stays so.
    Wait(String),
    /// It stays outside, for this reason.
    Refuse(String),
    /// It is empty, and can replace the drive that was there.
    Take,
}

/// What is done with `newcomer`, which has appeared in the bay of `before`.
pub(super) fn step(status: &Status, before: &MemberStatus, newcomer: &Newcomer<'_>) -> BayStep {
    let is_in_use = |serial: &str| {
        let mut members = status.members.iter();
        members.any(|one| one.serial == serial && is_used(one))
    };
    let has_moved = !is_used(before) && is_in_use(&before.serial);
    if is_in_use(&newcomer.serial) || has_moved {
        return BayStep::Leave;
    }
    let mut members = status.members.iter();
    if members.any(|one| one.serial == newcomer.serial) {
        // It may just be being added: until it has joined, it is `removed`.
        return BayStep::Wait(format!(
            "the array had this drive before; `fullstripe add-spare {}` takes it if it is well",
            newcomer.path
        ));
    }
    if is_used(before) {
        let why = "the array has not noticed yet that the drive that was there is gone";
        return BayStep::Wait(why.to_owned());
    }
    let refusal = newcomer.content.as_ref().or(newcomer.unfit.as_ref());
    if let Some(why) = refusal {
        return BayStep::Refuse(why.clone());
    }
    let serves = |state: &str| matches!(state, "optimal" | "degraded" | "not protected");
    let mut volumes = status.volumes.iter();
    if let Some(volume) = volumes.find(|volume| !serves(&volume.state)) {
        return BayStep::Refuse(format!(
            "volume {} is {}, which a new drive cannot mend; `fullstripe status` says what to do first",
            volume.name, volume.state
        ));
    }
    match &newcomer.users {
        Some(why) => BayStep::Wait(why.clone()),
        None => BayStep::Take,
    }
}

/// The event that an empty drive waits for an order.
pub(super) fn waits(path: &str, before: &MemberStatus) -> Told {
    let text = format!(
        "{path} has appeared, empty, {}: `fullstripe add-spare {path}` gives it to the array",
        where_it_is(before)
    );
    about(path, Kind::EmptyDriveAppeared, text, true)
}

/// The event that an empty drive was taken; `sentence` says as what.
pub(super) fn adopted(path: &str, before: &MemberStatus, sentence: &str) -> Told {
    let text = format!(
        "{path} has appeared, empty, {}: {sentence}",
        where_it_is(before)
    );
    about(path, Kind::DriveTaken, text, false)
}

/// The event that a drive is not taken.
pub(super) fn not_taken(path: &str, before: &MemberStatus, why: &str) -> Told {
    let text = format!(
        "{path} has appeared {}; it is not taken: {why}",
        where_it_is(before)
    );
    about(path, Kind::DriveNotTaken, text, true)
}

/// The drive that was there is named by its serial number: it may have had the same path.
fn where_it_is(before: &MemberStatus) -> String {
    let what = match before.state.as_str() {
        "failed" => ", which has failed",
        "removed" => ", which has left the array",
        _ => "",
    };
    format!(
        "in the bay of the drive with the serial number {}{what}",
        before.serial
    )
}

fn about(path: &str, kind: Kind, text: String, is_warning: bool) -> Told {
    let mut told = Told::of_process(kind, text, is_warning);
    told.member = Some(path.to_owned());
    told
}

#[cfg(test)]
mod tests;
