//! The parallel flash units of a drive: each can read one piece at a time.
//!
//! A unit stands for as many dies and planes as it takes for the drive to behave like this number of independent
//! servers. At the units, two commands wait for each other only if their data is on the same unit, so the placement of
//! data is part of the model.

use crate::server::{Pace, Server};
use alloc::vec::Vec;
use repeatable::random::mix;

/// Least amount that a unit reads, however large the drive's map units are: what its error correction covers at once.
pub const READ_MIN_BYTES: u64 = 4096;

/// How the data was written, which determines where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Written sequentially: consecutive stripes go to consecutive units, and each round begins with another unit.
    Striped,
    /// Written at random: each map unit may be on any flash unit.
    Scattered,
    /// Every map unit on all flash units, as on no real drive: a read takes the unit that is free first. This shows
    /// what collisions cost.
    Everywhere,
}

/// A piece of a command that one unit serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its offset on the drive.
    pub offset_bytes: u64,
    /// Its length; a piece never crosses a stripe's border.
    pub length_bytes: u64,
}

impl Piece {
    /// Bytes of flash that a read of it takes: whole multiples of [`READ_MIN_BYTES`].
    #[must_use]
    pub fn media_bytes(self) -> u64 {
        self.touched_bytes(READ_MIN_BYTES)
    }

    /// Bytes of all the parts of this size, such as map units, that it covers in full or in part.
    #[must_use]
    pub fn touched_bytes(self, part_bytes: u64) -> u64 {
        let first = self.offset_bytes / part_bytes;
        let end = (self.offset_bytes + self.length_bytes).div_ceil(part_bytes);
        (end - first) * part_bytes
    }

    /// Bytes of the parts of this size that it covers in full.
    #[must_use]
    pub fn filled_bytes(self, part_bytes: u64) -> u64 {
        let first = self.offset_bytes.div_ceil(part_bytes);
        let end = (self.offset_bytes + self.length_bytes) / part_bytes;
        end.saturating_sub(first) * part_bytes
    }
}

/// The flash units, and the reads booked on them.
#[derive(Clone, Debug)]
pub struct Units {
    servers: Vec<Server>,
    placement: Placement,
    stripe_bytes: u64,
    map_unit_bytes: u64,
    read_ns: u64,
    transfer: Pace,
    salt: u64,
}

impl Units {
    /// `count` units. A read of [`READ_MIN_BYTES`] takes `read_ns`, and each further byte its `transfer` time. What is
    /// longer than `stripe_bytes` continues on the next unit, and a map unit is never spread over two. `salt` makes the
    /// placements of drives differ.
    ///
    /// # Panics
    /// Without a unit, or with a stripe that is not a multiple of the map unit.
    #[must_use]
    pub fn new(
        count: usize,
        placement: Placement,
        [stripe_bytes, map_unit_bytes]: [u64; 2],
        read_ns: u64,
        transfer: Pace,
        salt: u64,
    ) -> Units {
        assert!(count > 0, "a drive without units serves nothing");
        assert!(
            stripe_bytes > 0 && stripe_bytes.is_multiple_of(map_unit_bytes),
            "a stripe is made of map units"
        );
        Units {
            servers: alloc::vec![Server::default(); count],
            placement,
            stripe_bytes,
            map_unit_bytes,
            read_ns,
            transfer,
            salt,
        }
    }

    /// Number of units.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.servers.len() as u64
    }

    /// The pieces of a command, in order.
    pub fn pieces(
        &self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> impl Iterator<Item = Piece> + use<> {
        let stripe_bytes = self.stripe_bytes;
        let end_bytes = offset_bytes + length_bytes;
        let mut at_bytes = offset_bytes;
        core::iter::from_fn(move || {
            if at_bytes >= end_bytes {
                return None;
            }
            let stripe_end = (at_bytes / stripe_bytes + 1) * stripe_bytes;
            let piece = Piece {
                offset_bytes: at_bytes,
                length_bytes: stripe_end.min(end_bytes) - at_bytes,
            };
            at_bytes = stripe_end;
            Some(piece)
        })
    }

    /// The unit on which a piece lies.
    #[must_use]
    pub fn unit_of(&self, offset_bytes: u64) -> usize {
        let count = self.count();
        let unit = match self.placement {
            Placement::Everywhere => self.free_first(),
            Placement::Striped => {
                let stripe = offset_bytes / self.stripe_bytes;
                let turn = mix((stripe / count) ^ self.salt) % count;
                (stripe % count + turn) % count
            }
            Placement::Scattered => {
                let hashed = mix((offset_bytes / self.map_unit_bytes) ^ self.salt);
                // The upper half times the count: a multiplication instead of a division.
                ((hashed >> 32) * count) >> 32
            }
        };
        unit as usize
    }

    fn free_first(&self) -> u64 {
        let units = self.servers.iter().zip(0..);
        let free = units.min_by_key(|(server, _)| server.free_at_ns());
        free.map_or(0, |(_, unit)| unit)
    }

    /// How long a unit is busy with reading `media_bytes` of flash.
    #[must_use]
    pub fn read_time_ns(&self, media_bytes: u64) -> u64 {
        let more_bytes = media_bytes.saturating_sub(READ_MIN_BYTES);
        self.read_ns + self.transfer.time_ns(more_bytes)
    }

    /// Whether the unit has no reads at this time.
    #[must_use]
    pub fn is_idle(&self, unit: usize, at_ns: u64) -> bool {
        self.servers[unit].is_idle(at_ns)
    }

    /// When a unit has finished work that arrives at `ready_ns` and takes `service_ns`.
    pub fn serve(&mut self, unit: usize, ready_ns: u64, service_ns: u64) -> u64 {
        self.servers[unit].serve(ready_ns, service_ns)
    }

    /// Total service time of all units.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.servers.iter().map(Server::busy_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(placement: Placement) -> Units {
        let transfer = Pace::of_bytes_per_s(400_000_000);
        Units::new(36, placement, [65_536, 4096], 50_000, transfer, 7)
    }

    #[test]
    fn a_command_is_cut_at_stripes_and_costs_whole_map_units() {
        let units = units(Placement::Striped);
        let pieces: std::vec::Vec<Piece> = units.pieces(65_024, 66_560).collect();
        let lengths: std::vec::Vec<u64> = pieces.iter().map(|piece| piece.length_bytes).collect();
        assert_eq!(lengths, [512, 65_536, 512]);
        let media: std::vec::Vec<u64> = pieces.iter().map(|piece| piece.media_bytes()).collect();
        assert_eq!(media, [4096, 65_536, 4096]);
        // 4 KiB that are not aligned lie in two map units.
        let piece = units.pieces(512, 4096).next().expect("one piece");
        assert_eq!(piece.media_bytes(), 8192);
        assert_eq!(units.read_time_ns(4096), 50_000);
        assert_eq!(units.read_time_ns(8192), 60_240);
    }

    #[test]
    fn stripes_in_order_use_each_unit_once_a_round() {
        let units = units(Placement::Striped);
        for round in 0..50_u64 {
            let mut seen = [0_u32; 36];
            for stripe in 0..36 {
                seen[units.unit_of((round * 36 + stripe) * 65_536)] += 1;
            }
            assert_eq!(seen, [1; 36]);
        }
    }

    #[test]
    fn scattered_data_lie_evenly() {
        let units = units(Placement::Scattered);
        let mut seen = [0_u32; 36];
        for page in 0..360_000_u64 {
            seen[units.unit_of(page * 4096)] += 1;
        }
        // The standard deviation of a binomial count with mean 10,000 is 99.
        assert!(
            seen.iter().all(|&count| (9500..10_500).contains(&count)),
            "{seen:?}"
        );
    }
}
