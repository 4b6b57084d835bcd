//! Has a member that reports that it is about to fail copied to a spare, while it can still be read.
//!
//! The order is the one of `replace`: the old drive serves until the copy is complete, and then leaves the array. One drive
//! is copied at a time, and only while every volume is whole and has no other background work, because a copy that competes
//! with a rebuild would delay what is more urgent. Each drive is copied once at most: a copy that was cancelled, or could not
//! be finished, is left to an operator.

use crate::api::{check_replaceable, command};
use crate::event_kinds::Kind;
use crate::events::Told;
use crate::not_done::NotDone;
use crate::remembering::Tell;
use crate::runtime::Shared;
use crate::status::{MemberStatus, Status};
use engine::control::message::{Command, Refused};
use engine::units::{MemberId, Slot, VolumeId};
use std::collections::BTreeSet;

/// What has been done so far.
#[derive(Default)]
pub(super) struct Prefail {
    /// Serials of drives whose copy has begun.
    copied: BTreeSet<String>,
    /// Pairs of a failing drive and a spare that is too small for it.
    too_small: BTreeSet<(u8, u8)>,
}

/// A failing drive, where it is, and the spare that is to take its place.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Due {
    volume: u8,
    slot: u8,
    from: u8,
    to: u8,
}

impl Prefail {
    /// Orders the copy that is due, if there is one. Blocks until the array has answered.
    pub fn look(&mut self, shared: &Shared, tell: &Tell) {
        let status = shared.status();
        let Some(due) = self.due(&status) else {
            return;
        };
        let member = |id: u8| {
            let found = status.members.iter().find(|member| member.id == id);
            found.expect("a copy is due between drives of the status")
        };
        let (from, to) = (member(due.from), member(due.to));
        let order = Command::Replace {
            volume: VolumeId(due.volume),
            slot: Slot(due.slot),
            to: MemberId(due.to),
        };
        match command(shared, order) {
            Ok(()) => {
                self.copied.insert(from.serial.clone());
                tell(copied(from, to));
            }
            Err(NotDone::Refused(Refused::TooSmall)) => {
                self.too_small.insert((due.from, due.to));
                tell(not_copied(from, to));
            }
            // Something has come in between. The next look decides anew.
            Err(NotDone::Refused(_) | NotDone::NoAnswer) => {}
        }
    }

    /// The copy that is due: the first failing member that has not been copied, onto the spare with the fewest warnings.
    fn due(&self, status: &Status) -> Option<Due> {
        if !status.volumes.iter().all(|one| one.state == "optimal") {
            return None;
        }
        let fails = |member: &&MemberStatus| {
            member.state == "active"
                && member.health.failing().is_some()
                && !self.copied.contains(&member.serial)
        };
        let mut failing = status.members.iter().filter(fails);
        failing.find_map(|from| {
            let (volume, slot) = place(status, from.id)?;
            let volume_of = &status.volumes[usize::from(volume)];
            if check_replaceable(status, volume_of, slot).is_err() {
                return None;
            }
            let fits = |to: &&MemberStatus| {
                to.state == "spare"
                    && to.health.failing().is_none()
                    && !self.too_small.contains(&(from.id, to.id))
            };
            let spares = status.members.iter().filter(fits);
            let to = spares.min_by_key(|to| to.health.warnings.len())?.id;
            Some(Due {
                volume,
                slot,
                from: from.id,
                to,
            })
        })
    }
}

/// The number of a volume, and the slot of it, that has this drive.
fn place(status: &Status, member: u8) -> Option<(u8, u8)> {
    (0u8..).zip(&status.volumes).find_map(|(at, volume)| {
        let mut slots = (0u8..).zip(&volume.slots);
        let (slot, _) = slots.find(|(_, slot)| slot.member == Some(member))?;
        Some((at, slot))
    })
}

/// The event that a copy has begun.
fn copied(from: &MemberStatus, to: &MemberStatus) -> Told {
    let (from, to, why) = (&from.name, &to.name, reported(from));
    let text = format!(
        "{from} reports that {why}: it is being copied to the spare {to}, and leaves the array when the copy is complete"
    );
    about(from, Kind::FailingDriveCopied, text)
}

/// The event that a spare is too small.
fn not_copied(from: &MemberStatus, to: &MemberStatus) -> Told {
    let (from, to, why) = (&from.name, &to.name, reported(from));
    let text = format!(
        "{from} reports that {why}, and is not copied to the spare {to}, which is too small"
    );
    about(from, Kind::FailingDriveNotCopied, text)
}

fn reported(member: &MemberStatus) -> String {
    let reported = member.health.failing();
    reported.expect("only a drive that reports that it is failing is copied")
}

fn about(drive: &str, kind: Kind, text: String) -> Told {
    let mut told = Told::of_process(kind, text, true);
    told.member = Some(drive.to_owned());
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::DriveHealth;
    use crate::testing::samples::{job, member, slot, volume};

    fn health(warnings: &[&str]) -> DriveHealth {
        DriveHealth {
            warnings: warnings.iter().map(|&name| name.to_owned()).collect(),
            ..DriveHealth::default()
        }
    }

    /// Three members, the second of which reports `warnings`, and two spares.
    fn status(warnings: &[&str]) -> Status {
        let slots = (0..3).map(|id| slot(Some(id), "in sync")).collect();
        let states = ["active", "active", "active", "spare", "spare"];
        let mut members: Vec<MemberStatus> = (0u8..)
            .zip(states)
            .map(|(id, state)| member(id, state))
            .collect();
        members[1].health = health(warnings);
        Status {
            members,
            volumes: vec![volume("data", slots)],
            ..Status::default()
        }
    }

    fn due(status: &Status) -> Option<(u8, u8)> {
        let due = Prefail::default().due(status)?;
        assert_eq!((due.volume, due.slot), (0, 1));
        Some((due.from, due.to))
    }

    #[test]
    fn only_a_drive_that_reports_that_it_is_failing_is_copied() {
        for warning in ["unreliable", "read-only", "spare-low"] {
            assert_eq!(due(&status(&[warning])), Some((1, 3)), "{warning}");
        }
        let others = [
            "hot",
            "too-hot",
            "backup-failed",
            "worn-out",
            "media-errors",
        ];
        assert_eq!(due(&status(&others)), None);
        assert_eq!(due(&status(&[])), None);
        assert_eq!(due(&status(&["hot", "read-only"])), Some((1, 3)));
    }

    #[test]
    fn a_failing_spare_is_not_used_and_a_well_one_is_preferred() {
        let mut status = status(&["unreliable"]);
        status.members[3].health = health(&["hot"]);
        assert_eq!(due(&status), Some((1, 4)));
        status.members[4].health = health(&["read-only"]);
        assert_eq!(due(&status), Some((1, 3)));
        status.members[3].health = health(&["unreliable"]);
        assert_eq!(due(&status), None);
    }

    #[test]
    fn nothing_is_copied_while_something_else_is_to_be_done_first() {
        let ready = status(&["unreliable"]);
        let with = |change: &dyn Fn(&mut Status)| {
            let mut status = ready.clone();
            change(&mut status);
            due(&status)
        };
        assert_eq!(with(&|_| ()), Some((1, 3)));
        for kind in ["rebuild", "replace", "check", "resync"] {
            assert_eq!(
                with(&|status| status.volumes[0].job = Some(job(kind))),
                None
            );
        }
        for state in [
            "degraded",
            "failed",
            "not protected",
            "writes stopped",
            "not started",
        ] {
            let changed = with(&|status| {
                let mut other = status.volumes[0].clone();
                other.state = state.to_owned();
                status.volumes.push(other);
            });
            assert_eq!(changed, None, "{state}");
        }
        assert_eq!(with(&|status| status.volumes[0].read_only = true), None);
        assert_eq!(
            with(&|status| status.volumes[0].slots[2].state = "missing".to_owned()),
            None
        );
        assert_eq!(with(&|status| status.members.truncate(3)), None);
    }

    #[test]
    fn a_drive_is_copied_once_and_a_spare_that_is_too_small_is_passed_over() {
        let status = status(&["unreliable"]);
        let mut prefail = Prefail::default();
        prefail.too_small.insert((1, 3));
        assert_eq!(prefail.due(&status).map(|due| due.to), Some(4));
        prefail.copied.insert("SERIAL1".to_owned());
        assert_eq!(prefail.due(&status), None);
    }
}
