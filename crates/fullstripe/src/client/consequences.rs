//! What an order will do to redundancy, reported before the order is sent.
//!
//! The sentences are made from the status, which says for every slot whether its volume continues without it. The
//! serving process decides again when it receives the order.

use server::api::names::{places, slots_of};
use server::status::{MemberStatus, Status, VolumeStatus};

/// What an order does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Consequences {
    /// A line for each volume concerned.
    pub lines: Vec<String>,
    /// The order makes a volume fail.
    pub ends_volume: bool,
}

/// The consequences of failing `drive`.
#[must_use]
pub fn of_fail(status: &Status, drive: &MemberStatus) -> Consequences {
    let mut found = Consequences::default();
    if !matches!(drive.state.as_str(), "active" | "spare") {
        return found;
    }
    for (volume, at, slot) in slots_of(status, drive) {
        let name = &volume.name;
        if volume.state == "failed" {
            found.ends_volume = true;
            found.lines.push(format!("{name} has failed already"));
        } else if slot.state != "in sync" {
            found.lines.push(format!(
                "{name} loses nothing: its slot {at} is {}",
                slot.state
            ));
        } else if !slot.can_be_lost {
            found.ends_volume = true;
            found.lines.push(format!(
                "{name} ({}) cannot do without slot {at} ({}): it fails, and every read and write ends with an error until \
                 the array is stopped and served again",
                level(volume),
                drive.name
            ));
        } else {
            found.lines.push(format!(
                "{name} ({}) continues without slot {at}, degraded until it is rebuilt; {}",
                level(volume),
                next_drive(status, drive)
            ));
        }
    }
    if drive.state == "spare" {
        found.lines.extend(without_spare(status, drive));
    }
    found
}

/// The consequences of removing `drive`.
#[must_use]
pub fn of_remove(status: &Status, drive: &MemberStatus) -> Consequences {
    let is_spare = drive.state == "spare";
    let lines = is_spare.then(|| without_spare(status, drive)).flatten();
    Consequences {
        lines: lines.into_iter().collect(),
        ends_volume: false,
    }
}

/// The consequences of replacing `drive` by the one called `with`.
#[must_use]
pub fn of_replace(status: &Status, drive: &MemberStatus, with: &str) -> Consequences {
    let places = places(status, drive).join(" and ");
    Consequences {
        lines: vec![format!(
            "{} ({places}) serves until {with} holds a copy, and leaves the array then; redundancy stays as it is",
            drive.name
        )],
        ends_volume: false,
    }
}

fn level(volume: &VolumeStatus) -> String {
    format!("RAID {}", volume.level)
}

fn spares<'a>(status: &'a Status, but: &MemberStatus) -> impl Iterator<Item = &'a MemberStatus> {
    let but = but.id;
    let members = status.members.iter();
    members.filter(move |one| one.state == "spare" && one.id != but)
}

fn next_drive(status: &Status, but: &MemberStatus) -> String {
    match spares(status, but).next() {
        Some(spare) => format!("the spare {} can take its place", spare.name),
        None => "there is no spare: `fullstripe add-spare DRIVE` adds one".to_owned(),
    }
}

fn without_spare(status: &Status, but: &MemberStatus) -> Option<String> {
    let is_last = spares(status, but).next().is_none();
    is_last.then(|| {
        format!(
            "{} is the last spare: no drive takes the place of the next that fails",
            but.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::status::SlotStatus;
    use server::testing::samples::{member, slot, volume};

    fn status(can_be_lost: bool) -> Status {
        let one = |id| SlotStatus {
            can_be_lost,
            ..slot(Some(id), "in sync")
        };
        Status {
            members: vec![member(0, "active"), member(1, "active"), member(2, "spare")],
            volumes: vec![volume("data", vec![one(0), one(1)])],
            ..Status::default()
        }
    }

    #[test]
    fn a_drive_that_can_be_lost_leaves_a_degraded_volume() {
        let mut status = status(true);
        let said = of_fail(&status, &status.members[1]);
        assert!(!said.ends_volume);
        assert_eq!(
            said.lines,
            [
                "data (RAID 5) continues without slot 1, degraded until it is rebuilt; the spare /dev/nvme2n1 can take its place"
            ]
        );
        status.members.pop();
        let said = of_fail(&status, &status.members[1]);
        assert!(
            said.lines[0].ends_with("there is no spare: `fullstripe add-spare DRIVE` adds one")
        );
        status.volumes[0].slots[1].state = "rebuilding".to_owned();
        let said = of_fail(&status, &status.members[1]);
        assert_eq!(said.lines, ["data loses nothing: its slot 1 is rebuilding"]);
        assert!(!said.ends_volume);
    }

    #[test]
    fn the_drive_that_ends_a_volume_is_asked_about() {
        let mut status = status(false);
        let said = of_fail(&status, &status.members[0]);
        assert!(said.ends_volume);
        assert!(
            said.lines[0]
                .starts_with("data (RAID 5) cannot do without slot 0 (/dev/nvme0n1): it fails")
        );
        status.volumes[0].state = "failed".to_owned();
        let said = of_fail(&status, &status.members[0]);
        assert_eq!(
            (said.lines, said.ends_volume),
            (vec!["data has failed already".to_owned()], true)
        );
        status.members[0].state = "failed".to_owned();
        assert_eq!(
            of_fail(&status, &status.members[0]),
            Consequences::default()
        );
    }

    #[test]
    fn the_last_spare_is_missed() {
        let mut status = status(true);
        let last =
            "/dev/nvme2n1 is the last spare: no drive takes the place of the next that fails";
        assert_eq!(of_remove(&status, &status.members[2]).lines, [last]);
        assert_eq!(of_fail(&status, &status.members[2]).lines, [last]);
        assert_eq!(
            of_remove(&status, &status.members[0]),
            Consequences::default()
        );
        status.members.push(member(3, "spare"));
        assert_eq!(
            of_remove(&status, &status.members[2]),
            Consequences::default()
        );
        let replaced = of_replace(&status, &status.members[1], "/dev/new");
        assert_eq!(
            replaced.lines,
            [
                "/dev/nvme1n1 (data:1) serves until /dev/new holds a copy, and leaves the array then; redundancy stays as it is"
            ]
        );
    }
}
