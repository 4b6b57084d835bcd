//! A server that serves in the order of arrival; the time at which it is next free describes it.

/// One server with a queue in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Server {
    free_at_ns: u64,
    busy_ns: u64,
}

impl Server {
    /// When work that arrives at `ready_ns` and takes `service_ns` is finished.
    pub fn serve(&mut self, ready_ns: u64, service_ns: u64) -> u64 {
        self.free_at_ns = self.free_at_ns.max(ready_ns) + service_ns;
        self.busy_ns += service_ns;
        self.free_at_ns
    }

    /// Whether nothing is in service or waiting at this time.
    #[must_use]
    pub fn is_idle(&self, at_ns: u64) -> bool {
        self.free_at_ns <= at_ns
    }

    /// The time from which nothing is in service or waiting.
    #[must_use]
    pub fn free_at_ns(&self) -> u64 {
        self.free_at_ns
    }

    /// Total service time so far.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

/// Time per byte: nanoseconds, times 2^20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace(u64);

impl Pace {
    /// The pace of `bytes_per_s`. 0 means unlimited: nothing takes any time.
    #[must_use]
    pub fn of_bytes_per_s(bytes_per_s: u64) -> Pace {
        if bytes_per_s == 0 {
            return Pace(0);
        }
        let per_byte = (u128::from(1_000_000_000_u64) << 20) / u128::from(bytes_per_s);
        Pace(u64::try_from(per_byte).unwrap_or(u64::MAX))
    }

    /// Time for `bytes` bytes, at most 2^32 of them.
    #[must_use]
    pub fn time_ns(self, bytes: u64) -> u64 {
        let time = (u128::from(self.0) * u128::from(bytes)) >> 20;
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_what_came_before_it() {
        let mut server = Server::default();
        assert_eq!(server.serve(10, 5), 15);
        assert_eq!(server.serve(11, 5), 20);
        assert!(!server.is_idle(19) && server.is_idle(20));
        assert_eq!(server.serve(30, 1), 31);
        assert_eq!(server.busy_ns(), 11);
    }

    #[test]
    fn a_pace_is_exact_to_a_nanosecond() {
        let pace = Pace::of_bytes_per_s(3_200_000_000);
        assert_eq!(pace.time_ns(4096), 1280);
        assert_eq!(pace.time_ns(131_072), 40_960);
        assert_eq!(Pace::of_bytes_per_s(0).time_ns(131_072), 0);
        assert_eq!(Pace::of_bytes_per_s(1).time_ns(3), 3_000_000_000);
    }
}
