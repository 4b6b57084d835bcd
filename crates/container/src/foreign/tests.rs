//! Each kind of content is found by its mark, and content that only looks similar is not.

use super::*;

const SIZE: u64 = 16 << 20;

fn blank() -> Vec<u8> {
    vec![0; SIZE as usize]
}

fn ends_of(bytes: &[u8]) -> Ends {
    let end = END_BYTES as usize;
    Ends {
        head: bytes[..end].to_vec(),
        tail: bytes[bytes.len() - end..].to_vec(),
        size_bytes: bytes.len() as u64,
    }
}

fn put(bytes: &mut [u8], at: u64, mark: &[u8]) {
    bytes[at as usize..][..mark.len()].copy_from_slice(mark);
}

/// What is found on a drive with `marks`. Also checks that nothing is found after the marks are cleared.
fn found(marks: &[(u64, &[u8])]) -> String {
    let mut bytes = blank();
    for (at, mark) in marks {
        put(&mut bytes, *at, mark);
    }
    let findings = search(&ends_of(&bytes));
    for finding in &findings {
        for mark in &finding.marks {
            bytes[mark.start as usize..mark.end as usize].fill(0);
        }
    }
    assert_eq!(
        search(&ends_of(&bytes)),
        [],
        "content is still found after clearing"
    );
    in_words(&findings)
}

#[test]
fn nothing_on_zeros_or_on_noise() {
    assert_eq!(found(&[]), "nothing");
    let mut noise = blank();
    let mut state = 1u64;
    for byte in &mut noise {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    assert_eq!(search(&ends_of(&noise)), []);
}

#[test]
fn fixed_marks() {
    assert_eq!(
        found(&[(0, b"XFSB"), (108, b"data")]),
        "an XFS file system (label \"data\")"
    );
    assert_eq!(found(&[(0x1_0040, b"_BHRfS_M")]), "a btrfs file system");
    assert_eq!(found(&[(0xFF6, b"SWAPSPACE2")]), "Linux swap space");
    assert_eq!(found(&[(0, b"LUKS\xBA\xBE")]), "a LUKS encrypted volume");
    assert_eq!(
        found(&[(3, b"NTFS    "), (510, &[0x55, 0xAA])]),
        "an NTFS file system"
    );
    assert_eq!(
        found(&[
            (82, b"FAT32   "),
            (71, b"STICK      "),
            (510, &[0x55, 0xAA])
        ]),
        "a FAT file system (label \"STICK\")"
    );
}

#[test]
fn the_ext_family_is_told_apart() {
    let superblock: &[(u64, &[u8])] = &[(1024, &[16]), (1024 + 0x38, &[0x53, 0xEF])];
    let with = |extra: &[(u64, &[u8])]| found(&[superblock, extra].concat());
    assert_eq!(with(&[]), "an ext2 file system");
    assert_eq!(with(&[(1024 + 0x5C, &[4])]), "an ext3 file system");
    assert_eq!(
        with(&[(1024 + 0x60, &[0x40]), (1024 + 0x78, b"home")]),
        "an ext4 file system (label \"home\")"
    );
    // The two magic bytes alone are not enough.
    assert_eq!(found(&[(1024 + 0x38, &[0x53, 0xEF])]), "nothing");
}

fn mbr_entry(kind: u8) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[4] = kind;
    entry[9] = 8;
    entry[13] = 16;
    entry
}

#[test]
fn partition_tables_need_the_mark_and_entries_that_make_sense() {
    let linux = mbr_entry(0x83);
    let boot: (u64, &[u8]) = (510, &[0x55, 0xAA]);
    assert_eq!(
        found(&[boot, (446, &linux), (462, &linux)]),
        "an MBR partition table with 2 partitions"
    );
    assert_eq!(found(&[(446, &linux)]), "nothing");
    assert_eq!(found(&[boot]), "nothing");
    assert_eq!(found(&[boot, (446, &[0x77; 16])]), "nothing");

    let guard = mbr_entry(0xEE);
    let header: &[(u64, &[u8])] = &[
        boot,
        (446, &guard),
        (512, b"EFI PART"),
        (512 + 72, &[2]),
        (512 + 80, &[128]),
        (512 + 84, &[128]),
        (1024, &[0xAF; 16]),
        (SIZE - 512, b"EFI PART"),
    ];
    assert_eq!(found(header), "a GPT partition table with 1 partition");
    assert_eq!(
        found(&header[header.len() - 1..]),
        "the second header of a GPT partition table"
    );
}

#[test]
fn other_raid_and_volume_managers() {
    let magic: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
    assert_eq!(
        found(&[(SIZE - (64 << 10), magic)]),
        "a Linux md superblock (version 0.90)"
    );
    assert_eq!(
        found(&[(SIZE - 8192, magic), (SIZE - 8188, &[1])]),
        "a Linux md superblock (version 1.0)"
    );
    assert_eq!(
        found(&[(0, magic), (4, &[1])]),
        "a Linux md superblock (version 1.1)"
    );
    assert_eq!(
        found(&[(4096, magic), (4100, &[1]), (4096 + 32, b"box:0")]),
        "a Linux md superblock (version 1.2) (array \"box:0\")"
    );
    assert_eq!(
        found(&[(512, b"LABELONE"), (536, b"LVM2 001")]),
        "an LVM2 physical volume"
    );
    assert_eq!(
        found(&[(SIZE - 512, &[0xDE, 0x11, 0xDE, 0x11])]),
        "DDF RAID metadata"
    );
    let uberblock = 0x00BA_B10Cu64.to_le_bytes();
    let label = 128 << 10;
    assert_eq!(
        found(&[(label, &uberblock), (SIZE - (128 << 10), &uberblock)]),
        "a ZFS pool's labels"
    );
}

#[test]
fn several_things_are_all_named() {
    let magic: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
    let words = found(&[(0, b"XFSB"), (SIZE - 8192, magic), (SIZE - 8188, &[1])]);
    assert_eq!(
        words,
        "an XFS file system and a Linux md superblock (version 1.0)"
    );
}
