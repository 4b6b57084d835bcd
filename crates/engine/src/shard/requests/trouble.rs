//! Single requests become plans when something goes wrong: an error, or a drive that has failed or is overdue.

use crate::admission::{Origin, RequestState};
use crate::flight::running::Work;
use crate::order::ranges::NONE;
use crate::plan::{Step, StepKind};
use crate::request::{Operation, Request};
use crate::shard::Engine;
use crate::units::ShardId;

impl Engine {
    /// Turns a single request into a plan that stands where the request stood.
    #[cold]
    pub(crate) fn plan_single(&mut self, index: u32) {
        let single = self.flight.single(index);
        let (request, lock) = (*single.request(), single.lock());
        let volume = &self.volumes[request.volume.0 as usize];
        let place = volume.shape().locate(request.offset_bytes);
        let offset_bytes = volume
            .shape()
            .member_offset_bytes(place.row, place.in_chunk_bytes);
        let kind = match request.operation {
            Operation::Read => StepKind::Read,
            _ => StepKind::Write { fua: request.fua },
        };
        let request_index = self.adopt_request(request, single.from());
        let lock = if lock == NONE {
            NONE
        } else {
            self.order.ranges.lock_in_band(lock)
        };
        let work = Work::Direct {
            request: request_index,
        };
        // A plan is available: one was kept for this request.
        let plan_index = self.flight.take_plan(work, request.volume.0, lock);
        let length_bytes = u64::from(request.length_bytes);
        let step = |slot| Step::member(kind, 0, slot, offset_bytes, length_bytes);
        self.flight.continue_as_plan(index, plan_index, step);
        self.desk.stats.plans_direct += 1;
    }

    /// Turns single requests into plans if they have been outstanding for too long or are with failed members,
    /// because deadlines are checked on plans, not on single requests.
    pub(crate) fn plan_overdue_singles(&mut self) {
        for index in self.flight.single_numbers() {
            let single = self.flight.single(index);
            if single.outstanding() == 0 || single.plan() != NONE {
                continue;
            }
            let is_late =
                self.desk.now().since(single.started()) >= self.desk.options().member_deadline;
            let has_failed = |member| self.members.failed().has(member);
            if is_late || single.waits_for().any(has_failed) {
                self.plan_single(index);
            }
        }
    }

    /// A slot for a request that has run without one so far, with one piece outstanding: its plan.
    fn adopt_request(&mut self, request: Request, from: Option<ShardId>) -> u32 {
        let index = self.admission.take_counted();
        let origin = from.map(|shard| Origin {
            shard,
            ticket: request.tag as u32,
            repairs: false,
            tried: None,
        });
        self.admission[index] = RequestState::under_way(request, origin);
        index
    }
}
