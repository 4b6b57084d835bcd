//! Block devices that can be members: size, sector size, volatile cache and scheduler, as sysfs shows them to
//! every user.

use super::finding::Finding;
use machine::files::{Files, last_part, parent};
use std::collections::{BTreeMap, BTreeSet};
use words::size;

const BLOCK: &str = "/sys/block";

/// Names of the block devices that could be members. Left out are devices made of other devices, RAM,
/// optical and floppy drives, loop devices without a file, devices without a size, and the single paths
/// of a multipath drive.
pub fn candidates(files: &Files) -> BTreeSet<String> {
    const OTHERS: [&str; 8] = ["ram", "zram", "sr", "fd", "md", "dm-", "nbd", "ublkb"];
    let is_other = |name: &str| {
        OTHERS.iter().any(|prefix| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let names = files.list(BLOCK).into_iter().filter(|name| {
        let folder = format!("{BLOCK}/{name}");
        let has_size = files.number(&format!("{folder}/size")).unwrap_or(0) > 0;
        let is_hidden = files.number(&format!("{folder}/hidden")) == Some(1);
        let is_bare_loop =
            name.starts_with("loop") && !files.exists(&format!("{folder}/loop/backing_file"));
        has_size && !is_hidden && !is_bare_loop && !is_other(name)
    });
    names.collect()
}

/// The name in `/dev`: in sysfs a slash in a device's name is written as an exclamation mark.
pub fn device_path(name: &str) -> String {
    format!("/dev/{}", name.replace('!', "/"))
}

/// The whole block device that `path` names or is a partition of; `None` for files.
pub fn whole_device(files: &Files, path: &str) -> Option<String> {
    // The target of a link like /dev/disk/by-id/….
    let real = files.real(path).unwrap_or_else(|| path.to_owned());
    let name = real.strip_prefix("/dev/")?.replace('/', "!");
    if files.exists(&format!("{BLOCK}/{name}")) {
        return Some(name);
    }
    let folder = format!("/sys/class/block/{name}");
    let is_partition = files.exists(&format!("{folder}/partition"));
    let real = is_partition.then(|| files.real(&folder)).flatten()?;
    Some(last_part(parent(&real)).to_owned())
}

/// What sysfs shows about each device in `names`.
pub fn check(files: &Files, names: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sectors: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for name in names {
        let folder = format!("{BLOCK}/{name}");
        let queue = format!("{folder}/queue");
        let size_bytes = files
            .number(&format!("{folder}/size"))
            .unwrap_or(0)
            .saturating_mul(512);
        let sector_bytes = files.number(&format!("{queue}/logical_block_size"));
        if let Some(bytes @ (512 | 4096)) = sector_bytes {
            sectors.entry(bytes).or_default().push(name);
        }
        findings.push(device(files, name, size_bytes, sector_bytes));
        findings.extend(scheduler(files, name, &queue));
    }
    if sectors.len() > 1 {
        let kinds: Vec<String> = sectors
            .iter()
            .map(|(bytes, names)| format!("{bytes} bytes on {}", names.join(", ")))
            .collect();
        findings.push(
            Finding::note("sectors", format!("sizes differ: {}", kinds.join("; ")))
                .advise("make an array of drives with one sector size"),
        );
    }
    findings
}

fn device(files: &Files, name: &str, size_bytes: u64, sector_bytes: Option<u64>) -> Finding {
    let mut parts = vec![size(size_bytes)];
    match sector_bytes {
        Some(bytes @ (512 | 4096)) => parts.push(format!("{bytes}-byte sectors")),
        Some(bytes) => {
            let what = format!("{}, sectors of {bytes} bytes", parts.concat());
            return Finding::warning(name, what).advise(
                "only 512 and 4096 can be used; nvme format can change it and erases the drive",
            );
        }
        None => {}
    }
    match files
        .text(&format!("{BLOCK}/{name}/queue/write_cache"))
        .as_deref()
    {
        Some("write through") => {
            parts.push("no volatile write cache".to_owned());
            Finding::ok(name, parts.join(", "))
        }
        Some(_) => {
            parts.push("volatile write cache".to_owned());
            Finding::note(name, parts.join(", ")).advise(
                "FLUSH and FUA wait for the medium; drives with power-loss protection answer sooner",
            )
        }
        None => Finding::ok(name, parts.join(", ")),
    }
}

/// Reports a scheduler in use, because it sorts again what the engine has already ordered.
fn scheduler(files: &Files, name: &str, queue: &str) -> Option<Finding> {
    let text = files.text(&format!("{queue}/scheduler"))?;
    let in_use = text.split(['[', ']']).nth(1)?;
    let is_flash = files.number(&format!("{queue}/rotational")) == Some(0);
    (is_flash && in_use != "none" && text.contains("none")).then(|| {
        Finding::note(
            name,
            format!("the I/O scheduler {in_use} takes time on each request"),
        )
        .advise(format!("echo none > {queue}/scheduler"))
    })
}
