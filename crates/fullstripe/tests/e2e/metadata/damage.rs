//! Records that are torn, outdated, contradictory or not understood, and what `assemble` makes of them.

use super::rig::{DRIVE_BYTES, Rig, names};
use metadata::imsm::Attributes;
use serde_json::Value;
use std::fs;

/// Runs `assemble`, which must end with `code` and change nothing; returns the first container.
fn assembled(rig: &Rig, words: &str, code: i32) -> Value {
    let before: Vec<_> = words
        .split(' ')
        .filter(|word| !word.starts_with('-'))
        .map(|name| (name, rig.content(name)))
        .collect();
    let report = rig.json(&format!("assemble {words}"), code);
    for (name, before) in before {
        assert!(rig.content(name) == before, "{name} was changed");
    }
    report["containers"][0].clone()
}

fn notes(container: &Value) -> String {
    container["notes"].to_string()
}

#[test]
fn a_torn_record_is_named_and_the_others_serve() {
    let rig = Rig::with_array("vol --level 5", 4);
    let anchor = DRIVE_BYTES - 1024;
    rig.put("d1", anchor + 300, &[0xFF; 8]);
    let examined = rig.json("examine d1", 1);
    let damaged = examined["drives"][0]["damaged"].as_str().unwrap();
    assert!(damaged.contains("torn or damaged"), "{damaged}");
    let text = rig.run("examine d1").stdout;
    assert!(text.contains("IMSM record that cannot be used"), "{text}");

    let container = assembled(&rig, &names(4), 0);
    assert_eq!(container["rewrite_needed"], true);
    assert!(notes(&container).contains("d1 (serial d1)"), "{container}");
    assert_eq!(container["volumes"][0]["state"], "optimal");
}

#[test]
fn every_record_and_every_shadow_torn_is_no_array() {
    let rig = Rig::with_array("vol --level 1", 2);
    for name in ["d0", "d1"] {
        rig.put(name, DRIVE_BYTES - 1024 + 300, &[0xFF; 8]);
        rig.put(name, rig.shadow_place() + 300, &[0xFF; 8]);
    }
    let text = rig.run("examine d0").stdout;
    assert!(
        text.contains("shadow copy that cannot be used: it is torn"),
        "{text}"
    );
    let outcome = rig.run("assemble d0 d1");
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("metadata restore"), "{outcome:?}");
    rig.refused(
        "destroy vol --yes d0 d1",
        1,
        "no volume vol on d0, d1",
        &["d0", "d1"],
    );
    rig.done("destroy vol --force --yes d0 d1");
    assert_eq!(rig.json("list d0 d1", 0)["empty"][1], "d1");
    assert!(rig.json("examine d0", 0)["drives"][0]["shadow"].is_null());
}

#[test]
fn one_generation_behind_is_an_interrupted_update() {
    let rig = Rig::with_array("vol --level 5", 4);
    for name in ["d0", "d1", "d3"] {
        rig.change_record(name, |record| record.bump_generation());
    }
    let container = assembled(&rig, &names(4), 0);
    assert_eq!(container["generation"], 2);
    assert_eq!(container["rewrite_needed"], true);
    assert!(notes(&container).contains("d2 (serial d2)"), "{container}");
}

#[test]
fn further_behind_is_evicted_and_needs_consent() {
    let rig = Rig::with_array("vol --level 5", 4);
    for name in ["d0", "d1", "d3"] {
        rig.change_record(name, |record| record.generation += 5);
    }
    let container = assembled(&rig, &names(4), 4);
    let evicted = &container["members"][2];
    assert_eq!(evicted["state"], "evicted");
    let reason = evicted["reason"].as_str().unwrap();
    assert!(
        reason.contains("generation 1, the others have 6"),
        "{reason}"
    );
    assert_eq!(container["volumes"][0]["start"]["option"], "--degraded");

    let container = assembled(&rig, &format!("--degraded {}", names(4)), 3);
    assert_eq!(container["volumes"][0]["state"], "degraded");
}

#[test]
fn halves_that_each_went_on_alone_are_never_merged() {
    let rig = Rig::with_array("vol --level 1", 2);
    for (name, other) in [("d0", 1), ("d1", 0)] {
        rig.change_record(name, |record| {
            record.mark_failed(other).unwrap();
            record.generation += 3;
        });
    }
    let container = assembled(&rig, &names(2), 4);
    let refused = container["refused"].as_str().unwrap();
    assert!(refused.contains("diverged into two states"), "{refused}");
    assert!(
        refused.contains("d0") && refused.contains("d1"),
        "{refused}"
    );
    // Each half alone starts.
    assembled(&rig, "d1", 3);
    rig.refused(
        "destroy vol --yes d0 d1",
        4,
        "cannot be assembled: the container diverged into two states",
        &["d0", "d1"],
    );
    rig.done("destroy vol --yes --force d0 d1");
    assert!(
        rig.json("list d0 d1", 0)["containers"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn no_record_that_lists_its_own_drive() {
    let rig = Rig::with_array("vol --level 1", 2);
    for (name, own) in [("d0", 0), ("d1", 1)] {
        rig.change_record(name, |record| record.mark_failed(own).unwrap());
    }
    let container = assembled(&rig, &names(2), 4);
    let refused = container["refused"].as_str().unwrap();
    assert!(refused.contains("as a healthy member"), "{refused}");
}

#[test]
fn an_unknown_attribute_starts_nothing() {
    let rig = Rig::with_array("vol --level 1", 2);
    for name in ["d0", "d1"] {
        rig.change_record(name, |record| {
            record.attributes = record.attributes.with(Attributes(0x100));
        });
    }
    let container = assembled(&rig, &names(2), 4);
    let reason = container["volumes"][0]["start"]["reason"].as_str().unwrap();
    assert!(reason.contains("unknown bit 0x00000100"), "{reason}");
    let examined = rig.json("examine d0", 0);
    assert_eq!(
        examined["drives"][0]["record"]["unsupported"][0],
        "unknown bit 0x00000100"
    );
}

/// Bad-block entries, whichever program made them, concern their blocks only: the array starts.
#[test]
fn a_bad_block_log_is_no_reason_not_to_start() {
    let rig = Rig::with_array("vol --level 5", 3);
    for name in ["d0", "d1", "d2"] {
        rig.change_record(name, |record| record.add_bad_blocks(1, 4096, 8).unwrap());
    }
    let container = assembled(&rig, &names(3), 0);
    assert_eq!(container["volumes"][0]["state"], "optimal");
    let examined = rig.json("examine d2", 0);
    let listed = &examined["drives"][0]["record"]["bad_blocks"];
    assert_eq!(listed[0]["offset_bytes"], 4096 * 512);
    assert_eq!(listed[0]["length_bytes"], 4096);
    assembled(&rig, "--degraded d0 d2", 3);
}

#[test]
fn other_raid_metadata_beside_the_arrays_is_nobodys_to_choose() {
    let magic: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
    let md_1 = [magic, &[1, 0, 0, 0]].concat();
    let ddf: &[u8] = &[0xDE, 0x11, 0xDE, 0x11];
    for (what, at, mark) in [
        ("DDF RAID metadata", DRIVE_BYTES - 512, ddf),
        (
            "a Linux md superblock (version 0.90)",
            DRIVE_BYTES - (64 << 10),
            magic,
        ),
        (
            "a Linux md superblock (version 1.0)",
            DRIVE_BYTES - 8192,
            &md_1,
        ),
    ] {
        let rig = Rig::with_array("vol --level 5 --size 8m", 3);
        rig.put("d1", at, mark);
        let wanted =
            format!("d1 is in an array, but also holds {what} behind its data, at byte {at}; ");
        for line in [
            "assemble d0 d1 d2",
            "serve --socket api --nbd unix:nbd d0 d1 d2",
            "write-hole vol off d0 d1 d2",
            "create more --level 0 d0 d1 d2",
            "destroy vol --yes d0 d1 d2",
        ] {
            let outcome = rig.run(line);
            assert_eq!(outcome.code, 4, "{line}: {outcome:?}");
            assert!(outcome.stderr.contains(&wanted), "{line}: {outcome:?}");
            let first = outcome.stderr.lines().count();
            assert_eq!(first, 1, "{line}: {outcome:?}");
        }
        rig.done("destroy vol --yes --force d0 d1 d2");
    }
    // Inside the array's extents such content belongs to the user, so it does not matter.
    let rig = Rig::with_array("vol --level 1", 2);
    for name in ["d0", "d1"] {
        rig.put(name, 4096, &md_1);
        rig.put(name, 512, b"LABELONE");
        rig.put(name, 512 + 24, b"LVM2 001");
    }
    assembled(&rig, &names(2), 0);
    rig.done("destroy vol --yes d0 d1");
}

#[test]
fn a_truncated_member_is_named() {
    let rig = Rig::with_array("vol --level 5", 3);
    let file = fs::File::options()
        .write(true)
        .open(rig.path("d1"))
        .unwrap();
    file.set_len(DRIVE_BYTES / 2).unwrap();
    let container = assembled(&rig, &names(3), 4);
    assert!(
        notes(&container).contains("d1 has 16777216 bytes"),
        "{container}"
    );
    assert!(
        notes(&container).contains("it was truncated"),
        "{container}"
    );
    file.set_len(1000).unwrap();
    let outcome = rig.run(&format!("assemble {}", names(3)));
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("d1"), "{outcome:?}");
}

#[test]
fn a_dirty_volume_says_what_will_be_done() {
    let rig = Rig::with_array("vol --level 5 --write-hole off", 3);
    for name in ["d0", "d1", "d2"] {
        rig.change_record(name, |record| record.set_dirty(0, true).unwrap());
    }
    let container = assembled(&rig, &names(3), 3);
    assert_eq!(container["volumes"][0]["dirty"], true);
    assert_eq!(container["volumes"][0]["state"], "not protected");
    assert_eq!(
        container["volumes"][0]["start"]["work"],
        "resync from the start"
    );
    // Without one member the start is refused, and the refusal names the option that accepts the danger.
    let container = assembled(&rig, "--degraded d0 d1", 4);
    assert_eq!(
        container["volumes"][0]["start"]["option"],
        "--accept-write-hole"
    );
}

#[test]
fn two_arrays_and_a_renamed_drive() {
    let rig = Rig::with_array("one --level 1", 2);
    rig.drive("e0", DRIVE_BYTES);
    rig.drive("e1", DRIVE_BYTES);
    rig.done("create two --level 1 e0 e1");
    let outcome = rig.run("assemble d0 e0 d1 e1");
    assert_eq!(outcome.code, 4);
    assert!(
        outcome.stderr.contains(
            "drives of different arrays: one on d0, d1; two on e0, e1; name those of one"
        ),
        "{outcome:?}"
    );

    fs::rename(rig.path("d1"), rig.path("elsewhere")).unwrap();
    let container = assembled(&rig, "d0 elsewhere", 4);
    assert!(
        notes(&container).contains("does not list its serial"),
        "{container}"
    );
    assert_eq!(rig.run("assemble d0 elsewhere,serial=d1").code, 0);
}
