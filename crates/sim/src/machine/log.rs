//! Units of write-hole logs: headers in the real format, and the partial parities after them.

use super::Machine;
use engine::limits::LOG_HEADER_BYTES;
use engine::log::unit::LogUnit;
use engine::plan::Segment;
use engine::units::Buffer;
use metadata::crc32c::crc32c;
use metadata::imsm::log::HEADER_BYTES;

/// Fills a unit's header, given the checksum of each entry's partial parity.
pub(super) type Encoder = Box<dyn FnMut(&LogUnit, &[u32], &mut [u8; HEADER_BYTES])>;

impl Machine {
    /// Assembles a unit in the process's memory.
    pub fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        let mut parities = Vec::new();
        for segment in partial_parities {
            parities.extend_from_slice(self.memory(segment.buffer, segment.length_bytes as usize));
        }
        let mut rest = &parities[..];
        let mut checksums = Vec::with_capacity(unit.entries.len());
        for entry in &unit.entries {
            let (own, others) = rest.split_at(entry.partial_parity_bytes as usize);
            checksums.push(crc32c(own));
            rest = others;
        }
        assert!(rest.is_empty(), "partial parity that no entry lists");
        let mut header = [0; HEADER_BYTES];
        if let Some(encoder) = &mut self.log_encoder {
            encoder(unit, &checksums, &mut header);
        }
        self.memory_mut(image, HEADER_BYTES)
            .copy_from_slice(&header);
        self.memory_mut(image.at(LOG_HEADER_BYTES), parities.len())
            .copy_from_slice(&parities);
    }
}
