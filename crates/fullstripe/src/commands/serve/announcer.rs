//! What a serving process says on its standard output and error.
//!
//! If the reader stops reading, a write blocks for ever. So a separate thread writes, and no other thread waits for it:
//! messages go into a queue of limited length, messages that do not fit are dropped, and their number is printed as
//! soon as the reader continues. Data threads report clients' errors here, so the queue has no lock. So that a terminal
//! stays readable, reports of many blocks of one drive or volume become one line a second, with a count ([`Run`]).

use alerts::Severity;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most messages that wait to be written; `events` keeps the same number.
const QUEUE_MAX: usize = 1000;
/// The first of several reports about one object is printed at once, the others together this much later.
const TOGETHER: Duration = Duration::from_secs(1);
/// How often the thread's end is polled.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One message, with its line breaks.
enum Message {
    Output(String),
    Error(String),
    /// One of perhaps many with the same `about`.
    Report {
        about: String,
        text: String,
    },
    /// No message follows.
    End,
}

/// Reports about one object since the first of them was printed.
struct Run {
    about: String,
    until: Instant,
    untold: u64,
    last: String,
}

impl Run {
    fn begin(about: String, together: Duration) -> Run {
        Run {
            about,
            until: Instant::now() + together,
            untold: 0,
            last: String::new(),
        }
    }

    /// One line about the reports since then; empty if there were none.
    fn text(&self) -> String {
        match self.untold {
            0 => String::new(),
            1 => self.last.clone(),
            count => format!(
                "{}, and {} more like it before\n",
                self.last.trim_end(),
                count - 1
            ),
        }
    }
}

/// The queue and its thread.
pub(super) struct Announcer {
    queue: SyncSender<Message>,
    /// No message is accepted any more.
    is_ended: AtomicBool,
    dropped: Arc<AtomicU64>,
    /// Standard error is the journal of systemd.
    is_journal: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Whether standard error is what `JOURNAL_STREAM` names by its device and inode: see systemd.exec(5).
fn is_journal(stream: Option<&str>, error: impl AsFd) -> bool {
    let facts = rustix::fs::fstat(error).ok();
    let names = facts.map(|facts| format!("{}:{}", facts.st_dev, facts.st_ino));
    stream.is_some() && stream == names.as_deref()
}

impl Announcer {
    /// Starts the thread, which writes to `output` and `error`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        output: impl Write + Send + 'static,
        error: impl Write + Send + 'static,
    ) -> Result<Announcer> {
        Announcer::with(TOGETHER, output, error)
    }

    fn with(
        together: Duration,
        output: impl Write + Send + 'static,
        error: impl Write + Send + 'static,
    ) -> Result<Announcer> {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        let thread = std::thread::Builder::new()
            .name("announcer".to_owned())
            .spawn(move || write_all(&messages, (&count, together), output, error))
            .context("cannot start the thread that prints")?;
        Ok(Announcer {
            queue,
            is_ended: AtomicBool::new(false),
            dropped,
            is_journal: is_journal(
                std::env::var("JOURNAL_STREAM").ok().as_deref(),
                std::io::stderr(),
            ),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Prints a message for people, on standard error. Never blocks.
    pub fn say(&self, text: &dyn Display) {
        self.put(Message::Error(format!("fullstripe: {text}\n")));
    }

    /// As [`Announcer::say`], of something this grave. The journal learns the severity, as sd-daemon(3) describes it.
    pub fn say_so_grave(&self, severity: Severity, text: &dyn Display) {
        match self.is_journal {
            true => {
                let priority = severity.priority();
                self.put(Message::Error(format!("<{priority}>fullstripe: {text}\n")));
            }
            false => self.say(text),
        }
    }

    /// As [`Announcer::say`], one of perhaps many reports about the same thing.
    pub fn report(&self, about: String, text: &dyn Display) {
        let text = format!("fullstripe: {text}\n");
        self.put(Message::Report { about, text });
    }

    /// Prints a result, on standard output. Never blocks.
    pub fn print(&self, text: String) {
        self.put(Message::Output(text));
    }

    fn put(&self, message: Message) {
        let is_ended = self.is_ended.load(Ordering::Acquire);
        if is_ended || self.queue.try_send(message).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Accepts no more messages, and waits at most `within` until all are written.
    pub fn finish(&self, within: Duration) {
        self.is_ended.store(true, Ordering::Release);
        let deadline = Instant::now() + within;
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut is_told = false;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < deadline
        {
            // Sent as soon as the queue has room.
            is_told = is_told || self.queue.try_send(Message::End).is_ok();
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The body of the thread. A closed output must not end the array.
fn write_all(
    messages: &Receiver<Message>,
    (dropped, together): (&AtomicU64, Duration),
    mut output: impl Write,
    mut error: impl Write,
) {
    let mut run: Option<Run> = None;
    loop {
        let message = match &run {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(run) => messages.recv_timeout(run.until.saturating_duration_since(Instant::now())),
        };
        if let (Some(open), Ok(Message::Report { about, text })) = (&mut run, &message)
            && open.about == *about
            && Instant::now() < open.until
        {
            open.untold += 1;
            open.last.clone_from(text);
            continue;
        }
        // Any other message is printed after the collected reports.
        let told = run.take().map_or(String::new(), |run| run.text());
        let _ = error.write_all(told.as_bytes());
        let _ = match message {
            Ok(Message::Output(text)) => output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush()),
            Ok(Message::Error(text)) => error.write_all(text.as_bytes()),
            Ok(Message::Report { about, text }) => {
                run = Some(Run::begin(about, together));
                error.write_all(text.as_bytes())
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = writeln!(
                error,
                "fullstripe: {count} messages were left out, because nobody was reading"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn a_hundred_times_more_messages_than_fit_hold_up_nobody() {
        const MESSAGES: usize = 100 * QUEUE_MAX;
        let (reader, writer) = std::io::pipe().unwrap();
        let announcer = Announcer::start(std::io::sink(), writer).unwrap();
        let begin = Instant::now();
        (0..MESSAGES).for_each(|number| announcer.say(&number));
        assert!(begin.elapsed() < Duration::from_secs(10), "say waited");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        // Messages that were written or queued arrive in order. Lines between them count those left out.
        let (mut said, mut left_out, mut last) = (0, 0, None);
        while said + left_out < MESSAGES {
            let line = lines.next().unwrap();
            let text = line.strip_prefix("fullstripe: ").unwrap();
            if let Some(count) =
                text.strip_suffix(" messages were left out, because nobody was reading")
            {
                left_out += count.parse::<usize>().unwrap();
            } else {
                let number = Some(text.parse::<usize>().unwrap());
                assert!(number > last, "{line} after {last:?}");
                (said, last) = (said + 1, number);
            }
        }
        // Beside the queue, the pipe holds 64 KiB of lines of about 18 bytes, and the thread holds one line.
        assert!((QUEUE_MAX..QUEUE_MAX + 5000).contains(&said), "{said}");
        announcer.say(&"the end");
        announcer.finish(Duration::from_secs(20));
        assert_eq!(lines.next().unwrap(), "fullstripe: the end");
        assert!(lines.next().is_none(), "the thread has ended");
    }

    #[test]
    fn the_journal_learns_how_grave_a_message_is() {
        let file = tempfile::tempfile().unwrap();
        let facts = rustix::fs::fstat(&file).unwrap();
        let named = format!("{}:{}", facts.st_dev, facts.st_ino);
        assert!(is_journal(Some(&named), &file));
        assert!(!is_journal(Some("1:1"), &file));
        assert!(!is_journal(None, &file));
        for (to_journal, wanted) in [
            (true, "<2>fullstripe: gone\n"),
            (false, "fullstripe: gone\n"),
        ] {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let mut announcer = Announcer::start(std::io::sink(), writer).unwrap();
            announcer.is_journal = to_journal;
            announcer.say_so_grave(Severity::Critical, &"gone");
            announcer.finish(Duration::from_secs(20));
            let mut said = String::new();
            std::io::Read::read_to_string(&mut reader, &mut said).unwrap();
            assert_eq!(said, wanted);
        }
    }

    #[test]
    fn reports_about_one_thing_are_told_together() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let announcer = Announcer::with(Duration::from_secs(600), std::io::sink(), writer).unwrap();
        let report = |about: &str, lba: u32| {
            announcer.report(about.to_owned(), &format_args!("{about}: LBA {lba} is bad"));
        };
        announcer.say(&"d1 is failed");
        (0..339).for_each(|lba| report("a", lba));
        report("b", 7);
        report("b", 8);
        report("a", 400);
        announcer.say(&"the end");
        announcer.finish(Duration::from_secs(20));
        let mut said = String::new();
        std::io::Read::read_to_string(&mut reader, &mut said).unwrap();
        let lines: Vec<&str> = said
            .lines()
            .map(|line| line.strip_prefix("fullstripe: ").unwrap())
            .collect();
        let wanted = [
            "d1 is failed",
            "a: LBA 0 is bad",
            "a: LBA 338 is bad, and 337 more like it before",
            "b: LBA 7 is bad",
            "b: LBA 8 is bad",
            "a: LBA 400 is bad",
            "the end",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_run_that_pauses_is_told_without_waiting_for_its_end() {
        let (reader, writer) = std::io::pipe().unwrap();
        let announcer = Announcer::start(std::io::sink(), writer).unwrap();
        (0..3).for_each(|lba| announcer.report("a".to_owned(), &lba));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "fullstripe: 0");
        assert_eq!(
            lines.next().unwrap(),
            "fullstripe: 2, and 1 more like it before"
        );
    }

    #[test]
    fn an_end_does_not_wait_for_a_reader_who_does_not_read() {
        let (reader, writer) = std::io::pipe().unwrap();
        let announcer = Announcer::start(writer, std::io::sink()).unwrap();
        announcer.print("x".repeat(1 << 20));
        let begin = Instant::now();
        announcer.finish(Duration::from_millis(50));
        assert!(begin.elapsed() < Duration::from_secs(10));
        drop(reader);
    }
}
