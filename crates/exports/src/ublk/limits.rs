//! The limits of a volume's block device: from the volume, and from the memory that its tags may use.
//!
//! Every tag owns memory for the longest request all the time, because the kernel copies the data of a write before it
//! says that there is one. So depth and longest request follow from the payload memory. An eighth of it stays free: tags
//! whose memory a hung drive still uses get other memory from there.

use super::descriptor::Rules;
use crate::export::Offer;
use drives::ublk::{Attributes, Parameters, SECTOR_BYTES};

/// Lengths of the longest request, the best first: 512 KiB is what the kernel's own limit allows most file systems.
const REQUEST_BYTES: [u32; 4] = [512 << 10, 256 << 10, 128 << 10, 64 << 10];
/// More requests at a time than this gain nothing.
const DEPTH_MOST: u64 = 128;
/// A shorter longest request is better than fewer tags than this.
const DEPTH_GOOD: u64 = 64;
/// Fewer tags than this are not worth a device.
const DEPTH_LEAST: u64 = 8;
/// The longest discard, and the longest request to write zeroes.
const WITHOUT_DATA_BYTES_MAX: u64 = 1 << 30;
/// The page of the processor: no logical block is longer.
const PAGE_BYTES: u32 = 4096;

/// Depth and longest request of the queues of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tags of each queue.
    pub depth: u16,
    /// The longest request with data: a power of two.
    pub request_bytes_max: u32,
}

impl Shape {
    /// Divides `pool_bytes` of a shard among the queues of `devices`. Returns `None` if it does not suffice.
    #[must_use]
    pub fn fitting(pool_bytes: u64, devices: usize) -> Option<Shape> {
        let share_bytes = (pool_bytes - pool_bytes / 8) / devices.max(1) as u64;
        let depth = |request_bytes: u32| (share_bytes / u64::from(request_bytes)).min(DEPTH_MOST);
        let good = REQUEST_BYTES
            .iter()
            .find(|&&bytes| depth(bytes) >= DEPTH_GOOD);
        let request_bytes_max = *good.unwrap_or(&REQUEST_BYTES[REQUEST_BYTES.len() - 1]);
        let depth = depth(request_bytes_max);
        (depth >= DEPTH_LEAST).then_some(Shape {
            depth: depth as u16,
            request_bytes_max,
        })
    }

    /// The least memory of a shard with which [`Shape::fitting`] finds something.
    #[must_use]
    pub fn least_pool_bytes(devices: usize) -> u64 {
        let needed =
            DEPTH_LEAST * u64::from(REQUEST_BYTES[REQUEST_BYTES.len() - 1]) * devices as u64;
        (needed * 8).div_ceil(7).next_multiple_of(4096)
    }
}

/// The rules for requests of a volume's device.
#[must_use]
pub fn rules(offer: &Offer, shape: Shape) -> Rules {
    Rules {
        size_bytes: offer.size_bytes,
        block_bytes: offer.block_bytes,
        request_bytes_max: shape.request_bytes_max,
    }
}

/// What the kernel is told of a volume's device.
#[must_use]
pub fn parameters(offer: &Offer, shape: Shape) -> Parameters {
    assert!(
        offer.block_bytes.is_power_of_two()
            && u64::from(offer.block_bytes) >= SECTOR_BYTES
            && offer.block_bytes <= PAGE_BYTES,
        "blocks of {} bytes cannot be those of a block device",
        offer.block_bytes
    );
    let row = u32::try_from(offer.row_bytes)
        .ok()
        .filter(|row| row.is_power_of_two());
    Parameters {
        attributes: Attributes {
            read_only: offer.read_only,
            // Drives may have caches, and whether all of them are safe can change when a drive is replaced.
            volatile_cache: true,
            fua: true,
        },
        size_bytes: offer.size_bytes,
        logical_block_bytes: offer.block_bytes,
        physical_block_bytes: PAGE_BYTES,
        io_min_bytes: offer.chunk_bytes,
        io_optimal_bytes: row.unwrap_or(offer.chunk_bytes),
        request_bytes_max: shape.request_bytes_max,
        discard_bytes_max: if offer.discards {
            WITHOUT_DATA_BYTES_MAX
        } else {
            0
        },
        zeroes_bytes_max: WITHOUT_DATA_BYTES_MAX,
        discard_unit_bytes: PAGE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::VolumeId;

    fn offer(row_bytes: u64) -> Offer {
        Offer {
            volume: VolumeId(0),
            name: "vol0".into(),
            identity: [1; 16],
            description: String::new(),
            size_bytes: 1 << 30,
            block_bytes: 512,
            chunk_bytes: 128 << 10,
            row_bytes,
            read_only: false,
            discards: true,
        }
    }

    #[test]
    fn depth_and_request_follow_from_the_memory() {
        let shape = |megabytes: u64, devices| {
            Shape::fitting(megabytes << 20, devices)
                .map(|shape| (shape.depth, shape.request_bytes_max >> 10))
        };
        assert_eq!(shape(128, 1), Some((128, 512)));
        assert_eq!(shape(64, 1), Some((112, 512)));
        assert_eq!(shape(64, 2), Some((112, 256)));
        assert_eq!(shape(8, 1), Some((112, 64)));
        assert_eq!(shape(1, 1), Some((14, 64)));
        assert_eq!(shape(1, 2), None);
    }

    #[test]
    fn the_least_memory_is_enough_and_less_is_not() {
        for devices in [1, 3] {
            let least = Shape::least_pool_bytes(devices);
            assert!(Shape::fitting(least, devices).is_some());
            assert_eq!(Shape::fitting(least - 4096, devices), None);
        }
    }

    #[test]
    fn the_best_length_is_the_row_where_that_is_a_power_of_two() {
        let shape = Shape::fitting(64 << 20, 1).unwrap();
        assert_eq!(
            parameters(&offer(512 << 10), shape).io_optimal_bytes,
            512 << 10
        );
        assert_eq!(
            parameters(&offer(384 << 10), shape).io_optimal_bytes,
            128 << 10
        );
        assert_eq!(
            parameters(&offer(1 << 40), shape).io_optimal_bytes,
            128 << 10
        );
    }

    #[test]
    fn a_volume_without_discards_still_takes_zeroes() {
        let shape = Shape::fitting(64 << 20, 1).unwrap();
        let plain = Offer {
            discards: false,
            ..offer(1 << 19)
        };
        let told = parameters(&plain, shape);
        assert_eq!(
            (told.discard_bytes_max, told.zeroes_bytes_max),
            (0, 1 << 30)
        );
        assert_eq!(
            rules(&plain, shape).request_bytes_max,
            told.request_bytes_max
        );
    }
}
