//! Bad input: one clear sentence, an exit code, and not a byte changed.

use super::rig::{DRIVE_BYTES, Rig, program, run_program};
use std::fs;

const ALL: &[&str] = &["d0", "d1", "d2"];

#[test]
fn a_drive_that_holds_something_needs_force() {
    let magic: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
    let md_1 = [magic, &[1, 0, 0, 0]].concat();
    let uberblock = 0x00BA_B10Cu64.to_le_bytes();
    let cases: &[(&str, u64, &[u8])] = &[
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
        ("a Linux md superblock (version 1.1)", 0, &md_1),
        ("a Linux md superblock (version 1.2)", 4096, &md_1),
        (
            "DDF RAID metadata",
            DRIVE_BYTES - 512,
            &[0xDE, 0x11, 0xDE, 0x11],
        ),
        ("a ZFS pool's labels", DRIVE_BYTES - (128 << 10), &uberblock),
        ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
        ("a LUKS encrypted volume", 0, b"LUKS\xBA\xBE\0\x02"),
        ("an NTFS file system", 3, b"NTFS    "),
    ];
    for (what, at, mark) in cases {
        let rig = Rig::with_drives(3);
        rig.put("d1", *at, mark);
        let wanted = format!("d1 holds {what}; --force destroys it");
        rig.refused("create vol --level 5 d0 d1 d2", 4, &wanted, ALL);
        let found = rig.json("examine d1", 0);
        assert_eq!(found["drives"][0]["holds"][0], *what);
        forced(&rig, what);
    }
}

/// With `--force` the array is made, the old content is no longer recognised, and the backup contains it.
fn forced(rig: &Rig, what: &str) {
    let before = rig.content("d1");
    let made = rig.json("create vol --level 0 --force d0 d1 d2", 0);
    assert_eq!(made["destroyed"][0], format!("d1 holds {what}"));
    let found = rig.json("examine d1", 0);
    assert!(found["drives"][0]["holds"].as_array().unwrap().is_empty());
    assert_eq!(rig.run("assemble d0 d1 d2").code, 0);
    let backup = made["backup"].as_str().unwrap();
    rig.done(&format!("metadata restore {backup} --yes d1"));
    assert!(rig.content("d1") == before, "{what} does not come back");
}

#[test]
fn what_real_programs_make_is_recognised() {
    let cases: [(&str, &[&str], &str); 4] = [
        (
            "mkfs.ext4",
            &["-q", "-L", "home"],
            "an ext4 file system (label \"home\")",
        ),
        (
            "mkfs.xfs",
            &["-q", "-L", "data"],
            "an XFS file system (label \"data\")",
        ),
        (
            "mkswap",
            &["-L", "swap"],
            "Linux swap space (label \"swap\")",
        ),
        (
            "sgdisk",
            &["-n", "1:0:0"],
            "a GPT partition table with 1 partition",
        ),
    ];
    for (name, words, what) in cases {
        let Some(path) = program(name) else { continue };
        let rig = Rig::with_drives(2);
        rig.drive("d1", 320 << 20);
        let drive = rig.path("d1").display().to_string();
        run_program(&path, &[words, &[drive.as_str()]].concat());
        let wanted = format!("d1 holds {what}; --force destroys it");
        rig.refused("create vol --level 1 d0 d1", 4, &wanted, &["d0", "d1"]);
        rig.done("create vol --level 1 --force d0 d1");
        let found = rig.json("examine d1", 0);
        let holds = found["drives"][0]["holds"].as_array().unwrap();
        assert!(holds.is_empty(), "{holds:?} after --force");
        if let Some(blkid) = program("blkid") {
            let words = ["-p", "-o", "value", "-s", "TYPE", drive.as_str()];
            assert_eq!(run_program(&blkid, &words).trim(), "isw_raid_member");
        }
    }
}

#[test]
fn an_mbr_partition_table_is_recognised() {
    let rig = Rig::with_drives(3);
    let mut entry = [0u8; 16];
    entry[4] = 0x83;
    entry[9] = 8;
    entry[13] = 8;
    rig.put("d2", 446, &entry);
    rig.put("d2", 510, &[0x55, 0xAA]);
    rig.refused(
        "create vol --level 5 d0 d1 d2",
        4,
        "d2 holds an MBR partition table with 1 partition",
        ALL,
    );
}

#[test]
fn members_of_another_array_are_not_taken() {
    let rig = Rig::with_array("old --level 5", 3);
    rig.drive("e0", DRIVE_BYTES);
    let line = "create new --level 1 d0 e0";
    rig.refused(line, 4, "(volume old); --force destroys it", &["d0", "e0"]);
    let made = rig.json("create new --level 1 --force d0 e0", 0);
    let destroyed = made["destroyed"][0].as_str().unwrap();
    assert!(destroyed.starts_with("d0 holds the record of the IMSM container"));
    let backup = made["backup"].as_str().unwrap();
    assert!(fs::metadata(backup).is_ok(), "{backup}");
}

#[test]
fn names_levels_and_shapes_that_cannot_be() {
    let rig = Rig::with_drives(3);
    for (line, code, wanted) in [
        (
            "create a/b --level 5 d0 d1 d2",
            1,
            "\"a/b\" looks like a drive's path, and the volume's name comes first",
        ),
        ("create .a --level 5 d0 d1 d2", 1, "no dot or hyphen first"),
        (
            "create 12345678901234567 --level 5 d0 d1 d2",
            1,
            "1 to 16 letters",
        ),
        (
            "create a --level 5 d0 d1",
            1,
            "RAID 5 needs 3 to 64 drives, not 2",
        ),
        (
            "create a --level 10 d0 d1 d2",
            1,
            "RAID 10 needs an even number of drives from 4 to 64, not 3",
        ),
        (
            "create a --level 1 d0 d1 d2",
            1,
            "RAID 1 needs exactly 2 drives, not 3",
        ),
        (
            "create a --level 5 --chunk 48k d0 d1 d2",
            1,
            "--chunk: a chunk is a power of two from 4k to 1m",
        ),
        (
            "create a --level 5 --chunk 64 d0 d1 d2",
            1,
            "--chunk: a chunk is a power of two from 4k to 1m; did you mean 64k?",
        ),
        (
            "create a --level 5 --size 100 d0 d1 d2",
            1,
            "--size: a volume has at least 1m, not 100 bytes; did you mean 100m, 100g or 100t?",
        ),
        (
            "create a --level 5 --chunk 2m d0 d1 d2",
            1,
            "power of two from 4k to 1m",
        ),
        (
            "create a --level 1 --chunk 64k d0 d1",
            1,
            "a RAID 1 has no chunks",
        ),
        (
            "create a --level 5 --chunk 512k d0 d1 d2",
            1,
            "allow with --wide",
        ),
        ("create a --level 0 d0", 1, "RAID 0 of one drive"),
        (
            "create a --level 5 --size 1g d0 d1 d2",
            1,
            "the smallest drive is d0 with 32 MiB",
        ),
        (
            "create a --level 5 --size 1k d0 d1 d2",
            1,
            "--size: a volume has at least 1m, not 1 KiB",
        ),
        (
            "create a --level 5 d0 d1 d1",
            1,
            "d1 and d1 are the same drive",
        ),
        (
            "create a --level 5 d0 d1 ./d1",
            1,
            "d1 and ./d1 are the same drive",
        ),
        (
            "create a --level 5 d0 d1 d2,serial=d1",
            1,
            "same serial number d1",
        ),
        (
            "create a --level 5 d0 d1 nothing",
            1,
            "nothing does not exist",
        ),
        (
            "create a --level 1 d0 .",
            1,
            "a member is a block device or a regular file",
        ),
        (
            "create a --level 1 d0 ram:32m",
            1,
            "RAM0 is gone when this command ends",
        ),
        (
            "create a --level 1 d0 d1,colour=red",
            1,
            "unknown key \"colour\"",
        ),
        (
            "create a --level 1 d0 d1,sector=4096",
            1,
            "all members need the same",
        ),
    ] {
        rig.refused(line, code, wanted, ALL);
    }
    assert_eq!(rig.run("create a --level 6 d0 d1 d2").code, 2);
    rig.done("create a --level 5 --size 6m d0 d1 d2");
    rig.refused(
        "create a --level 0 d0 d1 d2",
        1,
        "a volume named a exists already; choose another",
        ALL,
    );
    rig.done("create b --level 0 d0 d1 d2");
    rig.refused("create c --level 0 --wide d0 d1 d2", 1, "no room", ALL);
}

#[test]
fn a_volume_without_a_name_is_not_named_after_its_first_drive() {
    let rig = Rig::with_drives(3);
    rig.drive("a.img", DRIVE_BYTES);
    for (line, wanted) in [
        (
            "create --level 5 a.img d0 d1 d2",
            "\"a.img\" is a drive's path, and the volume's name comes first: fullstripe create NAME \
             --level 5 a.img d0 d1 d2\n",
        ),
        (
            "create d0 --level 1 --chunk 64k d1 d2",
            "\"d0\" is a drive's path, and the volume's name comes first: fullstripe create NAME d0 \
             --level 1 --chunk 64k d1 d2\n",
        ),
        (
            "create d0,serial=S0 d1 d2 --level 1",
            "\"d0,serial=S0\" describes a drive, and the volume's name comes first: fullstripe create \
             NAME d0,serial=S0 d1 d2 --level 1\n",
        ),
    ] {
        rig.refused(line, 1, wanted, &["a.img", "d0", "d1", "d2"]);
    }
    // The command line that the message suggests works.
    rig.done("create NAME --level 5 a.img d0 d1 d2");
}

#[test]
fn a_socket_makes_no_folders() {
    let rig = Rig::with_array("vol --level 1", 2);
    for option in ["--nbd unix:no/such/s", "--socket no/such/s"] {
        rig.refused(
            &format!("serve {option} d0 d1"),
            1,
            "the socket's folder no/such does not exist; make it, or name another",
            &["d0", "d1"],
        );
        assert!(!rig.path("no").exists());
    }
}

#[test]
fn wide_shapes_are_made_when_asked_for() {
    let rig = Rig::with_drives(2);
    let made = rig.json("create a --level 0 --chunk 512k --wide d0 d1", 0);
    let text = made["readability"][0].as_str().unwrap();
    assert!(text.contains("512 KiB"), "{text}");
}

#[test]
fn drives_that_are_too_small_or_of_different_size() {
    let rig = Rig::with_drives(3);
    rig.drive("small", 1 << 20);
    rig.refused(
        "create a --level 5 d0 d1 small",
        1,
        "small: the drive has 1048576 bytes; RAID metadata needs more than",
        &["d0", "d1", "small"],
    );
    rig.drive("nearly", (10402 << 9) + 4096);
    rig.refused(
        "create a --level 5 d0 d1 nearly",
        1,
        "no room for a volume of 1 MiB per drive; the smallest drive is nearly",
        &["d0", "d1", "nearly"],
    );
    rig.drive("large", 48 << 20);
    let made = rig.json("create a --level 5 d0 large d1", 0);
    assert_eq!(made["size_bytes"], 52u64 << 20);
    let note = made["notes"].to_string();
    assert!(note.contains("16 MiB of large stay unused"), "{note}");
}

#[test]
fn a_drive_in_use_is_left_alone() {
    let rig = Rig::with_array("vol --level 1", 2);
    let held = fs::File::options().read(true).open(rig.path("d1")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for line in [
        "create new --level 0 --force d0 d1",
        "destroy vol --yes d0 d1",
    ] {
        rig.refused(line, 4, "d1 is in use by", &["d0", "d1"]);
    }
    // Commands that only read are allowed.
    assert_eq!(rig.run("assemble d0 d1").code, 0);
}

#[test]
fn destroy_names_what_goes_and_asks() {
    let rig = Rig::with_array("vol --level 5", 3);
    rig.refused(
        "destroy vol d0 d1 d2",
        4,
        "this would destroy volume vol (RAID 5, 52 MiB), the last of its container, on d0, d1, d2; \
         repeat it with --yes",
        ALL,
    );
    rig.refused(
        "destroy vol d0 d1",
        4,
        "on d0, d1 (the drive with serial d2 is not named and keeps its record); repeat it with --yes",
        ALL,
    );
    rig.refused(
        "destroy other --yes d0 d1 d2",
        1,
        "no volume other on d0",
        ALL,
    );
}

#[test]
fn requests_that_cannot_be_explained() {
    let rig = Rig::with_array("vol --level 5", 3);
    for (line, wanted) in [
        (
            "explain vol --read 4k d0 d1 d2",
            "write SIZE@OFFSET, like 12k@1m",
        ),
        ("explain vol --read 4q@0 d0 d1 d2", "4q is no size"),
        (
            "explain vol --read 100@0 d0 d1 d2",
            "multiples of the block size, 512",
        ),
        ("explain vol --read 4k@1g d0 d1 d2", "ends past the volume"),
        ("explain vol --read 128m@0 d0 d1 d2", "too large to explain"),
        (
            "explain vol --read 4k@0 --failed 7 d0 d1 d2",
            "there is no slot 7",
        ),
        (
            "explain vol --read 4k@0 --failed 0 --failed 1 d0 d1 d2",
            "RAID 5 does not survive the loss of slot 0, slot 1",
        ),
        ("explain other --read 4k@0 d0 d1 d2", "no volume other"),
        (
            "explain vol --read 4k@0",
            "name the drives of volume vol too",
        ),
        (
            "explain --level 5 --members 2 --read 4k@0",
            "RAID 5 needs 3 to 64 drives, not 2",
        ),
        (
            "explain --level 5 --members 256 --read 4k@0",
            "RAID 5 needs 3 to 64 drives, not 256",
        ),
    ] {
        rig.refused(line, 1, wanted, ALL);
    }
    assert_eq!(rig.run("explain vol d0 d1 d2").code, 2);
    assert_eq!(rig.run("explain --read 4k@0").code, 2);
}

#[test]
fn nothing_to_assemble() {
    let rig = Rig::with_drives(2);
    rig.refused(
        "assemble d0 d1",
        1,
        "no array on d0, d1; `fullstripe create` makes one",
        &[],
    );
}

#[test]
fn what_vroc_would_refuse_is_refused_as_vroc() {
    let rig = Rig::with_drives(3);
    let wanted = "Intel VROC would refuse this array: chunks are of 4 to 128 KiB (printed by every platform that was seen), and this \
                  one has chunks of 256 KiB (mdadm 4.6";
    rig.refused(
        "create vol --level 0 --chunk 256k --as-vroc d0 d1 d2",
        1,
        wanted,
        ALL,
    );
    rig.refused(
        "create vol --level 0 --chunk 256k --as-vroc --wide d0 d1 d2",
        1,
        wanted,
        ALL,
    );
    let outcome = rig.run("create vol --level 0 --as-vroc=disk d0 d1 d2");
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(
        outcome.stderr.contains("must be data or boot"),
        "{outcome:?}"
    );
    let made = rig.json("create vol --level 5 --as-vroc=boot d0 d1 d2", 0);
    let broken = &made["vroc"]["broken"][0];
    assert_eq!(broken["is_certain"], false, "{made}");
    let because = broken["because"].as_str().expect("a sentence");
    assert!(
        because.starts_with("it cannot be seen where ") && because.ends_with("d0 is connected"),
        "{made}"
    );
    let keys = made["vroc"]["keys"].as_array().expect("keys");
    let row = |key: &str| {
        let mut rows = keys.iter();
        rows.find(|row| row["key"] == key && row["publication"] == "anandtech")
            .expect(key)["verdict"]
            .clone()
    };
    assert_eq!(
        (row("premium"), row("standard")),
        ("accepts".into(), "refuses".into())
    );
    assert_eq!(row("intel-ssd-only"), "not-said");
    // Volumes that --force destroys do not count.
    let rig = Rig::with_drives(4);
    for name in ["a", "b"] {
        rig.json(
            &format!("create {name} --level 0 --no-zero --size 8m d0 d1 d2"),
            0,
        );
    }
    let wanted = "an array has at most two volumes, and this one would have 3";
    rig.refused(
        "create c --level 0 --no-zero --size 8m --as-vroc d0 d1 d2",
        1,
        wanted,
        ALL,
    );
    rig.json(
        "create c --level 0 --no-zero --force --as-vroc d0 d1 d2 d3",
        0,
    );
}
