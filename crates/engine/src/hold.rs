//! Sequential small writes become full stripes: the last, incomplete row of a sequential stream is held
//! back while earlier rows of it are being written.
//!
//! A partial row costs reads of old data and parity; the same row complete costs none. When a client
//! writes in order with many requests in flight, the rest of the row arrives as soon as an earlier row is
//! acknowledged. So the row waits as long as other write plans of the volume run, at most [`HOLD_FOR`],
//! and never when it is all that there is: then waiting could only cost time.

use crate::layout::Level;
use crate::limits::VOLUMES_MAX;
use crate::ranges::{BandKey, NONE, PartKind};
use crate::shard::Engine;
use crate::units::Nanos;

/// Longest time that a row is held back: of the order of one write to an NVMe drive.
pub(crate) const HOLD_FOR: Nanos = Nanos(500_000);
/// Bands that can be held back at the same time; a stream holds those of its last row.
pub(crate) const HELD_MAX: usize = 16 * VOLUMES_MAX;
/// Writes in order before a stream is recognised.
const STREAM_WRITES_MIN: u32 = 8;

/// How a volume is being written to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// Where the next write of the stream would begin.
    next_bytes: u64,
    /// Writes in order so far.
    length: u32,
}

/// A band that is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBand {
    key: BandKey,
    pub since: Nanos,
}

impl Engine {
    /// Follows the stream: a write in order continues it. Where rows are dealt to several shards, the
    /// beginning of a row does too.
    #[inline]
    pub(crate) fn note_write(&mut self, at: usize, offset_bytes: u64, length_bytes: u32) {
        let volume = &mut self.volumes[at];
        let stream = &mut volume.stream;
        let in_order = offset_bytes == stream.next_bytes
            || (self.shards > 1 && offset_bytes.is_multiple_of(volume.shape.row_bytes()));
        stream.length = if in_order {
            stream.length.saturating_add(1)
        } else {
            0
        };
        stream.next_bytes = offset_bytes + u64::from(length_bytes);
    }

    /// Whether chosen parts had better wait for the rest of their row; if so they are back in the queue.
    pub(crate) fn worth_holding(&mut self, entry: u32, parts: u32) -> bool {
        let key = self.ranges.key(entry);
        let volume = &self.volumes[key.volume as usize];
        let streaming = volume.stream.length >= STREAM_WRITES_MIN && volume.plans_writing > 0;
        if !streaming || volume.shape.level != Level::Raid5 || self.held_bands.len() == HELD_MAX {
            return false;
        }
        let (row, low, high) = volume.band_range(key.band);
        let next_row = volume.stream.next_bytes / volume.shape.row_bytes();
        let starts_row = volume
            .stream
            .next_bytes
            .is_multiple_of(volume.shape.row_bytes());
        let mut missing = u64::from(high - low) * u64::from(volume.shape.data_members());
        let mut part = parts;
        while part != NONE {
            let piece = &self.ranges.parts[part];
            if piece.alone || !matches!(piece.kind, PartKind::Write { .. }) {
                return false;
            }
            missing -= u64::from(piece.high - piece.low);
            part = piece.next;
        }
        if missing == 0 || next_row != row || starts_row {
            return false;
        }
        self.ranges.requeue_quietly(key, parts);
        if !self.held_bands.iter().any(|held| held.key == key) {
            self.held_bands.push(HeldBand {
                key,
                since: self.now,
            });
        }
        true
    }

    /// Lets go of bands that have waited long enough, or that nothing keeps waiting any more.
    #[inline]
    pub(crate) fn release_held_bands(&mut self) {
        let mut at = 0;
        while at < self.held_bands.len() {
            let HeldBand { key, since } = self.held_bands[at];
            let volume = &mut self.volumes[key.volume as usize];
            let overdue = self.now.since(since) >= HOLD_FOR;
            if overdue {
                // It was not a stream after all.
                volume.stream.length = 0;
            }
            let row = volume.band_range(key.band).0;
            let passed = volume.stream.next_bytes / volume.shape.row_bytes() != row;
            if overdue || passed || volume.plans_writing == 0 {
                self.held_bands.swap_remove(at);
                self.ranges.wake(key);
            } else {
                at += 1;
            }
        }
    }
}
