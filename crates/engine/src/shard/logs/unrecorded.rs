//! Writes to a volume with a log wait while a member's failure is not on record.
//!
//! The drive that has failed may be the one that holds a row's parity, and with it the row's log: then
//! nothing can be logged. Without parity nothing has to be, but only if the drive stays out. Until its failure
//! is on record a crash can bring it back, with parity that does not fit what was written meanwhile and no
//! entry that tells. So a plan goes no further towards its first write before that. Reads and
//! computations of other work go on.

use crate::flight::running::Work;
use crate::shard::Engine;

impl Engine {
    /// Whether a plan has to wait before its next stage; it is advanced when it may go on.
    #[inline]
    pub(crate) fn waits_for_record(&mut self, index: u32) -> bool {
        let running = &self.flight.running[index];
        if running.has_written() || !matches!(running.work, Work::Write { .. }) {
            return false;
        }
        let volume = &self.volumes[running.volume as usize];
        if volume.unrecorded.is_empty() || !volume.view.row.logged {
            return false;
        }
        if volume.records_nothing {
            // It never will be, and the drive may come back: in rows that a rebuild has been over, enough is
            // left to write to, but not to keep parity true.
            return self.give_up_unrecorded(index);
        }
        self.hole_logs.wait_for_record(index);
        true
    }

    /// Ends a plan of a volume that has lost too much, or whose losses nobody can record, without writing what it has not written. Somebody's loss
    /// is not on record, or it would not be lost: with that it cannot be taken for one that is done.
    #[cold]
    pub(crate) fn give_up_writing(&mut self, index: u32) {
        let running = &mut self.flight.running[index];
        running.miss_all(self.volumes[running.volume as usize].unrecorded);
        running.write_nothing_more();
    }

    #[cold]
    fn give_up_unrecorded(&mut self, index: u32) -> bool {
        self.give_up_writing(index);
        self.finished(index);
        true
    }

    /// Goes on with plans whose members' failures are on record, or never will be.
    pub(crate) fn settle_unlogged(&mut self) {
        for _ in 0..self.hole_logs.waiting_for_record().len() {
            let index = self.hole_logs.take_first_recorded();
            let running = &mut self.flight.running[index];
            let volume = &self.volumes[running.volume as usize];
            // They miss this write, if it comes to that.
            running.miss_all(volume.unrecorded);
            if volume.records_nothing && !volume.unrecorded.is_empty() {
                self.give_up_writing(index);
            }
            self.advance(index);
        }
    }
}
