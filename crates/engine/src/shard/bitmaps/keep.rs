//! The one who writes the bitmap, on the controller's shard. See [`crate::bitmap`] for the rules.
//!
//! Bits are set and cleared by plans of one write to each drive, all of it durable, one plan at a time: what
//! is asked for meanwhile goes with the next. Drives that are being filled get it too. A drive that misses a
//! write of it has failed, and nobody hears of bits as set before that failure is on record.

use crate::bitmap::Bitmap;
use crate::bitmap::keeper::{Keeper, Round, Stage};
use crate::bitmap::regions::{Regions, has, has_all, image_bytes, is_empty, set, take_out};
use crate::control::message::Message;
use crate::control::record::BitmapRecord;
use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Step, StepKind, mirror};
use crate::shard::Engine;
use crate::units::{Buffer, ShardId, Slot, VolumeId};
use alloc::sync::Arc;
use alloc::vec;

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
            let mut keeper = Keeper::new(at, &shape, record, buffer);
            keeper.next_round = self
                .desk
                .now()
                .after(self.desk.options().clear_regions_every);
            keeper.members.clone_from(&self.volumes[at].view.slots);
            self.keepers.push(keeper);
        }
    }

    fn keeper_of(&self, volume: usize) -> Option<usize> {
        self.keepers
            .iter()
            .position(|keeper| keeper.volume == volume)
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
        let keeper = &mut self.keepers[index];
        // Set, and on all drives: a write under way may be the one that sets or clears them.
        let settled = has_all(&keeper.bits, regions)
            && (regions.0..=regions.1).all(|region| !has(&keeper.granting, region));
        if settled {
            let mut range = vec![0; keeper.clearing.len()];
            set(&mut range, regions);
            // As long as they have not been cleared, they need not be.
            take_out(&mut keeper.clearing, &range);
            let message = Message::RegionsMarked { volume, regions };
            return self.desk.send(shard, message);
        }
        set(&mut keeper.wanted, regions);
        self.write_bits(index);
    }

    /// Starts the next write, if there is something to write and nothing under way.
    fn write_bits(&mut self, index: usize) {
        let keeper = &self.keepers[index];
        if keeper.stage != Stage::Idle {
            return;
        }
        let has_work = !is_empty(&keeper.wanted) || keeper.changed.0 != keeper.changed.1;
        if has_work
            && self.flight.plans_available() > 0
            && !self.volumes[keeper.volume].records_nothing
        {
            self.keepers[index].take_wanted();
            self.keepers[index].stage = Stage::Writing;
            self.issue_bits(index);
        }
    }

    /// Writes what has changed to everybody who carries the bitmap.
    fn issue_bits(&mut self, index: usize) {
        let keeper = &mut self.keepers[index];
        let (from, to) = keeper.take_changed();
        let volume = keeper.volume as u8;
        let length_bytes = (to - from) as u64 * 8;
        let work = Work::Bitmap { volume };
        let plan = self.flight.take_plan(work, volume, NONE);
        let running = &mut self.flight.running[plan];
        let kind = StepKind::Write { fua: true };
        for (slot, member) in (0u8..).zip(&self.volumes[keeper.volume].view.slots) {
            if member.is_none() {
                continue;
            }
            let offset = keeper.area + from as u64 * 8;
            let step = Step::member(kind, 0, Slot(slot), offset, length_bytes);
            let buffer = keeper.buffer.at(from as u32 * 8);
            running.plan.transfer(step, buffer);
        }
        self.desk.stats.bitmap_writes += 1;
        let words = (from as u32, to as u32);
        let volume = VolumeId(volume);
        self.desk.ask(Output::Bitmap { volume, words });
        self.start(plan);
    }

    /// The bits from one word to before another, and the memory for them.
    #[must_use]
    pub fn bitmap_words(&self, volume: VolumeId, (from, to): (u32, u32)) -> (&[u64], Buffer) {
        let index = self.own_keeper(volume.0 as usize);
        let keeper = &self.keepers[index];
        let buffer = keeper.buffer.at(from * 8);
        (&keeper.bits[from as usize..to as usize], buffer)
    }

    /// A plan for a bitmap has ended, and what drives missed of it is on record.
    pub(crate) fn bitmap_done(&mut self, volume: u8) {
        let index = self.own_keeper(volume as usize);
        let keeper = &mut self.keepers[index];
        match core::mem::replace(&mut keeper.stage, Stage::Idle) {
            Stage::Writing => self.grant(index),
            Stage::Flushing => return self.clear_bits(index),
            Stage::Idle => unreachable!("no plan of the bitmap is under way"),
        }
        self.write_bits(index);
        self.go_on_clearing(index);
    }

    /// Tells all shards of bits that have become durable.
    fn grant(&mut self, index: usize) {
        let keeper = &mut self.keepers[index];
        let volume = VolumeId(keeper.volume as u8);
        let granting = core::mem::take(&mut keeper.granting);
        if !self.volumes[volume.0 as usize].records_nothing {
            let mut region = 0;
            let end = granting.len() as u32 * 64;
            while region < end {
                if granting[region as usize / 64] == 0 {
                    region = (region / 64 + 1) * 64;
                    continue;
                }
                let first = region;
                while region < end && has(&granting, region) {
                    region += 1;
                }
                if first < region {
                    let regions = (first, region - 1);
                    self.desk
                        .tell_shards(&Message::RegionsMarked { volume, regions });
                } else {
                    region += 1;
                }
            }
        }
        let keeper = &mut self.keepers[index];
        keeper.granting = granting;
        keeper.granting.fill(0);
    }

    /// Now and then: takes up what had to wait, and begins to clear bits.
    pub(crate) fn keep_bitmaps(&mut self) {
        for index in 0..self.keepers.len() {
            self.write_bits(index);
            let keeper = &mut self.keepers[index];
            let is_due = self.desk.now() >= keeper.next_round && keeper.round == Round::None;
            let at = keeper.volume;
            if !is_due || !self.is_whole(at) {
                self.go_on_clearing(index);
                continue;
            }
            let keeper = &mut self.keepers[index];
            keeper.next_round = self
                .desk
                .now()
                .after(self.desk.options().clear_regions_every);
            // What is asked for now is not at rest, whoever was asked before.
            for at in 0..keeper.clearing.len() {
                let asked_for = keeper.granting[at] | keeper.wanted[at];
                keeper.clearing[at] = keeper.bits[at] & keeper.real[at] & !asked_for;
            }
            if !is_empty(&keeper.clearing) {
                keeper.round = Round::Asking((1 << self.desk.shards()) - 1);
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

    /// A shard has closed what is at rest there.
    pub(crate) fn regions_closed(&mut self, shard: ShardId, volume: VolumeId, busy: &Arc<[u64]>) {
        let index = self.own_keeper(volume.0 as usize);
        let keeper = &mut self.keepers[index];
        let Round::Asking(left) = keeper.round else {
            unreachable!("shard {} has closed regions, and was not asked to", shard.0);
        };
        take_out(&mut keeper.clearing, busy);
        let left = left & !(1 << shard.0);
        keeper.round = if left == 0 {
            Round::Answered
        } else {
            Round::Asking(left)
        };
        self.go_on_clearing(index);
    }

    /// All shards have answered: what was written in regions at rest is made durable before their bits go.
    fn go_on_clearing(&mut self, index: usize) {
        let keeper = &mut self.keepers[index];
        if keeper.round != Round::Answered || keeper.stage != Stage::Idle {
            return;
        }
        let at = keeper.volume;
        if is_empty(&keeper.clearing) || !self.is_whole(at) {
            self.keepers[index].round = Round::None;
            return;
        }
        let (slots, shadows) =
            self.volumes[at].to_flush(self.members.volatile(), self.members.failed());
        if slots.0 | shadows.0 == 0 {
            return self.clear_bits(index);
        }
        if self.flight.plans_available() == 0 {
            return;
        }
        let work = Work::Bitmap { volume: at as u8 };
        let plan = self.flight.take_plan(work, at as u8, NONE);
        mirror::flush(&mut self.flight.running[plan].plan, slots, shadows);
        self.keepers[index].stage = Stage::Flushing;
        self.start(plan);
    }

    /// Everything written in the regions is durable on all drives. If that is still so, their bits go.
    fn clear_bits(&mut self, index: usize) {
        let at = self.keepers[index].volume;
        if self.is_whole(at) && self.flight.plans_available() > 0 {
            let keeper = &mut self.keepers[index];
            keeper.take_clearing();
            let message = Message::RegionsCleared {
                volume: VolumeId(at as u8),
                cleared: keeper.clearing[..].into(),
            };
            self.desk.tell_shards(&message);
            let keeper = &mut self.keepers[index];
            keeper.take_wanted();
            if keeper.changed.0 != keeper.changed.1 {
                keeper.stage = Stage::Writing;
            }
        }
        let keeper = &mut self.keepers[index];
        keeper.clearing.fill(0);
        keeper.round = Round::None;
        if keeper.stage == Stage::Writing {
            return self.issue_bits(index);
        }
        self.write_bits(index);
    }

    /// The drives of a volume may have changed: who joins gets all of its bitmap.
    pub(crate) fn follow_carriers(&mut self, at: usize) {
        let Some(index) = self.keeper_of(at) else {
            return;
        };
        let keeper = &mut self.keepers[index];
        if keeper.members != self.volumes[at].view.slots {
            keeper.members.clone_from(&self.volumes[at].view.slots);
            keeper.changed = (0, keeper.bits.len());
            self.write_bits(index);
        }
    }
}
