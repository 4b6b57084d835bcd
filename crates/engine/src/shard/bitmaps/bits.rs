//! A bitmap's bits are set and cleared. See [`crate::bitmap`] for the rules.
//!
//! That is done by plans of one durable write to each drive, one plan at a time: what is requested meanwhile goes with
//! the next plan. Drives that are being filled get the bitmap, too. A drive that misses such a write has failed, and no
//! shard is told that the bits are set before that failure is on record.
//!
//! The plans are made here, and started by whoever has asked for them, or has ended the plan before them.

use crate::bitmap::keeper::Stage;
use crate::control::message::Message;
use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Step, StepKind, mirror};
use crate::shard::Engine;
use crate::units::{Slot, VolumeId};

impl Engine {
    /// Plans the next write, if there is something to write and nothing under way.
    #[must_use = "the plan in it is to be started"]
    pub(crate) fn write_bits(&mut self, index: usize) -> Option<u32> {
        let keeper = &mut self.keepers[index];
        let writes = keeper.wants_write()
            && self.flight.plans_available() > 0
            && !self.volumes[keeper.volume()].records_nothing();
        if !writes {
            return None;
        }
        keeper.begin_write();
        Some(self.issue_bits(index))
    }

    /// Plans a write of what has changed to every drive that carries the bitmap.
    #[must_use = "this plan is to be started"]
    fn issue_bits(&mut self, index: usize) -> u32 {
        let keeper = &mut self.keepers[index];
        let (from, to) = keeper.take_changed();
        let volume = keeper.volume() as u8;
        let (offset_bytes, buffer) = keeper.place_of(from);
        let length_bytes = (to - from) as u64 * 8;
        let work = Work::Bitmap { volume };
        let plan = self.flight.take_plan(work, volume, NONE);
        let running = self.flight.running_mut(plan);
        let kind = StepKind::Write { fua: true };
        for (slot, member) in (0u8..).zip(&self.volumes[usize::from(volume)].view().slots) {
            if member.is_some() {
                let step = Step::member(kind, 0, Slot(slot), offset_bytes, length_bytes);
                running.plan_mut().transfer(step, buffer);
            }
        }
        self.desk.stats.bitmap_writes += 1;
        let words = (from as u32, to as u32);
        let volume = VolumeId(volume);
        self.desk.ask(Output::Bitmap { volume, words });
        plan
    }

    /// A plan for a bitmap has ended, and what drives missed of it is on record. Returns the plan that is to be started
    /// now, if there is one.
    #[must_use = "the plan in it is to be started"]
    pub(crate) fn bitmap_done(&mut self, volume: u8) -> Option<u32> {
        let index = self.own_keeper(volume as usize);
        match self.keepers[index].end() {
            Stage::Writing => self.grant(index),
            Stage::Flushing => return self.clear_bits(index),
            Stage::Idle => unreachable!("no plan of the bitmap is under way"),
        }
        self.write_bits(index)
            .or_else(|| self.go_on_clearing(index))
    }

    /// Tells all shards of bits that have become durable.
    fn grant(&mut self, index: usize) {
        let keeper = &mut self.keepers[index];
        let at = keeper.volume();
        let volume = VolumeId(at as u8);
        let is_on_record = !self.volumes[at].records_nothing();
        keeper.grant(|regions| {
            if is_on_record {
                let message = Message::RegionsMarked { volume, regions };
                self.desk.tell_shards(&message);
            }
        });
    }

    /// All shards have answered: what was written in regions at rest is made durable before their bits go. Returns the
    /// plan for the next step, if there is one.
    #[must_use = "the plan in it is to be started"]
    pub(crate) fn go_on_clearing(&mut self, index: usize) -> Option<u32> {
        let keeper = &self.keepers[index];
        if !keeper.may_clear() {
            return None;
        }
        let at = keeper.volume();
        if !keeper.has_to_clear() || !self.is_whole(at) {
            self.keepers[index].end_round();
            return None;
        }
        let (slots, shadows) =
            self.volumes[at].to_flush(self.members.volatile(), self.members.failed());
        if slots.0 | shadows.0 == 0 {
            return self.clear_bits(index);
        }
        if self.flight.plans_available() == 0 {
            return None;
        }
        let work = Work::Bitmap { volume: at as u8 };
        let plan = self.flight.take_plan(work, at as u8, NONE);
        mirror::flush(self.flight.running_mut(plan).plan_mut(), slots, shadows);
        self.keepers[index].begin_flush();
        Some(plan)
    }

    /// Everything written in the regions is durable on all drives. If the volume is still whole, their bits are
    /// cleared. Returns the plan of the next write, if there is one.
    #[must_use = "the plan in it is to be started"]
    fn clear_bits(&mut self, index: usize) -> Option<u32> {
        let at = self.keepers[index].volume();
        if self.is_whole(at) && self.flight.plans_available() > 0 {
            let message = Message::RegionsCleared {
                volume: VolumeId(at as u8),
                cleared: self.keepers[index].clear(),
            };
            self.desk.tell_shards(&message);
        }
        if self.keepers[index].end_round() {
            return Some(self.issue_bits(index));
        }
        self.write_bits(index)
    }

    pub(crate) fn keeper_of(&self, volume: usize) -> Option<usize> {
        let mut keepers = self.keepers.iter();
        keepers.position(|keeper| keeper.volume() == volume)
    }

    /// The keeper of a volume that has a bitmap, on the shard that keeps it.
    pub(crate) fn own_keeper(&self, volume: usize) -> usize {
        let keeper = self.keeper_of(volume);
        keeper.unwrap_or_else(|| {
            panic!(
                "shard {} keeps no bitmap of volume {volume}",
                self.desk.id().0
            )
        })
    }

    pub(crate) fn is_whole(&self, at: usize) -> bool {
        let controller = self.controller.as_ref();
        let controller = controller.expect("bitmaps are kept on the controller's shard");
        controller.may_clear_bits(at)
    }
}
