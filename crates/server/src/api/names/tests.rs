//! Which drive a name means, for people and for programs.

use super::*;
use crate::testing::samples::{member as drive_of, slot, volume as volume_of};

/// Drives with name, serial and state; `data` has drive 0 in slot 0, drive 3 in slot 1 and nothing in slot 2.
fn status(drives: &[(&str, &str, &str)]) -> Status {
    let member = |(id, (name, serial, state)): (u8, &(&str, &str, &str))| MemberStatus {
        name: (*name).to_owned(),
        serial: (*serial).to_owned(),
        ..drive_of(id, state)
    };
    let slots = vec![
        slot(Some(0), "in sync"),
        slot(Some(3), "in sync"),
        slot(None, "missing"),
    ];
    Status {
        members: (0..).zip(drives).map(member).collect(),
        volumes: vec![volume_of("data", slots)],
        ..Status::default()
    }
}

fn replaced() -> Status {
    status(&[
        ("/dev/nvme0n1", "S0", "active"),
        ("/dev/nvme1n1", "S1", "removed"),
        ("/dev/nvme1n1", "S1", "spare"),
        ("/dev/0", "300", "active"),
    ])
}

#[test]
fn a_drive_goes_by_name_serial_file_name_and_slot() {
    let status = replaced();
    for way in [member, drive] {
        let id = |name| way(&status, name).map(|member| member.id);
        for name in ["/dev/0", "300", "data:1"] {
            assert_eq!(id(name), Ok(3), "{name}");
        }
        for name in ["/dev/nvme1n1", "S1", "nvme1n1"] {
            assert_eq!(id(name), Ok(2), "{name}");
        }
        let unknown = "there is no drive \"nvme7\" in this array; there are /dev/nvme0n1 (data:0), \
                       /dev/nvme1n1 (spare), /dev/0 (data:1)";
        assert_eq!(id("nvme7"), Err(NameError::Unknown(unknown.to_owned())));
        let empty = "no drive is in slot 2 of volume data";
        assert_eq!(id("data:2"), Err(NameError::Unknown(empty.to_owned())));
        let none = "volume data has no slot 3; it has 0 to 2";
        assert_eq!(id("data:3"), Err(NameError::Unknown(none.to_owned())));
    }
}

#[test]
fn only_programs_name_a_drive_by_its_number() {
    let status = replaced();
    assert_eq!(member(&status, "0").unwrap().id, 0);
    assert_eq!(member(&status, "3").unwrap().name, "/dev/0");
    let asked = |number| match drive(&status, number) {
        Err(NameError::Ambiguous(sentence)) => sentence,
        other => panic!("{number}: {other:?}"),
    };
    assert_eq!(
        asked("2"),
        "2 may mean slot 2 of data (no drive), or drive number 2 of the API (/dev/nvme1n1); name the drive by its \
         path or serial, or as VOLUME:SLOT"
    );
    // Even where slot and number mean the same drive, the name is refused: later they may differ.
    assert!(asked("0").contains("slot 0 of data (/dev/nvme0n1), or drive number 0"));
    assert!(asked("9").starts_with("9 may mean nothing in this array; name the drive"));
}

#[test]
fn what_may_mean_two_drives_is_asked_back() {
    let shared = status(&[("/a/d.img", "A", "active"), ("/b/d.img", "B", "spare")]);
    let asked = "\"d.img\" may mean /a/d.img (data:0), /b/d.img (spare); give the whole path, the serial, or \
                 VOLUME:SLOT";
    let found = |name| drive(&shared, name).map(|member| member.id);
    assert_eq!(found("d.img"), Err(NameError::Ambiguous(asked.to_owned())));
    assert_eq!(found("/b/d.img"), Ok(1));
    assert!(
        matches!(found("data"), Err(NameError::Ambiguous(sentence)) if sentence.contains("is a volume"))
    );
    // Another drive has got the path of a failed one.
    let reused = status(&[("/dev/n1", "A", "failed"), ("/dev/n1", "B", "spare")]);
    let asked = "\"/dev/n1\" may mean /dev/n1 with the serial A (data:0), /dev/n1 with the serial B (spare); give the \
                 whole path, the serial, or VOLUME:SLOT";
    assert_eq!(
        drive(&reused, "/dev/n1").map(|member| member.id),
        Err(NameError::Ambiguous(asked.to_owned()))
    );
    assert_eq!(drive(&reused, "A").map(|member| member.id), Ok(0));
    // The serial of one drive reads like the slot of another.
    let misled = status(&[("/a", "A", "active"), ("/b", "data:0", "spare")]);
    assert!(matches!(
        drive(&misled, "data:0"),
        Err(NameError::Ambiguous(_))
    ));
}

#[test]
fn a_drive_that_joins_is_called_like_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("d0.img"), "").unwrap();
    let joins = |drive: &str, named: &str| {
        let status = status(&[(named, "S0", "active")]);
        as_called_here(drive, &status, here)
    };
    let whole = here.join("d4.img,serial=A").display().to_string();
    assert_eq!(joins(&whole, "d0.img"), "d4.img,serial=A");
    // An operator who named drives by whole paths gets whole paths.
    let named = here.join("d0.img").display().to_string();
    assert_eq!(joins(&whole, &named), whole);
    for other in ["/dev/nvme4n1", "ram:64m,serial=B"] {
        assert_eq!(joins(other, "d0.img"), other);
    }
}
