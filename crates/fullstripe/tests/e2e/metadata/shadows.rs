//! Every member's record is torn at once: the shadow copies, and every command that meets them.

use super::rig::{DRIVE_BYTES, Rig, names};
use serde_json::Value;

/// Bytes kept for a shadow.
const PLACE_BYTES: usize = 136 * 512;

/// Damages a drive's own record behind its header.
fn tear(rig: &Rig, name: &str) {
    rig.put(name, DRIVE_BYTES - 1024 + 300, &[0xFF; 8]);
}

fn place(rig: &Rig, name: &str) -> Vec<u8> {
    let from = rig.shadow_place() as usize;
    rig.content(name)[from..from + PLACE_BYTES].to_vec()
}

fn shadow(rig: &Rig, name: &str, code: i32) -> Value {
    rig.json(&format!("examine {name}"), code)["drives"][0]["shadow"].clone()
}

#[test]
fn examine_shows_the_shadow() {
    let rig = Rig::with_array("vol --level 5", 3);
    let found = shadow(&rig, "d1", 0);
    assert_eq!(found["state"], "whole");
    assert_eq!(found["generation"], 1);
    assert_eq!(found["same_as_record"], true);
    assert_eq!(found["volumes"][0], "vol");
    let record = rig.json("examine d1", 0);
    let record = &record["drives"][0]["record"];
    assert_eq!(found["container_uuid"], record["container_uuid"]);
    let text = rig.done("examine d1").stdout;
    assert!(
        text.contains("shadow copy: generation 1, the same record\n"),
        "{text}"
    );

    // md updates the record further, without updating the shadow.
    rig.change_record("d1", |record| record.generation += 4);
    assert_eq!(shadow(&rig, "d1", 0)["same_as_record"], false);
    let text = rig.done("examine d1").stdout;
    assert!(
        text.contains("generation 1, another record; it is ignored"),
        "{text}"
    );
    tear(&rig, "d1");
    assert!(shadow(&rig, "d1", 1)["same_as_record"].is_null());
    let text = rig.run("examine d1").stdout;
    assert!(
        text.contains("it serves if every member's record is torn"),
        "{text}"
    );
    rig.drive("blank", DRIVE_BYTES);
    assert!(shadow(&rig, "blank", 0).is_null());
}

#[test]
fn the_shadows_are_what_is_left() {
    let rig = Rig::with_array("vol --level 5 --size 16m", 3);
    let made = rig.json("list d0 d1 d2", 0)["containers"][0].clone();
    for name in ["d0", "d1", "d2"] {
        tear(&rig, name);
    }
    let found = rig.json("assemble d0 d1 d2", 0)["containers"][0].clone();
    assert_eq!(found["from_shadows"], true);
    assert_eq!(found["rewrite_needed"], true);
    assert_eq!(found["uuid"], made["uuid"]);
    assert_eq!(found["volumes"], made["volumes"]);
    let text = rig.done("assemble d0 d1 d2").stdout;
    assert!(
        text.contains(
            "note: every member's record is torn: the shadow copy of generation 1 on d0 (serial d0), d1 \
             (serial d1), d2 (serial d2) serves, and the records will be written again from it\n"
        ),
        "{text}"
    );
    // A command that changes the volumes writes the records again as well.
    rig.done("create more --level 0 d0 d1 d2");
    let report = rig.json(&format!("assemble {}", names(3)), 0);
    assert_eq!(report["containers"][0]["from_shadows"], false);
    assert_eq!(report["containers"][0]["volumes"][1]["name"], "more");
    assert_eq!(rig.record("d2").generation, 2);
    assert_eq!(shadow(&rig, "d2", 0)["same_as_record"], true);
}

#[test]
fn destroy_takes_the_shadows_with_it() {
    let rig = Rig::with_array("vol --level 1", 2);
    rig.done("destroy vol --yes d0 d1");
    for name in ["d0", "d1"] {
        assert!(place(&rig, name).iter().all(|&byte| byte == 0), "{name}");
    }
    // Also when only the shadows are left.
    rig.done("create vol --level 1 d0 d1");
    for name in ["d0", "d1"] {
        tear(&rig, name);
    }
    rig.done("destroy vol --yes d0 d1");
    assert_eq!(rig.json("list d0 d1", 0)["empty"][1], "d1");
    assert!(shadow(&rig, "d0", 0).is_null());

    // Destroying one of two volumes leaves the other on record and in the shadow.
    rig.done("create one --level 1 --size 4m d0 d1");
    rig.done("create two --level 1 d0 d1");
    for name in ["d0", "d1"] {
        tear(&rig, name);
    }
    rig.done("destroy one --yes d0 d1");
    assert_eq!(rig.record("d1").volumes.len(), 1);
    assert_eq!(shadow(&rig, "d1", 0)["volumes"][0], "two");
}

#[test]
fn create_overwrites_what_another_array_left() {
    let rig = Rig::with_array("old --level 1", 2);
    let left = ["d0", "d1"].map(|name| place(&rig, name));
    rig.done("destroy old --yes d0 d1");
    for (name, left) in ["d0", "d1"].iter().zip(&left) {
        rig.put(name, rig.shadow_place(), left);
    }
    rig.done("create new --level 1 --force d0 d1");
    assert_eq!(shadow(&rig, "d0", 0)["volumes"][0], "new");

    // A shadow that survives, for example beside records made by mdadm, is never used for another array.
    for (name, left) in ["d0", "d1"].iter().zip(&left) {
        rig.put(name, rig.shadow_place(), left);
        tear(&rig, name);
    }
    let outcome = rig.run("assemble d0 d1");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("no drive of d0, d1 has a readable record"),
        "{outcome:?}"
    );
}

#[test]
fn a_record_that_others_wrote_later_is_not_overruled() {
    let rig = Rig::with_array("vol --level 1", 2);
    for name in ["d0", "d1"] {
        rig.change_record(name, |record| {
            record.mark_failed(1).unwrap();
            record.bump_generation();
        });
        tear(&rig, name);
    }
    let report = rig.json("assemble d0 d1", 4);
    let refused = report["containers"][0]["refused"].as_str().unwrap();
    assert!(
        refused.contains("the torn record of d0 (serial d0), generation 2, is not one that the shadow copy of generation 1 knows"),
        "{refused}"
    );
    rig.refused(
        "serve d0 d1 --socket s --nbd unix:n",
        4,
        "`metadata restore` puts back a saved copy",
        &["d0", "d1"],
    );
    rig.done("destroy vol --force --yes d0 d1");
    assert_eq!(rig.json("list d0 d1", 0)["empty"][0], "d0");
}

#[test]
fn a_saved_copy_brings_its_own_shadow() {
    let rig = Rig::with_array("vol --level 5", 3);
    rig.done("metadata save -o with d0 d1 d2");
    let whole = rig.content("d1");
    let left = place(&rig, "d1");
    for name in ["d0", "d1", "d2"] {
        rig.put(name, rig.shadow_place(), &[0; PLACE_BYTES]);
    }
    rig.done("metadata save -o without d0 d1 d2");
    rig.done("metadata restore with --yes d0 d1 d2");
    assert!(rig.content("d1") == whole);

    // The copy was saved when there was no shadow. A shadow that is there now does not belong to its record.
    let restored = rig.json("metadata restore without --yes d0 d1 d2", 0);
    assert!(shadow(&rig, "d1", 0).is_null());
    assert!(place(&rig, "d1").iter().all(|&byte| byte == 0));
    // The backup contains the shadow that the restore has removed.
    let backup = restored["backup"].as_str().unwrap();
    rig.done(&format!("metadata restore {backup} --yes d0 d1 d2"));
    assert!(place(&rig, "d1") == left);
}

/// Drives that lost only their record may still hold all data, so no command takes them without `--force`.
#[test]
fn drives_with_a_shadow_only_are_not_free() {
    let rig = Rig::with_array("vol --level 5", 3);
    rig.done("metadata save -o saved d0 d1 d2");
    for name in ["d0", "d1", "d2"] {
        rig.put(name, DRIVE_BYTES - 4096, &[0; 4096]);
    }
    let holds = "the shadow copy of a record that is gone, of the IMSM container";
    let all = &["d0", "d1", "d2"];
    rig.refused("create new --level 5 d0 d1 d2", 4, holds, all);
    for line in ["serve d0 d1 d2", "assemble d0 d1 d2"] {
        let outcome = rig.run(line);
        assert!(!outcome.stderr.contains("create"), "{outcome:?}");
        assert!(outcome.stderr.contains(holds), "{outcome:?}");
        assert!(outcome.stderr.contains("metadata restore"), "{outcome:?}");
    }
    let listed = rig.run("list d0 d1 d2");
    assert!(!format!("{listed:?}").contains("create"), "{listed:?}");
    rig.done("metadata restore saved d0 d1 d2 --yes");
    rig.done("assemble d0 d1 d2");
}
