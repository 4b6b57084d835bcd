//! Checks an engine's whole state between two turns. Tests do so after every turn; tests with hundreds of thousands of
//! waiting requests do so after every 16th. The path of a request never does, because the checks go through everything.
//!
//! Each rule counts one thing twice, as the counters have it and as it is found in use, so that what is leaked,
//! returned twice or waited for in vain is found where that begins. Rules about a module's private state lie in that
//! module: `check` of `Ranges`, `HeldBands`, `Leftovers`, `SlotLog` and `JobRunner`.

mod leftovers;
#[cfg(test)]
mod tests;

use crate::flight::running::Work;
use crate::flight::states::Progress;
use crate::limits::{CONTAINER_MEMBERS_MAX, FORWARDED_MAX, REQUESTS_MAX};
use crate::order::ranges::{NONE, PartKind};
use crate::request::Operation;
use crate::shard::Engine;
use crate::units::MemberId;
use alloc::vec;
use alloc::vec::Vec;

impl Engine {
    /// Checks the whole state between two turns.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which, and of what.
    pub fn check(&self) {
        let plans = self.flight.plans_in_use();
        let singles = self.flight.singles_in_use();
        let requests = self.admission.slots_in_use();
        let parts = self.order.ranges.parts_in_use();
        self.check_reservations(&requests, &singles);
        self.check_commands(&plans, &singles);
        self.check_locks(&plans, &singles);
        self.check_scratch(&plans);
        self.check_pieces(&plans, &requests, &parts);
        self.check_waiting_requests(&requests);
        self.check_waiting_plans(&plans);
        self.check_bands(&plans, &parts);
        self.check_volumes(&plans, &singles, &requests, &parts);
        self.check_leftovers(&plans, &singles);
        self.check_logs(&plans);
    }

    fn check_reservations(&self, requests: &[u32], singles: &[u32]) {
        let forwarded = |index: &&u32| self.admission[**index].origin().is_some();
        let own = |index: &&u32| self.flight.single(**index).plan() == NONE;
        let from = |index: &&u32| self.flight.single(**index).from().is_some();
        let singles: Vec<u32> = singles.iter().filter(own).copied().collect();
        let there = requests.iter().filter(forwarded).count() + singles.iter().filter(from).count();
        let all = requests.len() + singles.len();
        let counted = self.admission.under_way();
        assert_eq!(
            counted,
            (all - there, there),
            "requests of ports and of other shards: counted, and found"
        );
        assert!(
            counted.0 <= REQUESTS_MAX && counted.1 <= FORWARDED_MAX,
            "more requests are under way than may be: {counted:?}"
        );
        let unplanned = |index: &&u32| self.flight.single(**index).waits_for().next().is_some();
        assert_eq!(
            self.flight.unplanned(),
            singles.iter().filter(unplanned).count(),
            "single requests that may yet need a plan: counted, and found"
        );
        assert!(
            self.flight.unplanned() <= self.flight.plans_free(),
            "{} single requests may need a plan, and {} plans are free",
            self.flight.unplanned(),
            self.flight.plans_free()
        );
    }

    /// Commands with drives, by plan and by drive.
    fn check_commands(&self, plans: &[u32], singles: &[u32]) {
        let mut out = [0u32; CONTAINER_MEMBERS_MAX];
        for &index in plans {
            let running = self.flight.running(index);
            let mut waits = 0;
            for state in running.states().iter() {
                let is_out = matches!(
                    state.progress(),
                    Progress::Outstanding | Progress::Flushing | Progress::Recording
                );
                waits += u16::from(is_out);
                if state.is_with_drive() {
                    out[usize::from(state.member().0)] += 1;
                }
            }
            assert_eq!(
                running.outstanding(),
                waits,
                "steps that plan {index} waits for: counted, and found: {:?}",
                running.work()
            );
            assert_eq!(
                running.left() > 0,
                !running.left_with().is_empty(),
                "plan {index} has left {} commands with {:?}",
                running.left(),
                running.left_with()
            );
        }
        let single = singles
            .iter()
            .flat_map(|&index| self.flight.single(index).waits_for());
        let logs = self.hole_logs.iter().flat_map(|log| log.waits_for());
        for member in single.chain(logs) {
            out[usize::from(member.0)] += 1;
        }
        for (member, there) in (0u8..).zip(out) {
            let counted = self.members.in_flight(MemberId(member));
            assert_eq!(
                counted, there,
                "commands with member {member}: counted, and found"
            );
        }
    }

    fn check_locks(&self, plans: &[u32], singles: &[u32]) {
        let planned = plans.iter().map(|&index| self.flight.running(index).lock());
        let single = singles
            .iter()
            .map(|&index| self.flight.single(index).lock());
        let mut held: Vec<u32> = planned.chain(single).filter(|&lock| lock != NONE).collect();
        let count = held.len();
        held.sort_unstable();
        held.dedup();
        assert_eq!(held.len(), count, "two holders have the same lock");
        assert_eq!(
            self.order.ranges.locks_held(),
            count,
            "locks that are held, and plans and requests that hold one"
        );
    }

    fn check_scratch(&self, plans: &[u32]) {
        let planned = plans
            .iter()
            .filter_map(|&index| self.flight.running(index).scratch());
        let left: Vec<_> = self.flight.leftovers().scratch().collect();
        let (lent, pinned) = self.flight.scratch_out();
        assert_eq!(pinned, left.len(), "scratch blocks of abandoned commands");
        let mut blocks: Vec<u64> = planned.chain(left).map(|block| block.buffer.0).collect();
        assert_eq!(
            lent,
            blocks.len(),
            "scratch blocks that are lent, and those that plans and leftovers have"
        );
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), lent, "a scratch block is lent twice");
    }

    /// What requests wait for: plans, parts and pieces with other shards.
    fn check_pieces(&self, plans: &[u32], requests: &[u32], parts: &[u32]) {
        let mut pieces = Counts::of(requests);
        for &index in plans {
            if let Work::Direct { request } = self.flight.running(index).work() {
                pieces.add("request", request);
            }
        }
        for &part in parts {
            let request = self.order.ranges[part].request;
            if request != NONE {
                pieces.add("request", request);
            }
        }
        let mut elsewhere = 0;
        for &index in requests {
            let state = &self.admission[index];
            let here = pieces.take(index);
            assert!(
                here <= state.outstanding(),
                "request {index} counts {} pieces and has {here} here",
                state.outstanding()
            );
            elsewhere += (state.outstanding() - here) as usize;
            assert!(!state.is_over(), "request {index} waits for nothing");
        }
        pieces.check_rest("request");
        assert_eq!(
            self.admission.forwards(),
            elsewhere,
            "pieces with other shards: counted, and awaited by requests"
        );
    }

    fn check_waiting_requests(&self, requests: &[u32]) {
        let mut waits = Counts::of(requests);
        let blocked = self
            .volumes
            .iter()
            .flat_map(|volume| volume.writes().blocked());
        let lists = self.admission.waiting_with_slots();
        let lists = lists.chain(blocked.copied());
        lists.for_each(|index| waits.add("request", index));
        for &index in requests {
            let here = waits.take(index);
            let expected = u32::from(!self.admission[index].is_issued());
            assert_eq!(here, expected, "lists in which request {index} waits");
        }
        waits.check_rest("request");
    }

    fn check_waiting_plans(&self, plans: &[u32]) {
        let mut waits = Counts::of(plans);
        let lists = self.flight.waiting_plans();
        let lists = lists.chain(self.hole_logs.waiting_for_record().iter().copied());
        lists.for_each(|index| waits.add("plan", index));
        if let Some(index) = self.inspection.and_then(|inspection| inspection.held_by()) {
            waits.add("plan", index);
        }
        for &index in plans {
            let here = waits.take(index);
            let expected = u32::from(self.flight.running(index).outstanding() == 0);
            assert_eq!(
                here,
                expected,
                "lists in which plan {index} waits, for {:?}",
                self.flight.running(index).work()
            );
        }
        waits.check_rest("plan");
    }

    /// Every part waits in a band or is in a plan, and no band is held back twice.
    fn check_bands(&self, plans: &[u32], parts: &[u32]) {
        let waiting = self
            .order
            .ranges
            .check(|key| self.order.held_bands.has(key));
        let mut planned = 0;
        for &index in plans {
            let mut at = self.flight.running(index).work().parts();
            while at != NONE {
                planned += 1;
                assert!(
                    planned <= parts.len(),
                    "the parts of plan {index} run in a circle"
                );
                at = self.order.ranges.after(at);
            }
        }
        assert_eq!(
            waiting + planned,
            parts.len(),
            "parts that wait or are planned, and all"
        );
        self.order.held_bands.check();
    }

    /// The counts of volumes: requests that write, plans that write, and the bands of their job.
    fn check_volumes(&self, plans: &[u32], singles: &[u32], requests: &[u32], parts: &[u32]) {
        for (number, volume) in (0u8..).zip(self.volumes.iter()) {
            let is_own = |index: &&u32| {
                let running = self.flight.running(**index);
                running.volume() == number && matches!(running.work(), Work::Write { .. })
            };
            assert_eq!(
                volume.writes().plans() as usize,
                plans.iter().filter(is_own).count(),
                "write plans of volume {number}: counted, and found"
            );
            let own = singles.iter().map(|&index| self.flight.single(index));
            let own = own.filter(|single| {
                let asked = single.request();
                let is_write = asked.operation == Operation::Write;
                single.plan() == NONE && is_write && asked.volume.0 == number
            });
            let planned = requests.iter().map(|&index| &self.admission[index]);
            let planned =
                planned.filter(|state| state.is_writing() && state.request().volume.0 == number);
            assert_eq!(
                volume.writes().running() as usize,
                own.count() + planned.count(),
                "requests that write to volume {number}: counted, and found"
            );
            if let Some(job) = volume.job() {
                let name = u64::from(job.view().id);
                let is_its = |part: &&u32| {
                    let part = &self.order.ranges[**part];
                    part.kind == PartKind::Background && part.buffer.0 == name
                };
                job.check(parts.iter().filter(is_its).count());
            }
        }
    }
}

/// How often each of some items is named.
struct Counts(Vec<u32>);

impl Counts {
    /// None has been named yet; `items` are all that exist, in ascending order.
    fn of(items: &[u32]) -> Counts {
        let end = items.last().map_or(0, |last| last + 1);
        Counts(vec![0; end as usize])
    }

    /// An item is named once more; `what` says in the message what it is.
    fn add(&mut self, what: &str, item: u32) {
        let count = self.0.get_mut(item as usize);
        let count = count.unwrap_or_else(|| panic!("{what} {item} is referred to, and not in use"));
        *count += 1;
    }

    /// How often an item that is there was named.
    fn take(&mut self, item: u32) -> u32 {
        core::mem::take(&mut self.0[item as usize])
    }

    /// To be called when all existing items have been taken. Panics if any other item was named.
    fn check_rest(&self, what: &str) {
        let strange = self.0.iter().position(|&count| count > 0);
        if let Some(item) = strange {
            panic!("{what} {item} is referred to, and not in use");
        }
    }
}
