//! Generates requests one by one; its caller keeps the time.
//!
//! The caller gets requests of each thread until there is none ([`Generator::next`]), carries them out, and reports
//! when one has completed ([`Generator::completed`]). [`Generator::wake_ns`] says when to try again.

use super::arrivals::{Bursts, Rate, Schedule};
use super::offsets::{Grid, Offsets, Order};
use super::trace::{Recorded, Trace};
use super::{Arrivals, Broken, Kind, Operation, Workload, act};
use repeatable::random::Stream;
use std::sync::Arc;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The thread that issues it, from 0.
    pub thread: u32,
    /// Number of requests that this thread issued before.
    pub index: u64,
    /// Read or write.
    pub kind: Kind,
    /// First byte on the target.
    pub offset_bytes: u64,
    /// Bytes.
    pub length_bytes: u32,
    /// Its intended start. In a closed loop this is when it was issued.
    pub intended_ns: u64,
    /// When it was issued.
    pub issued_ns: u64,
    /// Whether its latency counts in the figures. False only for the large blocks that run beside ACT's transactions.
    pub is_counted: bool,
}

/// The behaviour of a group of equal threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub threads: u32,
    pub depth: u32,
    /// The rate of all its threads together; `None` for a closed loop.
    pub rate: Option<(Arrivals, Rate)>,
    /// Pauses between its arrivals.
    pub bursts: Option<Bursts>,
    pub grid: Grid,
    /// The order; if sequential, `part` is filled in for each thread.
    pub order: Order,
    pub read_percent: u8,
    pub is_counted: bool,
}

#[derive(Clone, Debug)]
struct Thread {
    depth: u32,
    outstanding: u32,
    issued: u64,
    source: Source,
    is_counted: bool,
}

/// Where a thread's requests come from.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all threads draw their requests, millions a second, and a trace has few threads"
)]
enum Source {
    Drawn(Drawn),
    Replayed(Replayed),
}

/// Requests that are drawn, in a closed loop or at the times of a schedule.
#[derive(Clone, Debug)]
struct Drawn {
    schedule: Option<Schedule>,
    offsets: Offsets,
    kinds: Stream,
    read_percent: u8,
    length_bytes: u32,
}

/// A thread's share of a trace: each request whose place is `next` plus a multiple of `threads`.
#[derive(Clone, Debug)]
struct Replayed {
    requests: Arc<[Recorded]>,
    next: usize,
    threads: usize,
    speed_percent: u64,
}

/// A request without the thread's own numbers.
struct Drawing {
    kind: Kind,
    offset_bytes: u64,
    length_bytes: u32,
}

impl Source {
    /// When the next request is due; `None` in a closed loop.
    fn due_ns(&self) -> Option<u64> {
        match self {
            Source::Drawn(drawn) => drawn.schedule.as_ref().map(Schedule::next_ns),
            // After the last request, none ever is.
            Source::Replayed(replayed) => {
                let next = replayed.requests.get(replayed.next);
                Some(next.map_or(u64::MAX, |next| replayed.at_ns(next)))
            }
        }
    }

    /// Takes the next request, which is due.
    fn take(&mut self) -> Drawing {
        match self {
            Source::Drawn(drawn) => {
                if let Some(schedule) = &mut drawn.schedule {
                    schedule.take();
                }
                let is_read = drawn.kinds.chance(u64::from(drawn.read_percent), 100);
                Drawing {
                    kind: if is_read { Kind::Read } else { Kind::Write },
                    offset_bytes: drawn.offsets.draw(),
                    length_bytes: drawn.length_bytes,
                }
            }
            Source::Replayed(replayed) => {
                let Recorded {
                    kind,
                    offset_bytes,
                    length_bytes,
                    ..
                } = replayed.requests[replayed.next];
                replayed.next += replayed.threads;
                Drawing {
                    kind,
                    offset_bytes,
                    length_bytes,
                }
            }
        }
    }

    /// Requests that are due by `now_ns` and were not taken.
    fn backlog(&mut self, now_ns: u64) -> u64 {
        match self {
            Source::Drawn(drawn) => {
                let schedule = drawn.schedule.as_mut();
                schedule.map_or(0, |schedule| schedule.backlog(now_ns))
            }
            Source::Replayed(replayed) => {
                let all = &replayed.requests;
                let arrived = all.partition_point(|one| replayed.at_ns(one) <= now_ns);
                arrived
                    .saturating_sub(replayed.next)
                    .div_ceil(replayed.threads) as u64
            }
        }
    }
}

impl Replayed {
    fn at_ns(&self, request: &Recorded) -> u64 {
        let at_ns = u128::from(request.at_ns) * 100 / u128::from(self.speed_percent);
        u64::try_from(at_ns).unwrap_or(u64::MAX)
    }
}

/// See the module's prose.
#[derive(Clone, Debug)]
pub struct Generator {
    threads: Vec<Thread>,
}

impl Generator {
    /// The requests of `workload` on a target of `span_bytes`.
    ///
    /// # Errors
    ///
    /// If the workload breaks a rule or does not fit the target, and for ACT, whose load depends on the multiple: see
    /// [`Generator::act`].
    pub fn new(workload: &Workload, span_bytes: u64, seed: u64) -> Result<Generator, Broken> {
        workload.check_known()?;
        let (Some(bs), Some(depth), Some(read_percent)) =
            (workload.bs, workload.qd, workload.read_percent())
        else {
            return Err(Broken {
                key: "op",
                rule: "act has a load for each multiple; ask for one".to_string(),
            });
        };
        let align = workload.align.unwrap_or(bs);
        let rate = workload.demand_iops.map(|requests| {
            let arrivals = workload.arrivals.unwrap_or(Arrivals::Paced);
            let seconds = 1;
            (arrivals, Rate { requests, seconds })
        });
        let flow = Flow {
            threads: workload.threads,
            depth,
            rate,
            bursts: workload.bursts(),
            grid: Grid {
                length_bytes: bs.bytes(),
                stride_bytes: bs.max(align).bytes(),
                shift_bytes: align.bytes() % bs.bytes(),
            },
            order: order(workload),
            read_percent,
            is_counted: true,
        };
        Generator::of(&[flow], span_bytes, seed)
    }

    /// Aerospike's load at `tenths` tenths of 1x, with `threads` threads for transactions; two more threads move large
    /// blocks.
    ///
    /// # Errors
    ///
    /// If the target has no room, or `threads` or `tenths` is 0.
    pub fn act(threads: u32, tenths: u32, span_bytes: u64, seed: u64) -> Result<Generator, Broken> {
        for (key, number) in [("threads", threads), ("act_x", tenths)] {
            if number == 0 {
                let rule = "must be above 0".to_string();
                return Err(Broken { key, rule });
            }
        }
        Generator::of(&act::flows(threads, tenths), span_bytes, seed)
    }

    /// The requests of `trace` on a target of `span_bytes`, at `speed_percent` percent of their speed. `threads` threads take them in
    /// turn, and each has at most `depth` outstanding.
    ///
    /// # Errors
    ///
    /// A request lies beyond the target.
    ///
    /// # Panics
    ///
    /// If one of the numbers is 0.
    pub fn replay(
        trace: &Trace,
        (threads, depth): (u32, u32),
        speed_percent: u32,
        span_bytes: u64,
    ) -> Result<Generator, Broken> {
        assert!(threads > 0 && depth > 0 && speed_percent > 0);
        let end = |one: &Recorded| one.offset_bytes + u64::from(one.length_bytes);
        let end_bytes = trace.requests().iter().map(end).max().unwrap_or(0);
        if end_bytes > span_bytes {
            let rule = format!(
                "has requests up to byte {end_bytes}, and the target ends at byte {span_bytes}; use a larger target"
            );
            return Err(Broken { key: "trace", rule });
        }
        let thread = |part: u32| Thread {
            depth,
            outstanding: 0,
            issued: 0,
            source: Source::Replayed(Replayed {
                requests: trace.requests().clone(),
                next: part as usize,
                threads: threads as usize,
                speed_percent: speed_percent.into(),
            }),
            is_counted: true,
        };
        Ok(Generator {
            threads: (0..threads).map(thread).collect(),
        })
    }

    fn of(flows: &[Flow], span_bytes: u64, seed: u64) -> Result<Generator, Broken> {
        let mut threads = Vec::new();
        for flow in flows {
            for part in 0..flow.threads {
                let index = threads.len() as u64;
                threads.push(Thread::new(flow, part, index, span_bytes, seed)?);
            }
        }
        Ok(Generator { threads })
    }

    /// A generator for each thread, which knows it as thread 0, so that threads of the machine can run them.
    #[must_use]
    pub fn split(self) -> Vec<Generator> {
        let alone = |thread| Generator {
            threads: vec![thread],
        };
        self.threads.into_iter().map(alone).collect()
    }

    /// Number of threads that issue requests.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    /// The next request of `thread` that may be issued at `now_ns`; `None` if its queue depth is reached or no request
    /// is due. `now_ns` must not decrease.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    pub fn next(&mut self, thread: u32, now_ns: u64) -> Option<Command> {
        self.threads[thread as usize].next(thread, now_ns)
    }

    /// Reports that a request of `thread` has completed, successfully or not.
    ///
    /// # Panics
    ///
    /// If there is no such thread, or none of its requests is outstanding.
    pub fn completed(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        assert!(thread.outstanding > 0, "an answer without a request");
        thread.outstanding -= 1;
    }

    /// The time from which `thread` may issue a request even if none completes before; in the past if it may do so
    /// already. `None` if it has to wait for a completion.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    #[must_use]
    pub fn wake_ns(&self, thread: u32) -> Option<u64> {
        let thread = &self.threads[thread as usize];
        (thread.outstanding < thread.depth).then(|| thread.source.due_ns().unwrap_or(0))
    }

    /// The intended start of the first request of `thread` that has not been issued; `None` in a closed loop.
    ///
    /// # Panics
    ///
    /// If there is no such thread.
    #[must_use]
    pub fn due_ns(&self, thread: u32) -> Option<u64> {
        self.threads[thread as usize].source.due_ns()
    }

    /// Number of outstanding requests of all threads.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.threads
            .iter()
            .map(|thread| u64::from(thread.outstanding))
            .sum()
    }

    /// Requests whose intended start is at or before `now_ns` and that have not been issued. 0 in a closed loop.
    pub fn backlog(&mut self, now_ns: u64) -> u64 {
        let sources = self.threads.iter_mut().map(|thread| &mut thread.source);
        sources.map(|source| source.backlog(now_ns)).sum()
    }
}

/// The order in which a workload's threads visit the target.
fn order(workload: &Workload) -> Order {
    match workload.op {
        Operation::Read | Operation::Write | Operation::SeqMix => Order::InOrder {
            part: 0,
            parts: workload.threads,
        },
        Operation::RandRead
        | Operation::RandWrite
        | Operation::RandMix
        | Operation::Act
        | Operation::Replay => match (workload.hot_access_pct, workload.hot_span_pct) {
            (Some(access_percent), Some(span_percent)) => Order::Hot {
                access_percent,
                span_percent,
            },
            _ => Order::Random,
        },
    }
}

impl Thread {
    /// The `part`-th thread of `flow`, which is the `index`-th thread of all.
    fn new(
        flow: &Flow,
        part: u32,
        index: u64,
        span_bytes: u64,
        seed: u64,
    ) -> Result<Thread, Broken> {
        let order = match flow.order {
            Order::InOrder { parts, .. } => Order::InOrder { part, parts },
            other => other,
        };
        let share = u64::from(flow.threads);
        let schedule = flow.rate.map(|(arrivals, rate)| {
            let own = Rate {
                requests: rate.requests,
                seconds: rate.seconds * share,
            };
            let gaps = Stream::new(seed, "arrivals", index);
            Schedule::new(arrivals, own, (u64::from(part), share), gaps).in_bursts(flow.bursts)
        });
        let stream = Stream::new(seed, "offsets", index);
        Ok(Thread {
            depth: flow.depth,
            outstanding: 0,
            issued: 0,
            source: Source::Drawn(Drawn {
                schedule,
                offsets: Offsets::new(flow.grid, order, span_bytes, stream)?,
                kinds: Stream::new(seed, "kinds", index),
                read_percent: flow.read_percent,
                length_bytes: flow.grid.length_bytes,
            }),
            is_counted: flow.is_counted,
        })
    }

    fn next(&mut self, thread: u32, now_ns: u64) -> Option<Command> {
        if self.outstanding == self.depth {
            return None;
        }
        let intended_ns = self.source.due_ns().unwrap_or(now_ns);
        if intended_ns > now_ns {
            return None;
        }
        let Drawing {
            kind,
            offset_bytes,
            length_bytes,
        } = self.source.take();
        let command = Command {
            thread,
            index: self.issued,
            kind,
            offset_bytes,
            length_bytes,
            intended_ns,
            issued_ns: now_ns,
            is_counted: self.is_counted,
        };
        self.issued += 1;
        self.outstanding += 1;
        Some(command)
    }
}

#[cfg(test)]
mod tests;
