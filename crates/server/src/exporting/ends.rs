//! The end of all exports: clients are ended in order, or kept for the next process.

use super::{Exports, Stage, messages};
use crate::runtime::Shared;
use anyhow::{Result, bail};
use exports::inherited::Named;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

impl Exports {
    /// Ends all clients in order: requests in flight are answered, then the clients are disconnected, or, if this process
    /// `hands_over`, kept for the next one as far as that is possible. Other machines are the first, while the array still
    /// answers what the kernel waits for.
    ///
    /// # Errors
    /// Clients were not all gone in time.
    pub fn stop(&self, shared: &Shared, within: Duration, hands_over: bool) -> Result<()> {
        let mut all = self.all();
        all.stage = Stage::Ended;
        all.end_exports(hands_over);
        let count = all.exports.len() * usize::from(shared.shards());
        let left = Arc::new(AtomicUsize::new(count));
        let count = left.clone();
        let ended: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            count.fetch_sub(1, Ordering::AcqRel);
        });
        for (at, export) in all.exports.iter_mut().enumerate() {
            let messages = messages(shared, at);
            match hands_over {
                true => export.hand_over(&messages, &ended),
                false => export.stop(&messages, &ended),
            }
        }
        drop(all);
        let deadline = Instant::now() + within;
        while left.load(Ordering::Acquire) > 0 {
            if Instant::now() > deadline {
                bail!("clients did not end within {} s", within.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// What the next process gets of all exports, after [`Exports::stop`] has handed over and the data threads have ended.
    ///
    /// # Errors
    /// The system refuses something; then the next process gets nothing.
    pub fn handed_over(&self) -> Result<Vec<Named>> {
        let mut all = self.all();
        let of_exports = all.exports.iter_mut();
        let of_exports = of_exports.map(|export| export.handed_over());
        let of_exports: Vec<Vec<Named>> = of_exports.collect::<Result<_>>()?;
        Ok(of_exports.into_iter().flatten().collect())
    }

    /// Removes the files of the exports' sockets.
    pub fn release(&self) {
        self.all().exports.clear();
    }
}
