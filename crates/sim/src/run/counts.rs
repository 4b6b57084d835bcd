//! What a history has seen, in numbers: so that a campaign can tell whether what it is about has happened.

use super::lies::LieCounts;

/// What was done how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed.
    pub request_errors: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Faults beyond the budget, left out.
    pub faults_skipped: u64,
    /// Processes started.
    pub lives: u64,
    /// Write-hole logs replayed at their starts.
    pub replays: u64,
    /// Times that a rebuild put a block it could not have into the bad-block log.
    pub blocks_recorded: u64,
    /// Records that the metadata could not express.
    pub inexpressible: u64,
    /// Resyncs at their starts that went by a bitmap.
    pub resyncs_by_bitmap: u64,
    /// Drives that were taken back, lacking only what bitmaps mark.
    pub taken_back: u64,
    /// Drives that were plugged in again while the array served.
    pub brought_back: u64,
    /// What became of drives' lies.
    pub lies: LieCounts,
    /// Entries of the event log.
    pub happenings: u64,
    /// Virtual time.
    pub virtual_ms: u64,
}

impl Counts {
    /// Adds those of another history.
    pub fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.request_errors += other.request_errors;
        self.faults += other.faults;
        self.faults_skipped += other.faults_skipped;
        self.lives += other.lives;
        self.replays += other.replays;
        self.blocks_recorded += other.blocks_recorded;
        self.inexpressible += other.inexpressible;
        self.resyncs_by_bitmap += other.resyncs_by_bitmap;
        self.taken_back += other.taken_back;
        self.brought_back += other.brought_back;
        self.lies.add(&other.lies);
        self.happenings += other.happenings;
        self.virtual_ms += other.virtual_ms;
    }
}
