//! The keeper, which writes the bitmap, on the controller's shard. See [`crate::bitmap`] for the rules.
//!
//! Bits are set and cleared by plans of one durable write to each drive, one plan at a time: what is requested
//! meanwhile goes with the next plan. Drives that are being filled get the bitmap, too. A drive that misses such a
//! write has failed, and no shard is told that the bits are set before that failure is on record.

use crate::bitmap::Bitmap;
use crate::bitmap::keeper::{Keeper, Stage};
use crate::bitmap::regions::{Regions, image_bytes};
use crate::control::message::Message;
use crate::control::record::BitmapRecord;
use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Step, StepKind, mirror};
use crate::shard::Engine;
use crate::units::{Buffer, Nanos, ShardId, Slot, VolumeId};
use alloc::sync::Arc;

impl Engine {
    /// Takes on the bitmaps of all volumes that have one.
    pub(crate) fn open_bitmaps<'a>(
        &mut self,
        records: impl Iterator<Item = Option<&'a BitmapRecord>>,
    ) {
        for (at, record) in records.enumerate() {
            let Some(record) = record else { continue };
            let shape = self.volumes[at].shape;
            self.volumes[at].keep_bitmap(Bitmap::new(record, &shape));
            if self.desk.id() != ShardId(0) {
                continue;
            }
            let buffer = self
                .flight
                .scratch
                .take_for_good(image_bytes(&shape, record))
                .expect("scratch memory is sized for the bitmaps");
            let next_round = self.next_round();
            let members = &self.volumes[at].view.slots;
            let keeper = Keeper::new(at, &shape, record, buffer, members, next_round);
            self.keepers.push(keeper);
        }
    }

    fn next_round(&self) -> Nanos {
        let every = self.desk.options().clear_regions_every;
        self.desk.now().after(every)
    }

    fn keeper_of(&self, volume: usize) -> Option<usize> {
        let mut keepers = self.keepers.iter();
        keepers.position(|keeper| keeper.volume() == volume)
    }

    /// The keeper of a volume that has a bitmap, on the shard that keeps it.
    fn own_keeper(&self, volume: usize) -> usize {
        let keeper = self.keeper_of(volume);
        keeper.unwrap_or_else(|| {
            panic!(
                "shard {} keeps no bitmap of volume {volume}",
                self.desk.id().0
            )
        })
    }

    /// A shard waits to write in some regions.
    pub(crate) fn want_regions(&mut self, shard: ShardId, volume: VolumeId, regions: Regions) {
        let index = self.own_keeper(volume.0 as usize);
        if self.keepers[index].want(regions) {
            let message = Message::RegionsMarked { volume, regions };
            return self.desk.send(shard, message);
        }
        let plan = self.write_bits(index);
        self.start_next(plan);
    }

    /// Plans the next write, if there is something to write and nothing under way.
    fn write_bits(&mut self, index: usize) -> Option<u32> {
        let keeper = &mut self.keepers[index];
        let writes = keeper.wants_write()
            && self.flight.plans_available() > 0
            && !self.volumes[keeper.volume()].records_nothing;
        if !writes {
            return None;
        }
        keeper.begin_write();
        Some(self.issue_bits(index))
    }

    /// Plans a write of what has changed to every drive that carries the bitmap.
    fn issue_bits(&mut self, index: usize) -> u32 {
        let keeper = &mut self.keepers[index];
        let (from, to) = keeper.take_changed();
        let volume = keeper.volume() as u8;
        let (offset_bytes, buffer) = keeper.place_of(from);
        let length_bytes = (to - from) as u64 * 8;
        let work = Work::Bitmap { volume };
        let plan = self.flight.take_plan(work, volume, NONE);
        let running = &mut self.flight.running[plan];
        let kind = StepKind::Write { fua: true };
        for (slot, member) in (0u8..).zip(&self.volumes[usize::from(volume)].view.slots) {
            if member.is_some() {
                let step = Step::member(kind, 0, Slot(slot), offset_bytes, length_bytes);
                running.plan.transfer(step, buffer);
            }
        }
        self.desk.stats.bitmap_writes += 1;
        let words = (from as u32, to as u32);
        let volume = VolumeId(volume);
        self.desk.ask(Output::Bitmap { volume, words });
        plan
    }

    /// The bits from the first of `words` to before the second, and the memory for them.
    #[must_use]
    pub fn bitmap_words(&self, volume: VolumeId, words: (u32, u32)) -> (&[u64], Buffer) {
        let keeper = &self.keepers[self.own_keeper(volume.0 as usize)];
        let (_, buffer) = keeper.place_of(words.0 as usize);
        (keeper.words(words), buffer)
    }

    /// A plan for a bitmap has ended, and what drives missed of it is on record. Returns the plan that is to be started
    /// now, if there is one.
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
        let is_on_record = !self.volumes[at].records_nothing;
        keeper.grant(|regions| {
            if is_on_record {
                let message = Message::RegionsMarked { volume, regions };
                self.desk.tell_shards(&message);
            }
        });
    }

    /// Called now and then: takes up writes of bits that had to wait, and begins to clear bits.
    pub(crate) fn keep_bitmaps(&mut self) {
        for index in 0..self.keepers.len() {
            let plan = self.write_bits(index);
            self.start_next(plan);
            let keeper = &self.keepers[index];
            let at = keeper.volume();
            if !keeper.is_round_due(self.desk.now()) || !self.is_whole(at) {
                let plan = self.go_on_clearing(index);
                self.start_next(plan);
                continue;
            }
            let next_round = self.next_round();
            if self.keepers[index].begin_round(self.desk.shards(), next_round) {
                let volume = VolumeId(at as u8);
                self.desk.tell_shards(&Message::CloseRegions { volume });
            }
        }
    }

    fn is_whole(&self, at: usize) -> bool {
        let controller = self.controller.as_ref();
        let controller = controller.expect("bitmaps are kept on the controller's shard");
        controller.may_clear_bits(at)
    }

    /// A shard has closed the regions that are at rest on it.
    pub(crate) fn regions_closed(&mut self, shard: ShardId, volume: VolumeId, busy: &Arc<[u64]>) {
        let index = self.own_keeper(volume.0 as usize);
        self.keepers[index].hear(shard, busy);
        let plan = self.go_on_clearing(index);
        self.start_next(plan);
    }

    /// All shards have answered: what was written in regions at rest is made durable before their bits go. Returns the
    /// plan for the next step, if there is one.
    fn go_on_clearing(&mut self, index: usize) -> Option<u32> {
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
        mirror::flush(&mut self.flight.running[plan].plan, slots, shadows);
        self.keepers[index].begin_flush();
        Some(plan)
    }

    /// Everything written in the regions is durable on all drives. If the volume is still whole, their bits are
    /// cleared. Returns the plan of the next write, if there is one.
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

    /// The drives of a volume may have changed: one that joins gets the whole bitmap.
    pub(crate) fn follow_carriers(&mut self, at: usize) {
        let Some(index) = self.keeper_of(at) else {
            return;
        };
        if self.keepers[index].follow(&self.volumes[at].view.slots) {
            let plan = self.write_bits(index);
            self.start_next(plan);
        }
    }
}
