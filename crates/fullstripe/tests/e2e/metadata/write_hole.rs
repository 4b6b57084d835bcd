//! The protection of a RAID 5 against the write hole: chosen at `create`, switched later, shown.

use super::rig::Rig;
use serde_json::Value;

const ALL: &[&str] = &["d0", "d1", "d2"];

fn volume(rig: &Rig) -> Value {
    rig.json("examine d1", 0)["drives"][0]["record"]["volumes"][0].clone()
}

#[test]
fn a_raid_5_has_a_log_unless_told_otherwise() {
    for (words, policy) in [
        ("", "log on the members (PPL)"),
        ("--write-hole log", "log on the members (PPL)"),
        ("--write-hole off", "off"),
    ] {
        let rig = Rig::with_array(&format!("vol --level 5 {words}"), 3);
        let volume = volume(&rig);
        assert_eq!(volume["write_hole_policy"], policy);
        let log = &volume["write_hole_log"];
        if policy == "off" {
            assert!(log.is_null());
            continue;
        }
        assert_eq!(log["state"], "header");
        assert_eq!(
            (&log["generation"], &log["entries"]),
            (&0.into(), &0.into())
        );
        assert_eq!(log["offset_bytes"], volume["component_bytes"]);
        let text = rig.done("examine d2").stdout;
        assert!(text.contains("write-hole log at byte"), "{text}");
        assert!(text.contains(": empty"), "{text}");
    }
    let rig = Rig::with_array("vol --level 1", 2);
    assert_eq!(volume(&rig)["write_hole_policy"], "off");
}

#[test]
fn other_levels_have_nothing_to_protect() {
    let rig = Rig::with_drives(3);
    let wanted = "a RAID 0 has no write hole that a log could close; leave out --write-hole log";
    rig.refused(
        "create vol --level 0 --write-hole log d0 d1 d2",
        1,
        wanted,
        ALL,
    );
    rig.done("create vol --level 0 --write-hole off d0 d1 d2");
    let wanted = "volume vol is a RAID 0, which has no write hole; only a RAID 5 has one";
    rig.refused("write-hole vol log d0 d1 d2", 1, wanted, ALL);
}

#[test]
fn the_protection_of_a_clean_volume_can_be_switched() {
    let rig = Rig::with_array("vol --level 5 --write-hole off", 3);
    let place = 26 << 20;
    // The bytes at the log's place are not a log.
    rig.put("d1", place, &[0xCC; 8192]);
    let switched = rig.json("write-hole vol log d0 d1 d2", 0);
    assert_eq!(switched["write_hole"], "log");
    assert!(switched["backup"].is_string());
    let log = &volume(&rig)["write_hole_log"];
    assert_eq!(
        (&log["offset_bytes"], &log["state"]),
        (&place.into(), &"header".into())
    );
    let before = rig.content("d1");
    let again = rig.done("write-hole vol log d0 d1 d2").stdout;
    assert!(again.contains("already log"), "{again}");
    assert!(rig.content("d1") == before);
    rig.done("write-hole vol off d0 d1 d2");
    assert_eq!(volume(&rig)["write_hole_policy"], "off");
}

#[test]
fn what_must_not_be_switched_is_refused() {
    let rig = Rig::with_array("vol --level 5", 3);
    rig.refused(
        "write-hole other off d0 d1 d2",
        1,
        "no volume other on d0, d1, d2; `fullstripe list` shows what is there",
        ALL,
    );
    rig.refused(
        "write-hole vol off d0 d1",
        4,
        "volume vol has no drive in slot 2; name all drives, or rebuild it first",
        ALL,
    );
    for name in ALL {
        rig.change_record(name, |mpb| mpb.set_dirty(0, true).unwrap());
    }
    rig.refused(
        "write-hole vol off d0 d1 d2",
        4,
        "volume vol was not stopped cleanly; serve it once and stop it, then switch",
        ALL,
    );
    let found = rig.json("assemble d0 d1 d2", 0);
    let start = &found["containers"][0]["volumes"][0]["start"];
    assert_eq!(start["replay"]["entries"], 0);
    assert_eq!(start["replay"]["settles_everything"], true);
    let text = rig.done("assemble d0 d1 d2").stdout;
    assert!(
        text.contains("vol starts with a replay of its write-hole log: 0 writes"),
        "{text}"
    );
}

#[test]
fn a_bitmap_is_made_switched_and_shown() {
    for (level, drives, words) in [(1, 2, "d0 d1"), (10, 4, "d0 d1 d2 d3"), (5, 3, "d0 d1 d2")] {
        let rig = Rig::with_array(&format!("vol --level {level} --write-hole bitmap"), drives);
        let volume_now = || volume(&rig);
        let of = volume_now();
        assert_eq!(of["write_hole_policy"], "write-intent bitmap");
        let bitmap = &of["bitmap"];
        assert_eq!(bitmap["region_bytes"], 64 << 20);
        assert_eq!(
            (&bitmap["marked"], &bitmap["problem"]),
            (&0.into(), &Value::Null)
        );
        let end = of["component_bytes"].as_u64().unwrap() + of["start_bytes"].as_u64().unwrap();
        assert_eq!(bitmap["offset_bytes"], end + 12_288);
        let text = rig.done("examine d1").stdout;
        assert!(text.contains("regions of 64 MiB are marked"), "{text}");
        rig.done(&format!("write-hole vol off {words}"));
        assert!(volume_now()["bitmap"].is_null());
        let switched = rig.json(&format!("write-hole vol bitmap {words}"), 0);
        assert_eq!(switched["write_hole"], "bitmap");
        assert_eq!(volume_now()["bitmap"]["marked"], 0);
    }
}

#[test]
fn a_bitmap_that_cannot_be_is_refused() {
    let rig = Rig::with_drives(3);
    rig.refused(
        "create vol --level 0 --write-hole bitmap d0 d1 d2",
        1,
        "a RAID 0 has no redundancy that a bitmap could help to synchronise; leave out --write-hole bitmap",
        ALL,
    );
    rig.refused(
        "create vol --level 5 --write-hole bitmap d0,sector=4096 d1,sector=4096 d2,sector=4096",
        1,
        "volume vol gets no bitmap: the format has no write-intent bitmap on drives with sectors of 4096 bytes",
        ALL,
    );
    rig.refused(
        "create vol --level 5 --wide --bitmap-region 1m d0 d1 d2",
        1,
        "--bitmap-region is about --write-hole bitmap; give both or neither",
        ALL,
    );
    rig.refused(
        "create vol --level 5 --wide --write-hole bitmap --bitmap-region 3m d0 d1 d2",
        1,
        "volume vol cannot have a bitmap with regions of 3145728 bytes",
        ALL,
    );
}
