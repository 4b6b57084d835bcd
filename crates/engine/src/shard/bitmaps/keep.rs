//! The keeper, on the controller's shard: what shards, the controller and time ask of it. How it writes the bitmap is
//! in [`crate::shard::bitmaps::bits`].

use crate::bitmap::Bitmap;
use crate::bitmap::keeper::Keeper;
use crate::bitmap::regions::{Regions, image_bytes};
use crate::control::message::Message;
use crate::control::record::BitmapRecord;
use crate::shard::Engine;
use crate::units::{Buffer, Nanos, ShardId, VolumeId};
use alloc::sync::Arc;

impl Engine {
    /// Takes on the bitmaps of all volumes that have one.
    pub(crate) fn open_bitmaps<'a>(
        &mut self,
        records: impl Iterator<Item = Option<&'a BitmapRecord>>,
    ) {
        for (at, record) in records.enumerate() {
            let Some(record) = record else { continue };
            let shape = *self.volumes[at].shape();
            self.volumes[at].keep_bitmap(Bitmap::new(record, &shape));
            if self.desk.id() != ShardId(0) {
                continue;
            }
            let buffer = self
                .flight
                .take_scratch_for_good(image_bytes(&shape, record))
                .expect("scratch memory is sized for the bitmaps");
            let next_round = self.next_round();
            let members = &self.volumes[at].view().slots;
            let keeper = Keeper::new(at, &shape, record, buffer, members, next_round);
            self.keepers.push(keeper);
        }
    }

    fn next_round(&self) -> Nanos {
        let every = self.desk.options().clear_regions_every;
        self.desk.now().after(every)
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

    /// The bits from the first of `words` to before the second, and the memory for them.
    #[must_use]
    pub fn bitmap_words(&self, volume: VolumeId, words: (u32, u32)) -> (&[u64], Buffer) {
        let keeper = &self.keepers[self.own_keeper(volume.0 as usize)];
        let (_, buffer) = keeper.place_of(words.0 as usize);
        (keeper.words(words), buffer)
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

    /// A shard has closed the regions that are at rest on it.
    pub(crate) fn regions_closed(&mut self, shard: ShardId, volume: VolumeId, busy: &Arc<[u64]>) {
        let index = self.own_keeper(volume.0 as usize);
        self.keepers[index].hear(shard, busy);
        let plan = self.go_on_clearing(index);
        self.start_next(plan);
    }

    /// The drives of a volume may have changed: one that joins gets the whole bitmap.
    pub(crate) fn follow_carriers(&mut self, at: usize) {
        let Some(index) = self.keeper_of(at) else {
            return;
        };
        if self.keepers[index].follow(&self.volumes[at].view().slots) {
            let plan = self.write_bits(index);
            self.start_next(plan);
        }
    }
}
