//! How far long work is, on standard error: a bar on a terminal, elsewhere a dated line now and then, so that a log of
//! many minutes shows that something still happens, and what.
//!
//! A thread of its own looks at the clock: one step may take minutes, and the time that has gone shows meanwhile.

use super::words::{date, print_note};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shorter work shows nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Between two looks at the clock.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Between two lines where there is no terminal.
const SAYS_EVERY: Duration = Duration::from_secs(60);

/// Shows how far some work is, until it is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    /// Dropped to end the thread.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bar {
    /// For work of so many steps, 0 if that is not known; `what` names the steps.
    pub(super) fn new(what: &'static str, steps: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let style =
            format!("{what} {{bar:30}} {{percent:>3}} %  {{elapsed}} gone, {{eta}} left  {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&style) {
            bar.set_style(style);
        }
        let (over, is_over) = channel();
        let shown = bar.clone();
        let thread = std::thread::Builder::new().name("progress".to_owned());
        // Without a thread to be had the work goes on all the same, and shows nothing.
        let thread = thread.spawn(move || show(what, &shown, &is_over)).ok();
        Bar {
            bar,
            over: Some(over),
            thread,
        }
    }

    /// So many steps are done.
    pub(super) fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// There are so many steps in all.
    pub(super) fn set_steps(&self, steps: u64) {
        self.bar.set_length(steps);
    }

    /// What is being done now.
    pub(super) fn say(&self, now: String) {
        self.bar.set_message(now);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn show(what: &str, bar: &ProgressBar, is_over: &Receiver<()>) {
    let is_terminal = std::io::stderr().is_terminal();
    let (began, mut said) = (Instant::now(), Instant::now());
    while is_over.recv_timeout(LOOKS_EVERY) == Err(RecvTimeoutError::Timeout) {
        if !is_terminal {
            if said.elapsed() >= SAYS_EVERY {
                said = Instant::now();
                print_note(&line(what, bar, SystemTime::now(), began.elapsed()));
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

/// The line where there is no terminal.
fn line(what: &str, bar: &ProgressBar, now: SystemTime, gone: Duration) -> String {
    let unix_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let minutes = gone.as_secs() / 60;
    let percent = match bar.length() {
        None | Some(0) => String::new(),
        Some(steps) => format!("{} % ", bar.position() * 100 / steps),
    };
    let message = bar.message();
    let line = format!(
        "{}  {what}: {percent}after {minutes} min  {message}",
        date(unix_s)
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_what_and_how_far() {
        let bar = ProgressBar::with_draw_target(Some(50), ProgressDrawTarget::hidden());
        bar.set_position(21);
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(
            line("points", &bar, now, Duration::from_secs(130)),
            "2023-11-14 22:13:20 UTC  points: 42 % after 2 min"
        );
        bar.set_length(0);
        bar.set_message("one drive");
        assert_eq!(
            line("points", &bar, now, Duration::from_secs(60)),
            "2023-11-14 22:13:20 UTC  points: after 1 min  one drive"
        );
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
