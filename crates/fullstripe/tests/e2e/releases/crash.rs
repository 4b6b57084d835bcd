//! Making crashed arrays: the real program writes, is killed, and what a crash at a worse moment would have left is
//! put on the drives by hand: a write that has reached one copy only, parity that does not fit, torn records.

use super::kept::{Duty, Kept, Ledger, SECTOR_BYTES, Write, content};
use crate::common::{Bed, MIB};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Little more than the metadata's reserve.
const DRIVE_BYTES: u64 = 8 * MIB;
const VOLUME: &str = "data";

/// A kind of crash.
pub struct Crash {
    name: &'static str,
    level: u8,
    members: usize,
    options: &'static [&'static str],
    duty: Duty,
    /// Puts on the drives what the crash left; returns a write that was in flight.
    damage: fn(&Bed, Write) -> Option<Write>,
}

/// All that are kept of a version.
pub const ALL: &[Crash] = &[
    Crash {
        name: "raid1-dirty",
        level: 1,
        members: 2,
        options: &[],
        duty: Duty::Resync,
        damage: one_copy_only,
    },
    Crash {
        name: "raid1-torn-records",
        level: 1,
        members: 2,
        options: &[],
        duty: Duty::UseShadows,
        damage: torn_records,
    },
    Crash {
        name: "raid10-bitmap",
        level: 10,
        members: 4,
        options: &["--chunk", "64k", "--write-hole", "bitmap"],
        duty: Duty::ResyncMarked,
        damage: one_copy_only,
    },
    Crash {
        name: "raid5-log",
        level: 5,
        members: 3,
        options: &["--chunk", "64k", "--write-hole", "log"],
        duty: Duty::Replay,
        damage: wrong_parity,
    },
    Crash {
        name: "raid5-dirty",
        level: 5,
        members: 3,
        options: &["--chunk", "64k", "--write-hole", "off"],
        duty: Duty::Resync,
        damage: wrong_parity,
    },
];

/// First byte and length of each write; the last is one block of the first chunk, the only one in the newest unit of
/// a log. Each damage is done to that block.
const WRITES: [(u64, u64); 7] = [
    (0, 96 << 10),
    (64 << 10, 4096),
    (300 << 10, 132 << 10),
    (301 << 10, 512),
    (1 << 20, 3 << 10),
    (700 << 10, 64 << 10),
    (0, 4096),
];

impl Crash {
    /// Makes the array and keeps it.
    pub fn keep_in(&self, release: &Path) {
        let bed = Bed::new(self.members, DRIVE_BYTES);
        bed.create(VOLUME, self.level, bed.drives(), self.options);
        let server = bed.serve(bed.drives()).start();
        let mut client = server.client(VOLUME);
        let volume_bytes = client.size_bytes;
        let mut writes = Vec::new();
        for (number, (offset_bytes, length_bytes)) in (1..).zip(WRITES) {
            let write = Write {
                number,
                offset_bytes,
                length_bytes,
                acknowledged: true,
            };
            let bytes = bytes_of(&write);
            client.write(offset_bytes, &bytes).expect("it is written");
            writes.push(write);
        }
        server.kill();
        bed.wait_released();
        let next = Write {
            number: WRITES.len() as u32 + 1,
            offset_bytes: 0,
            length_bytes: 4096,
            acknowledged: false,
        };
        writes.extend((self.damage)(&bed, next));
        let ledger = Ledger {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            level: self.level,
            members: self.members,
            volume: VOLUME.to_owned(),
            volume_bytes,
            duty: self.duty,
            writes,
        };
        Kept::pack(&bed, &ledger, release, self.name);
    }
}

fn bytes_of(write: &Write) -> Vec<u8> {
    let first = write.offset_bytes / SECTOR_BYTES as u64;
    let count = write.length_bytes / SECTOR_BYTES as u64;
    let sectors = first..first + count;
    sectors
        .flat_map(|sector| content(write.number, sector))
        .collect()
}

fn put(bed: &Bed, drive: usize, offset_bytes: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(bed.drive(drive));
    let file = file.expect("the drive is there");
    file.write_all_at(bytes, offset_bytes)
        .expect("it can be written");
}

/// A mirrored write has reached the first drive, which has the volume's first chunk at its beginning.
fn one_copy_only(bed: &Bed, write: Write) -> Option<Write> {
    put(bed, 0, write.offset_bytes, &bytes_of(&write));
    Some(write)
}

/// The parity of the last write has been half written. The first row's is on the last drive.
fn wrong_parity(bed: &Bed, _: Write) -> Option<Write> {
    put(bed, bed.drives().len() - 1, 1024, &[0xA5; 2048]);
    None
}

/// An update of the record was cut off on every drive, behind the header in the last sector but one.
fn torn_records(bed: &Bed, write: Write) -> Option<Write> {
    for drive in 0..bed.drives().len() {
        put(bed, drive, DRIVE_BYTES - 1024 + 300, &[0xFF; 8]);
    }
    one_copy_only(bed, write)
}
