//! Parts become plans: for every band with waiting work, take what no held lock overlaps, in arrival
//! order, merge what belongs together, and plan it against the row's present state.

use crate::flight::piecewise::{PieceParity, Piecewise};
use crate::flight::running::Work;
use crate::order::ranges::{ALL_CHUNKS, BandKey, NONE, Part, PartKind};
use crate::plan::{NotEnoughMembers, PIECES_MAX, Piece, Range, StepKind, mirror, parity};
use crate::shard::Engine;
use crate::units::{Slot, SlotSet};

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
        while let Some(chosen) = self.choose(entry) {
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
        let has_parity = self.volumes[key.volume as usize].shape.has_parity();
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
            self.volumes[key.volume as usize].writes.plan_begins();
        }
        let planned = match part.kind {
            PartKind::Write { .. } => self.plan_write(index, key, chosen.first, None),
            PartKind::Zero { .. } => self.plan_zero(index, key, &part),
            PartKind::Reconstruct { .. } => self.plan_reconstruct(index, key, &part, SlotSet(0)),
            PartKind::Background => self.plan_background(index, key),
        };
        match planned {
            Ok(()) => self.start(index),
            Err(NotEnoughMembers) if self.split_chain(index) || self.zero_in_turn(index) => {}
            Err(NotEnoughMembers) if part.kind == PartKind::Background => self.band_failed(index),
            Err(NotEnoughMembers) => {
                self.release(index);
                self.parts_done(chosen.first, true);
            }
        }
    }

    /// Plans a chain of writes, as much of it as lies in one piece.
    pub(crate) fn plan_write(
        &mut self,
        index: u32,
        key: BandKey,
        parts: u32,
        piecewise: Option<&Piecewise>,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_write += 1;
        let mut view = self.view_of(key);
        let alone = piecewise.is_some_and(|piecewise| piecewise.parity() == PieceParity::GivenUp);
        if !alone {
            view.readable.0 &= !piecewise.map_or(0, |piecewise| piecewise.avoid().0);
        }
        let volume = &self.volumes[key.volume as usize];
        let row = volume.band_range(key.band).0;
        let mut pieces = [Piece::EMPTY; PIECES_MAX];
        let (mut count, mut fua_any) = (0, false);
        for part in self.order.ranges.chain(parts) {
            let whole = (part.low, part.high);
            let (low, high) = piecewise.map_or(whole, |piecewise| piecewise.overlap(part));
            let (data_index, buffer) = match (part.kind, piecewise) {
                (PartKind::Zero { .. }, Some(piecewise)) => (piecewise.chunk(), self.desk.zeros()),
                _ => (part.data_index, part.buffer),
            };
            fua_any |= part.is_fua();
            if low < high {
                pieces[count] = Piece {
                    data_index,
                    low_bytes: low,
                    high_bytes: high,
                    buffer: buffer.at(low - part.low),
                };
                count += 1;
            }
        }
        let (plan, shape) = (&mut self.flight.running[index].plan, &volume.shape);
        let pieces = &pieces[..count];
        if alone {
            return parity::data_alone(plan, shape, row, pieces, &view, fua_any);
        }
        if shape.has_parity() {
            return parity::parity_write(plan, shape, row, pieces, &view, fua_any);
        }
        let mut pieces = pieces.iter();
        pieces.try_for_each(|piece| mirror::mirror_write(plan, shape, row, piece, &view, fua_any))
    }

    fn plan_zero(&mut self, index: u32, key: BandKey, part: &Part) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_write += 1;
        let PartKind::Zero {
            discard,
            keep_allocated,
            fua,
        } = part.kind
        else {
            unreachable!("{:?} zeroes nothing", part.kind);
        };
        let kind = if discard {
            StepKind::Discard
        } else {
            StepKind::Zero { keep_allocated }
        };
        let view = self.view_of(key);
        let volume = &self.volumes[key.volume as usize];
        let row = volume.band_range(key.band).0;
        let range = Range {
            row,
            low_bytes: part.low,
            high_bytes: part.high,
        };
        let plan = &mut self.flight.running[index].plan;
        if volume.shape.has_parity() {
            mirror::zero_row(plan, &volume.shape, range, &view, kind)?;
        } else {
            mirror::zero_chunk(plan, &volume.shape, part.data_index, range, &view, kind)?;
        }
        if fua {
            let [slots, shadows] = [false, true].map(|shadow| {
                let steps = plan.steps().iter().filter(|step| step.shadow == shadow);
                steps.fold(SlotSet(0), |set, step| set.with(step.slot))
            });
            mirror::flush(plan, slots, shadows);
        }
        Ok(())
    }

    /// Plans a read that could not be served where it was tried, without slots that are `unreadable` here.
    pub(crate) fn plan_reconstruct(
        &mut self,
        index: u32,
        key: BandKey,
        part: &Part,
        unreadable: SlotSet,
    ) -> Result<(), NotEnoughMembers> {
        self.desk.stats.plans_reconstruct += 1;
        let repairs = part.kind == PartKind::Reconstruct { repairs: true };
        // A slot that is to be repaired is read again, and first: that finds the unreadable block.
        let tried = self.volumes[key.volume as usize].slot_of(part.tried);
        let (first, avoid) = if repairs {
            (tried, unreadable)
        } else {
            (SlotSet(0), SlotSet(tried.0 | unreadable.0))
        };
        let mut view = self.view_of(key);
        let volume = &self.volumes[key.volume as usize];
        let shape = &volume.shape;
        let row = volume.band_range(key.band).0;
        let range = Range {
            row,
            low_bytes: part.low,
            high_bytes: part.high,
        };
        let must_equal = volume.must_equal_under_lock(part.data_index, range, &view);
        view.readable.0 &= !avoid.0;
        let running = &mut self.flight.running[index];
        let plan = &mut running.plan;
        let slots = shape.data_slots(row, part.data_index);
        let readable = SlotSet(slots.0 & view.readable.0);
        let asked_first = SlotSet(readable.0 & first.0).iter().next();
        let readable = asked_first.or(view.source(readable));
        let bad = SlotSet(slots.0 & avoid.0 & view.writable.0).iter().next();
        let write_back = repairs && !volume.view.read_only;
        match (readable, bad.filter(|_| write_back)) {
            (Some(slot), _) if must_equal => {
                let source = (slot, part.data_index);
                mirror::mirror_equal(plan, shape, source, range, &view, part.buffer);
                running.miss_all(volume.unrecorded_in(slots));
                Ok(())
            }
            (Some(slot), None) => {
                plan.read(shape, 0, slot, range, part.buffer);
                Ok(())
            }
            (Some(_), Some(bad)) => {
                mirror::mirror_repair(plan, shape, bad, range, &view, part.buffer)
            }
            (None, _) if !shape.has_parity() => Err(NotEnoughMembers),
            (None, Some(bad)) => parity::parity_reconstruct_write_back(
                plan,
                shape,
                bad,
                range,
                &view,
                (part.buffer, false),
            ),
            (None, None) => {
                let slot: Slot = slots.iter().next().expect("each data chunk has a slot");
                parity::parity_reconstruct(plan, shape, slot, range, &view, part.buffer)
            }
        }
    }
}

/// Plans that dispatching leaves for flushes of the controller.
const PLANS_FOR_DISPATCH: usize = 2;
