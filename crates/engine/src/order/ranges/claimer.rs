//! The claims that go with locks: see [`crate::claims`].

use crate::claims::Claims;
use crate::control::record::VolumeRecord;
use crate::limits::PARTS_MAX;
use crate::order::ranges::{BandKey, Ranges};
use crate::setup::Setup;
use crate::units::ShardId;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Which volumes' bands this shard has to claim, and which claims it waits for.
#[derive(Debug)]
pub(crate) struct Claimer {
    claims: Arc<Claims>,
    shard: ShardId,
    /// Volumes whose bands are claimed, by bit.
    volumes: u8,
    /// Bands with work here that another shard has claimed.
    unclaimed: Vec<BandKey>,
    /// How often this shard has looked for such bands' claims in a row.
    looks: u32,
    /// The other shards have been told that this one waits.
    waiting: bool,
}

/// Looks before the other shards are asked to let their claims run out. Most claims end by themselves in a turn or
/// two, and while claiming is closed all writes go to their owners.
const LOOKS_MAX: u32 = if cfg!(shuttle) { 2 } else { 100 };

impl Claimer {
    /// Mirrors' bands are claimed where there is more than one shard.
    pub fn new(setup: &Setup) -> Claimer {
        let mirrored = |volume: &VolumeRecord| setup.shards > 1 && volume.geometry.has_copies();
        let volumes = setup.record.volumes.iter().enumerate();
        let volumes = volumes.filter(|(_, volume)| mirrored(volume));
        let volumes = volumes.fold(0, |set, (at, _)| set | 1 << at);
        Claimer::of(setup.claims.clone(), setup.shard, volumes)
    }

    pub(super) fn of(claims: Arc<Claims>, shard: ShardId, volumes: u8) -> Claimer {
        Claimer {
            claims,
            shard,
            volumes,
            unclaimed: Vec::with_capacity(PARTS_MAX),
            looks: 0,
            waiting: false,
        }
    }

    /// Whether the band has work that waits until another shard gives up its claim.
    pub(super) fn is_waited_for(&self, key: BandKey) -> bool {
        self.unclaimed.contains(&key)
    }

    /// Whether the band of this hash is claimed by this shard.
    pub(super) fn has_claimed(&self, hash: u32) -> bool {
        self.claims.is_of(hash, self.shard)
    }

    #[cold]
    fn tell(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.claims.waits(waiting);
        }
    }
}

impl Ranges {
    /// Whether the bands of a volume are claimed.
    #[inline]
    pub fn is_claimed(&self, volume: u8) -> bool {
        // There are fewer volumes than bits; a wrapping shift saves the check.
        self.claimer.volumes & 1u8.wrapping_shl(u32::from(volume)) != 0
    }

    /// A band will be locked soon. Its volume is one whose bands are claimed.
    #[inline]
    pub fn expect(&self, key: BandKey) {
        self.claimer.claims.expect(Ranges::hash(key));
    }

    /// Claims a band for one lock, if its volume's bands are claimed; false when another shard has the claim.
    #[inline]
    #[must_use]
    pub fn claim(&self, key: BandKey) -> bool {
        let claimer = &self.claimer;
        !self.is_claimed(key.volume) || claimer.claims.take(Ranges::hash(key), claimer.shard)
    }

    /// Gives back what [`Ranges::claim`] got.
    #[inline]
    pub(super) fn unclaim(&self, key: BandKey) {
        if self.is_claimed(key.volume) {
            self.claimer.claims.give(Ranges::hash(key));
        }
    }

    /// The band has work, and another shard has claimed it: it is to be looked at again.
    #[cold]
    pub fn wait_for_claim(&mut self, key: BandKey) {
        self.claimer.unclaimed.push(key);
        if self.claimer.looks >= LOOKS_MAX {
            self.claimer.tell(true);
        }
    }

    /// Whether work waits for other shards' claims. Nobody reports when a claim ends.
    #[inline]
    pub fn waits_for_claims(&self) -> bool {
        !self.claimer.unclaimed.is_empty()
    }

    /// Has the bands that wait for claims looked at again.
    #[inline]
    pub fn retry_claims(&mut self) {
        if self.claimer.unclaimed.is_empty() {
            return;
        }
        self.claimer.looks += 1;
        while let Some(key) = self.claimer.unclaimed.pop() {
            self.wake(key);
        }
    }

    /// The bands have been looked at: lets other shards claim again if no band waits any more.
    #[inline]
    pub fn stop_waiting(&mut self) {
        if self.claimer.looks > 0 && self.claimer.unclaimed.is_empty() {
            self.claimer.looks = 0;
            self.claimer.tell(false);
        }
    }
}

#[cfg(test)]
mod interleavings;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::ranges::NONE;

    const KEY: BandKey = BandKey { volume: 0, band: 5 };

    /// Two shards that claim the bands of volume 0.
    fn two() -> [Ranges; 2] {
        let claims = Claims::new();
        claims.adopt(1);
        claims.adopt(1);
        [0, 1].map(|shard| {
            let shard = ShardId(shard);
            let claimer = Claimer::of(claims.clone(), shard, 1);
            Ranges::new(claimer)
        })
    }

    #[test]
    fn a_quiet_lock_keeps_other_shards_out_of_the_band() {
        let [mut one, mut other] = two();
        let lock = one.lock_if_quiet(KEY, 0, 0, 4096).unwrap();
        assert_eq!(other.lock_if_quiet(KEY, 0, 8192, 12288), None);
        // As an ordinary lock of a plan it keeps them out as well.
        let lock = one.lock_in_band(lock);
        assert!(!other.claim(KEY));
        one.unlock(lock);
        let lock = other.lock_if_quiet(KEY, 0, 0, 4096).unwrap();
        other.unlock_quiet(lock);
        assert!(one.claim(KEY));
    }

    #[test]
    fn volumes_that_are_not_claimed_are_nobodys_business() {
        let [one, other] = two();
        let key = BandKey { volume: 1, band: 5 };
        assert!(one.claim(key) && other.claim(key));
    }

    #[test]
    fn who_waits_for_a_claim_closes_the_table_until_it_has_it() {
        let [mut one, mut other] = two();
        let held = other.lock_if_quiet(KEY, 0, 0, 4096).unwrap();
        let part = one.parts.take().unwrap();
        one.enqueue(KEY, part);
        let entry = one.next_ready().unwrap();
        assert!(!one.claim(KEY));
        one.wait_for_claim(KEY);
        one.looked_at(entry);
        for look in 0..LOOKS_MAX {
            assert!(one.waits_for_claims() && one.next_ready().is_none());
            assert!(one.claimer.claims.anywhere(1, 2), "after {look} looks");
            one.retry_claims();
            assert_eq!(one.next_ready(), Some(entry));
            one.wait_for_claim(KEY);
            one.looked_at(entry);
            one.stop_waiting();
        }
        assert!(!one.claimer.claims.anywhere(1, 2));
        other.unlock_quiet(held);
        one.retry_claims();
        assert_eq!(one.next_ready(), Some(entry));
        assert!(!one.claimer.claims.anywhere(1, 2), "not looked at yet");
        assert!(one.claim(KEY));
        one.unlink(entry, NONE, part);
        let lock = one.lock(entry, 0, 0, 4096);
        one.looked_at(entry);
        one.stop_waiting();
        assert!(one.claimer.claims.anywhere(1, 2));
        one.unlock(lock);
    }
}
