//! A shared server whose work is booked ahead, not necessarily in the order in which it becomes ready.
//!
//! Reads leave a drive when their flash unit has finished, not in the order in which they were submitted. With only the
//! time at which the server is next free, an early read would wait for a late one that was booked before it. A calendar
//! therefore keeps the busy intervals that lie ahead. New work takes the free time from its own ready time on, split
//! over gaps if necessary. So the server is never idle while there is work, and its busy periods are those of a queue
//! in order of readiness; only the order in which waiting work is served may differ.

use alloc::vec::Vec;

/// A busy stretch of time; its end is excluded.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start_ns: u64,
    end_ns: u64,
}

/// Busy intervals that lie ahead, in order, with gaps between them.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    /// Intervals that are over come first; they are removed many at once.
    busy: Vec<Interval>,
    /// Number of intervals that are over.
    over: usize,
    busy_ns: u64,
}

/// As many intervals as commands usually wait at a busy drive, so that the calendar of a drive that serves in real time
/// need not allocate memory.
const ROOM_INTERVALS: usize = 1024;

impl Calendar {
    /// An empty calendar with room for the usual number of intervals.
    #[must_use]
    pub fn roomy() -> Calendar {
        Calendar {
            // Up to half of the intervals may be over.
            busy: Vec::with_capacity(2 * ROOM_INTERVALS),
            ..Calendar::default()
        }
    }

    /// Books `service_ns` from `ready_ns` on, and returns when the work ends.
    ///
    /// `now_ns` must not decrease from call to call, and `ready_ns` must not be before it: intervals that ended before
    /// `now_ns` are forgotten.
    pub fn reserve(&mut self, now_ns: u64, ready_ns: u64, service_ns: u64) -> u64 {
        while let Some(first) = self.busy.get(self.over)
            && first.end_ns <= now_ns
        {
            self.over += 1;
        }
        if self.over == self.busy.len() {
            self.busy.clear();
            self.over = 0;
        }
        self.busy_ns += service_ns;
        match self.busy.last_mut() {
            // Most work becomes ready after everything that is booked.
            Some(last) if last.end_ns < ready_ns => {}
            Some(last) if last.start_ns <= ready_ns => {
                last.end_ns += service_ns;
                return last.end_ns;
            }
            Some(_) => return self.fill_gaps(ready_ns, service_ns),
            None => {}
        }
        self.make_room();
        let end_ns = ready_ns + service_ns;
        self.busy.push(Interval {
            start_ns: ready_ns,
            end_ns,
        });
        end_ns
    }

    /// Books the free time from `ready_ns` on, where something later is already booked.
    fn fill_gaps(&mut self, ready_ns: u64, service_ns: u64) -> u64 {
        self.make_room();
        let ahead = &self.busy[self.over..];
        let at = self.over + ahead.partition_point(|interval| interval.end_ns < ready_ns);
        let mut left_ns = service_ns;
        let gap_ns = self.busy[at].start_ns.saturating_sub(ready_ns);
        if gap_ns > 0 {
            if left_ns < gap_ns {
                let end_ns = ready_ns + left_ns;
                let alone = Interval {
                    start_ns: ready_ns,
                    end_ns,
                };
                self.busy.insert(at, alone);
                return end_ns;
            }
            self.busy[at].start_ns = ready_ns;
            if left_ns == gap_ns {
                return ready_ns + gap_ns;
            }
            left_ns -= gap_ns;
        }
        // The interval grows through the gaps behind it and absorbs the intervals between them.
        let mut end_ns = self.busy[at].end_ns;
        let mut next = at + 1;
        let done_ns = loop {
            let next_ns = self.busy.get(next).map_or(u64::MAX, |next| next.start_ns);
            let gap_ns = next_ns - end_ns;
            if left_ns < gap_ns {
                end_ns += left_ns;
                break end_ns;
            }
            end_ns = self.busy[next].end_ns;
            next += 1;
            if left_ns == gap_ns {
                break next_ns;
            }
            left_ns -= gap_ns;
        };
        self.busy[at].end_ns = end_ns;
        let swallowed = next - at - 1;
        if swallowed > 0 {
            self.busy.copy_within(next.., at + 1);
            self.busy.truncate(self.busy.len() - swallowed);
        }
        done_ns
    }

    /// Makes room for one more interval: reuses the room of those that are over, if they are many, instead of
    /// allocating.
    fn make_room(&mut self) {
        if self.busy.len() == self.busy.capacity() && 2 * self.over >= self.busy.len() {
            self.busy.drain(..self.over);
            self.over = 0;
        }
    }

    /// Total service time booked so far.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Number of intervals that are kept.
    #[must_use]
    pub fn interval_count(&self) -> usize {
        self.busy.len() - self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use repeatable::random::Stream;

    #[test]
    fn an_early_one_does_not_wait_for_a_late_one_booked_before_it() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.reserve(0, 100, 10), 110);
        assert_eq!(calendar.reserve(0, 20, 10), 30);
        // Split over the gap before 100 and the time after 110.
        assert_eq!(calendar.reserve(0, 95, 10), 115);
        assert_eq!(calendar.reserve(0, 95, 10), 125);
        assert_eq!(calendar.interval_count(), 2);
        assert_eq!(calendar.busy_ns(), 40);
    }

    /// Compares the calendar with a server that marks every nanosecond as free or taken.
    #[test]
    fn agrees_with_a_list_of_nanoseconds() {
        let mut stream = Stream::new(1, "calendar", 0);
        let mut calendar = Calendar::default();
        let mut taken = std::vec![false; 60_000];
        let mut now_ns = 0;
        for _ in 0..3000 {
            now_ns += stream.below(18);
            let ready_ns = now_ns + stream.below(120);
            let service_ns = 1 + stream.below(16);
            let mut at = ready_ns as usize;
            let mut left = service_ns;
            while left > 0 {
                if !taken[at] {
                    taken[at] = true;
                    left -= 1;
                }
                at += 1;
            }
            assert_eq!(calendar.reserve(now_ns, ready_ns, service_ns), at as u64);
            assert!(calendar.interval_count() <= 120);
        }
    }
}
