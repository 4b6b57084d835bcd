//! Whether one program serves what another serves.
//!
//! Before the change, this program reads the records on the drives, while the other one serves them, and decides how it would
//! start each volume ([`difference`]). It accepts whatever an orderly stop settles: that volume is dirty now, because it is being
//! written to. After the change the two states are compared ([`missing`]).

use crate::commands::describe::{self, ContainerReport};
use crate::commands::serve::kinds_of_clients;
use anyhow::Result;
use container::machine::members_of;
use exports::nbd::kernel::{Shortened, would_shorten};
use exports::ublk::room::{self, Divided, Kept};
use metadata::imsm::start::StartOptions;
use server::status::{DeviceKind, Status, VolumeStatus};
use settings::ArraySettings;
use settings::show::key_as_toml;
use std::path::Path;
use std::time::Duration;
use words::{duration, typed_size};

/// How often the records are read, at most: the server may be writing them.
const TRIES: usize = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// What this program would not serve as the program that serves now, as a part of a sentence.
///
/// # Errors
/// The machine's drives cannot be listed.
pub fn difference(served: &Status) -> Result<Option<String>> {
    let accepted = StartOptions {
        degraded: true,
        accept_write_hole: true,
        accept_unsynced: true,
        trust_returned_drive: true,
    };
    let look = || -> Result<Option<String>> {
        let found = members_of(&served.container_uuid)?;
        let report = describe::report(&found.members, accepted);
        Ok(between(served, &report.containers))
    };
    for _ in 1..TRIES {
        if look()?.is_none() {
            return Ok(None);
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
    }
    look()
}

/// Whether the settings of array `name` would shorten the time that the kernel waits for answers, under a device that is
/// attached, as a sentence.
///
/// # Errors
/// The kernel does not tell of a device.
pub fn shortened(served: &Status, name: &str, deadline_s: u64) -> Result<Option<String>> {
    let deadline = Duration::from_secs(deadline_s);
    shortened_by(served, name, deadline_s, &|node| {
        would_shorten(node, deadline)
    })
}

fn shortened_by(
    served: &Status,
    name: &str,
    deadline_s: u64,
    would_shorten: &dyn Fn(&Path) -> Result<Option<Shortened>>,
) -> Result<Option<String>> {
    for volume in &served.volumes {
        let device = volume.device.as_ref();
        let Some(device) = device.filter(|device| device.kind == DeviceKind::Nbd) else {
            continue;
        };
        if let Some(found) = would_shorten(Path::new(&device.node))? {
            return Ok(Some(format!(
                "array.{}.deadline_s = {deadline_s} would shorten the request timeout of {} from {} to {}, and the kernel could have \
                 requests that wait for the restart carried out twice; set it to {} or more, or detach volume {} before",
                key_as_toml(name),
                device.node,
                duration(found.from.as_secs()),
                duration(found.to.as_secs()),
                found.deadline_min().as_secs(),
                volume.name
            )));
        }
    }
    Ok(None)
}

/// Whether the settings of array `name` leave a data thread too little memory for the ublk devices that are attached, as a
/// sentence: they keep the size that they were made with. A device that nothing uses counts, because it may be mounted by then.
///
/// # Errors
/// The kernel does not tell of a device.
pub fn too_little_memory(
    served: &Status,
    name: &str,
    settings: &ArraySettings,
) -> Result<Option<String>> {
    let kept = |nodes: &[&Path]| room::kept(nodes.iter().copied());
    too_little_memory_for(served, name, settings, &kept)
}

fn too_little_memory_for(
    served: &Status,
    name: &str,
    settings: &ArraySettings,
    kept: &dyn Fn(&[&Path]) -> Result<Vec<Kept>>,
) -> Result<Option<String>> {
    let devices = served
        .volumes
        .iter()
        .filter_map(|volume| volume.device.as_ref());
    let of_ublk = devices.filter(|device| device.kind == DeviceKind::Ublk);
    let nodes: Vec<&Path> = of_ublk.map(|device| Path::new(&device.node)).collect();
    if nodes.is_empty() {
        return Ok(None);
    }
    let divided = Divided {
        memory_bytes: settings.memory_bytes,
        shards: settings.shards,
        kinds: kinds_of_clients(settings),
    };
    let lacks = divided.too_little_for(&kept(&nodes)?);
    Ok(lacks.map(|lacks| {
        let key = format!("array.{}.memory", key_as_toml(name));
        let fewer = lacks.shards_max.map(|shards| format!(", set shards to {shards}"));
        format!(
            "{key} = \"{}\" would leave each data thread {} for block devices, and {} would need {}, as the server that made \
             it had; set {key} to \"{}m\" or more{}, or detach the volume before",
            typed_size(settings.memory_bytes),
            lacks.has,
            lacks.devices,
            lacks.needs,
            lacks.memory_mib_min,
            fewer.unwrap_or_default()
        )
    }))
}

fn between(served: &Status, here: &[ContainerReport]) -> Option<String> {
    let ours = |one: &&ContainerReport| one.uuid.as_ref() == Some(&served.container_uuid);
    let Some(container) = here.iter().find(ours) else {
        let whole = here.iter().find_map(|one| one.refused.clone());
        return Some(whole.unwrap_or("it finds no record of the array on the drives".to_owned()));
    };
    if let Some(refused) = &container.refused {
        return Some(refused.clone());
    }
    let volumes = served.volumes.iter().filter(|volume| is_served(volume));
    volumes.into_iter().find_map(|volume| {
        let name = &volume.name;
        let Some(here) = container.volumes.iter().find(|one| one.uuid == volume.uuid) else {
            return Some(format!("it does not find volume {name} in the record"));
        };
        if (here.level, here.size_bytes) != (volume.level, volume.size_bytes) {
            return Some(format!(
                "volume {name} would be a RAID {} of {} bytes instead of a RAID {} of {} bytes",
                here.level, here.size_bytes, volume.level, volume.size_bytes
            ));
        }
        let writable = volume.read_only || here.start.mode == "read-write";
        if here.start.mode != "refused" && writable {
            return None;
        }
        let reason = here.start.reason.as_deref().unwrap_or(here.start.mode);
        Some(format!(
            "volume {name} would not be started like this: {reason}"
        ))
    })
}

fn is_served(volume: &VolumeStatus) -> bool {
    volume.not_started.is_none() && volume.state != "failed"
}

/// What was there `before` and is not there `now`, as a part of a sentence.
pub fn missing(before: &Status, now: &Status) -> Option<String> {
    let volumes = before.volumes.iter().filter(|volume| is_served(volume));
    volumes.into_iter().find_map(|volume| {
        let name = &volume.name;
        let there = now.volumes.iter().find(|one| one.uuid == volume.uuid);
        match there.filter(|one| is_served(one)) {
            None => Some(format!("volume {name} is not served")),
            Some(there) if there.device.is_none() && volume.device.is_some() => {
                Some(format!("volume {name} is no block device"))
            }
            Some(there) if there.read_only && !volume.read_only => {
                Some(format!("volume {name} is read-only"))
            }
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::describe::{StartReport, VolumeReport};
    use serde_json::json;

    const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";

    /// A served array of two volumes, of which `vol1` is not started.
    fn served() -> Status {
        let volume = |name: &str, not_started: Option<&str>| {
            json!({
                "name": name, "uuid": format!("uuid of {name}"), "level": 5, "size_bytes": 1 << 30, "chunk_bytes": 65536,
                "state": "optimal", "not_started": not_started, "dirty": true, "read_only": false, "slots": [], "job": null,
                "device": {"kind": "ublk", "path": format!("/dev/fullstripe/{name}"), "node": "/dev/ublkb0"},
            })
        };
        serde_json::from_value(json!({
            "version": 1, "container_uuid": UUID, "generation": 1, "members": [], "exports": [], "rate_bytes_per_s": 0,
            "shards": 1, "completion": "interrupt", "ring": "", "pid": 1, "counters": {},
            "volumes": [volume("vol0", None), volume("vol1", Some("drives are missing"))],
        }))
        .expect("it is a status")
    }

    /// The same array as this program finds it.
    fn found() -> ContainerReport {
        ContainerReport {
            uuid: Some(UUID.to_owned()),
            generation: Some(1),
            refused: None,
            members: Vec::new(),
            spares: Vec::new(),
            in_use_by: Vec::new(),
            volumes: vec![VolumeReport {
                name: "vol0".to_owned(),
                uuid: "uuid of vol0".to_owned(),
                level: 5,
                size_bytes: 1 << 30,
                chunk_bytes: 65536,
                state: "optimal",
                dirty: true,
                slots: Vec::new(),
                start: StartReport {
                    mode: "read-write",
                    reason: None,
                    option: None,
                    work: None,
                    replay: None,
                },
            }],
            rewrite_needed: false,
            from_shadows: false,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_is_served_is_found_again() {
        assert_eq!(between(&served(), &[found()]), None);
    }

    #[test]
    fn a_shorter_timeout_under_a_kernel_nbd_device_is_named_with_key_and_device() {
        let found = Shortened {
            from: Duration::from_secs(60),
            to: Duration::from_secs(35),
        };
        let said = |served: &Status| {
            let would_shorten = |node: &Path| {
                assert_eq!(node, Path::new("/dev/nbd3"));
                Ok(Some(found))
            };
            shortened_by(served, "fast", 5, &would_shorten).unwrap()
        };
        let mut served = served();
        assert_eq!(said(&served), None, "ublk has no such timeout");
        let device = served.volumes[0].device.as_mut().unwrap();
        (device.kind, device.node) = (DeviceKind::Nbd, "/dev/nbd3".to_owned());
        assert_eq!(
            said(&served).unwrap(),
            "array.fast.deadline_s = 5 would shorten the request timeout of /dev/nbd3 from 1m to 35s, and the kernel could have \
             requests that wait for the restart carried out twice; set it to 30 or more, or detach volume vol0 before"
        );
        let nothing = shortened_by(&served, "fast", 5, &|_| Ok(None));
        assert_eq!(nothing.unwrap(), None);
    }

    #[test]
    fn memory_that_does_not_suffice_for_a_ublk_device_is_named_with_key_and_device() {
        // As a server makes it that has 64 MiB for it on its only data thread.
        let kept = |nodes: &[&Path]| {
            assert_eq!(nodes, [Path::new("/dev/ublkb0")]);
            Ok(vec![Kept::new(0, 1, 112, 512 << 10)])
        };
        let mut served = served();
        served.volumes[1].device = None;
        let said = |served: &Status, memory_bytes, shards, guests: bool| {
            let settings = ArraySettings {
                memory_bytes,
                shards,
                vhost_user: guests.then(|| "/run/guests".into()),
                ..ArraySettings::with_defaults("uuid")
            };
            too_little_memory_for(served, "fast", &settings, &kept).unwrap()
        };
        assert_eq!(said(&served, 128 << 20, 1, false), None);
        assert_eq!(
            said(&served, 64 << 20, 1, false).unwrap(),
            "array.fast.memory = \"64m\" would leave each data thread 32 MiB for block devices, and /dev/ublkb0 would need 56.0 MiB, \
             as the server that made it had; set array.fast.memory to \"113m\" or more, or detach the volume before"
        );
        let divided = said(&served, 128 << 20, 2, false).unwrap();
        assert!(
            divided.contains("or more, set shards to 1, or detach"),
            "{divided}"
        );
        assert!(
            said(&served, 128 << 20, 1, true).is_some(),
            "three kinds share the memory"
        );
        served.volumes[0].device.as_mut().unwrap().kind = DeviceKind::Nbd;
        assert_eq!(
            said(&served, 64 << 20, 1, false),
            None,
            "its memory is that of NBD"
        );
    }

    #[test]
    fn each_difference_is_named() {
        let differs = |change: fn(&mut ContainerReport)| {
            let mut here = found();
            change(&mut here);
            between(&served(), &[here]).unwrap_or_default()
        };
        let refused = differs(|here| here.refused = Some("its record has a feature".to_owned()));
        assert_eq!(refused, "its record has a feature");
        let other = differs(|here| here.uuid = Some("another".to_owned()));
        assert_eq!(other, "it finds no record of the array on the drives");
        let unknown = differs(|here| here.volumes.clear());
        assert_eq!(unknown, "it does not find volume vol0 in the record");
        let shape = differs(|here| here.volumes[0].level = 0);
        assert_eq!(
            shape,
            "volume vol0 would be a RAID 0 of 1073741824 bytes instead of a RAID 5 of 1073741824 bytes"
        );
        let start = differs(|here| {
            here.volumes[0].start.mode = "refused";
            here.volumes[0].start.reason = Some("it is being reshaped".to_owned());
        });
        assert_eq!(
            start,
            "volume vol0 would not be started like this: it is being reshaped"
        );
        let read_only = differs(|here| here.volumes[0].start.mode = "read-only");
        assert!(read_only.ends_with("like this: read-only"), "{read_only}");
    }

    #[test]
    fn an_array_is_back_when_all_of_it_is() {
        assert_eq!(missing(&served(), &served()), None);
        let lacks = |change: fn(&mut VolumeStatus)| {
            let mut now = served();
            change(&mut now.volumes[0]);
            missing(&served(), &now).unwrap_or_default()
        };
        let failed = lacks(|volume| volume.state = "failed".to_owned());
        assert_eq!(failed, "volume vol0 is not served");
        assert_eq!(
            lacks(|volume| volume.device = None),
            "volume vol0 is no block device"
        );
        assert_eq!(
            lacks(|volume| volume.read_only = true),
            "volume vol0 is read-only"
        );
        let mut now = served();
        now.volumes.remove(1);
        assert_eq!(missing(&served(), &now), None, "vol1 was not served before");
    }
}
