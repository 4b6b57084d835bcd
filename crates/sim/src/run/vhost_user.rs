//! The guests' side of vhost-user ([`crate::vhost_user`]): drivers send requests and find answers, guests wait for the next
//! process, and every request is answered once.

use super::attached::Attached;
use super::clients::{Flying, Place, Returned, fill_all};
use super::{Failure, Run};
use crate::history::{Access, Ask, Meddling, Outage};
use crate::machine::Note;
use crate::random::Stream;
use crate::vhost_user::guests::{Answered, Guests};
use crate::vhost_user::{Death, port::Port};
use engine::control::message::Command as Order;
use engine::request::{Failure as Refusal, Operation};
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// What the run keeps of the guests; the machine has the guests themselves.
pub(super) struct Served {
    /// The process has been told to leave requests to the next one, and the array is not stopping yet.
    is_leaving: bool,
    /// The process is to be killed inside one of its next turns: how, and what is done to the drives then.
    fate: Option<(Death, Vec<Meddling>)>,
    deaths: Stream,
}

impl Served {
    /// Nothing is under way.
    pub(super) fn new(seed: u64) -> Served {
        Served {
            is_leaving: false,
            fate: None,
            deaths: Stream::new(seed, "deaths", 0),
        }
    }
}

impl Run<'_> {
    fn served(&mut self) -> Option<&mut Served> {
        match &mut self.attached {
            Attached::VhostUser(served) => Some(served),
            Attached::Engine | Attached::Ublk(_) => None,
        }
    }

    fn guests(&self) -> RefMut<'_, Guests> {
        RefMut::map(self.machine.borrow_mut(), |machine| {
            let guests = machine.guests.as_mut();
            guests.expect("a history whose clients are guests has guests")
        })
    }

    fn queue_ports(&self) -> Vec<Rc<RefCell<Port>>> {
        let ports = self.process.iter().flat_map(|process| &process.ports);
        ports.filter_map(|port| port.queues().cloned()).collect()
    }

    /// A process has been started: it knows what the one before has left.
    pub(super) fn attach_guests(&mut self) -> Result<(), Failure> {
        if let Some(served) = self.served() {
            served.is_leaving = false;
        }
        self.look_at_guests()
    }

    pub(super) fn has_free_room(&self, ask: Ask) -> bool {
        self.process.is_some() && self.guests().has_room(ask.volume, ask.connection)
    }

    /// Whether a guest was not told of an answer that it could see.
    pub(super) fn has_unseen(&self) -> bool {
        matches!(self.attached, Attached::VhostUser(_)) && self.guests().has_unseen()
    }

    /// Sends a request, if its queue has room.
    pub(super) fn send_to_queue(&mut self, number: u32, ask: Ask) {
        if !self.guests().has_room(ask.volume, ask.connection) {
            // Nobody takes what the guest of a volume has sent that does not start any more.
            let may_lack = self.history.mode.is_beyond();
            assert!(may_lack, "a request is sent only if its queue has room");
            return;
        }
        let ask = self.guests().as_guests_ask(ask);
        let mut data = Vec::new();
        if ask.operation == Operation::Write {
            data.resize(ask.length_bytes as usize, 0);
            fill_all(number, &ask, &mut data);
        }
        self.begin_in_queue(number, ask);
        self.counts.vhost_user.requests += 1;
        let is_awaited = self.guests().send((number, ask), &data);
        let shard = self.shard_of(ask);
        if is_awaited && let Some(port) = self.queue_ports().get(shard) {
            port.borrow_mut().kick(ask.volume, ask.connection);
            self.machine.borrow_mut().knock(shard);
        }
    }

    fn shard_of(&self, ask: Ask) -> usize {
        let shards = self.process.as_ref().map_or(1, |process| process.shards());
        usize::from(ask.connection) % shards
    }

    fn begin_in_queue(&mut self, number: u32, ask: Ask) {
        let flying = self.begin((number, ask), Place::Room, None, self.shard_of(ask));
        self.flying.insert(u64::from(number), flying);
    }

    /// Handles the answers that guests were told of in the last turn.
    pub(super) fn look_at_guests(&mut self) -> Result<(), Failure> {
        let ports = self.queue_ports();
        for port in &ports {
            let told = port.borrow_mut().take_told();
            for (volume, connection) in told {
                let answers = self.guests().look(volume, connection);
                self.settle_answers(answers.map_err(Failure::Unsound)?)?;
            }
            let counts = port.borrow_mut().take_counts();
            self.counts.vhost_user.add(&counts);
        }
        let has_left = ports.iter().all(|port| port.borrow().has_left());
        if let Some(served) = self.served()
            && served.is_leaving
            && has_left
        {
            served.is_leaving = false;
            self.order_now(Order::Stop);
        }
        Ok(())
    }

    fn settle_answers(&mut self, answers: Vec<Answered>) -> Result<(), Failure> {
        for answer in answers {
            let (number, ask) = answer.request;
            let note = Note::Status(number, answer.status);
            self.machine.borrow_mut().note(&note);
            let flying: Option<Flying> = self.flying.remove(&u64::from(number));
            let flying = flying.ok_or_else(|| {
                Failure::Unsound(format!(
                    "request {number} is answered, and nobody waits for it"
                ))
            })?;
            let result = meaning(&ask, answer.status)
                .map_err(|text| Failure::Unsound(format!("request {number}: {text}")))?;
            self.settle(&flying, Returned::ToGuest(&answer.data), result)?;
        }
        Ok(())
    }

    /// Tells the process to leave all further requests to the next one. When all others are answered, the array is
    /// stopped.
    pub(super) fn leave_guests(&mut self) {
        for (shard, port) in self.queue_ports().iter().enumerate() {
            port.borrow_mut().leave();
            self.machine.borrow_mut().knock(shard);
        }
        if let Some(served) = self.served() {
            served.is_leaving = true;
        }
    }

    /// The process has ended, and with `power` the guests.
    pub(super) fn detach_guests(&mut self, outage: Outage, power: bool) {
        self.stay_alive();
        if let Some(served) = self.served() {
            served.is_leaving = false;
        }
        if power {
            self.guests().start_again();
        }
        if outage == Outage::Stop {
            let left = self.guests().unanswered().count() as u64;
            self.counts.vhost_user.left += left;
        }
    }

    /// The requests that the process before has not answered begin again. The guests do nothing for that.
    pub(super) fn begin_again(&mut self) {
        if self.process.is_none() {
            return;
        }
        let unanswered: Vec<_> = self.guests().unanswered().collect();
        for (number, ask) in unanswered {
            if !self.flying.contains_key(&u64::from(number)) {
                self.begin_in_queue(number, ask);
            }
        }
    }

    /// Decides whether a process that is to crash is killed inside one of its next turns instead of now. That needs a turn in
    /// which something is answered.
    pub(super) fn dies_later(&mut self, meddling: &[Meddling]) -> bool {
        let has_requests = !self.flying.is_empty();
        let Access::VhostUser(machines) = self.history.access else {
            return false;
        };
        let Some(served) = self.served().filter(|_| has_requests) else {
            return false;
        };
        if served.fate.is_some() || !served.deaths.chance(2, 3) {
            return false;
        }
        let death = Death::draw(&mut served.deaths, machines.depth);
        served.fate = Some((death, meddling.to_vec()));
        for port in self.queue_ports() {
            port.borrow_mut().may_die(true);
        }
        true
    }

    /// The process is not to be killed inside a turn any more.
    pub(super) fn stay_alive(&mut self) {
        let Some(served) = self.served() else {
            return;
        };
        served.fate = None;
        for port in self.queue_ports() {
            port.borrow_mut().may_die(false);
        }
    }

    /// Whether the last turn of a shard is one in which the process may be killed as it is to be killed.
    fn may_die_now(&self, port: &Rc<RefCell<Port>>) -> bool {
        let published = port.borrow().published();
        let Attached::VhostUser(Served { fate, .. }) = &self.attached else {
            return false;
        };
        let is_amid = fate.as_ref().is_some_and(|(death, _)| death.is_amid);
        let mut queues = published.iter();
        let has_further = queues.any(|(volume, connection)| {
            !is_amid || self.guests().has_further(*volume, *connection)
        });
        has_further && self.allows(|state| state.may_crash())
    }

    /// If the process is to be killed inside a turn and the last turn of a shard allows that, it is: what the shard has not done
    /// then is taken back. Returns what is to be done to the drives. The caller has the answers handled that guests know of,
    /// and ends the process.
    pub(super) fn is_killed_inside(
        &mut self,
        shard: usize,
    ) -> Result<Option<Vec<Meddling>>, Failure> {
        let ports = self.queue_ports();
        let port = ports.get(shard);
        let Some(port) = port.filter(|port| self.may_die_now(port)) else {
            return Ok(None);
        };
        let fate = self.served().and_then(|served| served.fate.take());
        let Some((death, meddling)) = fate else {
            return Ok(None);
        };
        // It replaces an ordered stop that is under way.
        (self.stopping, self.stopped) = (None, false);
        let untold = port.borrow_mut().die(death);
        if let Some((volume, connection)) = untold {
            let answers = self.guests().leave_unseen(volume, connection);
            self.settle_answers(answers.map_err(Failure::Unsound)?)?;
        }
        Ok(Some(meddling))
    }

    /// Ends the ports of guests. All that guests have asked for is answered then, and they know it.
    pub(super) fn end_guests(&mut self) -> Result<(), Failure> {
        let unanswered: Vec<_> = self.guests().unanswered().collect();
        if !unanswered.is_empty() {
            let text = format!("in the end requests are not answered: {unanswered:?}");
            return Err(Failure::Unsound(text));
        }
        if self.guests().has_unseen() {
            let text = "in the end a guest was not told of an answer".to_owned();
            return Err(Failure::Unsound(text));
        }
        let mut ended = self.queue_ports().into_iter();
        ended
            .try_for_each(|port| port.borrow_mut().end())
            .map_err(Failure::Unsound)
    }
}

/// What a status says.
fn meaning(ask: &Ask, status: u8) -> Result<Result<(), Refusal>, String> {
    match status {
        0 => Ok(Ok(())),
        1 => Ok(Err(Refusal::Unrecoverable {
            offset_bytes: ask.offset_bytes,
        })),
        2 => Ok(Err(Refusal::NotSupported)),
        _ => Err(format!("the status of {ask:?} is {status}")),
    }
}
