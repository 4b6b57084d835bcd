//! What happens behind an acknowledged write: buffer, programs, garbage collection, clean pool.
//!
//! A write is acknowledged when it is in the power-safe **buffer**. The buffer is emptied into flash at the program
//! bandwidth of all units together. Random overwrites leave holes that garbage collection has to close: each byte from
//! the host then costs `amplification` bytes of programs in the long run. The **clean pool** is the number of host
//! bytes that can be programmed before garbage has to be collected.
//!
//! There are three regimes. A run need not last until the steady one: a drive starts in the state that it is given.
//!
//! | regime | programs | garbage collection |
//! |---|---|---|
//! | background: the pool is not empty | as writes come | in the time that programs leave, until the pool is full |
//! | collecting: the pool was emptied | none, the buffer fills and writes wait | all the time, until one episode's bytes are clean |
//! | serving: one episode's bytes are clean | as writes come | none, until these bytes are used up |
//!
//! So a demand above the steady rate is met while the pool lasts; then the rate falls to program bandwidth divided by
//! `amplification`. Collecting and serving alternate with a period of `amplification` times the time that programming
//! an episode takes. Time that the host leaves unused while the drive serves is lost, so many outstanding writes reach
//! the steady rate and few do not. After a whole episode without a write the drive is back in the background regime.
//!
//! In front of all this some drives have a **pseudo-SLC cache**: flash that is written with one bit a cell, and so faster. It
//! takes writes, whatever the regime, until it is full. While no writes wait, its data are moved to their final place at the
//! program bandwidth (folded), which takes from the clean pool what the writes would have taken.
//!
//! All rates are piecewise constant, so the model advances from event to event. Amounts are integers in units of 2^-20
//! bytes.

/// Binary places of an amount in bytes.
const FRACTION: u32 = 20;
/// Binary places of shares.
const SHARE: u32 = 48;
/// A share of 1.
const WHOLE: u64 = 1 << SHARE;
/// Eighths of the time that reads may take from programs at most, because a suspended program has to make progress. A
/// prior: firmware limits the number of suspensions of a program, but no limit has been published.
const READS_OF_EIGHT: u64 = 7;

/// The parameters of a drive's write path.
#[derive(Clone, Copy, Debug)]
pub struct DrainSettings {
    /// Capacity of the buffer: bytes that can be acknowledged before they are in flash.
    pub buffer_bytes: u64,
    /// Bytes per second of programs on all units.
    pub program_bytes_per_s: u64,
    /// Programmed bytes per host byte when the drive has been overwritten at random, in thousandths.
    pub amplification_per_mille: u64,
    /// Capacity of the clean pool, in host bytes.
    pub pool_bytes: u64,
    /// Capacity of the pseudo-SLC cache, in host bytes; 0 if there is none.
    pub burst_bytes: u64,
    /// Bytes per second of programs into it.
    pub burst_bytes_per_s: u64,
    /// Host bytes of one episode of garbage collection.
    pub episode_bytes: u64,
    /// Duration of one program on a unit.
    pub program_ns: u64,
    /// What the host can address.
    pub capacity_bytes: u64,
    /// Most bytes per second that the host may write, for a worn drive.
    pub host_bytes_per_s_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regime {
    Background,
    Collecting,
    Serving,
}

/// What the flash is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Nothing,
    /// Into the pseudo-SLC cache.
    Caches,
    Programs,
    /// Empties the pseudo-SLC cache.
    Folds,
    Collects,
}

/// The write path of a drive.
#[derive(Clone, Debug)]
pub struct Drain {
    settings: DrainSettings,
    clock_ns: u64,
    last_write_ns: u64,
    regime: Regime,
    fill: u64,
    pool: u64,
    /// What the pseudo-SLC cache holds.
    cached: u64,
    /// The share of the capacity on which data lie scattered, of [`WHOLE`].
    disorder: u64,
    /// Amounts per nanosecond.
    program_per_ns: u64,
    host_per_ns: u64,
    burst_per_ns: u64,
    collect_per_ns: u64,
    /// Time that reads have taken from programs, as far as the programs have not been delayed by it yet.
    taken_ns: u64,
    /// Recent share of the time in which units were programming, of [`WHOLE`].
    busy_share: u64,
    programmed: u128,
}

impl Drain {
    /// An empty buffer over a full pool; `disordered` says whether the drive has been overwritten at random.
    #[must_use]
    pub fn new(settings: DrainSettings, disordered: bool) -> Drain {
        let per_ns = |bytes_per_s: u64| {
            let amount = (u128::from(bytes_per_s) << FRACTION) / 1_000_000_000;
            u64::try_from(amount).unwrap_or(u64::MAX >> 24).max(1)
        };
        let program_per_ns = per_ns(settings.program_bytes_per_s);
        let host_max = settings.host_bytes_per_s_max.map_or(u64::MAX, per_ns);
        let mut drain = Drain {
            settings,
            clock_ns: 0,
            last_write_ns: 0,
            regime: Regime::Background,
            fill: 0,
            pool: settings.pool_bytes << FRACTION,
            cached: 0,
            disorder: if disordered { WHOLE } else { 0 },
            program_per_ns,
            host_per_ns: program_per_ns.min(host_max),
            burst_per_ns: per_ns(settings.burst_bytes_per_s).min(host_max),
            collect_per_ns: 0,
            taken_ns: 0,
            busy_share: 0,
            programmed: 0,
        };
        drain.price_collection();
        drain
    }

    /// Empties the clean pool and fills the pseudo-SLC cache, as a long load above the steady rate would, without
    /// simulating that load. `phase` is the
    /// drive's place in its period, of 2^48. A period begins with collection and ends when the cleaned bytes are used
    /// up.
    pub fn spend_pool(&mut self, phase: u64) {
        self.pool = 0;
        self.cached = self.settings.burst_bytes << FRACTION;
        self.change_regime();
        if self.regime != Regime::Collecting {
            return;
        }
        let episode = u128::from(self.collection_target());
        let served = (WHOLE / self.settings.amplification_per_mille).saturating_mul(1000);
        let collects = WHOLE - served;
        let phase = phase.min(WHOLE - 1);
        // What is clean at this moment, as a share of an episode.
        let (clean, of) = if phase < collects {
            (phase, collects)
        } else {
            self.regime = Regime::Serving;
            (WHOLE - phase, served)
        };
        self.pool = (episode * u128::from(clean) / u128::from(of)) as u64;
    }

    /// Accepts a write that arrives at `ready_ns`, and returns when it is in the buffer.
    ///
    /// `media_bytes` are its bytes in flash before amplification, counted up to the buffer's capacity. `in_order` says
    /// that it continues where another write ended.
    pub fn admit(&mut self, ready_ns: u64, media_bytes: u64, in_order: bool) -> u64 {
        self.pass(ready_ns);
        let capacity = self.settings.buffer_bytes << FRACTION;
        let need = (media_bytes << FRACTION).min(capacity);
        while self.fill + need > capacity {
            let excess = self.fill + need - capacity;
            self.work_towards(excess);
        }
        self.fill += need;
        self.disturb(media_bytes, in_order);
        self.last_write_ns = self.clock_ns.max(ready_ns);
        self.last_write_ns
    }

    /// Advances the model to `until_ns`, if that lies ahead.
    pub fn pass(&mut self, until_ns: u64) {
        while self.clock_ns < until_ns {
            let left_ns = until_ns - self.clock_ns;
            let activity = self.activity();
            if activity == Activity::Nothing {
                self.rest(left_ns);
                continue;
            }
            let paused_ns = self.taken_ns.min(left_ns / 8 * READS_OF_EIGHT);
            self.pause(paused_ns);
            let step_ns = (left_ns - paused_ns).min(self.next_event_ns(activity));
            self.step(activity, step_ns);
        }
    }

    /// Records that reads kept the units from programming for `units_ns`, averaged over all units.
    pub fn take(&mut self, units_ns: u64) {
        self.taken_ns = (self.taken_ns + units_ns).min(self.settings.program_ns);
    }

    /// The recent share of the time in which a unit was programming, of 2^48. This is the probability that a read meets
    /// a program.
    pub fn busy_share(&mut self, now_ns: u64) -> u64 {
        self.pass(now_ns);
        self.busy_share
    }

    /// Bytes programmed so far: for the host, from the pseudo-SLC cache to their final place, and for garbage collection.
    #[must_use]
    pub fn programmed_bytes(&self) -> u64 {
        u64::try_from(self.programmed >> FRACTION).unwrap_or(u64::MAX)
    }

    /// Bytes that are acknowledged but not yet in flash.
    #[must_use]
    pub fn buffered_bytes(&self) -> u64 {
        self.fill >> FRACTION
    }

    /// Host bytes that can be written before the rate falls: the room in the pseudo-SLC cache, and the clean pool.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        (self.cache_room() + self.pool) >> FRACTION
    }

    fn cache_room(&self) -> u64 {
        (self.settings.burst_bytes << FRACTION).saturating_sub(self.cached)
    }

    fn activity(&self) -> Activity {
        match self.regime {
            _ if self.fill > 0 && self.cache_room() > 0 => Activity::Caches,
            Regime::Collecting => Activity::Collects,
            _ if self.fill > 0 => Activity::Programs,
            _ if self.cached > 0 => Activity::Folds,
            Regime::Background if self.needs_collection() => Activity::Collects,
            _ => Activity::Nothing,
        }
    }

    fn amplifies(&self) -> bool {
        self.collect_per_ns > 0
    }

    fn needs_collection(&self) -> bool {
        self.amplifies() && self.pool < self.settings.pool_bytes << FRACTION
    }

    /// Advances by one step while a write waits for `excess` more space in the buffer.
    fn work_towards(&mut self, excess: u64) {
        let activity = self.activity();
        let mut step_ns = self.next_event_ns(activity);
        match activity {
            Activity::Programs => step_ns = step_ns.min(excess.div_ceil(self.host_per_ns)),
            Activity::Caches => step_ns = step_ns.min(excess.div_ceil(self.burst_per_ns)),
            _ => {}
        }
        self.pause(self.taken_ns.min(step_ns * READS_OF_EIGHT));
        self.step(activity, step_ns);
    }

    /// How long this activity can continue unchanged; at least 1 ns.
    fn next_event_ns(&self, activity: Activity) -> u64 {
        match activity {
            Activity::Nothing => u64::MAX,
            Activity::Caches => {
                let amount = self.fill.min(self.cache_room());
                amount.div_ceil(self.burst_per_ns)
            }
            Activity::Programs => self.programs_ns(self.fill, self.host_per_ns),
            Activity::Folds => self.programs_ns(self.cached, self.program_per_ns),
            Activity::Collects => {
                let missing = self.collection_target().saturating_sub(self.pool);
                missing.div_ceil(self.collect_per_ns.max(1)).max(1)
            }
        }
    }

    /// How long an amount can be programmed at this rate before it, or the clean pool, is used up.
    fn programs_ns(&self, amount: u64, per_ns: u64) -> u64 {
        let until_done = amount.div_ceil(per_ns);
        if self.amplifies() {
            until_done.min(self.pool.div_ceil(per_ns).max(1))
        } else {
            until_done
        }
    }

    /// The size of the pool at which collection ends in this regime.
    fn collection_target(&self) -> u64 {
        let full = self.settings.pool_bytes << FRACTION;
        match self.regime {
            Regime::Collecting => (self.settings.episode_bytes << FRACTION).min(full),
            _ => full,
        }
    }

    fn step(&mut self, activity: Activity, step_ns: u64) {
        match activity {
            Activity::Nothing => unreachable!("time passes without work in `rest` only"),
            Activity::Caches => {
                let able = self.burst_per_ns.saturating_mul(step_ns);
                let amount = self.fill.min(self.cache_room()).min(able);
                self.fill -= amount;
                self.cached += amount;
                self.programmed += u128::from(amount);
            }
            Activity::Programs => {
                let amount = self.fill.min(self.host_per_ns.saturating_mul(step_ns));
                self.fill -= amount;
                self.take_clean(amount);
            }
            Activity::Folds => {
                let able = self.program_per_ns.saturating_mul(step_ns);
                let amount = self.cached.min(able);
                self.cached -= amount;
                self.take_clean(amount);
            }
            Activity::Collects => {
                let target = self.collection_target();
                let amount = self.collect_per_ns.saturating_mul(step_ns);
                self.pool = self.pool.saturating_add(amount).min(target.max(self.pool));
                self.programmed += u128::from(self.program_per_ns) * u128::from(step_ns);
            }
        }
        self.clock_ns += step_ns;
        self.note_busy(step_ns);
        self.change_regime();
    }

    /// Programs an amount in its final place.
    fn take_clean(&mut self, amount: u64) {
        self.programmed += u128::from(amount);
        if self.amplifies() {
            self.pool = self.pool.saturating_sub(amount);
        }
    }

    fn change_regime(&mut self) {
        self.regime = match self.regime {
            Regime::Background | Regime::Serving if self.pool == 0 && self.amplifies() => {
                Regime::Collecting
            }
            Regime::Collecting if self.pool >= self.collection_target() => {
                // An episode was collected without a write: the drive is idle.
                if self.fill > 0 {
                    Regime::Serving
                } else {
                    Regime::Background
                }
            }
            same => same,
        };
    }

    /// Advances without work, until `left_ns` have passed or the drive has been idle for long enough to collect what it
    /// has used up while serving.
    fn rest(&mut self, left_ns: u64) {
        self.taken_ns = 0;
        let mut step_ns = left_ns;
        if self.regime == Regime::Serving {
            let idle_at_ns = self.last_write_ns + self.settings.program_ns;
            if idle_at_ns <= self.clock_ns {
                self.regime = Regime::Collecting;
                return;
            }
            step_ns = step_ns.min(idle_at_ns - self.clock_ns);
        }
        self.clock_ns += step_ns;
        if self.busy_share > 0 {
            let constant_ns = self.settings.program_ns;
            let kept = u128::from(self.busy_share) * u128::from(constant_ns);
            self.busy_share = (kept / u128::from(constant_ns.saturating_add(step_ns))) as u64;
        }
    }

    /// Programs are suspended for reads.
    fn pause(&mut self, paused_ns: u64) {
        self.taken_ns -= paused_ns;
        self.clock_ns += paused_ns;
        self.note_busy(paused_ns);
    }

    /// Moves the recent busy share towards 1, with the duration of a program as time constant.
    fn note_busy(&mut self, step_ns: u64) {
        if step_ns == 0 || self.busy_share == WHOLE {
            return;
        }
        let rest = u128::from(WHOLE - self.busy_share) * u128::from(step_ns);
        let moved = rest / u128::from(self.settings.program_ns.saturating_add(step_ns));
        self.busy_share += moved as u64;
    }

    /// The effect of a write on the order of the data: random writes of one capacity scatter all data, sequential
    /// writes of one capacity put all in order.
    fn disturb(&mut self, media_bytes: u64, in_order: bool) {
        if (self.disorder == WHOLE && !in_order) || (self.disorder == 0 && in_order) {
            return;
        }
        let share =
            (u128::from(media_bytes) << SHARE) / u128::from(self.settings.capacity_bytes.max(1));
        let share = share as u64;
        self.disorder = if in_order {
            self.disorder.saturating_sub(share)
        } else {
            (self.disorder + share).min(WHOLE)
        };
        self.price_collection();
    }

    /// Clean host bytes per nanosecond of collection: the program bandwidth divided by what a host byte costs in
    /// addition to itself. That cost is proportional to the disorder.
    fn price_collection(&mut self) {
        let extra = self.settings.amplification_per_mille.saturating_sub(1000);
        let extra_share = u128::from(extra) * u128::from(self.disorder);
        let per_ns = (u128::from(self.program_per_ns) * 1000) << SHARE;
        self.collect_per_ns = per_ns
            .checked_div(extra_share)
            .map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX).max(1));
        if !self.amplifies() {
            self.regime = Regime::Background;
        }
    }
}

#[cfg(test)]
mod tests;
