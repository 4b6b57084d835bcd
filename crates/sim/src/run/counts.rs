//! Counts of what happened in a history, so that a campaign can tell whether the situations that it tests have
//! occurred.

use super::lies::LieCounts;
use crate::ublk::UblkCounts;
use crate::vhost_user::VhostUserCounts;

/// How often what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed.
    pub request_errors: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Faults left out because the budget does not allow them.
    pub faults_skipped: u64,
    /// Processes started.
    pub lives: u64,
    /// Write-hole logs replayed at starts.
    pub replays: u64,
    /// Ranges that were put into the bad-block log.
    pub blocks_recorded: u64,
    /// Records that the metadata could not express.
    pub inexpressible: u64,
    /// Resyncs at starts that covered only what a bitmap marks.
    pub resyncs_by_bitmap: u64,
    /// Drives that were taken back as lacking only what bitmaps mark.
    pub taken_back: u64,
    /// Drives that were plugged in again while the array was in service.
    pub brought_back: u64,
    /// Counts of drives' lies.
    pub lies: LieCounts,
    /// Counts of block devices.
    pub ublk: UblkCounts,
    /// Counts of guests.
    pub vhost_user: VhostUserCounts,
    /// Entries of the event log.
    pub happenings: u64,
    /// Virtual time.
    pub virtual_ms: u64,
}

impl Counts {
    /// Adds the counts of another history.
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
        self.ublk.add(&other.ublk);
        self.vhost_user.add(&other.vhost_user);
        self.happenings += other.happenings;
        self.virtual_ms += other.virtual_ms;
    }
}
