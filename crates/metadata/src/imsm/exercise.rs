//! The fuzz target, which ordinary tests can call too. It reads arbitrary bytes as a write-hole log and
//! replays it. It also reads them as a drive's metadata region, repairs what would only get them rejected (signature,
//! length, checksum), and applies every rule to the resulting record. Nothing may panic, and a record that can be read
//! must stay the same when it is written and read again.

use super::choose::{Candidate, Content, choose};
use super::codec::{DecodeError, RecordIdentity, RecordPrint, checksum};
use super::place::{Placement, decode_region, encode_image};
use super::shadow::{self, Shadow};
use super::start::{StartOptions, start_mode};
use super::{Mpb, SectorSize, Serial, Uuid, log};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

const SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. 1.3.00\0\0";

/// See the module's documentation.
#[doc(hidden)]
pub fn fuzz_one(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let sector = if first & 1 == 0 {
        SectorSize::Bytes512
    } else {
        SectorSize::Bytes4096
    };
    log::exercise(rest, first, sector);
    let _ = decode_region(rest, sector);
    as_shadow(rest, sector);
    let Ok(mpb) = Mpb::decode(&repaired(rest), sector) else {
        return;
    };
    if let Ok(bytes) = mpb.encode(sector) {
        // Encoding sets the attributes that follow from the rest of the record; after that, decoding and
        // encoding must change nothing any more.
        let again = Mpb::decode(&bytes, sector).expect("what was encoded can be decoded");
        let bytes_again = again
            .encode(sector)
            .expect("what was decoded can be encoded");
        assert!(
            bytes_again == bytes,
            "a record changes when it is read and written"
        );
        let _ = encode_image(&mpb, sector);
    }
    torn_everywhere(&mpb, sector, first);
    put_through_the_rules(mpb, sector, first);
}

/// Size of the drives from which shadows are read here: large enough for every place.
const DRIVE_BYTES: u64 = 64 << 20;

/// Reads the bytes as a shadow, and as the record in an otherwise whole shadow.
fn as_shadow(bytes: &[u8], sector: SectorSize) {
    let placement = Placement::new(DRIVE_BYTES, sector).expect("the drive is large enough");
    let mut marked = shadow::MAGIC.to_vec();
    marked.extend_from_slice(bytes);
    for bytes in [bytes, &marked] {
        let _ = shadow::decode(bytes, &placement, sector);
    }
    let sealed = shadow::seal(&repaired(bytes), None);
    let Ok(Some(found)) = shadow::decode(&sealed, &placement, sector) else {
        return;
    };
    let Ok(again) = shadow::encode(&found.mpb, found.replaced, sector) else {
        return;
    };
    let again = shadow::decode(&again, &placement, sector);
    assert!(
        matches!(again, Ok(Some(_))),
        "a shadow cannot be read once it has been read and written: {again:?}"
    );
}

/// Puts the record, torn, on every drive that it lists, with shadows of it and of the one before.
fn torn_everywhere(mpb: &Mpb, sector: SectorSize, choice: u8) {
    let Ok(bytes) = mpb.encode(sector) else {
        return;
    };
    let print = RecordPrint::of(&bytes).unwrap_or_default();
    let identity = print.identity;
    let candidates: Vec<Candidate> = (0u32..)
        .zip(mpb.disks.iter().take(8))
        .map(|(row, disk)| {
            let behind = u32::from(choice >> row & 1);
            let claims = RecordIdentity {
                generation: identity.generation.wrapping_sub(behind),
                ..identity
            };
            let shadow = Shadow {
                mpb: Mpb {
                    generation: claims.generation,
                    ..mpb.clone()
                },
                print: RecordPrint {
                    identity: claims,
                    crc: None,
                },
                replaced: Some(print).filter(|_| choice & 32 != 0),
            };
            Candidate {
                name: String::from("drive"),
                serial: disk.serial,
                total_sectors: disk.total_sectors,
                sector,
                content: Content::Damaged(DecodeError::Checksum {
                    computed: 0,
                    claims,
                }),
                shadow: Some(Box::new(shadow)),
            }
        })
        .collect();
    for found in choose(&candidates).containers {
        if let Ok(mut assembly) = found.outcome {
            let from_shadows = assembly.unfinished.as_ref().is_some_and(|u| u.from_shadows);
            let serving = assembly.present().contains(&true);
            assert!(from_shadows || !serving, "no record, but members serve");
            let _ = assembly.record_absences(|_| true);
        }
    }
}

/// `bytes` with the signature, length and checksum that a reader requires.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut record = bytes.to_vec();
    let length = record.len() / 4 * 4;
    record.truncate(length);
    if length < 0x28 {
        return record;
    }
    record[..SIGNATURE.len()].copy_from_slice(SIGNATURE);
    record[0x24..0x28].copy_from_slice(&(length as u32).to_le_bytes());
    record[0x20..0x24].fill(0);
    let sum = checksum(&record);
    record[0x20..0x24].copy_from_slice(&sum.to_le_bytes());
    record
}

fn put_through_the_rules(mut mpb: Mpb, sector: SectorSize, choice: u8) {
    let candidate = |serial: Serial, total_sectors| Candidate {
        name: String::from("drive"),
        serial,
        total_sectors,
        sector,
        content: Content::Record(Box::new(mpb.clone())),
        shadow: None,
    };
    let candidates: Vec<Candidate> = mpb
        .disks
        .iter()
        .take(8)
        .map(|disk| candidate(disk.serial, disk.total_sectors))
        .collect();
    let present: Vec<bool> = (0..mpb.disks.len())
        .map(|row| choice >> (row % 7) & 2 == 0)
        .collect();
    let options = StartOptions {
        degraded: choice & 4 != 0,
        accept_write_hole: choice & 8 != 0,
        accept_unsynced: choice & 16 != 0,
        trust_returned_drive: choice & 32 != 0,
    };
    for found in choose(&candidates).containers {
        if let Ok(mut assembly) = found.outcome {
            let _ = assembly.record_absences(|_| true);
        }
    }
    for at in 0..mpb.volumes.len() {
        let _ = start_mode(&mpb, at, &present, options);
        let _ = Uuid::of_volume(&mpb, at);
        let _ = mpb.volumes[at].checkpoint_sector();
        let _ = mpb.set_dirty(at, true);
    }
    for row in 0..mpb.disks.len() {
        let _ = mpb.mark_failed(row);
    }
    for at in 0..mpb.volumes.len() {
        let _ = mpb.finish_sync(at);
        let _ = mpb.finish_rebuild(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn bytes_of_every_kind_are_survived() {
        fuzz_one(&[]);
        fuzz_one(&vec![0; 4096]);
        fuzz_one(&vec![0xFF; 2048]);
        let mut seed = 1u64;
        for length in 0..2000 {
            let mut bytes = Vec::with_capacity(length);
            for _ in 0..length {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                // Mostly zeros, as records are.
                bytes.push(if seed >> 60 < 12 {
                    0
                } else {
                    (seed >> 40) as u8 % 7
                });
            }
            fuzz_one(&bytes);
        }
        // A case that the fuzzer has found: an attribute says that there is a bad-block log, but there is none.
        let mut record = vec![0; 0xD8 + 1];
        record[0] = 1;
        record[1 + 0x34..1 + 0x38].copy_from_slice(&0x7C00_0000u32.to_le_bytes());
        fuzz_one(&record);
    }
}
