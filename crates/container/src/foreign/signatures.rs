//! Marks at fixed places that need no further checks.

use super::{Ends, Finding};

/// A mark at a fixed place from the start of the drive.
struct Signature {
    what: &'static str,
    offset_bytes: u64,
    mark: &'static [u8],
    /// Where the label is: offset and length; length 0 means no label.
    label: (u64, usize),
}

const fn plain(what: &'static str, offset_bytes: u64, mark: &'static [u8]) -> Signature {
    labelled(what, offset_bytes, mark, (0, 0))
}

const fn labelled(
    what: &'static str,
    offset_bytes: u64,
    mark: &'static [u8],
    label: (u64, usize),
) -> Signature {
    Signature {
        what,
        offset_bytes,
        mark,
        label,
    }
}

const BCACHE_UUID: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS_UUID: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

/// The table, in the order in which findings are reported.
const SIGNATURES: &[Signature] = &[
    // Superblock, bytes 0 and 108.
    labelled("an XFS file system", 0, b"XFSB", (108, 12)),
    // Superblock at 64 KiB, bytes 64 and 299.
    labelled(
        "a btrfs file system",
        0x1_0040,
        b"_BHRfS_M",
        (0x1_012B, 256),
    ),
    // Superblock at 1 KiB.
    plain("an F2FS file system", 1024, b"\x10\x20\xF5\xF2"),
    plain("a JFS file system", 0x8000, b"JFS1"),
    plain("an APFS container", 32, b"NXSB"),
    plain("a squashfs file system", 0, b"hsqs"),
    labelled("an ISO 9660 image", 0x8001, b"CD001", (0x8028, 32)),
    // Boot sector: name of the program that created it, or file system type fields of FAT.
    plain("an NTFS file system", 3, b"NTFS    "),
    plain("an exFAT file system", 3, b"EXFAT   "),
    labelled("a FAT file system", 54, b"FAT12   ", (43, 11)),
    labelled("a FAT file system", 54, b"FAT16   ", (43, 11)),
    labelled("a FAT file system", 82, b"FAT32   ", (71, 11)),
    // Linux swap: the last ten bytes of the first page, for pages of 4 to 64 KiB.
    labelled("Linux swap space", 0xFF6, b"SWAPSPACE2", (1052, 16)),
    labelled("Linux swap space", 0x3FF6, b"SWAPSPACE2", (1052, 16)),
    labelled("Linux swap space", 0xFFF6, b"SWAPSPACE2", (1052, 16)),
    // LUKS 1 and 2, and the second header of LUKS 2 at its first two places.
    plain("a LUKS encrypted volume", 0, b"LUKS\xBA\xBE"),
    plain(
        "the second header of a LUKS encrypted volume",
        0x4000,
        b"SKUL\xBA\xBE",
    ),
    plain("a bcache device", 4096 + 24, BCACHE_UUID),
    plain("a bcachefs file system", 4096 + 24, BCACHEFS_UUID),
    plain("a Ceph BlueStore device", 0, b"bluestore block device"),
];

/// Everything in the table that is on the drive.
#[must_use]
pub fn search(ends: &Ends) -> Vec<Finding> {
    let found = SIGNATURES
        .iter()
        .filter(|signature| ends.has(signature.offset_bytes, signature.mark));
    found
        .map(|signature| {
            let label = ends.label(signature.label.0, signature.label.1);
            let length = signature.mark.len() as u64;
            Finding::at(
                format!("{}{label}", signature.what),
                signature.offset_bytes,
                length,
            )
        })
        .collect()
}
