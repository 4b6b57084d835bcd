//! Offsets of requests: random over the span, with or without a hot part, or sequential within a region.

use super::Broken;
use repeatable::random::Stream;

/// The possible places of requests: `shift_bytes` plus multiples of `stride_bytes`, each `length_bytes` long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Bytes of a request.
    pub length_bytes: u32,
    /// Distance between neighbouring places.
    pub stride_bytes: u32,
    /// Where the first place lies.
    pub shift_bytes: u32,
}

/// In which order places are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each place is as likely as any other.
    Random,
    /// `access_percent` of the requests go to the first `span_percent` of the places. Inside and outside of that part,
    /// each place is as likely as any other.
    Hot {
        /// Share of the requests, in percent.
        access_percent: u8,
        /// Share of the places, in percent.
        span_percent: u8,
    },
    /// Sequentially through the `part`-th of `parts` equal regions, then again from its beginning.
    InOrder {
        /// Which region.
        part: u32,
        /// How many regions there are.
        parts: u32,
    },
}

impl Grid {
    /// Number of places on a target of `span_bytes`.
    fn places(self, span_bytes: u64) -> u64 {
        let first_end = u64::from(self.shift_bytes) + u64::from(self.length_bytes);
        match span_bytes.checked_sub(first_end) {
            Some(rest) => rest / u64::from(self.stride_bytes) + 1,
            None => 0,
        }
    }
}

/// The offsets of one thread.
#[derive(Clone, Debug)]
pub struct Offsets {
    grid: Grid,
    order: Order,
    first: u64,
    places: u64,
    next: u64,
    stream: Stream,
}

impl Offsets {
    /// Offsets on a target of `span_bytes`, drawn from `stream`.
    ///
    /// # Errors
    ///
    /// If the target, or this thread's region of it, has no room for a single request.
    pub fn new(
        grid: Grid,
        order: Order,
        span_bytes: u64,
        stream: Stream,
    ) -> Result<Offsets, Broken> {
        let all = grid.places(span_bytes);
        let (first, places) = match order {
            Order::InOrder { part, parts } => {
                let region = all / u64::from(parts.max(1));
                (region * u64::from(part), region)
            }
            Order::Random | Order::Hot { .. } => (0, all),
        };
        if places == 0 {
            return Err(Broken {
                key: "bs",
                rule: format!(
                    "has no room: requests of {} bytes do not fit each thread's part of {span_bytes} bytes",
                    grid.length_bytes
                ),
            });
        }
        Ok(Offsets {
            grid,
            order,
            first,
            places,
            next: 0,
            stream,
        })
    }

    /// Offset of the next request, in bytes.
    pub fn draw(&mut self) -> u64 {
        let place = match self.order {
            Order::Random => self.stream.below(self.places),
            Order::Hot {
                access_percent,
                span_percent,
            } => self.hot(access_percent, span_percent),
            Order::InOrder { .. } => {
                let place = self.next;
                self.next = if place + 1 == self.places {
                    0
                } else {
                    place + 1
                };
                place
            }
        };
        let stride = u64::from(self.grid.stride_bytes);
        (self.first + place) * stride + u64::from(self.grid.shift_bytes)
    }

    fn hot(&mut self, access_percent: u8, span_percent: u8) -> u64 {
        let hot = u128::from(self.places) * u128::from(span_percent) / 100;
        let hot = (hot as u64).clamp(1, self.places);
        // Both numbers are always drawn, so that the percentages do not change the sequence of the stream.
        let is_hot = self.stream.chance(u64::from(access_percent), 100);
        let number = self.stream.draw();
        match self.places - hot {
            0 => number % hot,
            _ if is_hot => number % hot,
            cold => hot + number % cold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Grid = Grid {
        length_bytes: 4096,
        stride_bytes: 4096,
        shift_bytes: 0,
    };

    fn offsets(grid: Grid, order: Order, span_bytes: u64) -> Offsets {
        Offsets::new(grid, order, span_bytes, Stream::new(1, "offsets", 0)).expect("there is room")
    }

    #[test]
    fn random_offsets_reach_every_place_and_none_beyond() {
        let shifted = Grid {
            shift_bytes: 512,
            ..BLOCK
        };
        // Ten blocks, and one less when shifted.
        for (grid, places) in [(BLOCK, 10), (shifted, 9)] {
            let mut random = offsets(grid, Order::Random, 40_960);
            let mut seen = std::collections::BTreeMap::<u64, u32>::new();
            for _ in 0..10_000 {
                *seen.entry(random.draw()).or_default() += 1;
            }
            assert_eq!(seen.len(), places);
            for (offset, count) in seen {
                assert_eq!(offset % 4096, u64::from(grid.shift_bytes));
                assert!(offset + 4096 <= 40_960);
                assert!(
                    count.abs_diff(10_000 / places as u32) < 130,
                    "{count} at {offset}"
                );
            }
        }
    }

    #[test]
    fn threads_go_through_regions_of_their_own() {
        let span_bytes = 11 * 4096;
        let mut all = Vec::new();
        for part in 0..2 {
            let mut in_order = offsets(BLOCK, Order::InOrder { part, parts: 2 }, span_bytes);
            let first: Vec<u64> = (0..5).map(|_| in_order.draw() / 4096).collect();
            assert_eq!(in_order.draw() / 4096, first[0], "the region begins again");
            all.extend(first);
        }
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn the_hot_part_gets_its_share() {
        let order = Order::Hot {
            access_percent: 90,
            span_percent: 10,
        };
        let mut hot = offsets(BLOCK, order, 1000 * 4096);
        let inside = (0..20_000).filter(|_| hot.draw() < 100 * 4096).count();
        assert!((17_850..=18_150).contains(&inside), "{inside}");
    }

    #[test]
    fn a_span_without_room_is_refused() {
        let order = Order::InOrder { part: 0, parts: 8 };
        for (order, span_bytes) in [(Order::Random, 4095), (order, 7 * 4096)] {
            let refused = Offsets::new(BLOCK, order, span_bytes, Stream::new(1, "", 0));
            assert_eq!(refused.expect_err("no room").key, "bs");
        }
    }
}
