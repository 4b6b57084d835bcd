//! Parts become plans: for every band with waiting work, take what no held lock overlaps, in arrival order, merge what
//! belongs together, and have it planned against the row's present state ([`crate::shard::plans::make`]).

use crate::flight::running::Work;
use crate::order::ranges::{ALL_CHUNKS, NONE, Part, PartKind};
use crate::plan::{NotEnoughMembers, PIECES_MAX};
use crate::shard::Engine;
use crate::units::SlotSet;

/// How many ranges that must keep waiting are remembered while a queue is searched.
const SKIPPED_MAX: usize = 16;

/// Ranges of earlier parts that have to go first.
struct Skipped {
    ranges: [(u8, u32, u32); SKIPPED_MAX],
    count: usize,
}

impl Skipped {
    fn overlaps(&self, data_index: u8, low: u32, high: u32) -> bool {
        self.ranges[..self.count].iter().any(|&(other, from, to)| {
            let same = other == data_index || other == ALL_CHUNKS || data_index == ALL_CHUNKS;
            same && from < high && low < to
        })
    }

    /// Remembers a range; false when there is no room to remember more.
    fn add(&mut self, data_index: u8, low: u32, high: u32) -> bool {
        if self.count == SKIPPED_MAX {
            return false;
        }
        self.ranges[self.count] = (data_index, low, high);
        self.count += 1;
        true
    }
}

/// Parts chosen for one plan: the range that they need locked, and their chain.
struct Chosen {
    low: u32,
    high: u32,
    data_index: u8,
    first: u32,
    last: u32,
    count: usize,
}

impl Engine {
    /// Plans what can run in all bands with waiting work.
    #[inline]
    pub(crate) fn dispatch_ready(&mut self) {
        while self.flight.plans_available() > PLANS_FOR_DISPATCH {
            let Some(entry) = self.order.ranges.next_ready() else {
                return;
            };
            self.dispatch(entry);
        }
    }

    // A function of its own: turns without work under a lock must not pay for what it needs.
    #[inline(never)]
    fn dispatch(&mut self, entry: u32) {
        while self.order.ranges.first_waiting(entry) != NONE
            && let Some(chosen) = self.choose(entry)
        {
            if self.flight.plans_available() <= PLANS_FOR_DISPATCH {
                let key = self.order.ranges.key(entry);
                self.order.ranges.requeue(key, chosen.first);
                break;
            }
            if self.worth_holding(entry, chosen.first) {
                break;
            }
            let key = self.order.ranges.key(entry);
            if !self.order.ranges.claim(key) {
                self.desk.stats.conflicts += 1;
                self.order.ranges.requeue_quietly(key, chosen.first);
                self.order.ranges.wait_for_claim(key);
                break;
            }
            self.plan_chosen(entry, chosen);
        }
        self.order.ranges.looked_at(entry);
    }

    /// Takes the first part that may run, and those that it can be merged with, out of the queue.
    fn choose(&mut self, entry: u32) -> Option<Chosen> {
        let key = self.order.ranges.key(entry);
        let has_parity = self.volumes[key.volume as usize].shape().has_parity();
        let mut skipped = Skipped {
            ranges: [(0, 0, 0); SKIPPED_MAX],
            count: 0,
        };
        let mut chosen: Option<Chosen> = None;
        let (mut before, mut at) = (NONE, self.order.ranges.first_waiting(entry));
        while at != NONE {
            let part = self.order.ranges[at];
            let lock_index = if has_parity || part.kind == PartKind::Background {
                ALL_CHUNKS
            } else {
                part.data_index
            };
            let free = !skipped.overlaps(lock_index, part.low, part.high)
                && match &chosen {
                    None => !self
                        .order
                        .ranges
                        .is_locked(entry, lock_index, part.low, part.high),
                    Some(chosen) => self.joins(entry, chosen, &part, &skipped),
                };
            if free {
                self.order.ranges.unlink(entry, before, at);
                chosen = Some(self.join(chosen, at, lock_index));
                let done = chosen
                    .as_ref()
                    .is_some_and(|chosen| chosen.count == PIECES_MAX);
                if done || !has_parity || !matches!(part.kind, PartKind::Write { .. }) {
                    break;
                }
            } else {
                if chosen.is_none() {
                    self.desk.stats.conflicts += 1;
                }
                if !skipped.add(lock_index, part.low, part.high) {
                    break;
                }
                before = at;
            }
            at = self.order.ranges.next_waiting(entry, before);
        }
        chosen
    }

    /// Whether a later write of the same row can be part of the plan: it touches the range already
    /// chosen, so that the two share parity or lie side by side, and nothing in the way is locked.
    fn joins(&self, entry: u32, chosen: &Chosen, part: &Part, skipped: &Skipped) -> bool {
        let first = &self.order.ranges[chosen.first];
        if !matches!(
            (first.kind, part.kind),
            (PartKind::Write { .. }, PartKind::Write { .. })
        ) || first.alone
            || part.alone
            || part.low > chosen.high
            || part.high < chosen.low
        {
            return false;
        }
        let (low, high) = (chosen.low.min(part.low), chosen.high.max(part.high));
        let meets = |held: &Part| {
            held.data_index == part.data_index && held.low < part.high && part.low < held.high
        };
        if self.order.ranges.chain(chosen.first).any(meets) {
            // Two writes to the same place: the later one must win, so it has to wait.
            return false;
        }
        !skipped.overlaps(ALL_CHUNKS, low, high)
            && !self.order.ranges.is_locked(entry, ALL_CHUNKS, low, high)
    }

    fn join(&mut self, chosen: Option<Chosen>, at: u32, data_index: u8) -> Chosen {
        let part = self.order.ranges[at];
        match chosen {
            None => Chosen {
                low: part.low,
                high: part.high,
                data_index,
                first: at,
                last: at,
                count: 1,
            },
            Some(chosen) => {
                self.desk.stats.merges += 1;
                self.order.ranges.chain_up(chosen.last, at);
                Chosen {
                    low: chosen.low.min(part.low),
                    high: chosen.high.max(part.high),
                    last: at,
                    count: chosen.count + 1,
                    ..chosen
                }
            }
        }
    }

    fn plan_chosen(&mut self, entry: u32, chosen: Chosen) {
        let key = self.order.ranges.key(entry);
        let part = self.order.ranges[chosen.first];
        let lock = self
            .order
            .ranges
            .lock(entry, chosen.data_index, chosen.low, chosen.high);
        let work = match part.kind {
            PartKind::Write { .. } | PartKind::Zero { .. } => Work::Write {
                parts: chosen.first,
            },
            PartKind::Reconstruct { .. } => Work::Reconstruct { part: chosen.first },
            PartKind::Background => Work::Background {
                part: chosen.first,
                band: key.band,
                repair: false,
            },
        };
        let index = self.flight.take_plan(work, key.volume, lock);
        if let Work::Write { .. } = work {
            self.volumes[key.volume as usize].writes_mut().plan_begins();
        }
        let planned = match part.kind {
            PartKind::Write { .. } => self.plan_write(index, key, chosen.first, None),
            PartKind::Zero { .. } => self.plan_zero(index, key, &part),
            PartKind::Reconstruct { .. } => self.plan_reconstruct(index, key, &part, SlotSet(0)),
            PartKind::Background => self.plan_background(index, key),
        };
        match planned {
            Ok(()) => self.start(index),
            Err(NotEnoughMembers) if self.split_chain(index) => {}
            Err(NotEnoughMembers) => match self.zero_in_turn(index) {
                Some(next) => self.go_on(index, next),
                None if part.kind == PartKind::Background => self.band_failed(index),
                None => {
                    self.release(index);
                    self.parts_done(chosen.first, true);
                }
            },
        }
    }
}

/// Plans that dispatching leaves for flushes of the controller.
const PLANS_FOR_DISPATCH: usize = 2;
