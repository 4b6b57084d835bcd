//! From `create` to `destroy`, with every command in between, as text and as JSON.

use super::rig::{DRIVE_BYTES, Rig, names};
use metadata::imsm::MapState;
use std::fs;

#[test]
fn each_level_is_created_examined_listed_and_assembled() {
    for (level, count, size_mib) in [(0, 2, 52), (1, 2, 26), (10, 4, 52), (5, 4, 78)] {
        let rig = Rig::with_drives(count);
        let drives = names(count);
        let made = rig.json(&format!("create vol --level {level} {drives}"), 0);
        assert_eq!(made["level"], level);
        assert_eq!(
            made["size_bytes"],
            u64::from(size_mib as u32) << 20,
            "{made}"
        );
        assert_eq!(made["in_sync"], true);
        assert_eq!(made["members"].as_array().unwrap().len(), count);

        let examined = rig.json(&format!("examine {drives}"), 0);
        for (at, drive) in examined["drives"].as_array().unwrap().iter().enumerate() {
            let record = &drive["record"];
            assert_eq!(record["own_row"], at);
            assert_eq!(record["container_uuid"], made["container_uuid"]);
            assert_eq!(record["volumes"][0]["uuid"], made["uuid"]);
            assert_eq!(record["volumes"][0]["state"], "normal");
            assert_eq!(record["volumes"][0]["dirty"], false);
        }

        for command in ["list", "assemble"] {
            let found = rig.json(&format!("{command} {drives}"), 0);
            let volume = &found["containers"][0]["volumes"][0];
            assert_eq!(volume["uuid"], made["uuid"], "{command}");
            assert_eq!(volume["state"], "optimal", "{command}");
            assert_eq!(volume["start"]["mode"], "read-write", "{command}");
        }
        let text = rig.done(&format!("examine {drives}")).stdout;
        assert!(
            text.contains(&format!("RAID {level} of {count} drives")),
            "{text}"
        );
    }
}

#[test]
fn members_are_zeroed_or_the_volume_is_born_unprotected() {
    let rig = Rig::with_drives(3);
    for name in ["d0", "d1", "d2"] {
        rig.put(name, 0, &vec![0xA5; DRIVE_BYTES as usize]);
    }
    let made = rig.json(
        "create whole --level 5 --size 8m --write-hole off d0 d1 d2",
        0,
    );
    assert_eq!(made["in_sync"], true);
    let data = &rig.content("d1")[..4 << 20];
    assert!(data.iter().all(|&byte| byte == 0));
    assert_eq!(rig.content("d1")[4 << 20], 0xA5, "outside of the volume");
    assert_eq!(rig.record("d1").volumes[0].map.state, MapState::Normal);

    let made = rig.json("create raw --level 5 --no-zero d0 d1 d2", 0);
    assert_eq!(made["in_sync"], false);
    let record = rig.record("d2");
    assert!(record.volumes[1].migration.is_some());
    let report = rig.json("assemble d0 d1 d2", 3);
    let volumes = &report["containers"][0]["volumes"];
    assert_eq!(volumes[0]["state"], "optimal");
    assert_eq!(volumes[1]["state"], "not protected");
    let text = rig.run("assemble d0 d1 d2").stdout;
    assert!(
        text.contains("raw is started with initial sync from the start"),
        "{text}"
    );
}

#[test]
fn a_second_volume_lies_beside_the_first_in_the_same_slots() {
    let rig = Rig::with_array("first --level 5 --size 16m", 4);
    let made = rig.json("create second --level 0 d3 d1 d0 d2", 0);
    assert_eq!(made["members"].as_array().unwrap()[0], "d0");
    let record = rig.record("d2");
    assert_eq!(record.generation, 2);
    assert_eq!(record.volumes.len(), 2);
    let first = record.volumes[0].extent();
    assert!(!first.overlaps(&record.volumes[1].extent()));
    let report = rig.json("assemble d0 d1 d2 d3", 0);
    assert_eq!(
        report["containers"][0]["volumes"].as_array().unwrap().len(),
        2
    );

    // The first one goes, the second stays; then the container goes with it.
    rig.done("destroy first --yes d0 d1 d2 d3");
    let report = rig.json("list d0 d1 d2 d3", 0);
    let volumes = report["containers"][0]["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 1);
    assert_eq!(volumes[0]["name"], "second");
    rig.done("destroy second --yes d0 d1 d2 d3");
    let report = rig.json("list d0 d1 d2 d3", 0);
    assert!(report["containers"].as_array().unwrap().is_empty());
    assert_eq!(report["empty"].as_array().unwrap().len(), 4);
}

#[test]
fn what_destroy_erased_comes_back_from_its_backup() {
    let rig = Rig::with_array("vol --level 10", 4);
    let before: Vec<_> = (0..4).map(|at| rig.content(&format!("d{at}"))).collect();
    let done = rig.json("destroy vol --yes d0 d1 d2 d3", 0);
    let backup = done["backup"].as_str().unwrap().to_owned();
    assert!(rig.run("assemble d0 d1 d2 d3").code == 1);

    let restore = format!("metadata restore {backup}");
    rig.refused(
        &format!("{restore} d0 d1 d2 d3"),
        4,
        "repeat it with --yes",
        &["d0", "d3"],
    );
    rig.refused(
        &format!("{restore} --yes d0 d1"),
        4,
        "also has the metadata of d2, d3",
        &["d0", "d1"],
    );
    rig.done(&format!("{restore} --yes d0 d1 d2 d3"));
    for (at, before) in before.iter().enumerate() {
        assert!(rig.content(&format!("d{at}")) == *before, "d{at}");
    }
    assert_eq!(rig.run("assemble d0 d1 d2 d3").code, 0);
}

#[test]
fn a_copy_only_goes_back_to_its_own_drive() {
    let rig = Rig::with_array("vol --level 1", 2);
    rig.done("metadata save -o copy d0 d1");
    rig.refused(
        "metadata save -o copy d0",
        1,
        "cannot make the backup file copy",
        &["copy"],
    );
    rig.drive("d9", DRIVE_BYTES);
    rig.refused(
        "metadata restore copy --yes d0 d9",
        4,
        "copy has no copy of d9",
        &["d0", "d9"],
    );
    fs::File::options()
        .write(true)
        .open(rig.path("d1"))
        .unwrap()
        .set_len(2 * DRIVE_BYTES)
        .unwrap();
    rig.refused(
        "metadata restore copy --yes d0 d1",
        4,
        &format!("d1 has {} bytes", 2 * DRIVE_BYTES),
        &["d0", "d1"],
    );
    let size = fs::metadata(rig.path("copy")).unwrap().len();
    rig.put("copy", size - 9, b"\x5A");
    rig.refused(
        "metadata restore copy --yes d0 d1",
        1,
        "damaged",
        &["d0", "d1"],
    );
    rig.refused(
        "metadata restore d0 --yes d1",
        1,
        "d0: this is no metadata backup",
        &["d0", "d1"],
    );
}

#[test]
fn a_partial_restore_says_what_it_leaves_out() {
    let rig = Rig::with_array("vol --level 1", 2);
    rig.done("metadata save -o copy d0 d1");
    let whole = rig.content("d1");
    rig.put("d1", DRIVE_BYTES - 1024, &[0; 1024]);
    rig.done("metadata restore copy --partial --yes d1");
    assert!(rig.content("d1") == whole);
}

#[test]
fn a_request_is_explained_for_drives_and_for_a_description() {
    let rig = Rig::with_array("vol --level 5 --chunk 64k", 4);
    let text = rig.done("explain vol --write 12k@4096 d0 d1 d2 d3").stdout;
    for wanted in [
        "Write 12 KiB at offset 4 KiB of volume vol, RAID 5 of 4 drives, chunk 64 KiB.",
        "row 0, parity on d3",
        "read-modify-write",
        "read   d0  @4k +12k",
        "write  d3  @4k +12k",
        "2 member reads (24 KiB), 2 member writes (24 KiB)",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    let explained = rig.json(
        "explain --level 5 --members 4 --chunk 64k --write 192k@0",
        0,
    );
    assert_eq!(explained["totals"]["reads"], 0);
    assert_eq!(explained["totals"]["writes"], 4);
    assert!(
        explained["plans"][0]["why"]
            .as_str()
            .unwrap()
            .starts_with("full stripe")
    );
    let explained = rig.json("explain vol --failed 1 --read 4k@64k d0 d1 d2 d3", 0);
    assert_eq!(explained["totals"]["reads"], 3);
    assert_eq!(explained["failed"][0], 1);
    // Without the drive itself the plan is the same, without `--failed`.
    let explained = rig.json("explain vol --read 4k@64k d0 d2 d3", 0);
    assert_eq!(explained["totals"]["reads"], 3);
}
