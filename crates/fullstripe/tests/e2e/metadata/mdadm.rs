//! mdadm, which has its own implementation of the format, reads what fullstripe writes, field by field.
//!
//! mdadm reads block devices only, so these tests need loop devices. Those have no serial numbers, so mdadm uses
//! the device's path instead (`IMSM_DEVNAME_AS_SERIAL`), and the arrays are made with these serials.

use super::devices::Loop;
use super::rig::{Rig, program, run_program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What mdadm prints: the fields of the container, of its disks, and of each volume by name.
#[derive(Debug, Default)]
struct Examined {
    container: BTreeMap<String, String>,
    disks: BTreeMap<String, String>,
    volumes: BTreeMap<String, BTreeMap<String, String>>,
}

fn examine(mdadm: &Path, device: &str) -> Examined {
    let output = Command::new(mdadm)
        .args(["--examine", device])
        .env("IMSM_NO_PLATFORM", "1")
        .env("IMSM_DEVNAME_AS_SERIAL", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut examined = Examined::default();
    let mut volume: Option<String> = None;
    let mut in_disk = false;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix("]:"))
        {
            volume = Some(name.to_owned());
            in_disk = false;
        } else if let Some((key, value)) = line.split_once(" : ") {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if key.starts_with("Disk") && key.ends_with("Serial") {
                in_disk = true;
                examined.disks.insert(key, value);
            } else if in_disk {
                examined.disks.entry(key).or_insert(value);
            } else if let Some(name) = &volume {
                let fields = examined.volumes.entry(name.clone()).or_default();
                fields.insert(key, value);
            } else {
                examined.container.insert(key, value);
            }
        }
    }
    examined
}

/// Makes arrays by `lines` (of `create`, without drives) on `count` devices and compares all of them.
fn compare(count: usize, lines: &[&str]) {
    let Some(mdadm) = program("mdadm") else {
        return;
    };
    let rig = Rig::with_drives(count);
    let Some(devices) = Loop::over_all(&rig, count) else {
        return;
    };
    let specs: Vec<String> = devices
        .iter()
        .map(|device| format!("{0},serial={0}", device.device))
        .collect();
    let specs = specs.join(" ");
    let made: Vec<Value> = lines
        .iter()
        .map(|line| rig.json(&format!("create {line} {specs}"), 0))
        .collect();
    let own = rig.json(&format!("examine {specs}"), 0);
    for (slot, device) in devices.iter().enumerate() {
        let examined = examine(&mdadm, &device.device);
        let record = &own["drives"][slot]["record"];
        // The shadow is intact and does not disturb mdadm, although it lies in the space that IMSM reserves.
        assert_eq!(own["drives"][slot]["shadow"]["same_as_record"], true);
        compare_container(&examined, record, count, made.len());
        for (at, device) in devices.iter().enumerate() {
            assert_eq!(
                examined.disks[&format!("Disk{at:02} Serial")],
                device.device
            );
        }
        assert_eq!(examined.disks["State"], "active");
        assert_eq!(examined.volumes.len(), made.len());
        for (at, made) in made.iter().enumerate() {
            let name = made["name"].as_str().unwrap();
            compare_volume(&examined.volumes[name], made, &record["volumes"][at], slot);
        }
    }
}

/// Whether mdadm reports that it supports all attributes: 4.2 prints that alone, 4.4 their hexadecimal value as well.
fn supports_all(attributes: &str) -> bool {
    let shown = attributes.strip_suffix(" (supported)");
    attributes == "All supported"
        || shown.is_some_and(|shown| u32::from_str_radix(shown, 16).is_ok())
}

fn compare_container(examined: &Examined, record: &Value, disks: usize, volumes: usize) {
    let field = |key: &str| examined.container[key].as_str();
    assert_eq!(field("Magic"), "Intel Raid ISM Cfg Sig.");
    assert_eq!(field("Version"), record["format_version"]);
    assert!(supports_all(field("Attributes")), "{examined:?}");
    assert_eq!(field("UUID"), record["container_uuid"]);
    assert_eq!(field("Family"), record["family"]);
    assert_eq!(field("Orig Family"), record["original_family"]);
    assert_eq!(field("Disks"), disks.to_string());
    assert_eq!(field("RAID Devices"), volumes.to_string());
    let generation = u64::from_str_radix(field("Generation"), 16).unwrap();
    assert_eq!(Some(generation), record["generation"].as_u64());
    assert!(field("Checksum").ends_with(" correct"), "{examined:?}");
    let sectors = record["image_bytes"].as_u64().unwrap() / 512;
    assert_eq!(field("MPB Sectors"), sectors.to_string());
}

fn compare_volume(fields: &BTreeMap<String, String>, made: &Value, record: &Value, slot: usize) {
    let field = |key: &str| fields[key].as_str();
    let members = made["members"].as_array().unwrap().len();
    let first_number = |key: &str| {
        field(key)
            .split(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(field("UUID"), made["uuid"]);
    assert_eq!(field("RAID Level"), made["level"].to_string());
    assert_eq!(field("Members"), members.to_string());
    assert_eq!(field("Slots"), format!("[{}]", "U".repeat(members)));
    assert_eq!(field("This Slot"), slot.to_string());
    assert_eq!(field("Failed disk"), "none");
    assert_eq!(field("Sector Size"), "512");
    assert_eq!(
        Some(first_number("Array Size") * 512),
        made["size_bytes"].as_u64()
    );
    // mdadm's "per device" size includes the MiB of the write-hole log.
    assert_eq!(
        Some((first_number("Per Dev Size") - 2048) * 512),
        record["component_bytes"].as_u64()
    );
    assert_eq!(
        Some(first_number("Sector Offset") * 512),
        record["start_bytes"].as_u64()
    );
    let chunk = match made["chunk_bytes"].as_u64().unwrap() {
        0 => "64 KiB".to_owned(),
        bytes => format!("{} KiB", bytes >> 10),
    };
    assert_eq!(field("Chunk Size"), chunk);
    assert_eq!(field("Migrate State"), "idle");
    assert_eq!(field("Map State"), "normal");
    assert_eq!(field("Dirty State"), "clean");
    let protection = match record["write_hole_policy"].as_str().unwrap() {
        "off" => "off",
        _ => "Multiple distributed PPLs",
    };
    assert_eq!(field("RWH Policy"), protection);
    assert_eq!(
        protection == "off",
        made["level"] != 5 || record["write_hole_log"].is_null()
    );
}

#[test]
fn mdadm_reads_raid_0() {
    compare(2, &["r0 --level 0"]);
    compare(3, &["r0 --level 0 --chunk 4k --size 30m"]);
}

#[test]
fn mdadm_reads_raid_1() {
    compare(2, &["r1 --level 1"]);
}

#[test]
fn mdadm_reads_raid_10() {
    compare(4, &["r10 --level 10 --chunk 64k"]);
}

#[test]
fn mdadm_reads_raid_5() {
    compare(3, &["r5 --level 5"]);
    compare(4, &["r5 --level 5 --chunk 16k"]);
    compare(3, &["r5 --level 5 --write-hole off"]);
}

#[test]
fn mdadm_reads_two_volumes_on_the_same_drives() {
    compare(
        4,
        &["fast --level 0 --size 32m", "safe --level 5 --chunk 64k"],
    );
}

#[test]
fn mdadm_sees_a_volume_that_is_not_synchronised() {
    let Some(mdadm) = program("mdadm") else {
        return;
    };
    let rig = Rig::with_drives(3);
    let Some(devices) = Loop::over_all(&rig, 3) else {
        return;
    };
    let specs: Vec<String> = devices
        .iter()
        .map(|device| format!("{0},serial={0}", device.device))
        .collect();
    rig.done(&format!(
        "create raw --level 5 --no-zero {}",
        specs.join(" ")
    ));
    let examined = examine(&mdadm, &devices[1].device);
    let volume = &examined.volumes["raw"];
    assert_eq!(volume["Migrate State"], "initialize");
    assert!(volume["Map State"].ends_with("uninitialized"), "{volume:?}");
}

#[test]
fn what_mdadm_erases_stays_erased() {
    let Some(mdadm) = program("mdadm") else {
        return;
    };
    let rig = Rig::with_drives(2);
    let Some(devices) = Loop::over_all(&rig, 2) else {
        return;
    };
    let specs = devices
        .iter()
        .map(|device| format!("{0},serial={0}", device.device));
    let specs = specs.collect::<Vec<_>>().join(" ");
    rig.done(&format!("create vol --level 1 {specs}"));
    for device in &devices {
        let output = Command::new(&mdadm)
            .args(["--zero-superblock", &device.device])
            .env("IMSM_NO_PLATFORM", "1")
            .env("IMSM_DEVNAME_AS_SERIAL", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let own = rig.json(&format!("examine {specs}"), 0);
    assert_eq!(own["drives"][0]["shadow"]["state"], "whole");
    assert_eq!(rig.run(&format!("assemble {specs}")).code, 1);
    // A new array needs --force, even after a deliberate erasure: an accidental one leaves the same traces.
    let refused = rig.run(&format!("create new --level 1 {specs}"));
    assert_eq!(refused.code, 4, "{refused:?}");
    rig.done(&format!("create new --level 1 --force {specs}"));
}

/// Ranges are split into entries of at most 256 sectors, and mdadm shows all entries of the drive given.
#[test]
fn mdadm_reads_our_bad_block_log() {
    let (Some(mdadm), Some(blockdev)) = (program("mdadm"), program("blockdev")) else {
        return;
    };
    let rig = Rig::with_drives(3);
    let Some(devices) = Loop::over_all(&rig, 3) else {
        return;
    };
    let spec = |device: &Loop| format!("{0},serial={0}", device.device);
    let specs: Vec<String> = devices.iter().map(spec).collect();
    rig.done(&format!("create vol --level 5 {}", specs.join(" ")));
    for (at, device) in devices.iter().enumerate() {
        rig.change_record(&format!("d{at}"), |record| {
            record.add_bad_blocks(1, 4096, 300).unwrap();
            record.add_bad_blocks(1, 8, 3).unwrap();
            record.add_bad_blocks(2, 512, 8).unwrap();
        });
        run_program(&blockdev, &["--flushbufs", &device.device]);
    }
    let listed = |device: &Loop| {
        let output = Command::new(&mdadm)
            .args(["--examine-badblocks", &device.device])
            .env("IMSM_NO_PLATFORM", "1")
            .env("IMSM_DEVNAME_AS_SERIAL", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let entries = |device: &Loop| -> Vec<String> {
        let text = listed(device);
        let lines = text.lines().filter(|line| line.contains(" for "));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(entries(&devices[0]), none, "{}", listed(&devices[0]));
    assert_eq!(
        entries(&devices[1]),
        [
            "8 for 3 sectors",
            "4096 for 256 sectors",
            "4352 for 44 sectors"
        ],
        "{}",
        listed(&devices[1])
    );
    assert_eq!(entries(&devices[2]), ["512 for 8 sectors"]);
    // mdadm finds the record's checksum correct.
    let examined = examine(&mdadm, &devices[1].device);
    assert!(
        examined.container["Checksum"].ends_with(" correct"),
        "{examined:?}"
    );
    assert!(
        supports_all(&examined.container["Attributes"]),
        "{examined:?}"
    );
}
