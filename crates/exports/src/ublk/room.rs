//! Whether the memory of a server suffices for the devices that an earlier one has made.
//!
//! A device keeps its number of queues, their depth and the longest request as long as it exists, so a server that takes it
//! over needs as much memory for its tags as the one before ([`super::limits`]). With less, or with the same memory divided
//! among more data threads or more kinds of clients, a queue has no memory. That has to be known before the kernel is asked to
//! let the device be taken over: Linux before 6.15 allows that once for each server that has served all tags of a queue.

use super::limits::Shape;
use anyhow::{Context, Result, bail};
use drives::ublk::{Control, DeviceInfo};
use std::path::{Path, PathBuf};
use words::{and, size};

/// What dividing the memory among data threads and kinds of clients may lose of each part: less than two pages.
const LOST_BYTES_MAX: u64 = 2 * 4096;

/// What a device that exists needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    node: PathBuf,
    queues: u16,
    shape: Shape,
}

impl Kept {
    /// The device `/dev/ublkbN` with this number, and what the kernel tells of it.
    #[must_use]
    pub fn new(number: u32, queues: u16, depth: u16, request_bytes_max: u32) -> Kept {
        Kept {
            node: super::device::block_device(number),
            queues,
            shape: Shape {
                depth,
                request_bytes_max,
            },
        }
    }

    pub(super) fn of(info: &DeviceInfo) -> Kept {
        Kept::new(info.number, info.queues, info.depth, info.request_bytes_max)
    }
}

/// What the block devices `nodes`, such as `/dev/ublkb0`, keep.
///
/// # Errors
/// One of them is no ublk device, or the kernel does not tell of it.
pub fn kept<'a>(nodes: impl Iterator<Item = &'a Path>) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    for node in nodes {
        let name = node.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("ublkb")?.parse().ok());
        let number = number.with_context(|| format!("{} is no ublk device", node.display()))?;
        found.push(Kept::of(&Control::open()?.info(number)?));
    }
    Ok(found)
}

/// The shard that serves a queue. The kernel makes no more queues than processors, so there may be fewer than shards; a device
/// that was made for more shards has more.
pub(super) fn shard_of(queue: u16, shards: u8) -> u8 {
    (queue % u16::from(shards)) as u8
}

/// The memory that each shard needs for the devices, if there are so many shards.
fn shard_bytes_min(kept: &[Kept], shards: u8) -> u64 {
    let of_shard = |shard: u8| -> u64 {
        let devices = kept.iter().map(|device| {
            let queues = (0..device.queues).filter(|queue| shard_of(*queue, shards) == shard);
            let shape = device.shape;
            queues.count() as u64 * u64::from(shape.depth) * u64::from(shape.request_bytes_max)
        });
        devices.sum()
    };
    let most = (0..shards).map(of_shard).max().unwrap_or_default();
    most + LOST_BYTES_MAX
}

/// How the memory of a server is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divided {
    /// All of it.
    pub memory_bytes: u64,
    /// Among so many shards,
    pub shards: u8,
    /// and in each of them among so many kinds of clients.
    pub kinds: usize,
}

/// A server has too little memory for devices that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLittle {
    /// The devices, in words.
    pub devices: String,
    /// How much each data thread has for devices, in words.
    pub has: String,
    /// How much it would need, in words.
    pub needs: String,
    /// The least memory that suffices with as many shards, in MiB.
    pub memory_mib_min: u64,
    /// The largest number of shards with which the memory suffices.
    pub shards_max: Option<u8>,
}

impl Divided {
    fn shard_bytes(&self, shards: u8) -> u64 {
        self.memory_bytes / u64::from(shards) / self.kinds.max(1) as u64
    }

    /// Why not all of these devices can be served; `None` if they can.
    #[must_use]
    pub fn too_little_for(&self, kept: &[Kept]) -> Option<TooLittle> {
        let suffices = |shards: &u8| shard_bytes_min(kept, *shards) <= self.shard_bytes(*shards);
        if kept.is_empty() || suffices(&self.shards) {
            return None;
        }
        let needs = shard_bytes_min(kept, self.shards);
        let least = needs * u64::from(self.shards) * self.kinds.max(1) as u64;
        let nodes: Vec<_> = kept
            .iter()
            .map(|one| one.node.display().to_string())
            .collect();
        Some(TooLittle {
            devices: and(&nodes),
            has: size(self.shard_bytes(self.shards)),
            needs: size(needs),
            memory_mib_min: least.div_ceil(1 << 20),
            shards_max: (1..self.shards).rev().find(suffices),
        })
    }

    /// Refuses to take the devices over if they cannot all be served.
    ///
    /// # Errors
    /// One sentence, which says what would suffice.
    pub(super) fn refuse_too_little_for(&self, kept: &[Kept]) -> Result<()> {
        let Some(lacks) = self.too_little_for(kept) else {
            return Ok(());
        };
        let TooLittle {
            devices,
            has,
            needs,
            memory_mib_min,
            shards_max,
        } = lacks;
        let fewer = shards_max.map(|shards| format!(", or with --shards {shards}"));
        bail!(
            "{devices} of an earlier server would need {needs} of memory on each data thread, and each has {has} for devices; nothing \
             was done to what waits there: serve with --memory {memory_mib_min}m or more{}",
            fewer.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ublk::descriptor::Rules;
    use crate::ublk::tags::Tags;
    use drives::arena::{Arena, ArenaOptions, Pool};
    use engine::units::VolumeId;

    fn device(number: u32, queues: u16, shape: Shape) -> Kept {
        Kept::new(number, queues, shape.depth, shape.request_bytes_max)
    }

    fn shape(depth: u16, kilobytes: u32) -> Shape {
        Shape {
            depth,
            request_bytes_max: kilobytes << 10,
        }
    }

    fn divided(megabytes: u64, shards: u8, kinds: usize) -> Divided {
        Divided {
            memory_bytes: megabytes << 20,
            shards,
            kinds,
        }
    }

    /// The device of a server with the settings that a server has without any.
    fn usual() -> [Kept; 1] {
        let pool_bytes = (128 << 20) / 2;
        [device(0, 1, Shape::fitting(pool_bytes, 1).unwrap())]
    }

    #[test]
    fn the_same_settings_suffice_and_others_that_divide_less_memory_do_not() {
        let lacks = |divided: Divided| divided.too_little_for(&usual()).is_some();
        assert!(!lacks(divided(128, 1, 2)));
        for changed in [divided(64, 1, 2), divided(128, 2, 2), divided(128, 1, 3)] {
            assert!(lacks(changed), "{changed:?}");
        }
        assert_eq!(divided(1, 1, 2).too_little_for(&[]), None);
    }

    #[test]
    fn what_would_suffice_is_said() {
        let said = |divided: Divided| {
            divided
                .refuse_too_little_for(&usual())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            said(divided(64, 1, 2)),
            "/dev/ublkb0 of an earlier server would need 56.0 MiB of memory on each data thread, and each has 32 MiB for devices; \
             nothing was done to what waits there: serve with --memory 113m or more"
        );
        assert!(
            said(divided(128, 4, 2))
                .ends_with("serve with --memory 449m or more, or with --shards 1")
        );
        for (given, sufficient) in [
            (divided(64, 1, 2), divided(113, 1, 2)),
            (divided(128, 4, 2), divided(449, 4, 2)),
            (divided(128, 4, 2), divided(128, 1, 2)),
        ] {
            assert!(given.too_little_for(&usual()).is_some());
            assert_eq!(sufficient.too_little_for(&usual()), None);
        }
    }

    #[test]
    fn the_shard_with_most_queues_counts() {
        let three = [device(0, 3, shape(8, 64)), device(1, 1, shape(8, 64))];
        let queue_bytes = 8 * (64 << 10);
        let least = |shards| shard_bytes_min(&three, shards) - LOST_BYTES_MAX;
        assert_eq!(
            [1, 2, 3, 5].map(least),
            [4, 3, 2, 2].map(|queues| queues * queue_bytes)
        );
    }

    /// With the memory that is said to be the least, the ports have room for all tags, however the arena is divided.
    #[test]
    fn the_memory_that_suffices_is_enough_for_the_tags() {
        for (shards, kinds) in [(1_u8, 1), (1, 3), (2, 2), (3, 2), (5, 3)] {
            let devices = [
                device(0, 4, shape(9, 64)),
                device(1, 2, shape(11, 128)),
                device(2, 3, shape(8, 64)),
            ];
            let memory_bytes = shard_bytes_min(&devices, shards) * u64::from(shards) * kinds as u64;
            let exact = Divided {
                memory_bytes,
                shards,
                kinds,
            };
            assert_eq!(exact.too_little_for(&devices), None);
            let arena = Arena::new(ArenaOptions {
                length_bytes: memory_bytes as usize,
                prefault: false,
                lock: false,
            });
            for (shard, pool) in Pool::divide(&arena.unwrap(), shards.into())
                .into_iter()
                .enumerate()
            {
                let pool = pool.split(kinds).pop().unwrap();
                let mut tags = Tags::new(pool);
                for device in &devices {
                    let rules = Rules {
                        size_bytes: 1 << 30,
                        block_bytes: 512,
                        request_bytes_max: device.shape.request_bytes_max,
                    };
                    let queues = (0..device.queues)
                        .filter(|queue| usize::from(shard_of(*queue, shards)) == shard);
                    for _ in queues {
                        assert!(tags.has_room(device.shape.depth, rules.request_bytes_max));
                        let begun =
                            tags.begin(VolumeId(0), rules, device.shape.depth, &mut Vec::new());
                        assert!(begun.is_some(), "{shards} shards, {kinds} kinds of clients");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_ublk_device_is_named() {
        let error = kept([Path::new("/dev/nbd0")].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "/dev/nbd0 is no ublk device");
    }
}
