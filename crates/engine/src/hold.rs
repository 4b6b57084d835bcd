//! Sequential writes become full stripes: the last, incomplete row of a sequential stream is held back while
//! earlier rows are being written.
//!
//! A partial row costs reads of old data and parity; the same row complete costs none. When a client writes in order
//! with many requests in flight, the rest of the row arrives as soon as an earlier row is acknowledged. So the row
//! waits while write plans that ran when it came still run, and a moment longer, for the client to answer: drives set
//! the pace, and no clock has to guess it. It does not begin to wait when it is all that there is: then waiting could
//! only cost time.
//!
//! Several clients may write in order at once, each somewhere else: a volume follows [`STREAMS_MAX`] of them. A client with
//! too few requests in flight never completes a row; each wait for it in vain doubles the number of writes after which
//! its stream is waited for again.

use crate::layout::Level;
use crate::limits::{STREAMS_MAX, VOLUMES_MAX};
use crate::ranges::{BandKey, NONE, PartKind};
use crate::shard::Engine;
use crate::units::Nanos;

/// Longest time that a row is held back, should a drive hang: far more than a write takes to drives that work.
const HOLD_FOR: Nanos = Nanos(20_000_000);
/// What a client, also one behind a socket, takes to send the next write after an answer.
const ANSWER_TAKES: Nanos = Nanos(50_000);
/// Bands that can be held back at the same time; a stream holds those of its last row.
pub(crate) const HELD_MAX: usize = 32 * VOLUMES_MAX;
/// Writes in order before a stream is recognised.
const STREAM_WRITES_MIN: u32 = 8;
/// The same after waiting for it in vain again and again.
const STREAM_WRITES_MAX: u32 = 4096;
/// Rows between the end of one and the beginning of another within which a stream may go on where rows are dealt to
/// several shards.
const ROWS_LEFT_TO_OTHERS: u64 = 256;
/// Plans are not quite answered in their order: as many times those that ran may end before waiting was in vain.
const ENDS_PER_PLAN: u32 = 2;

/// Somebody who writes in order.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where its next write would begin.
    next_bytes: u64,
    /// Writes in order so far.
    length: u32,
    /// Writes in order before it is waited for.
    needed: u32,
    /// It went on since its place was last wanted for another one.
    goes_on: bool,
}

impl Stream {
    /// One that would go on there.
    const fn at(next_bytes: u64) -> Stream {
        Stream {
            next_bytes,
            length: 0,
            needed: STREAM_WRITES_MIN,
            goes_on: false,
        }
    }

    /// Whether it is in the middle of a row.
    fn is_in_row(&self, begin_bytes: u64, row_bytes: u64) -> bool {
        self.next_bytes.wrapping_sub(begin_bytes + 1) < row_bytes - 1
    }

    /// It was waited for, and the rest of the row came, or did not. Of a row with several bands the first one tells.
    fn learn(&mut self, came: bool) {
        if came {
            self.needed = STREAM_WRITES_MIN;
        } else if self.length >= self.needed {
            self.needed = (self.needed * 2).min(STREAM_WRITES_MAX);
            self.length = 0;
        }
    }
}

/// Those that a volume follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    streams: [Stream; STREAMS_MAX],
    /// The place that another one gets next.
    hand: u8,
}

impl Streams {
    /// None yet.
    pub const fn new() -> Streams {
        Streams {
            streams: [Stream::at(0); STREAMS_MAX],
            hand: 0,
        }
    }

    /// Takes note of a write. `row_bytes`, if rows are dealt to several shards: a stream that ended with a row goes on
    /// with the beginning of a later one.
    #[inline]
    fn note(&mut self, offset_bytes: u64, length_bytes: u32, row_bytes: Option<u64>) {
        let end_bytes = offset_bytes + u64::from(length_bytes);
        let is_next = |stream: &Stream| stream.next_bytes == offset_bytes;
        let mut found = self.streams.iter().position(is_next);
        if let (None, Some(row_bytes)) = (found, row_bytes)
            && offset_bytes.is_multiple_of(row_bytes)
        {
            found = self.streams.iter().position(|stream| {
                let ahead = offset_bytes.wrapping_sub(stream.next_bytes);
                ahead <= ROWS_LEFT_TO_OTHERS * row_bytes && ahead.is_multiple_of(row_bytes)
            });
        }
        if let Some(at) = found {
            let stream = &mut self.streams[at];
            stream.next_bytes = end_bytes;
            stream.length = stream.length.saturating_add(1);
            stream.goes_on = true;
            return;
        }
        let stream = &mut self.streams[self.hand as usize];
        self.hand = (self.hand + 1) % STREAMS_MAX as u8;
        if stream.goes_on {
            stream.goes_on = false;
            return;
        }
        *stream = Stream::at(end_bytes);
    }

    /// The recognised stream whose next write would go into these bytes, but not to their beginning.
    fn in_row(&self, begin_bytes: u64, row_bytes: u64) -> Option<usize> {
        self.streams.iter().position(|stream| {
            stream.length >= stream.needed && stream.is_in_row(begin_bytes, row_bytes)
        })
    }
}

/// A band that is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBand {
    key: BandKey,
    /// Which stream it waits for.
    stream: usize,
    /// The volume's count of ended write plans when all those have ended that it waits for.
    until_ended: u32,
    /// When it waits no longer.
    pub until: Nanos,
    /// What it waits for has ended; only the client may still answer.
    is_last_moment: bool,
}

impl HeldBand {
    pub fn key(&self) -> BandKey {
        self.key
    }
}

impl Engine {
    /// Follows the streams of a volume.
    #[inline]
    pub(crate) fn note_write(&mut self, at: usize, offset_bytes: u64, length_bytes: u32) {
        let several = self.desk.shards() > 1;
        let volume = &mut self.volumes[at];
        let row_bytes = several.then(|| volume.shape.row_bytes());
        volume.streams.note(offset_bytes, length_bytes, row_bytes);
    }

    /// Whether chosen parts had better wait for the rest of their row; if so they are back in the queue.
    pub(crate) fn worth_holding(&mut self, entry: u32, parts: u32) -> bool {
        let key = self.order.ranges.key(entry);
        let volume = &self.volumes[key.volume as usize];
        if volume.shape.level != Level::Raid5 {
            return false;
        }
        let (row, low, high) = volume.band_range(key.band);
        let row_bytes = volume.shape.row_bytes();
        let Some(stream) = volume.streams.in_row(row * row_bytes, row_bytes) else {
            return false;
        };
        let mut missing = u64::from(high - low) * u64::from(volume.shape.data_members());
        let mut part = parts;
        while part != NONE {
            let piece = &self.order.ranges.parts[part];
            if piece.alone || !matches!(piece.kind, PartKind::Write { .. }) {
                return false;
            }
            let rest = missing.checked_sub(u64::from(piece.high - piece.low));
            missing = rest.expect("merged writes do not overlap");
            part = piece.next;
        }
        if missing == 0 {
            return false;
        }
        let ends = volume.plans_writing * ENDS_PER_PLAN;
        let is_last_moment = ends == 0;
        let longest = if is_last_moment {
            ANSWER_TAKES
        } else {
            HOLD_FOR
        };
        let held = HeldBand {
            key,
            stream,
            until_ended: volume.plans_ended.wrapping_add(ends),
            until: self.desk.now().after(longest),
            is_last_moment,
        };
        // If it is held already, more of the row came, and there is more to wait for.
        if let Some(at) = self
            .order
            .held_bands
            .iter()
            .position(|held| held.key == key)
        {
            self.order.held_bands[at] = held;
        } else if !is_last_moment && self.order.held_bands.len() < HELD_MAX {
            self.order.held_bands.push(held);
        } else {
            return false;
        }
        self.order.ranges.requeue_quietly(key, parts);
        true
    }

    /// Lets go of bands that have waited long enough, or that nothing keeps waiting any more.
    #[inline]
    pub(crate) fn release_held_bands(&mut self) {
        let mut at = 0;
        while at < self.order.held_bands.len() {
            let held = &mut self.order.held_bands[at];
            let volume = &mut self.volumes[held.key.volume as usize];
            let row = volume.band_range(held.key.band).0;
            let row_bytes = volume.shape.row_bytes();
            let all_ended = volume.plans_ended.wrapping_sub(held.until_ended) as i32 >= 0;
            if (all_ended || volume.plans_writing == 0) && !held.is_last_moment {
                held.is_last_moment = true;
                held.until = held.until.min(self.desk.now().after(ANSWER_TAKES));
            }
            let stream = &mut volume.streams.streams[held.stream];
            let came = !stream.is_in_row(row * row_bytes, row_bytes);
            if came || self.desk.now() >= held.until {
                stream.learn(came);
                let key = held.key;
                self.order.held_bands.swap_remove(at);
                self.order.ranges.wake(key);
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE_BYTES: u32 = 4 << 10;

    /// `count` writes in order from there; where the next one would begin.
    fn write(streams: &mut Streams, from: u64, count: u32) -> u64 {
        for at in 0..u64::from(count) {
            streams.note(from + at * u64::from(WRITE_BYTES), WRITE_BYTES, None);
        }
        from + u64::from(count) * u64::from(WRITE_BYTES)
    }

    fn is_recognised(streams: &Streams, next_bytes: u64) -> bool {
        // A row of which nothing is left but the place of the next write.
        streams.in_row(next_bytes - 1, 2).is_some()
    }

    #[test]
    fn a_stream_is_recognised_after_some_writes_wherever_it_begins() {
        for from in [0, 1 << 20] {
            let mut streams = Streams::new();
            // A new place is noted with its first write; the very beginning is expected.
            let first = u32::from(from > 0);
            let next = write(&mut streams, from, first + STREAM_WRITES_MIN - 1);
            assert!(!is_recognised(&streams, next), "{from}");
            let next = write(&mut streams, next, 1);
            assert!(is_recognised(&streams, next), "{from}");
        }
    }

    #[test]
    fn several_are_followed_beside_writes_at_random() {
        let mut streams = Streams::new();
        let mut next: [u64; STREAMS_MAX - 1] = core::array::from_fn(|at| (1 + at as u64) << 30);
        for turn in 0..40 {
            for next in &mut next {
                *next = write(&mut streams, *next, 1);
            }
            streams.note((100 + turn * 7 % 13) << 30, WRITE_BYTES, None);
        }
        assert!(next.iter().all(|&next| is_recognised(&streams, next)));
    }

    #[test]
    fn waiting_in_vain_is_rarer_each_time_and_forgotten_when_it_was_of_use() {
        let mut streams = Streams::new();
        let next = write(&mut streams, 0, STREAM_WRITES_MIN);
        streams.streams[0].learn(false);
        let next = write(&mut streams, next, 2 * STREAM_WRITES_MIN - 1);
        assert!(!is_recognised(&streams, next));
        let next = write(&mut streams, next, 2);
        assert!(is_recognised(&streams, next));
        streams.streams[0].learn(true);
        assert_eq!(streams.streams[0].needed, STREAM_WRITES_MIN);
    }
}
