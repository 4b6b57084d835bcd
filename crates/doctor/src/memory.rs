//! Memory: how much is free, whether it may be locked, huge pages, where swap lies; and how many files may be open.

use super::Machine;
use super::finding::Finding;
use super::granted::Need;
use drives::layers::Layers;
use machine::files::{Files, parent};
use words::size;

/// `CAP_IPC_LOCK` of linux/capability.h: no limit on locked memory.
const CAP_IPC_LOCK: u32 = 14;

/// All findings about memory and limits.
pub fn check(machine: &Machine) -> Vec<Finding> {
    let (files, need) = (&machine.files, Need::of_defaults());
    let mut findings = Vec::new();
    findings.extend(available(files, need));
    findings.push(lockable(machine, need));
    findings.extend(transparent_huge_pages(machine));
    findings.extend(reserved_huge_pages(files));
    findings.extend(open_files(files, need));
    findings.extend(swap_on_arrays(files));
    findings
}

/// Swap, and the image of hibernation, on devices that a process serves: a process of fullstripe, or another one. The kernel may
/// need them when that process cannot go on.
fn swap_on_arrays(files: &Files) -> Vec<Finding> {
    let layers = Layers::below(files.root());
    let above = layers.swaps().into_iter().chain(layers.image());
    let is_served = |name: &&String| name.starts_with("ublkb") || name.starts_with("nbd");
    let found = above.filter_map(|layer| {
        let device = layer.devices.iter().find(is_served)?;
        let what = format!(
            "{} lies on /dev/{device}, which a process serves",
            layer.what
        );
        Some(Finding::warning("swap", what).advise(format!(
            "the machine may stand still when memory runs out or when it hibernates: {}",
            layer.release
        )))
    });
    found.collect()
}

/// Memory available without swapping: on the whole machine or in this process's control group, whichever is less.
pub fn available_bytes(files: &Files) -> Option<u64> {
    let whole = meminfo(files, "MemAvailable");
    let group = group_left_bytes(files);
    whole.into_iter().chain(group).min()
}

fn meminfo(files: &Files, name: &str) -> Option<u64> {
    let text = files.text("/proc/meminfo")?;
    let line = text
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The smallest amount left below the limits of the control groups (version 2) that contain this process.
fn group_left_bytes(files: &Files) -> Option<u64> {
    let text = files.text("/proc/self/cgroup")?;
    let mut group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut left = None;
    while !group.is_empty() && group != "/" {
        let folder = format!("/sys/fs/cgroup{group}");
        let limit = files.number(&format!("{folder}/memory.max"));
        let used = files.number(&format!("{folder}/memory.current"));
        if let (Some(limit), Some(used)) = (limit, used) {
            let here = limit.saturating_sub(used);
            left = Some(left.map_or(here, |other: u64| other.min(here)));
        }
        group = parent(group);
    }
    left
}

fn available(files: &Files, need: Need) -> Option<Finding> {
    let bytes = available_bytes(files)?;
    let what = format!("{} available", size(bytes));
    let needed = size(need.locked_bytes);
    Some(if bytes < need.locked_bytes {
        Finding::problem("memory", what).advise(format!(
            "serve needs {needed} with its default --memory; free memory or give less, at least 8m"
        ))
    } else if bytes < 2 * need.locked_bytes {
        Finding::warning("memory", what).advise(format!(
            "serve takes {needed} with its default --memory; free memory or give less"
        ))
    } else {
        Finding::ok("memory", what)
    })
}

/// Whether the limit on locked memory covers what `serve` needs with its defaults, and whether memory could be locked
/// just now.
fn lockable(machine: &Machine, need: Need) -> Finding {
    let files = &machine.files;
    let refused = machine.granted.locked.err();
    let limit = limit(files, "Max locked memory");
    // In a user namespace the capability is shown but has no effect; a refused lock reveals that.
    let is_free = refused.is_none() && has_capability(files, CAP_IPC_LOCK) == Some(true);
    let what = match limit {
        _ if is_free => "memory may be locked without limit".to_owned(),
        Some(Limit::Unlimited) => "RLIMIT_MEMLOCK is unlimited".to_owned(),
        Some(Limit::Some(bytes)) => format!("RLIMIT_MEMLOCK is {}", size(bytes)),
        None => "RLIMIT_MEMLOCK cannot be read".to_owned(),
    };
    let is_high = match limit {
        Some(Limit::Some(bytes)) => bytes >= need.locked_bytes,
        Some(Limit::Unlimited) | None => true,
    };
    if refused.is_none() && (is_free || is_high) {
        return Finding::ok("locked memory", what);
    }
    let refused = refused.map_or_else(String::new, |errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        let asked = size(machine.granted.asked_bytes);
        format!(", and {asked} could not be locked: {error}")
    });
    Finding::warning("locked memory", format!("{what}{refused}")).advise(format!(
        "an array whose memory is swapped out may stall: LimitMEMLOCK=infinity in the unit or ulimit -l \
         unlimited; serve locks {} with its defaults, about as much again with each further shard",
        size(need.locked_bytes)
    ))
}

fn has_capability(files: &Files, number: u32) -> Option<bool> {
    let status = files.text("/proc/self/status")?;
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(bits.trim(), 16).ok()?;
    Some(bits >> number & 1 == 1)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    Unlimited,
    Some(u64),
}

/// The soft limit in a line of `/proc/self/limits`, like `Max open files   1024   524288   files`.
fn limit(files: &Files, name: &str) -> Option<Limit> {
    let text = files.text("/proc/self/limits")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(Limit::Unlimited),
        number => number.parse().ok().map(Limit::Some),
    }
}

fn transparent_huge_pages(machine: &Machine) -> Option<Finding> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Some(text) = machine.files.text(path) else {
        return Some(Finding::note(
            "huge pages",
            "this kernel has no transparent huge pages, so payload memory lies in small ones",
        ));
    };
    let mode = text.split(['[', ']']).nth(1)?;
    if mode == "never" || !machine.granted.huge_pages {
        return Some(
            Finding::note(
                "huge pages",
                format!(
                    "transparent huge pages are \"{mode}\", so payload memory lies in small pages"
                ),
            )
            .advise(format!("echo madvise > {path}")),
        );
    }
    Some(Finding::ok(
        "huge pages",
        format!("transparent huge pages are \"{mode}\" and granted for payload memory"),
    ))
}

/// Reserved huge pages can only be used by programs that request them explicitly, and `serve` does not.
fn reserved_huge_pages(files: &Files) -> Option<Finding> {
    let page_bytes = meminfo(files, "Hugepagesize")?;
    let count = files
        .number("/proc/sys/vm/nr_hugepages")
        .filter(|&n| n > 0)?;
    let bytes = count.checked_mul(page_bytes)?;
    Some(
        Finding::note(
            "huge pages",
            format!(
                "{} are reserved as huge pages; serve uses none of them",
                size(bytes)
            ),
        )
        .advise("set vm.nr_hugepages to 0 unless another program wants them"),
    )
}

fn open_files(files: &Files, need: Need) -> Option<Finding> {
    let Limit::Some(count) = limit(files, "Max open files")? else {
        return Some(Finding::ok("open files", "RLIMIT_NOFILE is unlimited"));
    };
    let what = format!("RLIMIT_NOFILE is {count}");
    Some(if count < need.open_files {
        Finding::warning("open files", what).advise(format!(
            "the largest array with the most connections needs {}: LimitNOFILE=4096 in the unit or \
             ulimit -n 4096",
            need.open_files
        ))
    } else {
        Finding::ok("open files", what)
    })
}
