//! Sequential writes become full stripes: the last, incomplete row of a sequential stream is held back while
//! earlier rows are being written.
//!
//! A partial row costs reads of old data and parity; the same row complete costs none. When a client writes in order
//! with many requests in flight, the rest of the row arrives as soon as an earlier row is acknowledged. So the row
//! waits while write plans still run that ran when it arrived, and a moment longer, in which the client can send its
//! next write: drives set the pace, and no clock has to guess it. A row does not begin to wait when no write plan
//! runs: then waiting could only cost time.
//!
//! Several clients may write in order at once, each somewhere else: a volume follows [`STREAMS_MAX`] of them. A
//! client with too few requests in flight never completes a row; each wait for it in vain doubles the number of
//! writes after which its stream is waited for again.

use crate::order::held::HeldBand;
use crate::order::ranges::PartKind;
use crate::shard::Engine;
use crate::units::Nanos;

/// Longest time that a row is held back, in case a drive hangs: far more than a write takes when drives work.
const HOLD_FOR: Nanos = Nanos(20_000_000);

/// How long a client takes to send the next write after an answer, even through a socket.
const ANSWER_TAKES: Nanos = Nanos(50_000);

/// Plans do not end quite in their order. So waiting has been in vain only when this many times as many plans have
/// ended as ran when it began.
const ENDS_PER_PLAN: u32 = 2;

impl Engine {
    /// Takes note of a write, to recognise streams of the volume.
    #[inline]
    pub(crate) fn note_write(&mut self, at: usize, offset_bytes: u64, length_bytes: u32) {
        let several = self.desk.shards() > 1;
        let volume = &mut self.volumes[at];
        let row_bytes = several.then(|| volume.shape().row_bytes());
        volume
            .streams_mut()
            .note(offset_bytes, length_bytes, row_bytes);
    }

    /// Whether chosen parts had better wait for the rest of their row; if so they are back in the queue.
    pub(crate) fn worth_holding(&mut self, entry: u32, parts: u32) -> bool {
        let key = self.order.ranges.key(entry);
        let volume = &self.volumes[key.volume as usize];
        if !volume.shape().has_parity() {
            return false;
        }
        let (row, low, high) = volume.band_range(key.band);
        let row_bytes = volume.shape().row_bytes();
        let Some(stream) = volume.streams().in_row(row * row_bytes, row_bytes) else {
            return false;
        };
        let mut missing = u64::from(high - low) * u64::from(volume.shape().data_members());
        for piece in self.order.ranges.chain(parts) {
            if piece.alone || !matches!(piece.kind, PartKind::Write { .. }) {
                return false;
            }
            let rest = missing.checked_sub(u64::from(piece.high - piece.low));
            missing = rest.expect("merged writes do not overlap");
        }
        if missing == 0 {
            return false;
        }
        let ends = volume.writes().plans() * ENDS_PER_PLAN;
        let is_last_moment = ends == 0;
        let longest = if is_last_moment {
            ANSWER_TAKES
        } else {
            HOLD_FOR
        };
        let held = HeldBand {
            key,
            stream,
            until_ended: volume.writes().count_after(ends),
            until: self.desk.now().after(longest),
            is_last_moment,
        };
        if !self.order.held_bands.hold(held) {
            return false;
        }
        self.order.ranges.requeue_quietly(key, parts);
        true
    }

    /// Releases bands that have waited long enough, or whose stream has left the row.
    #[inline]
    pub(crate) fn release_held_bands(&mut self) {
        let now = self.desk.now();
        let (volumes, ranges) = (&mut self.volumes, &mut self.order.ranges);
        self.order.held_bands.release(|held| {
            let volume = &mut volumes[held.key.volume as usize];
            let row = volume.band_range(held.key.band).0;
            let row_bytes = volume.shape().row_bytes();
            let all_ended = volume.writes().has_come_to(held.until_ended);
            if (all_ended || volume.writes().plans() == 0) && !held.is_last_moment {
                held.is_last_moment = true;
                held.until = held.until.min(now.after(ANSWER_TAKES));
            }
            let came = volume
                .streams()
                .has_come(held.stream, row * row_bytes, row_bytes);
            let is_over = came || now >= held.until;
            if is_over {
                volume.streams_mut().learn(held.stream, came);
                ranges.wake(held.key);
            }
            is_over
        });
    }
}
