//! The progress of long work, on standard error: a bar on a terminal, elsewhere a dated line now and then, so that a
//! log shows that work continues, and which.
//!
//! A thread of its own updates the elapsed time, because one step may take minutes.

use crate::terminal::can_move;
use crate::terminal::print::print_note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use words::{date, duration};

/// Work that takes less than this shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Time between two updates.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Time until the first line where there is no terminal.
const SAYS_AFTER: Duration = Duration::from_secs(5);
/// Time between two lines where there is no terminal.
const SAYS_EVERY: Duration = Duration::from_secs(60);

/// When to print progress where there is no terminal: after a few seconds, then each minute.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    next: Instant,
}

impl Pace {
    /// For work that begins now.
    #[must_use]
    pub fn new(now: Instant) -> Pace {
        Pace {
            next: now + SAYS_AFTER,
        }
    }

    /// Whether a line is due now; if so, the next one is due later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + SAYS_EVERY;
        }
        is_due
    }
}

/// Where the elapsed and the remaining time come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    /// The bar measures and estimates them.
    Own,
    /// The caller's message contains them.
    Message,
}

/// Shows the progress of some work until it is dropped.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    /// Wakes the thread to print a line; dropped to end the thread.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// For work of `steps` steps (0: unknown); `what` names the steps or the work.
    #[must_use]
    pub fn new(what: &'static str, steps: u64) -> Bar {
        let bar = Bar::with_clock(Clock::Own, steps);
        bar.bar.set_prefix(what);
        bar
    }

    /// For work of another process: [`Bar::turn_to`] and [`Bar::say`] supply its name, progress and time left.
    #[must_use]
    pub fn of_others() -> Bar {
        Bar::with_clock(Clock::Message, 0)
    }

    fn with_clock(clock: Clock, steps: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let style = match clock {
            Clock::Own => "{prefix} [{bar:30}] {percent:>3} %, {elapsed} gone, {eta} left  {msg}",
            Clock::Message => "{prefix} [{bar:30}] {percent:>3} %, {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("##-"));
        }
        let (wake, is_woken) = channel();
        let shown = bar.clone();
        let thread = std::thread::Builder::new().name("progress".to_owned());
        // If no thread can be started, the work continues without showing progress.
        let thread = thread.spawn(move || show(clock, &shown, &is_woken)).ok();
        Bar {
            bar,
            wake: Some(wake),
            thread,
        }
    }

    /// Sets the number of steps that are done.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Adds steps that are done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Sets the total number of steps.
    pub fn set_steps(&self, steps: u64) {
        self.bar.set_length(steps);
    }

    /// Sets the message about what is being done now.
    pub fn say(&self, now: String) {
        self.bar.set_message(now);
    }

    /// Switches to other work, or to another state of the work: where there is no terminal, this prints a line at once,
    /// except for the first work.
    pub fn turn_to(&self, what: String, now: String) {
        let is_first = self.bar.prefix().is_empty();
        self.bar.set_prefix(what);
        self.bar.set_message(now);
        if let Some(wake) = self.wake.as_ref().filter(|_| !is_first) {
            let _ = wake.send(());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn show(clock: Clock, bar: &ProgressBar, is_woken: &Receiver<()>) {
    let can_move = can_move(std::io::stderr().is_terminal());
    let began = Instant::now();
    let mut pace = Pace::new(began);
    loop {
        let is_news = match is_woken.recv_timeout(LOOKS_EVERY) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if !can_move {
            // No line before the work has begun, when it has no name yet.
            let is_due = pace.is_due(Instant::now()) && !bar.prefix().is_empty();
            if is_news || is_due {
                print_note(&line(clock, bar, SystemTime::now(), began.elapsed()));
            }
        } else if bar.is_hidden() {
            if began.elapsed() >= SHOWN_AFTER {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        } else {
            bar.tick();
        }
    }
}

/// The line that is printed where there is no terminal.
fn line(clock: Clock, bar: &ProgressBar, now: SystemTime, gone: Duration) -> String {
    let unix_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let percent = match bar.length() {
        None | Some(0) => String::new(),
        Some(steps) => format!("{} %", bar.position() * 100 / steps),
    };
    let after = match clock {
        Clock::Own => format!("after {}", duration(gone.as_secs())),
        Clock::Message => String::new(),
    };
    let parts = [percent, after, bar.message()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{}  {}: {}", date(unix_s), bar.prefix(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_what_and_how_far() {
        let bar = ProgressBar::with_draw_target(Some(50), ProgressDrawTarget::hidden());
        bar.set_prefix("points");
        bar.set_position(21);
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(
            line(Clock::Own, &bar, now, Duration::from_secs(130)),
            "2023-11-14 22:13:20 UTC  points: 42 %, after 2m 10s"
        );
        bar.set_message("8 MiB/s, 3 s left");
        assert_eq!(
            line(Clock::Message, &bar, now, Duration::from_secs(130)),
            "2023-11-14 22:13:20 UTC  points: 42 %, 8 MiB/s, 3 s left"
        );
        bar.set_length(0);
        bar.set_message("one drive");
        assert_eq!(
            line(Clock::Own, &bar, now, Duration::from_secs(60)),
            "2023-11-14 22:13:20 UTC  points: after 1m, one drive"
        );
    }

    #[test]
    fn lines_come_after_a_few_seconds_and_then_each_minute() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let said: Vec<u64> = (0..130)
            .filter(|second| pace.is_due(began + Duration::from_secs(*second)))
            .collect();
        assert_eq!(said, [5, 65, 125]);
    }

    #[test]
    fn work_that_is_short_ends_without_a_wait() {
        let began = Instant::now();
        let bar = Bar::new("points", 2);
        bar.at(1);
        drop(bar);
        assert!(began.elapsed() < LOOKS_EVERY);
    }
}
