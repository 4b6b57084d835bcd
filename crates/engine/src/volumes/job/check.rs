//! Invariants of a job between two turns: see [`crate::shard::check`].

use crate::volumes::job::{JobRunner, WINDOW};

impl JobRunner {
    /// Checks the job between two turns; so many `bands` of it are under way.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which.
    pub fn check(&self, bands: usize) {
        assert_eq!(
            self.in_flight as usize, bands,
            "bands of job {} under way: counted, and found",
            self.view.id
        );
        assert!(
            self.cursor <= self.next
                && self.next <= self.bands
                && self.next - self.cursor <= WINDOW,
            "job {} is between bands {} and {} of {}",
            self.view.id,
            self.cursor,
            self.next,
            self.bands
        );
        let begun = self.next - self.cursor;
        assert!(
            begun >= WINDOW || self.done >> begun == 0,
            "job {} has done bands that it has not begun",
            self.view.id
        );
    }
}
