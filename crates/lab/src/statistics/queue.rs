//! A queue with one server whose figures are known in closed form. The statistics are tested with it.

use repeatable::random::Stream;

/// M/M/1 by Lindley's recursion. The mean service time is `load`, and there is one arrival per unit of time on average.
///
/// The time in the system is exponentially distributed with mean `load / (1 - load)`.
pub(super) struct SingleServer {
    arrivals: Stream,
    services: Stream,
    load: f64,
    waiting: f64,
}

impl SingleServer {
    pub(super) fn new(seed: u64, load: f64) -> SingleServer {
        let mut services = Stream::new(seed, "services", 0);
        let mut waiting = 0.0;
        // The wait that an arrival finds in the steady state: none, or exponential with the rate of the time in the
        // system. It is drawn here, so there is no warm-up.
        if services.share() <= load {
            waiting = services.exponential() * load / (1.0 - load);
        }
        SingleServer {
            arrivals: Stream::new(seed, "arrivals", 0),
            services,
            load,
            waiting,
        }
    }

    /// The same with `backlog` units of work ahead of the first arrival.
    pub(super) fn with_backlog(seed: u64, load: f64, backlog: f64) -> SingleServer {
        SingleServer {
            waiting: backlog,
            ..SingleServer::new(seed, load)
        }
    }

    /// Time in the system of the next customer.
    pub(super) fn next_sojourn(&mut self) -> f64 {
        let sojourn = self.waiting + self.services.exponential() * self.load;
        self.waiting = (sojourn - self.arrivals.exponential()).max(0.0);
        sojourn
    }
}
