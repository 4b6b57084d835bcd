//! What the front end is told of a volume's device: its features and its configuration.

use super::chain::SEGMENTS_MAX;
use super::request::{Rules, WITHOUT_DATA_BYTES_MAX};
use super::wire::*;
use crate::export::Offer;
use vhost::vhost_user::VhostUserProtocolFeatures as Protocol;

/// The most queues of a device: as many as processors of a large guest.
pub const QUEUES_MAX: u16 = 64;
/// The page of the processor.
const PAGE_BYTES: u32 = 4096;
/// The length of virtio's configuration of a block device, up to what we know. The rest is zeroes.
const CONFIGURATION_BYTES: usize = 60;
/// The longest configuration of the vhost-user protocol.
const CONFIGURATION_BYTES_MAX: usize = 256;

/// The features of the vhost-user protocol that we have.
#[must_use]
pub fn protocol_features() -> Protocol {
    Protocol::MQ
        | Protocol::REPLY_ACK
        | Protocol::CONFIG
        | Protocol::INFLIGHT_SHMFD
        | Protocol::RESET_DEVICE
        | Protocol::CONFIGURE_MEM_SLOTS
}

/// The features of the device. `VIRTIO_F_IN_ORDER` is not among them: requests are answered as they are done, and the area
/// of requests in flight says which are not (see `in_flight`).
#[must_use]
pub fn features(offer: &Offer) -> u64 {
    let if_so = |condition: bool, feature: u64| if condition { feature } else { 0 };
    FEATURE_VERSION_1
        | FEATURE_PROTOCOL
        | FEATURE_INDIRECT
        | FEATURE_EVENT_INDEX
        | FEATURE_SEGMENTS_MAX
        | FEATURE_BLOCK_SIZE
        | FEATURE_TOPOLOGY
        | FEATURE_FLUSH
        | FEATURE_QUEUES
        | if_so(offer.read_only, FEATURE_READ_ONLY)
        | if_so(!offer.read_only, FEATURE_ZEROES)
        | if_so(offer.discards && !offer.read_only, FEATURE_DISCARD)
}

/// The rules for requests of a guest that has accepted these features.
#[must_use]
pub fn rules(offer: &Offer, accepted: u64) -> Rules {
    Rules {
        size_bytes: offer.size_bytes,
        block_bytes: offer.block_bytes,
        write_through: accepted & FEATURE_FLUSH == 0,
        identity: identity(offer),
    }
}

/// The first half of the volume's UUID, and a little more, in hexadecimal: a guest's `/dev/disk/by-id` has it.
fn identity(offer: &Offer) -> [u8; IDENTITY_BYTES] {
    let digit = |at: usize| offer.identity[at / 2] >> (4 * (1 - at % 2)) & 15;
    std::array::from_fn(|at| b"0123456789abcdef"[usize::from(digit(at))])
}

/// `length` bytes of the configuration, from `offset`. `None` if there cannot be so many.
///
/// | offset | bytes | content |
/// |---|---|---|
/// | 0 | 8 | size in sectors |
/// | 12 | 4 | most segments |
/// | 20 | 4 | block size |
/// | 24 | 1 | blocks of a physical block, as a power of two |
/// | 26 | 2 | best shortest request, in blocks |
/// | 28 | 4 | best length, in blocks |
/// | 32 | 1 | 1: writes may be cached until a flush |
/// | 34 | 2 | queues |
/// | 36 | 4, 4, 4 | discard: most sectors, most ranges, alignment in sectors |
/// | 48 | 4, 4 | zeroes: most sectors, most ranges |
/// | 56 | 1 | zeroes may return space |
#[must_use]
pub fn configuration(offer: &Offer, offset: u32, length: u32) -> Option<Vec<u8>> {
    let end = (offset as usize).checked_add(length as usize)?;
    if end > CONFIGURATION_BYTES_MAX {
        return None;
    }
    let mut all = known(offer).to_vec();
    all.resize(CONFIGURATION_BYTES_MAX, 0);
    Some(all[offset as usize..end].to_vec())
}

fn known(offer: &Offer) -> [u8; CONFIGURATION_BYTES] {
    let block_bytes = offer.block_bytes;
    let physical_bytes = block_bytes.max(PAGE_BYTES);
    let row_bytes = u32::try_from(offer.row_bytes).ok();
    let best_bytes = row_bytes
        .filter(|row_bytes| row_bytes.is_power_of_two())
        .unwrap_or(offer.chunk_bytes);
    let without_data_sectors = (WITHOUT_DATA_BYTES_MAX / SECTOR_BYTES) as u32;
    let mut all = [0; CONFIGURATION_BYTES];
    let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(offer.size_bytes / SECTOR_BYTES).to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &block_bytes.to_le_bytes());
    put(24, &[(physical_bytes / block_bytes).ilog2() as u8]);
    let shortest = u16::try_from(offer.chunk_bytes / block_bytes).unwrap_or(0);
    put(26, &shortest.to_le_bytes());
    put(28, &(best_bytes / block_bytes).to_le_bytes());
    put(32, &[1]);
    put(34, &QUEUES_MAX.to_le_bytes());
    if offer.discards {
        put(36, &without_data_sectors.to_le_bytes());
        put(40, &1u32.to_le_bytes());
        put(44, &(PAGE_BYTES / SECTOR_BYTES as u32).to_le_bytes());
    }
    put(48, &without_data_sectors.to_le_bytes());
    put(52, &1u32.to_le_bytes());
    put(56, &[u8::from(offer.discards)]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::VolumeId;

    fn offer() -> Offer {
        Offer {
            volume: VolumeId(0),
            name: "vol0".into(),
            identity: std::array::from_fn(|at| at as u8 * 17),
            description: String::new(),
            size_bytes: 1 << 30,
            block_bytes: 512,
            chunk_bytes: 64 << 10,
            row_bytes: 192 << 10,
            read_only: false,
            discards: true,
        }
    }

    #[test]
    fn the_configuration_describes_the_volume() {
        let all = configuration(&offer(), 0, 60).unwrap();
        let number = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().unwrap());
        assert_eq!((number(0), number(4)), (1 << 21, 0));
        assert_eq!((number(12), number(20)), (126, 512));
        // 4096 bytes are 2^3 blocks; a row that is no power of two leaves the chunk.
        assert_eq!((all[24], number(28)), (3, 128));
        assert_eq!(all[26..28], [128, 0]);
        assert_eq!(all[34..36], [64, 0]);
        assert_eq!((number(36), number(40), number(44)), (1 << 21, 1, 8));
        assert_eq!((number(48), number(52), all[56]), (1 << 21, 1, 1));
        // Fields that later versions of virtio have added are zeroes.
        assert_eq!(configuration(&offer(), 58, 40).unwrap(), [0; 40]);
        assert_eq!(configuration(&offer(), 250, 7), None);
        assert_eq!(configuration(&offer(), u32::MAX, 7), None);
    }

    #[test]
    fn what_a_volume_cannot_do_is_not_offered() {
        let has = |offer: &Offer, feature: u64| features(offer) & feature != 0;
        let plain = Offer {
            discards: false,
            ..offer()
        };
        assert!(has(&offer(), FEATURE_DISCARD) && !has(&plain, FEATURE_DISCARD));
        assert!(has(&plain, FEATURE_ZEROES));
        assert_eq!(configuration(&plain, 36, 4).unwrap(), [0; 4]);
        let read_only = Offer {
            read_only: true,
            ..offer()
        };
        assert!(has(&read_only, FEATURE_READ_ONLY) && !has(&offer(), FEATURE_READ_ONLY));
        assert!(!has(&read_only, FEATURE_ZEROES | FEATURE_DISCARD));
    }

    #[test]
    fn writes_are_durable_for_a_guest_that_does_not_flush() {
        assert!(rules(&offer(), FEATURE_VERSION_1).write_through);
        let rules = rules(&offer(), FEATURE_VERSION_1 | FEATURE_FLUSH);
        assert!(!rules.write_through);
        assert_eq!(&rules.identity, b"00112233445566778899");
    }
}
