//! Makes a failing history small by leaving out parts as long as it still fails in the same way.

use crate::history::{Access, Act, Action, Area, Fault, History, Order};
use crate::run::{Failure, run};

/// Largest number of runs for shrinking.
const RUNS_MAX: u32 = 300;

/// The smallest history found that fails like `history`, which fails with `failure`.
#[must_use]
pub fn shrink(history: &History, failure: &Failure) -> History {
    let mut shrinking = Shrinking {
        best: history.clone(),
        kind: failure.kind(),
        runs: 0,
    };
    shrinking.topology();
    shrinking.actions();
    shrinking.topology();
    shrinking.best
}

struct Shrinking {
    best: History,
    kind: &'static str,
    runs: u32,
}

impl Shrinking {
    /// Takes `candidate` if it fails in the same way.
    fn consider(&mut self, candidate: History) -> bool {
        if self.runs == RUNS_MAX || candidate == self.best {
            return false;
        }
        self.runs += 1;
        let fails = run(&candidate, false).failure;
        let same = fails.is_some_and(|failure| failure.kind() == self.kind);
        if same {
            self.best = candidate;
        }
        same
    }

    fn topology(&mut self) {
        let changes: [fn(&mut History); 8] = [
            |history| history.access = Access::Engine,
            |history| {
                let volumes = &mut history.topology.volumes;
                volumes.iter_mut().for_each(|volume| volume.logged = false);
            },
            |history| {
                let volumes = &mut history.topology.volumes;
                volumes.iter_mut().for_each(|volume| volume.marked = false);
            },
            |history| {
                history.topology.volumes.truncate(1);
                history.actions.retain(|action| volume_of(action) == 0);
            },
            |history| history.topology.shards = 1,
            |history| history.topology.shards = history.topology.shards.min(2),
            |history| history.topology.rate_bytes_per_s = 0,
            |history| history.topology.left_over = false,
        ];
        for change in changes {
            let mut candidate = self.best.clone();
            change(&mut candidate);
            self.consider(candidate);
        }
    }

    fn actions(&mut self) {
        let mut size = self.best.actions.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.actions.len() {
                let mut candidate = self.best.clone();
                let to = (from + size).min(candidate.actions.len());
                candidate.actions.drain(from..to);
                if !self.consider(candidate) {
                    from += size;
                }
            }
            size /= 2;
        }
    }
}

/// The volume that an action is about; 0 if it is about none.
fn volume_of(action: &Action) -> u8 {
    match &action.act {
        Act::Ask(ask) => ask.volume,
        Act::Order(
            Order::Scrub { volume, .. }
            | Order::Replace { volume, .. }
            | Order::Pause { volume, .. }
            | Order::Cancel(volume)
            | Order::Rebuild(volume),
        )
        | Act::Fault(Fault::BadArea(_, Area::Log(volume, _) | Area::Bitmap(volume))) => *volume,
        // The sectors may lie in the second volume; without that volume they do no harm.
        Act::Fault(Fault::BadSectors(..)) => 0,
        Act::Fault(_) | Act::Order(_) => 0,
    }
}
