//! The thread that receives news from data threads and from the watch, and passes them on to the log, the hook, and
//! threads that wait for an answer.

use super::{Shared, lock};
use crate::events::{Names, Told, tell, tell_left_out, tell_not_expressible, tell_notice};
use crate::news::{News, NewsReceiver};
use anyhow::Result;
use engine::event::{Event, VolumeEnd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Starts the thread: it answers commands, reports events, and notices the end. Nothing that it calls may block,
/// because orders wait for their answers from it.
pub(super) fn spawn(
    shared: Arc<Shared>,
    heard: NewsReceiver,
    told: impl Fn(Told) + Send + 'static,
) -> Result<()> {
    std::thread::Builder::new()
        .name("events".to_owned())
        .spawn(move || {
            while let Some((news, left_out)) = heard.next() {
                if left_out > 0 {
                    shared.scrubs.missed_some();
                    told(tell_left_out(left_out));
                }
                if let News::Engine(Event::Answered { ticket, result }) = news {
                    if let Some(answer) = lock(&shared.waiting).remove(&ticket) {
                        let _ = answer.send(result);
                    }
                    continue;
                }
                if shared.hear_inspection(&news) {
                    continue;
                }
                let news = match news {
                    News::Engine(event) => News::Engine(shared.scrubs.hear(event)),
                    news => news,
                };
                let words = {
                    let mut facts = lock(&shared.facts);
                    facts.hear(&news);
                    let names = Names {
                        volumes: &facts.volume_names,
                        drives: &facts.drives,
                    };
                    match &news {
                        News::Engine(event) => tell(event, &names),
                        News::Watch(member, notice) => Some(tell_notice(*member, *notice, &names)),
                        News::NotExpressible(error) => Some(tell_not_expressible(error)),
                    }
                };
                if let Some(words) = words {
                    if is_failed_end(&news) {
                        lock(&shared.ended_failed).extend(words.volume.clone());
                    }
                    told(words);
                }
                if let News::Engine(Event::Stopped) = news {
                    shared.stopped.store(true, Ordering::Release);
                }
            }
        })?;
    Ok(())
}

/// Whether a volume that had failed has been stopped.
fn is_failed_end(news: &News) -> bool {
    let failed = VolumeEnd::Failed;
    matches!(news, News::Engine(Event::VolumeStopped { end, .. }) if *end == failed)
}
