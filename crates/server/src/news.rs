//! Passes events from the data threads to the thread that reports them.
//!
//! A data thread never waits for that thread. Most events are rare: they come from decisions of the controller, and
//! orders wait for their answers, so every one of them is delivered. Reports of single blocks are different: a client
//! can cause one with every request. Of those, at most [`REPORTS_MAX`] may be in the queue. Further ones are dropped
//! and counted, and the count is delivered.

use super::watch::Notice;
use container::persist::Inexpressible;
use engine::event::Event;
use engine::units::MemberId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of reports of single blocks in the queue.
pub(super) const REPORTS_MAX: u64 = 1000;

/// What the data threads and the watch have to report.
#[derive(Debug)]
pub(super) enum News {
    /// From the engine.
    Engine(Event),
    /// From the watch.
    Watch(MemberId, Notice),
    /// A record that the metadata cannot express, so that nothing of it was written.
    NotExpressible(Inexpressible),
}

impl News {
    /// Whether it is about a single block.
    fn is_report(&self) -> bool {
        matches!(
            self,
            News::Engine(
                Event::Mismatch { .. }
                    | Event::ReadRepaired { .. }
                    | Event::Unrecoverable { .. }
                    | Event::BadBlocksRecorded(_)
                    | Event::BadBlocksCleared(_)
            )
        )
    }
}

#[derive(Debug, Default)]
struct Reports {
    waiting: AtomicU64,
    left_out: AtomicU64,
}

/// The sending side; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct NewsSender {
    news: Sender<News>,
    reports: Arc<Reports>,
}

/// The receiving side.
#[derive(Debug)]
pub(super) struct NewsReceiver {
    news: Receiver<News>,
    reports: Arc<Reports>,
}

/// A queue for news.
pub(super) fn news() -> (NewsSender, NewsReceiver) {
    let (sender, receiver) = channel();
    let reports = Arc::new(Reports::default());
    let sender = NewsSender {
        news: sender,
        reports: reports.clone(),
    };
    let receiver = NewsReceiver {
        news: receiver,
        reports,
    };
    (sender, receiver)
}

impl NewsSender {
    /// Sends news, or drops and counts a report if the queue has too many of them.
    pub fn send(&self, news: News) {
        if news.is_report() && self.reports.waiting.fetch_add(1, Ordering::Relaxed) >= REPORTS_MAX {
            self.reports.waiting.fetch_sub(1, Ordering::Relaxed);
            self.reports.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The receiving thread outlives every sender.
        let _ = self.news.send(news);
    }
}

impl NewsReceiver {
    /// The next news, and how many reports have been dropped since the previous call; `None` when no sender
    /// is left.
    pub fn next(&self) -> Option<(News, u64)> {
        let news = self.news.recv().ok()?;
        if news.is_report() {
            self.reports.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        Some((news, self.reports.left_out.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::VolumeId;

    #[test]
    fn a_hundred_times_more_reports_than_fit_are_counted_and_nothing_else_is_lost() {
        const EACH: u64 = 50 * REPORTS_MAX;
        let (sender, receiver) = news();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for number in 0..EACH {
                        sender.send(News::Engine(Event::Unrecoverable {
                            volume: VolumeId(0),
                            offset_bytes: number,
                        }));
                        if number % 100 == 0 {
                            sender.send(News::Engine(Event::MemberOverdue(MemberId(7))));
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(sender);
        let (mut told, mut left_out, mut others) = (0, 0, 0);
        while let Some((news, more)) = receiver.next() {
            left_out += more;
            match news {
                News::Engine(Event::Unrecoverable { .. }) => told += 1,
                News::Engine(Event::MemberOverdue(MemberId(7))) => others += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((told, left_out), (REPORTS_MAX, 2 * EACH - REPORTS_MAX));
        assert_eq!(others, 2 * EACH / 100);
        let reports = &receiver.reports;
        assert_eq!(reports.waiting.load(Ordering::Relaxed), 0);
    }
}
