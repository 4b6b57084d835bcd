//! Recognises sequential writers: see [`crate::shard::plans::hold`].

use crate::limits::STREAMS_MAX;

/// Writes in order before a stream is recognised.
const STREAM_WRITES_MIN: u32 = 8;

/// The same after the stream has been waited for in vain again and again.
const STREAM_WRITES_MAX: u32 = 4096;

/// Where rows are dealt to several shards, a stream continues on this shard after a gap of at most so many rows.
const ROWS_LEFT_TO_OTHERS: u64 = 256;

/// A sequence of writes each of which begins where the one before ended.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where its next write would begin.
    next_bytes: u64,
    /// Writes in order so far.
    length: u32,
    /// Writes in order before it is worth waiting for.
    needed: u32,
    /// It has continued since its place was last wanted for another stream.
    goes_on: bool,
}

impl Stream {
    /// A stream whose next write would begin there.
    const fn at(next_bytes: u64) -> Stream {
        Stream {
            next_bytes,
            length: 0,
            needed: STREAM_WRITES_MIN,
            goes_on: false,
        }
    }

    /// Whether its next write would begin inside a row, behind the row's first byte.
    fn is_in_row(&self, begin_bytes: u64, row_bytes: u64) -> bool {
        self.next_bytes.wrapping_sub(begin_bytes + 1) < row_bytes - 1
    }

    fn learn(&mut self, came: bool) {
        if came {
            self.needed = STREAM_WRITES_MIN;
        } else if self.length >= self.needed {
            self.needed = (self.needed * 2).min(STREAM_WRITES_MAX);
            self.length = 0;
        }
    }
}

/// The streams that a volume follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    streams: [Stream; STREAMS_MAX],
    /// The place that the next new stream may get.
    hand: u8,
}

impl Streams {
    /// No stream is followed yet.
    pub const fn new() -> Streams {
        Streams {
            streams: [Stream::at(0); STREAMS_MAX],
            hand: 0,
        }
    }

    /// Takes note of a write. `row_bytes` is given if rows are dealt to several shards: a stream that ended with a
    /// row then continues at the beginning of a later one.
    #[inline]
    pub(crate) fn note(&mut self, offset_bytes: u64, length_bytes: u32, row_bytes: Option<u64>) {
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

    /// Whether the next write of a stream that was waited for is no longer in the middle of this row.
    pub fn has_come(&self, stream: usize, begin_bytes: u64, row_bytes: u64) -> bool {
        !self.streams[stream].is_in_row(begin_bytes, row_bytes)
    }

    /// A stream was waited for; the rest of the row `came`, or did not. Of a row with several bands the first one
    /// decides.
    pub fn learn(&mut self, stream: usize, came: bool) {
        self.streams[stream].learn(came);
    }

    /// The recognised stream whose next write would begin inside these bytes, behind the first one.
    pub(crate) fn in_row(&self, begin_bytes: u64, row_bytes: u64) -> Option<usize> {
        self.streams.iter().position(|stream| {
            stream.length >= stream.needed && stream.is_in_row(begin_bytes, row_bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE_BYTES: u32 = 4 << 10;

    /// Notes `count` sequential writes from `from` on; returns where the next one would begin.
    fn write(streams: &mut Streams, from: u64, count: u32) -> u64 {
        for at in 0..u64::from(count) {
            streams.note(from + at * u64::from(WRITE_BYTES), WRITE_BYTES, None);
        }
        from + u64::from(count) * u64::from(WRITE_BYTES)
    }

    fn is_recognised(streams: &Streams, next_bytes: u64) -> bool {
        // A row of two bytes, at the second of which the next write would begin.
        streams.in_row(next_bytes - 1, 2).is_some()
    }

    #[test]
    fn a_stream_is_recognised_after_some_writes_wherever_it_begins() {
        for from in [0, 1 << 20] {
            let mut streams = Streams::new();
            // At a new place the first write is only noted; at offset 0 a stream is expected from the start.
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
