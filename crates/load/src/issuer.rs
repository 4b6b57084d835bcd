//! One thread of a load: it issues requests when they are due, and counts them when they have completed.
//!
//! A request that is due at a certain time is waited for asleep until shortly before, and then awake, because the kernel wakes a
//! thread some 50 microseconds late. How late the thread is itself, although a request could have started, is measured too: it is
//! the generator's own error.

use super::payload::Payload;
use super::run::Times;
use anyhow::{Context, Result, bail};
use drives::completion::CompletionMode;
use drives::drive::Drive;
use drives::mailbox::Mailbox;
use drives::ring::RingOptions;
use drives::world::{NotExpressible, Parts, RingWorld, WorldOptions};
use engine::control::record::Record;
use engine::plan::StepKind;
use engine::token::Token;
use engine::units::{MemberId, Nanos};
use engine::world::{Input, Io, World};
use lab::statistics::histogram::Latencies;
use lab::workload::generator::{Command, Generator};
use lab::workload::slices::Slices;
use lab::workload::{Kind, Workload};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// So much before a request is due, the thread stops sleeping.
const AWAKE_BEFORE: Nanos = Nanos(60_000);
/// How often the thread looks how long requests are overdue.
const LOOK_EVERY: Nanos = Nanos(10_000_000);
/// How long requests may take after the end of a run.
const PATIENCE: Nanos = Nanos(45_000_000_000);

/// What a thread has measured.
pub(crate) struct Issued {
    pub slices: Slices,
    /// How late requests were issued although they could have been: the generator's own error.
    pub lateness: Latencies,
    /// Requests that were overdue at the end.
    pub backlog: u64,
    /// For how long the oldest request that had not been answered at the end had been outstanding.
    pub oldest_ns: Option<u64>,
    /// When a request was overdue for longer than is allowed.
    pub overrun_ns: Option<u64>,
}

/// See the module's prose.
pub(crate) struct Issuer {
    world: RingWorld<()>,
    payload: Payload,
    generator: Generator,
    flying: Vec<Option<Command>>,
    free: Vec<u32>,
    answers: Vec<Input>,
    /// Since when a request may be issued, after the queue was full.
    free_since_ns: u64,
    lateness: Latencies,
    /// How long a request may be overdue.
    overdue_max_ns: u64,
}

impl Issuer {
    /// A thread of `load` on `drive`, created on the thread that will run it.
    ///
    /// # Errors
    ///
    /// There is not enough memory, or the kernel refuses an io_uring.
    pub fn new(
        drive: Arc<Drive>,
        load: &Workload,
        generator: Generator,
        payload: Payload,
        overdue_max_ns: u64,
    ) -> Result<Issuer> {
        let depth = load.qd.unwrap_or(1);
        let mut world = RingWorld::new(WorldOptions {
            arena: payload.arena.clone(),
            ring: RingOptions::default(),
            completion: CompletionMode::Interrupt,
            mailbox: Mailbox::new().context("no mailbox for a thread of the load")?,
            port: (),
            encoder: Box::new(|_: MemberId, _: &Record| -> Result<Parts, NotExpressible> {
                unreachable!("a load writes no metadata")
            }),
            log_encoder: Box::new(|_, _, _| unreachable!("a load writes no log")),
            on_event: Box::new(|_| ()),
        })?;
        world.attach(MemberId(0), drive);
        Ok(Issuer {
            world,
            payload,
            generator,
            flying: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            answers: Vec::new(),
            free_since_ns: 0,
            lateness: Latencies::default(),
            overdue_max_ns,
        })
    }

    /// Issues and counts until the end of `times`, or until `stop`.
    ///
    /// # Errors
    ///
    /// A request has failed, or is not answered.
    pub fn run(mut self, times: &Times, mut slices: Slices, stop: &AtomicBool) -> Result<Issued> {
        // Without it, the kernel may wake a thread 50 microseconds later still. If it refuses, the lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while self.world.now() < times.start {
            self.world.wait(Some(times.start));
        }
        let mut look_at_ns = LOOK_EVERY.0;
        let mut overrun_ns = None;
        let end_ns = times.end_ns;
        loop {
            let now_ns = self.reap(times, &mut slices)?;
            if now_ns >= look_at_ns || now_ns >= end_ns {
                look_at_ns = now_ns + LOOK_EVERY.0;
                let due_ns = self.generator.due_ns(0);
                let overdue_ns = due_ns.map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
                overrun_ns = (overdue_ns > self.overdue_max_ns).then_some(now_ns);
            }
            if now_ns >= end_ns || overrun_ns.is_some() || stop.load(Ordering::Relaxed) {
                break;
            }
            self.issue(now_ns);
            self.world.submit();
            self.wait(times, look_at_ns.min(end_ns));
        }
        let at_end_ns = end_ns.min(times.since_start_ns(self.world.now()));
        let backlog = self.generator.backlog(at_end_ns);
        let oldest = self
            .flying
            .iter()
            .flatten()
            .map(|command| command.issued_ns)
            .min();
        let oldest_ns = oldest.map(|issued_ns| at_end_ns.saturating_sub(issued_ns));
        self.drain(times, &mut slices)?;
        Ok(Issued {
            slices,
            lateness: self.lateness,
            backlog,
            oldest_ns,
            overrun_ns,
        })
    }

    /// Takes answers; returns the time at which they were noticed.
    fn reap(&mut self, times: &Times, slices: &mut Slices) -> Result<u64> {
        let mut answers = std::mem::take(&mut self.answers);
        self.world.reap(&mut answers);
        let now_ns = times.since_start_ns(self.world.now());
        for answer in answers.drain(..) {
            let Input::Done { token, result } = answer else {
                continue;
            };
            let command = self.flying[token.0 as usize].take();
            let command = command.expect("an answer belongs to a request");
            if let Err(error) = result {
                let Command {
                    kind,
                    length_bytes,
                    offset_bytes,
                    ..
                } = command;
                let what = match kind {
                    Kind::Read => "read",
                    Kind::Write => "write",
                };
                let errno = std::io::Error::from_raw_os_error(error.errno);
                bail!("a {what} of {length_bytes} bytes at byte {offset_bytes} failed: {errno}");
            }
            if self.free.is_empty() {
                self.free_since_ns = now_ns;
            }
            self.free.push(token.0 as u32);
            self.generator.completed(0);
            slices.completed(&command, now_ns);
        }
        self.answers = answers;
        Ok(now_ns)
    }

    /// Issues what is due.
    fn issue(&mut self, now_ns: u64) {
        while let Some(command) = self.generator.next(0, now_ns) {
            let slot = self
                .free
                .pop()
                .expect("the generator keeps the queue depth");
            if self.generator.due_ns(0).is_some() {
                let ready_ns = command.intended_ns.max(self.free_since_ns);
                self.lateness.record(now_ns.saturating_sub(ready_ns));
            }
            let kind = match command.kind {
                Kind::Read => StepKind::Read,
                Kind::Write => {
                    self.payload.renew(slot, command.length_bytes);
                    StepKind::Write { fua: false }
                }
            };
            self.flying[slot as usize] = Some(command);
            let io = Io {
                token: Token(u64::from(slot)),
                member: MemberId(0),
                kind,
                offset_bytes: command.offset_bytes,
                length_bytes: u64::from(command.length_bytes),
            };
            self.world
                .io(io, self.payload.memory(slot, command.length_bytes));
        }
    }

    /// Waits for an answer, or until a request is due, but not beyond `latest_ns`.
    fn wait(&mut self, times: &Times, latest_ns: u64) {
        let due_ns = self
            .generator
            .wake_ns(0)
            .unwrap_or(latest_ns)
            .min(latest_ns);
        let now_ns = times.since_start_ns(self.world.now());
        let asleep_until_ns = match due_ns.saturating_sub(now_ns) {
            left_ns if left_ns > AWAKE_BEFORE.0 => due_ns - AWAKE_BEFORE.0,
            _ => due_ns,
        };
        self.world
            .wait(Some(times.start.after(Nanos(asleep_until_ns))));
    }

    /// Waits for the last answers.
    fn drain(&mut self, times: &Times, slices: &mut Slices) -> Result<()> {
        let give_up_ns = times.since_start_ns(self.world.now()) + PATIENCE.0;
        while self.generator.outstanding() > 0 {
            self.world.submit();
            if self.reap(times, slices)? > give_up_ns {
                let left = self.generator.outstanding();
                bail!(
                    "{left} requests were not answered within {} s of the end",
                    PATIENCE.0 / Nanos::SECOND.0
                );
            }
            let look_at = self.world.now().after(Nanos::MILLISECOND);
            self.world.wait(Some(look_at));
        }
        Ok(())
    }
}
