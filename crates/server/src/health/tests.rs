//! The health of arrays in every state, in one sentence.

use super::*;
use crate::testing::samples::{job, member, slot, volume};

/// A RAID 5 of three without a spare, whose slots are in these states.
fn status(slots: [&str; 3]) -> Status {
    let states = slots.map(|state| match state {
        "failed" => "failed",
        _ => "active",
    });
    let members = (0u8..).zip(states).map(|(id, state)| member(id, state));
    let slots = (0u8..).zip(slots).map(|(id, state)| slot(Some(id), state));
    Status {
        members: members.collect(),
        volumes: vec![volume("data", slots.collect())],
        ..Status::default()
    }
}

fn said(status: &Status) -> String {
    let health = health(status);
    format!("{}: {}", health.state, health.text)
}

#[test]
fn the_worst_comes_first_with_its_cause_and_what_to_do() {
    let mut status = status(["in sync", "failed", "in sync"]);
    insta::assert_snapshot!(said(&status_whole()), @"well: data is optimal");
    status.volumes[0].state = "degraded".to_owned();
    status.members[1].cause = Some("it is gone (No such device)".to_owned());
    insta::assert_snapshot!(said(&status), @"at risk: data is degraded: slot 1 (/dev/nvme1n1) failed, it is gone (No such device); no spare is there: `fullstripe add-spare DRIVE` adds one");
    status.members.push(member(3, "spare"));
    assert!(said(&status).ends_with("`fullstripe rebuild data` fills it"));
    status.members[3].health.warnings = vec!["read-only".to_owned()];
    assert!(
        said(&status).ends_with(
            "; the spare /dev/nvme3n1 reports that it cannot be written any more: `fullstripe add-spare DRIVE` adds another"
        ),
        "{}",
        said(&status)
    );
    status.members[3].health.warnings.clear();
    status.volumes[0].job = Some(job("rebuild"));
    assert!(
        said(&status).ends_with("; its rebuild is at 33 %"),
        "{}",
        said(&status)
    );
    status.volumes[0].job.as_mut().unwrap().paused = true;
    assert!(said(&status).ends_with("its rebuild is paused: `fullstripe resume data`"));
    status.volumes[0].job = None;
    let cause = "its rebuild was given up: 2 stripes could not be read".to_owned();
    status.volumes[0].cause = Some(cause.clone());
    assert!(said(&status).ends_with(&cause));
    status.volumes[0].cause = None;
    status.volumes[0].read_only = true;
    assert!(said(&status).ends_with("served read-only, so nothing is synchronised"));
    // A second volume that has failed is worse.
    let mut other = volume("fast", Vec::new());
    (other.state, other.cause) = ("failed".to_owned(), Some("it has lost d0.img".to_owned()));
    status.volumes.push(other);
    insta::assert_snapshot!(said(&status), @"failed: fast has failed: it has lost d0.img");
}

fn status_whole() -> Status {
    status(["in sync", "in sync", "in sync"])
}

#[test]
fn a_scrub_leaves_an_array_well_and_other_work_does_not() {
    let mut status = status_whole();
    status.volumes[0].job = Some(job("check"));
    assert_eq!(said(&status), "well: data is optimal");
    status.volumes[0].state = "not protected".to_owned();
    status.volumes[0].job = Some(job("resync"));
    assert_eq!(
        said(&status),
        "at risk: data has no redundancy yet: its resync is at 33 %"
    );
    status.volumes[0].read_only = true;
    assert!(said(&status).ends_with("so nothing is synchronised"));
    status.volumes[0].state = "writes stopped".to_owned();
    assert!(said(&status).starts_with("failed: data refuses writes: the cause is not known"));
    status.volumes[0].state = "not started".to_owned();
    status.volumes[0].not_started =
        Some("volume data is not started: two drives are missing".to_owned());
    assert_eq!(
        said(&status),
        "failed: volume data is not started: two drives are missing"
    );
}

#[test]
fn drives_that_are_about_to_be_lost_are_a_risk_and_those_that_nobody_needs_are_none() {
    let mut status = status_whole();
    status.members.push(member(3, "failed"));
    assert!(said(&status).starts_with("well: all volumes are whole without /dev/nvme3n1"));
    status.members[2].bad_block_bytes = 4096;
    assert!(said(&status).starts_with("at risk: /dev/nvme2n1 has bad blocks (4 KiB)"));
    status.members[0].deleted = true;
    assert!(said(&status).starts_with("at risk: the file of /dev/nvme0n1 has been deleted"));
    // The drive has been removed since.
    status.members[0].state = "removed".to_owned();
    assert!(said(&status).starts_with("at risk: /dev/nvme2n1 has bad blocks"));
}

#[test]
fn a_drive_that_reports_its_end_is_a_risk_and_a_hot_one_is_none() {
    let mut status = status_whole();
    status.members[1].health.warnings = vec!["hot".to_owned(), "worn-out".to_owned()];
    assert!(said(&status).starts_with("well"));
    status.members[1].health.warnings = vec!["unreliable".to_owned(), "hot".to_owned()];
    insta::assert_snapshot!(said(&status), @"at risk: /dev/nvme1n1 reports that it has become unreliable: `fullstripe replace /dev/nvme1n1 --with DRIVE`");
    status.volumes[0].job = Some(JobStatus {
        slot: Some(1),
        ..job("replace")
    });
    insta::assert_snapshot!(said(&status), @"at risk: /dev/nvme1n1 reports that it has become unreliable, and is being copied: its replace is at 33 %");
    status.volumes[0].job.as_mut().unwrap().slot = Some(2);
    assert!(
        said(&status).ends_with("--with DRIVE`"),
        "another is copied"
    );
    status.members[1].state = "removed".to_owned();
    assert!(said(&status).starts_with("well"));
    status.members.push(member(3, "spare"));
    status.members[3].health.warnings = vec!["read-only".to_owned()];
    insta::assert_snapshot!(said(&status), @"at risk: the spare /dev/nvme3n1 reports that it cannot be written any more: `fullstripe remove /dev/nvme3n1`, and `fullstripe add-spare DRIVE` adds another");
}

#[test]
fn several_volumes_and_raid_0_are_named_as_what_they_are() {
    let mut status = status_whole();
    status.volumes.push(volume("fast", Vec::new()));
    assert_eq!(said(&status), "well: data and fast are optimal");
    status.volumes.remove(0);
    status.volumes[0].level = 0;
    assert!(said(&status).contains("it survives no loss"));
    status.volumes.clear();
    assert_eq!(said(&status), "well: the array has no volume");
}
