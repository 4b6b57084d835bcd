//! What is done with a drive in a known bay, and which drive was there.

use super::*;
use crate::testing::samples::{member, slot, volume};

/// Three members of which the second has failed.
fn degraded() -> Status {
    let slots = ["in sync", "failed", "in sync"];
    let slots = (0u8..).zip(slots).map(|(id, state)| slot(Some(id), state));
    let mut volume = volume("data", slots.collect());
    volume.state = "degraded".to_owned();
    Status {
        members: ["active", "failed", "active"]
            .into_iter()
            .zip(0u8..)
            .map(|(state, id)| member(id, state))
            .collect(),
        volumes: vec![volume],
        ..Status::default()
    }
}

fn empty() -> Newcomer<'static> {
    Newcomer {
        path: "/dev/nvme1n1",
        serial: "NEW".to_owned(),
        content: None,
        unfit: None,
        users: None,
    }
}

/// What is done with a drive in the bay of the second member.
fn step_at(status: &Status, newcomer: &Newcomer<'_>) -> BayStep {
    step(status, &status.members[1], newcomer)
}

fn why(step: BayStep) -> String {
    match step {
        BayStep::Wait(why) | BayStep::Refuse(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_drive_takes_the_place_of_one_that_is_gone() {
    let mut status = degraded();
    assert_eq!(step_at(&status, &empty()), BayStep::Take);
    status.members[1].state = "removed".to_owned();
    assert_eq!(step_at(&status, &empty()), BayStep::Take);
    // A spare has taken the slot: this drive will be the next spare.
    status.volumes[0].state = "optimal".to_owned();
    assert_eq!(step_at(&status, &empty()), BayStep::Take);
}

#[test]
fn a_drive_that_holds_anything_or_cannot_be_a_spare_is_refused_at_once() {
    let status = degraded();
    let holds = Newcomer {
        content: Some("it holds an ext4 file system".to_owned()),
        unfit: Some("it is too small".to_owned()),
        ..empty()
    };
    let refused = |why: &str| BayStep::Refuse(why.to_owned());
    assert_eq!(
        step_at(&status, &holds),
        refused("it holds an ext4 file system")
    );
    let small = Newcomer {
        content: None,
        ..holds
    };
    assert_eq!(step_at(&status, &small), refused("it is too small"));
}

#[test]
fn a_drive_that_somebody_uses_is_waited_for() {
    let used = Newcomer {
        users: Some("it is in use by udev".to_owned()),
        ..empty()
    };
    let wait = BayStep::Wait("it is in use by udev".to_owned());
    assert_eq!(step_at(&degraded(), &used), wait);
}

#[test]
fn the_array_may_notice_later_that_a_drive_was_pulled_out() {
    let mut status = degraded();
    for state in ["active", "spare"] {
        status.members[1].state = state.to_owned();
        let step = step_at(&status, &empty());
        assert!(matches!(step, BayStep::Wait(_)), "{step:?}");
        assert!(why(step).contains("has not noticed yet"));
    }
}

/// Whoever erased it knows why it had failed or was replaced.
#[test]
fn a_drive_that_the_array_had_is_not_taken_because_it_was_erased() {
    let mut status = degraded();
    let same = Newcomer {
        serial: status.members[1].serial.clone(),
        ..empty()
    };
    for state in ["failed", "removed"] {
        status.members[1].state = state.to_owned();
        let step = step_at(&status, &same);
        assert!(why(step).starts_with("the array had this drive before"));
    }
    // An operator has added it in the meantime, under a new number.
    let mut again = member(3, "spare");
    again.serial = same.serial.clone();
    status.members.push(again);
    assert_eq!(step_at(&status, &same), BayStep::Leave);
    // The bay that it had before is not one of a drive that is gone.
    assert_eq!(step_at(&status, &empty()), BayStep::Leave);
}

#[test]
fn a_volume_that_needs_more_than_a_new_drive_gets_none() {
    for state in ["failed", "not started", "writes stopped"] {
        let mut status = degraded();
        status.volumes.push(volume("logs", Vec::new()));
        status.volumes[1].state = state.to_owned();
        let wanted = format!("volume logs is {state}, which a new drive cannot mend; ");
        assert!(why(step_at(&status, &empty())).starts_with(&wanted));
    }
}

#[test]
fn a_bay_is_that_of_the_drive_that_was_there_last() {
    let bays = |known: &[(u8, Option<&str>)]| {
        let known = known.iter();
        Bays {
            bay_of: Box::new(|path| path.strip_prefix("in ").map(str::to_owned)),
            known: known
                .map(|(id, bay)| (*id, bay.map(str::to_owned)))
                .collect(),
        }
    };
    let status = degraded();
    let last = |known: &[(u8, Option<&str>)], path: &str| {
        let bays = bays(known);
        let found = bays.last_in_bay_of(path, &status);
        found.map(|member| member.id)
    };
    let all = [(0, Some("A")), (1, Some("B")), (2, Some("B"))];
    assert_eq!(last(&all, "in A"), Some(0));
    assert_eq!(last(&all, "in B"), Some(2));
    assert_eq!(last(&all, "in C"), None);
    // Two drives without a bay are not in the same one.
    assert_eq!(last(&[(0, None), (1, None)], "nowhere"), None);
}

#[test]
fn events_say_where_the_drive_is_and_what_to_type() {
    let mut status = degraded();
    let of = |told: Told| {
        assert_eq!(told.member.as_deref(), Some("/dev/nvme1n1"));
        format!("{} {}: {}\n", told.kind, told.warning, told.text)
    };
    let path = "/dev/nvme1n1";
    let mut lines = of(waits(path, &status.members[1]));
    lines += &of(not_taken(path, &status.members[1], "it holds a GPT"));
    status.members[1].state = "removed".to_owned();
    lines += &of(adopted(
        path,
        &status.members[1],
        "/dev/nvme1n1 is a spare now",
    ));
    status.members[1].state = "active".to_owned();
    lines += &of(not_taken(path, &status.members[1], "it is in use"));
    insta::assert_snapshot!(lines, @r"
    empty-drive-appeared true: /dev/nvme1n1 has appeared, empty, in the bay of the drive with the serial number SERIAL1, which has failed: `fullstripe add-spare /dev/nvme1n1` gives it to the array
    drive-not-taken true: /dev/nvme1n1 has appeared in the bay of the drive with the serial number SERIAL1, which has failed; it is not taken: it holds a GPT
    drive-taken false: /dev/nvme1n1 has appeared, empty, in the bay of the drive with the serial number SERIAL1, which has left the array: /dev/nvme1n1 is a spare now
    drive-not-taken true: /dev/nvme1n1 has appeared in the bay of the drive with the serial number SERIAL1; it is not taken: it is in use
    ");
}
