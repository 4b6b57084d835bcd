//! Writes to a volume with a log wait while a member's failure is not on record.
//!
//! The drive that has failed may be the one that holds a row's parity, and with it the row's log: then nothing can be
//! logged. Without parity nothing has to be, but only if the drive stays out. Until its failure is on record a crash
//! can bring it back, with parity that does not fit what was written meanwhile, and no log entry tells where. So a
//! plan that has not written yet starts no further stage before that. Reads and computations of other work continue.

use crate::flight::running::Work;
use crate::shard::Engine;

/// What becomes of a plan's next stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum NextStage {
    /// It may begin.
    MayBegin,
    /// It waits for the record; the plan is advanced when it may begin.
    Waits,
    /// It never begins, nor does one after it: the plan has come to its end.
    GivenUp,
}

impl Engine {
    /// Decides whether a plan's next stage may begin. If the stage has to wait for the record, the plan is queued for
    /// that. If the record will never come, the plan gives up writing.
    #[inline]
    pub(crate) fn prepare_next_stage(&mut self, index: u32) -> NextStage {
        let running = self.flight.running(index);
        if running.has_written() || !matches!(running.work(), Work::Write { .. }) {
            return NextStage::MayBegin;
        }
        let volume = &self.volumes[running.volume() as usize];
        if volume.unrecorded().is_empty() || !volume.view().row.logged {
            return NextStage::MayBegin;
        }
        if volume.records_nothing() {
            // The failure will never be on record, and the drive may come back: in rows that a rebuild has passed,
            // enough drives are left to write to, but not to keep parity true.
            self.give_up_writing(index);
            return NextStage::GivenUp;
        }
        self.hole_logs.wait_for_record(index);
        NextStage::Waits
    }

    /// Ends a plan without the writes that it has not issued yet: its volume has lost too many members, or their
    /// failures cannot be recorded. The members whose failure is not on record count as having missed it, so that the
    /// plan is not taken for one that is complete.
    #[cold]
    pub(crate) fn give_up_writing(&mut self, index: u32) {
        let running = self.flight.running_mut(index);
        running.miss_all(self.volumes[running.volume() as usize].unrecorded());
        running.write_nothing_more();
    }
}
