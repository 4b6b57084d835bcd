//! Marks that need further checks: short magic numbers, places that depend on the drive's size, and
//! structures that are described in more detail.

use super::{Ends, Finding};

/// Start of the ext superblock.
const EXT_SUPERBLOCK: u64 = 1024;

/// The ext family. Its magic number has only two bytes, so other fields must be plausible as well.
#[must_use]
pub fn file_systems(ends: &Ends) -> Vec<Finding> {
    let base = EXT_SUPERBLOCK;
    let inodes = ends.u32_at(base);
    let (block_size_exponent, revision) = (ends.u32_at(base + 0x18), ends.u32_at(base + 0x4C));
    if !ends.has(base + 0x38, &[0x53, 0xEF])
        || inodes == 0
        || block_size_exponent > 6
        || revision > 1
    {
        return Vec::new();
    }
    let (compatible, incompatible, read_only) = (
        ends.u32_at(base + 0x5C),
        ends.u32_at(base + 0x60),
        ends.u32_at(base + 0x64),
    );
    // Features that only ext4 has: extents, 64-bit or flexible groups; huge files, group checksums, many
    // subdirectories or large inodes.
    let name = if incompatible & 0x2C0 != 0 || read_only & 0x78 != 0 {
        "an ext4"
    } else if compatible & 0x4 != 0 {
        "an ext3"
    } else {
        "an ext2"
    };
    let label = ends.label(base + 0x78, 16);
    vec![Finding::at(
        format!("{name} file system{label}"),
        base + 0x38,
        2,
    )]
}

/// GPT, or an MBR partition table where there is no GPT.
#[must_use]
pub fn partition_tables(ends: &Ends) -> Vec<Finding> {
    let found = gpt(ends);
    if found.is_empty() { mbr(ends) } else { found }
}

/// A GUID partition table: header in the second sector, a copy in the last, and a protective MBR.
#[must_use]
pub fn gpt(ends: &Ends) -> Vec<Finding> {
    const MARK: &[u8] = b"EFI PART";
    let sectors = [512u64, 4096];
    let first = sectors.into_iter().find(|&at| ends.has(at, MARK));
    let copy = sectors
        .map(|sector| ends.size_bytes().saturating_sub(sector))
        .into_iter()
        .find(|&at| ends.has(at, MARK));
    let marks = match (first, copy) {
        (None, None) => return Vec::new(),
        (Some(first), copy) => {
            let copy = copy.map(|at| at..at + 8);
            // The protective MBR is cleared too, or the drive would still look partitioned.
            [446..512, first..first + 8]
                .into_iter()
                .chain(copy)
                .collect()
        }
        (None, Some(copy)) => {
            return vec![Finding::at(
                "the second header of a GPT partition table",
                copy,
                8,
            )];
        }
    };
    let partitions = first.map_or(0, |sector| gpt_partitions(ends, sector));
    let plural = if partitions == 1 { "" } else { "s" };
    vec![Finding {
        what: format!("a GPT partition table with {partitions} partition{plural}"),
        marks,
    }]
}

/// Number of used entries in the table whose header is at `header`, which is also the sector size.
fn gpt_partitions(ends: &Ends, header: u64) -> usize {
    let table = ends.u64_at(header + 72).saturating_mul(header);
    let (entries, entry_bytes) = (ends.u32_at(header + 80), ends.u32_at(header + 84));
    let used = |entry: &u32| {
        let at = table.saturating_add(u64::from(*entry) * u64::from(entry_bytes));
        ends.at(at, 16)
            .is_some_and(|kind| kind.iter().any(|&byte| byte != 0))
    };
    (0..entries.min(128)).filter(used).count()
}

/// A classic partition table: the boot mark, at least one plausible entry, and no implausible
/// one.
fn mbr(ends: &Ends) -> Vec<Finding> {
    if !ends.has(510, &[0x55, 0xAA]) {
        return Vec::new();
    }
    let mut partitions = 0;
    for entry in 0..4 {
        let at = 446 + 16 * entry;
        let Some(bytes) = ends.at(at, 16) else {
            return Vec::new();
        };
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        let (start, sectors) = (ends.u32_at(at + 8), ends.u32_at(at + 12));
        if !matches!(bytes[0], 0 | 0x80) || bytes[4] == 0 || start == 0 || sectors == 0 {
            return Vec::new();
        }
        partitions += 1;
    }
    if partitions == 0 {
        return Vec::new();
    }
    let plural = if partitions == 1 { "" } else { "s" };
    vec![Finding::at(
        format!("an MBR partition table with {partitions} partition{plural}"),
        446,
        66,
    )]
}

/// Other RAID metadata and volume managers.
#[must_use]
pub fn raid_and_volumes(ends: &Ends) -> Vec<Finding> {
    let mut found: Vec<Finding> = [md_0_90(ends), md_1(ends), lvm(ends), ddf(ends), zfs(ends)]
        .into_iter()
        .flatten()
        .collect();
    found.dedup();
    found
}

/// Magic number of Linux md superblocks.
const MD_MAGIC: [u8; 4] = [0xFC, 0x4E, 0x2B, 0xA9];

/// md 0.90: at the start of the last complete 64 KiB block, in the byte order of the machine that made it.
fn md_0_90(ends: &Ends) -> Option<Finding> {
    const BLOCK: u64 = 64 << 10;
    let at = (ends.size_bytes() / BLOCK).checked_sub(1)? * BLOCK;
    let reversed: Vec<u8> = MD_MAGIC.iter().rev().copied().collect();
    let found = ends.has(at, &MD_MAGIC) || ends.has(at, &reversed);
    found.then(|| Finding::at("a Linux md superblock (version 0.90)", at, 4))
}

/// md 1.0 near the end, 1.1 at the start, 1.2 after 4 KiB.
fn md_1(ends: &Ends) -> Option<Finding> {
    let sectors = ends.size_bytes() / 512;
    let near_the_end = (sectors.checked_sub(16)? & !7) * 512;
    let places = [("1.0", near_the_end), ("1.1", 0), ("1.2", 4096)];
    let (version, at) = places
        .into_iter()
        .find(|&(_, at)| ends.has(at, &MD_MAGIC) && ends.u32_at(at + 4) == 1)?;
    let label = ends.label(at + 32, 32).replacen("label", "array", 1);
    Some(Finding::at(
        format!("a Linux md superblock (version {version}){label}"),
        at,
        4,
    ))
}

/// LVM2: a label in one of the first four sectors.
fn lvm(ends: &Ends) -> Option<Finding> {
    let label = |at: &u64| ends.has(*at, b"LABELONE") && ends.has(at + 24, b"LVM2 001");
    let at = (0..4).map(|sector| sector * 512).find(label)?;
    Some(Finding::at("an LVM2 physical volume", at, 8))
}

/// SNIA DDF: an anchor in the last sector, or 128 KiB before it if a controller has moved it.
fn ddf(ends: &Ends) -> Option<Finding> {
    const MAGIC: [u8; 4] = [0xDE, 0x11, 0xDE, 0x11];
    let at = [512, 4096, 257 * 512]
        .into_iter()
        .filter_map(|from_end| ends.size_bytes().checked_sub(from_end))
        .find(|&at| ends.has(at, &MAGIC))?;
    Some(Finding::at("DDF RAID metadata", at, 4))
}

/// ZFS: four labels of 256 KiB, two at each end; the second half of each is a ring of uberblocks.
pub(super) fn zfs(ends: &Ends) -> Option<Finding> {
    const LABEL: u64 = 256 << 10;
    const MAGIC: u64 = 0x00BA_B10C;
    let end = ends.size_bytes() / LABEL * LABEL;
    let places = [0, LABEL, end.checked_sub(2 * LABEL)?, end - LABEL];
    let is_label = |start: &u64| {
        (start + LABEL / 2..start + LABEL)
            .step_by(1024)
            .any(|at| matches!(ends.u64_at(at), number if number == MAGIC || number == MAGIC.swap_bytes()))
    };
    let marks: Vec<_> = places
        .into_iter()
        .filter(is_label)
        .map(|at| at..at + LABEL)
        .collect();
    (!marks.is_empty()).then(|| Finding {
        what: "a ZFS pool's labels".to_owned(),
        marks,
    })
}
