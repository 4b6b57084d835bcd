//! Assembles units of write-hole logs for writing.
//!
//! A unit is written as one contiguous piece: a header, whose format the encoder knows, and right behind it the partial
//! parities. They are copied there because the plans that computed them continue as soon as the unit is durable, and
//! because a short contiguous write is the cheapest.

use super::RingWorld;
use crate::port::Port;
use engine::limits::{LOG_ENTRIES_MAX, LOG_HEADER_BYTES};
use engine::log::unit::LogUnit;
use engine::plan::Segment;
use engine::units::Buffer;

/// Bytes of a unit's header.
pub const HEADER_BYTES: usize = LOG_HEADER_BYTES as usize;

/// Writes a unit's header. Its arguments are the unit, the CRC-32C of each entry's partial parity (of no bytes if the
/// entry has none), and the header to fill in. It has to set every byte, because the header still has its previous
/// content.
pub type LogEncoder = Box<dyn FnMut(&LogUnit, &[u32], &mut [u8; HEADER_BYTES]) + Send>;

impl<P: Port> RingWorld<P> {
    pub(super) fn encode_unit(
        &mut self,
        unit: &LogUnit,
        mut partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        self.finish_ram();
        let arena = self.ring.arena();
        let mut checksums = [0; LOG_ENTRIES_MAX];
        let mut to = image.at(LOG_HEADER_BYTES);
        for (entry, checksum) in unit.entries.iter().zip(&mut checksums) {
            let mut left_bytes = entry.partial_parity_bytes;
            while left_bytes > 0 {
                let Some(piece) = partial_parities.next() else {
                    break;
                };
                *checksum = arena.copy_summing(piece.buffer, to, piece.length_bytes, *checksum);
                to = to.at(piece.length_bytes);
                left_bytes = left_bytes.saturating_sub(piece.length_bytes);
            }
        }
        let checksums = &checksums[..unit.entries.len()];
        (self.log_encoder)(unit, checksums, &mut self.log_header);
        arena.write(image, &*self.log_header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::tests::{at, get, put, world};
    use engine::log::unit::LogEntry;
    use engine::plan::{Plan, Step, StepKind};
    use engine::units::{Slot, VolumeId};

    /// A plan whose partial parities lie at the given arena offsets with the given lengths.
    fn sources(pieces: &[(Buffer, u32)]) -> Plan {
        let mut plan = Plan::with_capacity(4, 4);
        for &(buffer, length_bytes) in pieces {
            let kind = StepKind::Log {
                data_offset_bytes: 0,
                data_bytes: length_bytes,
            };
            plan.push(Step::compute(kind, 0, length_bytes));
            plan.add_source(buffer);
        }
        plan
    }

    #[test]
    fn a_unit_is_a_header_and_the_partial_parities_behind_it() {
        let mut world = world([]);
        world.log_encoder = Box::new(|unit, checksums, header| {
            header.fill(0);
            header[0] = unit.entries.len() as u8;
            for (place, checksum) in header[4..].chunks_exact_mut(4).zip(checksums) {
                place.copy_from_slice(&checksum.to_le_bytes());
            }
        });
        put(&world, 0, &[0xEE; 16 << 10]);
        put(&world, 65536, b"123456789");
        put(&world, 70000, &[7; 512]);
        // The first partial parity lies in two places.
        let plan = sources(&[
            (at(&world, 65536), 4),
            (at(&world, 65540), 5),
            (at(&world, 70000), 512),
        ]);
        let entry = |partial_parity_bytes| LogEntry {
            data_offset_bytes: 0,
            data_bytes: partial_parity_bytes,
            partial_parity_bytes,
        };
        let unit = LogUnit {
            volume: VolumeId(0),
            slot: Slot(0),
            generation: 1,
            // The second entry changes a whole row, so it has no partial parity.
            entries: vec![entry(9), entry(0), entry(512)],
        };
        let image = at(&world, 0);
        let memory = plan.steps().iter().flat_map(|step| plan.segments_of(step));
        world.encode_unit(&unit, memory, image);
        let header = get(&world, 0, HEADER_BYTES);
        assert_eq!(header[0], 3);
        // The check value of CRC-32C, by its definition the sum of "123456789".
        assert_eq!(header[4..8], 0xE306_9283u32.to_le_bytes());
        assert_eq!(
            header[8..12],
            [0; 4],
            "the entry of a whole row has no checksum"
        );
        assert_eq!(header[12..16], crc32c::crc32c(&[7; 512]).to_le_bytes());
        assert!(header[16..].iter().all(|&byte| byte == 0));
        assert_eq!(get(&world, LOG_HEADER_BYTES, 9), b"123456789");
        assert_eq!(get(&world, LOG_HEADER_BYTES + 9, 512), [7; 512]);
        assert_eq!(get(&world, LOG_HEADER_BYTES + 521, 1), [0xEE]);
    }
}
