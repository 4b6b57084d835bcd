//! Claims, in every order of accesses of two shards, and in many of three. The third rule is tried beside the claimer.
//!
//! Shuttle decides before each access which thread goes on. What the test itself notes lies in atomics of the standard
//! library, at which Shuttle never changes threads.
#![cfg(shuttle)]

use super::*;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64 as Plain, AtomicUsize as PlainCount};
use shuttle::thread;

const A: ShardId = ShardId(0);
const B: ShardId = ShardId(1);
const C: ShardId = ShardId(2);

/// Bands, the shard that works on each, and the newest view by which each has been worked on.
struct Bands {
    claims: Arc<Claims>,
    /// 0, or the number of the shard plus 1. An atomic of Shuttle's, so that other threads run while one works.
    worker: [AtomicU64; 2],
    newest: [Plain; 2],
    works: PlainCount,
}

impl Bands {
    fn new() -> Arc<Bands> {
        Arc::new(Bands {
            claims: Claims::new(),
            worker: [AtomicU64::new(0), AtomicU64::new(0)],
            newest: Default::default(),
            works: PlainCount::new(0),
        })
    }

    /// A shard that has claimed a band works on it by the view of `epoch`.
    fn work(&self, band: u32, shard: ShardId, epoch: u64) {
        let worker = &self.worker[band as usize];
        let other = worker.swap(u64::from(shard.0) + 1, Ordering::SeqCst);
        assert_eq!(other, 0, "two shards work on band {band}");
        let before = self.newest[band as usize].swap(epoch, Ordering::SeqCst);
        assert!(
            before <= epoch,
            "band {band}: view {epoch} after view {before}"
        );
        worker.store(0, Ordering::SeqCst);
        self.works.fetch_add(1, Ordering::SeqCst);
    }

    /// The owner of a band works on it once it has claimed it; it tries up to `looks` times.
    fn work_as_owner(&self, band: u32, shard: ShardId, epoch: u64, looks: usize) {
        for _ in 0..looks {
            if self.claims.take(band, shard) {
                self.work(band, shard, epoch);
                return self.claims.give(band);
            }
            thread::yield_now();
        }
    }

    /// A shard writes another's band, if it may.
    fn work_elsewhere(&self, band: u32, shard: ShardId, epoch: u64, shards: u8) {
        if !self.claims.take(band, shard) {
            return;
        }
        if self.claims.anywhere(epoch, shards) {
            self.work(band, shard, epoch);
        }
        self.claims.give(band);
    }
}

/// How often an owner tries to claim its band where every order is tried.
const LOOKS: usize = 3;

type Thread = Box<dyn FnOnce() + Send>;

/// Runs the shards as threads, in every possible order. In the best of them a band has been worked on `all_works`
/// times, which is all that the shards may do.
fn in_every_order(all_works: usize, shards: fn(&Arc<Bands>) -> [Thread; 2]) {
    let most = Arc::new(PlainCount::new(0));
    let most_seen = most.clone();
    let run = move || {
        let bands = Bands::new();
        let threads = shards(&bands).map(thread::spawn);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        most_seen.fetch_max(bands.works.load(Ordering::SeqCst), Ordering::SeqCst);
    };
    shuttle::check_dfs(run, None);
    assert_eq!(
        most.load(Ordering::SeqCst),
        all_works,
        "most work in any order"
    );
}

#[test]
fn a_claim_is_one_shards() {
    in_every_order(2, |bands| {
        [A, B].map(|shard| {
            let bands = bands.clone();
            let work = move || {
                if !bands.claims.take(0, shard) {
                    return;
                }
                let again = bands.claims.take(0, shard);
                assert!(again, "{shard:?} has lost what it has claimed");
                bands.claims.give(0);
                bands.work(0, shard, 1);
                bands.claims.give(0);
            };
            Box::new(work) as Thread
        })
    });
}

/// A adopts a view and works on its band by it. B, which has not adopted it, may write there only before that.
#[test]
fn no_write_by_an_old_view_comes_after_work_by_a_new_one() {
    in_every_order(2, |bands| {
        bands.claims.adopt(1);
        bands.claims.adopt(1);
        let (owner, writer) = (bands.clone(), bands.clone());
        [
            Box::new(move || {
                owner.claims.adopt(2);
                owner.work_as_owner(0, A, 2, LOOKS);
            }),
            Box::new(move || writer.work_elsewhere(0, B, 1, 2)),
        ]
    });
}

/// B adopts the new view as well, so A may write B's band by it when B does not work there.
#[test]
fn a_view_that_all_have_adopted_opens_all_bands() {
    in_every_order(2, |bands| {
        bands.claims.adopt(1);
        bands.claims.adopt(1);
        let (one, other) = (bands.clone(), bands.clone());
        [
            Box::new(move || {
                one.claims.adopt(2);
                one.work_elsewhere(1, A, 2, 2);
            }),
            Box::new(move || {
                other.claims.adopt(2);
                other.work_as_owner(1, B, 2, LOOKS);
            }),
        ]
    });
}

/// Three shards that adopt two views one after the other, and work on their own bands and on others'. There are too
/// many orders to try all.
#[test]
fn views_and_bands_of_three_shards() {
    let orders = 20_000;
    let run = || {
        let bands = Bands::new();
        for _ in 0..3 {
            bands.claims.adopt(1);
        }
        let threads: Vec<_> = [A, B, C]
            .into_iter()
            .map(|shard| {
                let bands = bands.clone();
                thread::spawn(move || {
                    for epoch in 1..=3 {
                        if epoch > 1 {
                            bands.claims.adopt(epoch);
                        }
                        for band in [0, 1] {
                            if band == u32::from(shard.0) {
                                bands.work_as_owner(band, shard, epoch, usize::MAX);
                            } else {
                                bands.work_elsewhere(band, shard, epoch, 3);
                            }
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(bands.works.load(Ordering::Relaxed) >= 6, "the owners' work");
    };
    shuttle::check_random(run, orders);
    shuttle::check_pct(run, orders, 4);
}
