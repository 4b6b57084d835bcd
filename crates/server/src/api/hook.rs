//! The event hook: a command of the operator that runs once for every event.
//!
//! It runs by `sh -c` with `FULLSTRIPE_EVENT` (the kind), `FULLSTRIPE_VOLUME`, `FULLSTRIPE_MEMBER`,
//! `FULLSTRIPE_TEXT` and `FULLSTRIPE_TIME` (seconds since 1970) in its environment; a variable is empty if
//! the event has no such value. The event is also one line of JSON on its standard input. What the command prints
//! goes to the standard error of the serving process. Calls follow one another in the order of the
//! events.
//!
//! The array does not wait for the hook: events go into a queue of limited length, and events that do not fit
//! are dropped and counted. A call that takes longer than 30 s is killed, together with everything it
//! started. When the process ends while others wait for the next one, a call that is under way goes on by itself, and no other
//! is begun.

use crate::events::Told;
use crate::runtime::lock;
use alerts::call;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use words::without_error_number;

/// Maximum number of events that wait for the command.
const QUEUE_MAX: usize = 256;
/// Maximum duration of a call.
const CALL_MAX: Duration = Duration::from_secs(30);
/// How often it is checked whether the thread has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What the hook has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Calls started.
    pub calls: u64,
    /// Calls that could not be started, ended with a failure, or were killed.
    pub failures: u64,
    /// Events that were dropped without a call.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    failures: AtomicU64,
    dropped: AtomicU64,
    /// No more calls are begun.
    is_over: AtomicBool,
}

/// Reports what has gone wrong.
type Say = Box<dyn Fn(&dyn Display) + Send>;

/// The hook and its thread.
#[derive(Debug)]
pub struct Hook {
    queue: Mutex<Option<SyncSender<Told>>>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Hook {
    /// A hook that runs `command` for every event; `say` is called with what has gone wrong in a call.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(
        command: impl Into<String>,
        say: impl Fn(&dyn Display) + Send + 'static,
    ) -> Result<Hook> {
        Hook::with_limit(command.into(), CALL_MAX, say)
    }

    fn with_limit(
        command: String,
        call_max: Duration,
        say: impl Fn(&dyn Display) + Send + 'static,
    ) -> Result<Hook> {
        let (queue, events) = sync_channel(QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        let runner = Runner {
            command,
            call_max,
            counters: counters.clone(),
            say: Box::new(say),
        };
        let thread = std::thread::Builder::new()
            .name("event-hook".to_owned())
            .spawn(move || runner.run(&events))
            .context("cannot start the thread of the event hook")?;
        Ok(Hook {
            queue: Mutex::new(Some(queue)),
            counters,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues `event` for the command. Never blocks.
    pub fn tell(&self, event: &Told) {
        let result = match &*lock(&self.queue) {
            Some(queue) => queue.try_send(event.clone()),
            None => Err(TrySendError::Full(event.clone())),
        };
        if result.is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the hook has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.counters.calls.load(Ordering::Relaxed),
            failures: self.counters.failures.load(Ordering::Relaxed),
            dropped: self.counters.dropped.load(Ordering::Relaxed),
        }
    }

    /// Accepts no more events and waits, for at most `within`, until the command has run for all queued
    /// events. Returns whether it has; if not, it is run for no other event.
    pub fn finish(&self, within: Duration) -> bool {
        lock(&self.queue).take();
        let deadline = Instant::now() + within;
        let mut thread = lock(&self.thread);
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                self.counters.is_over.store(true, Ordering::Relaxed);
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

/// The hook as its thread sees it.
struct Runner {
    command: String,
    call_max: Duration,
    counters: Arc<Counters>,
    say: Say,
}

impl Runner {
    fn run(&self, events: &Receiver<Told>) {
        for event in events {
            if self.counters.is_over.load(Ordering::Relaxed) {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.counters.calls.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.call(&event) {
                self.counters.failures.fetch_add(1, Ordering::Relaxed);
                let error = without_error_number(&format!("{error:#}"));
                (self.say)(&format_args!("the event hook for {}: {error}", event.kind));
            }
        }
    }

    fn call(&self, event: &Told) -> Result<()> {
        let mut shell = call::shell(&self.command);
        shell
            .env("FULLSTRIPE_EVENT", &event.kind)
            .env("FULLSTRIPE_VOLUME", event.volume.as_deref().unwrap_or(""))
            .env("FULLSTRIPE_MEMBER", event.member.as_deref().unwrap_or(""))
            .env("FULLSTRIPE_TEXT", &event.text)
            .env("FULLSTRIPE_TIME", event.time_s.to_string());
        let mut json = serde_json::to_vec(event)?;
        json.push(b'\n');
        call::run(shell, &json, self.call_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    #[test]
    fn the_command_gets_the_event_in_its_environment_and_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let command = format!(
            "{{ echo \"$FULLSTRIPE_EVENT|$FULLSTRIPE_VOLUME|$FULLSTRIPE_MEMBER|$FULLSTRIPE_TEXT|\
             $FULLSTRIPE_TIME\"; cat; }} >> {}",
            out.display()
        );
        let hook = Hook::new(command, |_| ()).unwrap();
        hook.tell(&event("first 'quoted' $(text)"));
        hook.tell(&event("second"));
        assert!(hook.finish(Duration::from_secs(20)));
        let text = std::fs::read_to_string(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], "job-started|v||first 'quoted' $(text)|1700000000");
        let json: Told = serde_json::from_str(lines[3]).unwrap();
        assert_eq!(json.text, "second");
        let counts = Counts {
            calls: 2,
            failures: 0,
            dropped: 0,
        };
        assert_eq!(hook.counts(), counts);
    }

    #[test]
    fn a_call_that_takes_too_long_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let survived = folder.path().join("survived");
        let command = format!("(sleep 1; touch {}) & wait", survived.display());
        let hook = Hook::with_limit(command, Duration::from_millis(50), |_| ()).unwrap();
        hook.tell(&event("slow"));
        assert!(hook.finish(Duration::from_secs(20)));
        assert_eq!(hook.counts().failures, 1);
        std::thread::sleep(Duration::from_millis(1300));
        assert!(!survived.exists());
    }

    #[test]
    fn no_call_is_begun_after_an_end_that_did_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let (gate, out) = (folder.path().join("gate"), folder.path().join("out"));
        let command = format!(
            "echo $FULLSTRIPE_TEXT >> {1}; while [ ! -e {0} ]; do sleep 0.05; done; echo end >> {1}",
            gate.display(),
            out.display()
        );
        let hook = Hook::new(command, |_| ()).unwrap();
        hook.tell(&event("first"));
        hook.tell(&event("second"));
        while hook.counts().calls == 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(!hook.finish(Duration::ZERO));
        std::fs::write(gate, "").unwrap();
        assert!(hook.finish(Duration::from_secs(20)));
        assert_eq!(std::fs::read_to_string(out).unwrap(), "first\nend\n");
        assert_eq!(hook.counts().dropped, 1);
    }

    #[test]
    fn a_hundred_times_more_events_than_the_queue_holds_are_dropped_at_once_and_counted() {
        const WAITING: u64 = QUEUE_MAX as u64;
        const EVENTS: u64 = 100 * WAITING;
        let folder = tempfile::tempdir().unwrap();
        let (gate, out) = (folder.path().join("gate"), folder.path().join("out"));
        let command = format!(
            "while [ ! -e {} ]; do sleep 0.05; done; echo $FULLSTRIPE_TEXT >> {}",
            gate.display(),
            out.display()
        );
        let hook = Hook::new(command, |_| ()).unwrap();
        let begin = Instant::now();
        hook.tell(&event("0"));
        while hook.counts().calls == 0 {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "the command is not called"
            );
            std::thread::sleep(LOOK_EVERY);
        }
        (1..=EVENTS).for_each(|number| hook.tell(&event(&number.to_string())));
        assert!(
            begin.elapsed() < CALL_MAX / 2,
            "an event waits for the command"
        );
        let mut expected = Counts {
            calls: 1,
            failures: 0,
            dropped: EVENTS - WAITING,
        };
        assert_eq!(hook.counts(), expected);
        std::fs::write(gate, "").unwrap();
        assert!(hook.finish(Duration::from_secs(60)));
        expected.calls += WAITING;
        assert_eq!(hook.counts(), expected);
        let text = std::fs::read_to_string(out).unwrap();
        let called: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(called, (0..=WAITING).collect::<Vec<_>>());
        hook.tell(&event("late"));
        assert_eq!(hook.counts().dropped, expected.dropped + 1);
    }
}
