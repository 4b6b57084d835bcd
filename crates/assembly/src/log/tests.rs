//! What the encoder of units writes is what a replay reads.

use super::encoder;
use engine::log::unit::{LogEntry, LogUnit};
use engine::units::{Slot, VolumeId};
use metadata::imsm::SectorSize;
use metadata::imsm::log::{Entry, HEADER_BYTES, Header};

#[test]
fn a_header_that_was_encoded_says_what_the_unit_is_about() {
    const SIGNATURE: u32 = 0x1234_5678;
    let unit = LogUnit {
        volume: VolumeId(1),
        slot: Slot(3),
        generation: (1 << 33) + 9,
        entries: vec![
            LogEntry {
                data_offset_bytes: 3 * 4096,
                data_bytes: 4096,
                partial_parity_bytes: 8192,
            },
            LogEntry {
                data_offset_bytes: (1 << 42) + 4096,
                data_bytes: 1 << 16,
                partial_parity_bytes: 0,
            },
        ],
    };
    let entry = |data_sector, data_bytes, partial_parity_bytes, checksum| Entry {
        data_sector,
        partial_parity_bytes,
        data_bytes,
        parity_slot: 3,
        checksum,
    };
    for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
        let mut bytes = [7; HEADER_BYTES];
        encoder(SIGNATURE, sector)(&unit, &[11, 0], &mut bytes);
        let read = Header::decode(&bytes, SIGNATURE, sector).unwrap();
        let wanted = Header {
            signature: SIGNATURE,
            generation: unit.generation,
            entries: vec![
                entry(24, 4096, 8192, 11),
                entry((1 << 33) + 8, 1 << 16, 0, 0),
            ],
        };
        assert_eq!(read, wanted);
    }
}
