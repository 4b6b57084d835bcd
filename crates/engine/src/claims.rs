//! What all shards share: who works on which bands of mirrors, and which members have failed.
//!
//! A row has an owner, and for parity only the owner writes it. A mirrored write needs so little that asking
//! the owner costs more than the write itself, so a shard may write another's band if it *claims* it. The
//! owner, too, claims a band before it locks anything in it, so two shards never work on one band at the
//! same time. Inside a shard [`crate::order::ranges`] keeps order as ever; a claim lasts as long as the shard holds a
//! lock in the band. A shard that cannot get a claim sends its write to the owner; only owners wait for claims.
//!
//! Three rules, and why they are enough:
//!
//! 1. *A claim is exclusive.* A slot of the table is free or one shard's. It becomes a shard's by a compare
//!    and swap from free, and only the shard that has it changes it until it is free again. Bands share slots
//!    by hash, which makes claims larger and never smaller.
//! 2. *A shard writes another's band only while all shards have adopted the same view*, and that view has no job. The
//!    writer checks this after it has the claim. A shard that adopts the next view (a job begins, a member is gone)
//!    announces that before it does anything by it, and has to claim the band like every other shard. So either the
//!    writer sees that there is a new view, and sends its write to the owner, or work by the new view begins after
//!    the write's last command. The slot decides which of them comes first: a later claim acquires what was released
//!    with the one before, so a writer that claims a band after work by the new view sees that the view was adopted.
//!    Beyond that nothing relies on the order of accesses to different places.
//! 3. *While an owner waits, no shard keeps a claim on another's band.* So the claims that the owner waits for run
//!    out.
//!
//! Work under a claim waits for nothing but drives, so shards never wait in a circle.
//!
//! A shard that sees a member fail puts it into the shared set before anything else, and every shard looks at the set
//! before it handles a turn's answers. The controller's view reports the failure as well, but later, because messages
//! take time. Meanwhile another shard could read from the drive, or flush it again; and a drive whose flush has
//! failed may have lost what was acknowledged, and still succeed at the next flush.

use crate::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::limits::SHARDS_MAX;
use crate::units::{MemberSet, ShardId};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Slots of the table. With 64 requests under way on each of two shards, one request in 250 meets another shard's
/// claim; more slots would not fit into a first-level cache.
const SLOTS: usize = if cfg!(any(shuttle, miri)) { 4 } else { 16384 };
/// Locks that one shard may hold under one slot.
const LOCKS_MAX: u16 = 0xFF;

/// The table. One per container, shared by its shards.
#[derive(Debug)]
pub struct Claims {
    /// By the band's hash: 0, or the shard's number plus 1 in the high byte and its locks in the low one.
    slots: Box<[AtomicU16]>,
    view: Views,
    failed: Failed,
}

/// What all shards read and hardly ever write. On lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Views {
    /// The newest epoch that any shard has adopted, times 256, plus how many shards have adopted it.
    adopted: AtomicU64,
    /// Owners that wait for a claim.
    waiting: AtomicU32,
}

/// Members that any shard has seen fail, by number: the lower 64, and the upper. On a line of its own, which every
/// turn reads, and which is written only when a member fails.
#[derive(Debug)]
#[repr(align(128))]
struct Failed([AtomicU64; 2]);

const _: () = assert!(SHARDS_MAX < 256, "a slot names its shard by a byte");

impl Claims {
    /// A table in which nobody has claimed anything.
    #[must_use]
    pub fn new() -> Arc<Claims> {
        Arc::new(Claims {
            slots: (0..SLOTS).map(|_| AtomicU16::new(0)).collect(),
            view: Views {
                adopted: AtomicU64::new(0),
                waiting: AtomicU32::new(0),
            },
            failed: Failed([AtomicU64::new(0), AtomicU64::new(0)]),
        })
    }

    /// Some members have failed.
    pub(crate) fn fail(&self, members: MemberSet) {
        let [low, high] = &self.failed.0;
        low.fetch_or(members.0 as u64, Ordering::SeqCst);
        high.fetch_or((members.0 >> 64) as u64, Ordering::SeqCst);
    }

    /// Members that any shard has seen fail.
    #[inline]
    pub(crate) fn failed(&self) -> MemberSet {
        let [low, high] = &self.failed.0;
        let high = u128::from(high.load(Ordering::SeqCst));
        MemberSet(high << 64 | u128::from(low.load(Ordering::SeqCst)))
    }

    fn slot(&self, hash: u32) -> &AtomicU16 {
        &self.slots[hash as usize % SLOTS]
    }

    /// The band of this hash will be claimed soon.
    #[inline]
    pub(crate) fn expect(&self, hash: u32) {
        crate::xor::fetch_to_write(self.slot(hash));
    }

    /// Claims the band of this hash once more for a shard. False when it is another's.
    #[inline]
    pub(crate) fn take(&self, hash: u32, shard: ShardId) -> bool {
        let slot = self.slot(hash);
        let mine = (u16::from(shard.0) + 1) << 8;
        // Acquire: the claimant sees what came before the slot was released last, adoptions of views included (the
        // module's second rule). Tried without a load, which would fetch the line from the other core a second time.
        let Err(now) = slot.compare_exchange(0, mine | 1, Ordering::Acquire, Ordering::Relaxed)
        else {
            return true;
        };
        if now & !LOCKS_MAX != mine || now & LOCKS_MAX == LOCKS_MAX {
            return false;
        }
        // It is this shard's, so nobody else changes it.
        slot.store(now + 1, Ordering::Relaxed);
        true
    }

    /// Gives back what one [`Claims::take`] got.
    #[inline]
    pub(crate) fn give(&self, hash: u32) {
        let slot = self.slot(hash);
        let now = slot.load(Ordering::Relaxed);
        assert!(
            now & LOCKS_MAX > 0,
            "a band was given back that nobody has claimed"
        );
        let left = if now & LOCKS_MAX == 1 { 0 } else { now - 1 };
        // Release: what was done under this claim comes before what is done under the next.
        slot.store(left, Ordering::Release);
    }

    /// Whether the band of this hash is claimed by this shard.
    pub(crate) fn is_of(&self, hash: u32, shard: ShardId) -> bool {
        let now = self.slot(hash).load(Ordering::Relaxed);
        now >> 8 == u16::from(shard.0) + 1 && now & LOCKS_MAX > 0
    }

    /// A shard works by the view of this epoch from now on. Each shard calls this once for each epoch, in their
    /// order, before it does anything by the view.
    pub(crate) fn adopt(&self, epoch: u64) {
        let next = |now: u64| {
            let newest = now >> 8;
            (epoch >= newest).then(|| {
                if epoch > newest {
                    epoch << 8 | 1
                } else {
                    now + 1
                }
            })
        };
        // An older epoch than others have adopted already changes nothing.
        let _ = self
            .view
            .adopted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Whether a shard that has claimed another's band may write there: all `shards` work by the view of
    /// this `epoch`, and no owner waits.
    #[inline]
    pub(crate) fn anywhere(&self, epoch: u64, shards: u8) -> bool {
        self.view.adopted.load(Ordering::Acquire) == epoch << 8 | u64::from(shards)
            && self.view.waiting.load(Ordering::Relaxed) == 0
    }

    /// An owner begins to wait, or has got the claim that it waited for.
    pub(crate) fn waits(&self, waiting: bool) {
        if waiting {
            self.view.waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            let before = self.view.waiting.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "nobody waited for a claim");
        }
    }
}

#[cfg(test)]
mod interleavings;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread;

    const A: ShardId = ShardId(0);
    const B: ShardId = ShardId(1);

    #[test]
    fn a_claim_is_one_shards_until_its_last_lock_is_given_back() {
        let claims = Claims::new();
        assert!(claims.take(7, A) && claims.take(7, A));
        assert!(!claims.take(7, B));
        assert!(claims.take(8, B), "another band");
        claims.give(7);
        assert!(!claims.take(7, B));
        claims.give(7);
        assert!(claims.take(7, B));
    }

    #[test]
    fn a_slot_does_not_count_beyond_its_byte() {
        let claims = Claims::new();
        assert!((0..LOCKS_MAX).all(|_| claims.take(7, B)));
        assert!(!claims.take(7, B));
        (0..LOCKS_MAX).for_each(|_| claims.give(7));
        assert!(claims.take(7, A));
    }

    #[test]
    fn others_bands_are_open_only_while_all_have_one_view() {
        let claims = Claims::new();
        claims.adopt(1);
        assert!(!claims.anywhere(1, 2));
        claims.adopt(1);
        assert!(claims.anywhere(1, 2));
        claims.adopt(2);
        assert!(!claims.anywhere(1, 2) && !claims.anywhere(2, 2));
        claims.adopt(2);
        assert!(claims.anywhere(2, 2) && !claims.anywhere(1, 2));
        // A shard that lags behind by two views adopts the first of them late.
        claims.adopt(4);
        claims.adopt(3);
        assert!(!claims.anywhere(4, 2) && !claims.anywhere(3, 2));
        claims.adopt(4);
        assert!(claims.anywhere(4, 2));
    }

    #[test]
    fn others_bands_are_closed_while_an_owner_waits() {
        let claims = Claims::new();
        claims.adopt(1);
        claims.waits(true);
        assert!(!claims.anywhere(1, 1));
        claims.waits(false);
        assert!(claims.anywhere(1, 1));
    }

    /// Rounds of a test with threads. Under Miri a test is repeated with many seeds, so a run of it is short.
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 50_000 };

    #[test]
    fn threads_exclude_each_other() {
        // Each slot guards two counters that must stay equal; relaxed, so only the claim orders them.
        let claims = Claims::new();
        let pairs: Vec<[AtomicU64; 2]> = (0..4).map(|_| Default::default()).collect();
        let work = |shard: ShardId| {
            let random = Cell::new(u64::from(shard.0) + 1);
            let mut done = 0;
            while done < ROUNDS {
                random.set(random.get().wrapping_mul(6_364_136_223_846_793_005) + 1);
                let band = (random.get() >> 60) as u32 % 4;
                if !claims.take(band, shard) {
                    continue;
                }
                let [first, second] = &pairs[band as usize];
                let value = first.load(Ordering::Relaxed);
                assert_eq!(value, second.load(Ordering::Relaxed));
                first.store(value + 1, Ordering::Relaxed);
                second.store(value + 1, Ordering::Relaxed);
                claims.give(band);
                done += 1;
            }
        };
        thread::scope(|scope| {
            for shard in [A, B] {
                scope.spawn(move || work(shard));
            }
        });
        let sum: u64 = pairs
            .iter()
            .map(|[first, _]| first.load(Ordering::Relaxed))
            .sum();
        assert_eq!(sum, 2 * ROUNDS);
    }

    /// The second rule: a shard that claims a band after work by a new view sees that there is a new view. All other
    /// accesses are relaxed, so only the claims and the look at the view order them.
    #[test]
    fn no_write_by_an_old_view_comes_after_work_by_a_new_one() {
        for _ in 0..ROUNDS.min(1000) {
            let claims = Claims::new();
            claims.adopt(1);
            claims.adopt(1);
            let newest = AtomicU64::new(1);
            let write_elsewhere = || {
                if !claims.take(0, B) {
                    return;
                }
                if claims.anywhere(1, 2) {
                    let before = newest.swap(1, Ordering::Relaxed);
                    assert_eq!(before, 1, "written by view 1 after work by view {before}");
                }
                claims.give(0);
            };
            let work_as_owner = || {
                claims.adopt(2);
                while !claims.take(0, A) {
                    std::hint::spin_loop();
                }
                newest.store(2, Ordering::Relaxed);
                claims.give(0);
            };
            thread::scope(|scope| {
                scope.spawn(write_elsewhere);
                scope.spawn(work_as_owner);
            });
        }
    }
}
