//! What a serving process says on its standard output and error.
//!
//! Whoever reads there may stop reading, and a write then takes for ever. So a thread of its own writes,
//! and nobody waits for it: messages go into a queue of limited length, what does not fit is dropped, and
//! how much that was is said as soon as somebody reads again.

use crate::serve::runtime::lock;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Messages that wait to be written: what `events` remembers, too.
const QUEUE_MAX: usize = 1000;
/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One message, with its line breaks.
enum Message {
    Output(String),
    Error(String),
}

/// The queue and its thread.
pub(super) struct Announcer {
    queue: Mutex<Option<SyncSender<Message>>>,
    dropped: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Announcer {
    /// Says to `output` and `error` from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        output: impl Write + Send + 'static,
        error: impl Write + Send + 'static,
    ) -> Result<Announcer> {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        let thread = std::thread::Builder::new()
            .name("announcer".to_owned())
            .spawn(move || write_all(&messages, &count, output, error))
            .context("cannot start the thread that prints")?;
        Ok(Announcer {
            queue: Mutex::new(Some(queue)),
            dropped,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Tells people, on standard error. Never blocks.
    pub fn say(&self, text: &dyn Display) {
        self.put(Message::Error(format!("fullstripe: {text}\n")));
    }

    /// Prints a result, on standard output. Never blocks.
    pub fn print(&self, text: String) {
        self.put(Message::Output(text));
    }

    fn put(&self, message: Message) {
        let sent = lock(&self.queue)
            .as_ref()
            .is_some_and(|queue| queue.try_send(message).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes no more, and waits, for at most `within`, until all is written.
    pub fn finish(&self, within: Duration) {
        lock(&self.queue).take();
        let deadline = Instant::now() + within;
        let thread = lock(&self.thread).take();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < deadline
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The body of the thread. That nobody listens any more must not end the array.
fn write_all(
    messages: &Receiver<Message>,
    dropped: &AtomicU64,
    mut output: impl Write,
    mut error: impl Write,
) {
    for message in messages {
        let _ = match message {
            Message::Output(text) => output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush()),
            Message::Error(text) => error.write_all(text.as_bytes()),
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
        assert!(begin.elapsed() < Duration::from_secs(10), "it waited");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        // What was written and what waited, in order; between them, how much was left out.
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
        // A pipe holds 64 KiB of lines of about 18 bytes, and the thread one.
        assert!((QUEUE_MAX..QUEUE_MAX + 5000).contains(&said), "{said}");
        announcer.say(&"the end");
        announcer.finish(Duration::from_secs(20));
        assert_eq!(lines.next().unwrap(), "fullstripe: the end");
        assert!(lines.next().is_none(), "the thread has ended");
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
