//! Histories of a control socket from any bytes: what a front end says, in any order and with any numbers, while the guest's
//! memory has any content. For the fuzzer and, on random bytes, for ordinary tests. The parser of the messages themselves is
//! crate `vhost`'s.
//!
//! The shards are played here: their engine answers at once. Nothing may panic, what reaches the engine keeps the rules, and
//! in the end every queue can be ended and no memory is lost.

use super::port::{End, NewQueue, QueueId};
use super::queues::Queues;
use super::session::{Session, Shards};
use crate::export::Offer;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::request::{Completion, Operation};
use engine::units::{Nanos, VolumeId};
use engine::world::Input;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::any::Any;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::*;
use vhost::vhost_user::{Error, VhostUserBackendReqHandlerMut};

const SIZE_BYTES: u64 = 1 << 20;
const POOL_BYTES: usize = 64 << 10;
/// Files of guests, and where they lie for the front end.
const FILE_BYTES: u64 = 64 << 10;
const USER: u64 = 0x10_0000;
/// Queues that are talked of.
const QUEUES: u64 = 3;
/// Turns in which a shard answers all that one message can bring: far more than needed.
const TURNS_MAX: usize = 10_000;
/// What a turn takes.
const TURN: Nanos = Nanos(20_000);

/// Runs the history that `data` describes.
///
/// # Panics
/// If a rule is broken.
pub fn fuzz_messages(data: &[u8]) {
    let shard = Arc::new(Mutex::new(Shard::new()));
    let mut history = History {
        session: session(&shard),
        guest: memory_file(FILE_BYTES),
        in_flight: None,
        bytes: data,
    };
    while !history.bytes.is_empty() {
        // A message that is refused ends the connection, as in the server.
        if let Err(error) = history.message() {
            assert!(!error.to_string().is_empty());
            history.session.end_all().expect("the shard ends queues");
            history.session = session(&shard);
        }
        lock(&shard).run();
    }
    history.session.end_all().expect("the shard ends queues");
    lock(&shard).expect_empty();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shard whose engine answers at once.
struct Shard {
    queues: Queues,
    now: Nanos,
    served: Vec<(QueueId, u16)>,
}

impl Shard {
    fn new() -> Shard {
        let options = ArenaOptions {
            length_bytes: POOL_BYTES,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).expect("memory for a test");
        Shard {
            queues: Queues::new(Pool::new(arena, 0..POOL_BYTES)),
            now: Nanos(0),
            served: Vec::new(),
        }
    }

    fn receive(&mut self, message: Box<dyn Any + Send>) {
        let message = match message.downcast::<NewQueue>() {
            Ok(new) => {
                let place = self.queues.begin(new.opening);
                return self.served.push((new.id, place));
            }
            Err(message) => message,
        };
        let Ok(end) = message.downcast::<End>() else {
            return;
        };
        let mut served = self.served.iter();
        let at = served.position(|(id, _)| *id == end.id);
        let (_, place) = self
            .served
            .swap_remove(at.expect("a queue is ended that was begun"));
        self.queues.end(place);
        self.run();
        assert!(self.queues.is_quiet(place), "a queue does not end");
        let sent = end.next_available.send(self.queues.remove(place));
        sent.expect("the session waits");
    }

    /// Turns, until nothing is left to do.
    fn run(&mut self) {
        // Answers may make room for further requests.
        for _ in 0..TURNS_MAX {
            if !self.queues.may_go_on() {
                return;
            }
            let mut inputs = Vec::new();
            self.now = self.now.after(TURN);
            self.queues.go_on(self.now, &mut inputs);
            for input in inputs {
                self.carry_out(&input);
            }
            self.queues.publish(|_, _| {});
        }
        panic!("the queues never rest");
    }

    fn carry_out(&mut self, input: &Input) {
        let Input::Request(request) = input else {
            panic!("queues give nothing but requests");
        };
        let end_bytes = request.offset_bytes + u64::from(request.length_bytes);
        assert!(end_bytes <= SIZE_BYTES);
        if matches!(request.operation, Operation::Read | Operation::Write) {
            assert!(self.queues.own(request.buffer));
        }
        self.queues.completed(Completion {
            tag: request.tag,
            result: Ok(()),
        });
    }

    fn expect_empty(&self) {
        assert!(self.served.is_empty(), "a queue is left");
        assert_eq!(self.queues.available_bytes(), POOL_BYTES as u64);
    }
}

fn session(shard: &Arc<Mutex<Shard>>) -> Session {
    let offer = Offer {
        volume: VolumeId(0),
        name: "vol0".to_owned(),
        identity: [1; 16],
        description: String::new(),
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        chunk_bytes: 64 << 10,
        row_bytes: 128 << 10,
        read_only: false,
        discards: true,
    };
    let shard = shard.clone();
    let shards = Shards {
        count: 1,
        send: Box::new(move |_, message| lock(&shard).receive(message)),
    };
    Session::new(offer, shards, Arc::new(|_| {}), Arc::default())
}

fn memory_file(length_bytes: u64) -> File {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory for a test");
    ftruncate(&file, length_bytes).expect("memory for a test");
    file.into()
}

struct History<'a> {
    session: Session,
    guest: File,
    in_flight: Option<(VhostUserInflight, File)>,
    bytes: &'a [u8],
}

impl History<'_> {
    fn next(&mut self) -> u64 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                u64::from(*first)
            }
            None => 0,
        }
    }

    /// Mostly a small number, and now and then a huge one.
    fn number(&mut self) -> u64 {
        match self.next() {
            255 => u64::MAX - self.next(),
            254 => 1 << (self.next() % 64),
            small => small,
        }
    }

    fn index(&mut self) -> u32 {
        match self.next() {
            255 => u32::MAX - self.next() as u32,
            small => (small % QUEUES) as u32,
        }
    }

    /// A page of the guest's memory, as the front end knows it.
    fn page(&mut self) -> u64 {
        USER.wrapping_add(self.number() << 10)
    }

    fn copy(file: &File) -> File {
        file.try_clone().expect("few files are open")
    }

    fn event(&mut self) -> Option<File> {
        match self.next() % 8 {
            0 => None,
            1 => Some(Self::copy(&self.guest)),
            _ => {
                let event = eventfd(0, EventfdFlags::CLOEXEC);
                Some(File::from(event.expect("few files are open")))
            }
        }
    }

    fn region(&mut self) -> (u64, u64, u64, u64) {
        match self.next() % 4 {
            0 => (
                self.number() << 12,
                self.number() << 9,
                self.page(),
                self.number() << 8,
            ),
            _ => (0, FILE_BYTES, USER, 0),
        }
    }

    fn message(&mut self) -> Result<(), Error> {
        match self.next() % 16 {
            0 => {
                let all = self.session.get_features()?;
                let dropped = 1 << (self.next() % 40);
                self.session.set_features(all & !dropped)
            }
            1 => {
                let (guest, length, user, offset) = self.region();
                let region = VhostUserMemoryRegion::new(guest, length, user, offset);
                let files = vec![Self::copy(&self.guest)];
                self.session.set_mem_table(&[region], files, None).map(drop)
            }
            2 => {
                let (index, size) = (self.index(), 1 << (self.next() % 12));
                self.session.set_vring_num(index, size)
            }
            3 => {
                let (index, flags) = (self.index(), VhostUserVringAddrFlags::empty());
                let (table, used, available) = (self.page(), self.page(), self.page());
                self.session
                    .set_vring_addr(index, flags, table, used, available, 0)
            }
            4 => {
                let (index, next) = (self.index(), self.number());
                self.session.set_vring_base(index, next as u32)
            }
            5 => {
                let (index, event) = (self.index() as u8, self.event());
                self.session.set_vring_kick(index, event)
            }
            6 => {
                let (index, event) = (self.index() as u8, self.event());
                self.session.set_vring_call(index, event)
            }
            7 => {
                let index = self.index();
                let is_enabled = !self.next().is_multiple_of(4);
                self.session.set_vring_enable(index, is_enabled)
            }
            8 => {
                let index = self.index();
                self.session.get_vring_base(index).map(drop)
            }
            9 => self.new_in_flight(),
            10 => self.known_in_flight(),
            11 => {
                let (guest, length, user, offset) = self.region();
                let region = VhostUserSingleMemoryRegion::new(guest, length, user, offset);
                match self.next() % 2 {
                    0 => self.session.remove_mem_region(&region),
                    _ => {
                        let file = Self::copy(&self.guest);
                        self.session.add_mem_region(&region, file, None).map(drop)
                    }
                }
            }
            12 => self.session.reset_device(),
            _ => {
                self.scribble();
                Ok(())
            }
        }
    }

    fn new_in_flight(&mut self) -> Result<(), Error> {
        let (queues, size) = (self.number() as u16, 1 << (self.next() % 12));
        let wanted = VhostUserInflight::new(self.number(), self.number(), queues, size);
        self.in_flight = Some(self.session.get_inflight_fd(&wanted)?);
        Ok(())
    }

    fn known_in_flight(&mut self) -> Result<(), Error> {
        let Some((layout, file)) = &self.in_flight else {
            return Ok(());
        };
        let (mut layout, file) = (*layout, Self::copy(file));
        match self.next() % 8 {
            0 => layout.mmap_size = self.number(),
            1 => layout.mmap_offset = self.number(),
            2 => layout.queue_size = self.number() as u16,
            _ => {}
        }
        self.session.set_inflight_fd(&layout, file)
    }

    /// Writes into the guest's memory: anything, or a descriptor, or that chains are available.
    fn scribble(&mut self) {
        let at = (self.next() << 10 | self.next()) % (FILE_BYTES - 64);
        let content = match self.next() % 3 {
            0 => (0..self.next() % 32).map(|_| self.next() as u8).collect(),
            1 => {
                let (address, length) = (self.number() << 8, (self.number() as u32) << 4);
                let (flags, next) = ((self.next() % 8) as u16, self.next() as u16);
                let mut bytes = address.to_le_bytes().to_vec();
                bytes.extend(length.to_le_bytes());
                bytes.extend(flags.to_le_bytes());
                bytes.extend(next.to_le_bytes());
                bytes
            }
            _ => (self.next() as u16 % 9).to_le_bytes().to_vec(),
        };
        let written = self.guest.write_all_at(&content, at);
        written.expect("a file in memory takes this");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_history_of_a_control_socket_keeps_the_rules(history in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_messages(&history);
        }

        /// After what every front end says at its beginning, so that queues are served.
        #[test]
        fn any_history_with_queues_keeps_the_rules(history in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut all = BEGINNING.to_vec();
            all.extend(history);
            fuzz_messages(&all);
        }
    }

    /// Features, memory, an area of requests in flight, and queue 0 with 8 descriptors at 0, 4 KiB and 8 KiB.
    const BEGINNING: [u8; 26] = [
        0, 39, 1, 1, 9, 3, 3, 0, 0, 2, 0, 3, 3, 0, 0, 8, 4, 4, 0, 0, 5, 0, 7, 7, 0, 1,
    ];

    /// A connection after these messages, and the shard.
    fn after(messages: &[u8]) -> (History<'_>, Arc<Mutex<Shard>>) {
        let shard = Arc::new(Mutex::new(Shard::new()));
        let mut history = History {
            session: session(&shard),
            guest: memory_file(FILE_BYTES),
            in_flight: None,
            bytes: messages,
        };
        while !history.bytes.is_empty() {
            history.message().unwrap();
        }
        (history, shard)
    }

    fn served(shard: &Arc<Mutex<Shard>>) -> usize {
        lock(shard).served.len()
    }

    #[test]
    fn a_queue_is_served_when_all_is_known_that_it_needs() {
        let (mut history, shard) = after(&BEGINNING);
        assert_eq!(served(&shard), 1);
        history.session.end_all().unwrap();
        lock(&shard).expect_empty();
        // Without features, memory, size, places, kick, or permission it is not. The base is known, the area is not needed.
        for left_out in [0..2, 2..4, 9..12, 12..17, 20..23, 23..26] {
            let mut messages = BEGINNING.to_vec();
            messages.drain(left_out.clone());
            let (_, shard) = after(&messages);
            assert_eq!(served(&shard), 0, "without {left_out:?}");
        }
    }

    const FLUSH: [u8; 4] = [4, 0, 0, 0];

    fn put(file: &File, at: u64, bytes: &[u8]) {
        file.write_all_at(bytes, at).unwrap();
    }

    /// A driver makes a flush available: chain 0, with head and status at 16 KiB.
    fn send_flush(guest: &File) {
        put(guest, 0x4000, &FLUSH);
        put(
            guest,
            0,
            &[0, 0x40, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0],
        );
        put(
            guest,
            16,
            &[0, 0x41, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
        );
        put(guest, 0x1002, &[1, 0, 0, 0]);
    }

    fn used(guest: &File) -> u16 {
        let mut index = [0; 2];
        guest.read_exact_at(&mut index, 0x2002).unwrap();
        u16::from_le_bytes(index)
    }

    /// An earlier server has taken a chain, and was killed.
    fn mark(history: &History<'_>, head: u64) {
        let (_, area) = history.in_flight.as_ref().unwrap();
        put(area, 8, &[1, 0, 8, 0, 0, 0, 0, 0]);
        put(area, 16 + 16 * head, &[1]);
    }

    #[test]
    fn what_an_earlier_server_has_taken_is_answered_once() {
        let (mut history, shard) = after(&BEGINNING[..23]);
        send_flush(&history.guest);
        mark(&history, 0);
        history.session.set_vring_enable(0, true).unwrap();
        lock(&shard).run();
        let state = history.session.get_vring_base(0).unwrap();
        let next = state.num;
        assert_eq!((next, used(&history.guest)), (1, 1));
        lock(&shard).expect_empty();
    }

    #[test]
    fn a_chain_in_flight_that_the_queue_cannot_have_is_refused() {
        let mut messages = BEGINNING[..23].to_vec();
        // Four descriptors, where the area has room for eight.
        messages[11] = 2;
        let (mut history, shard) = after(&messages);
        mark(&history, 6);
        let refused = history.session.set_vring_enable(0, true).unwrap_err();
        let words = refused.to_string();
        assert!(
            words.contains("queue 0 of volume vol0: there is no descriptor 6"),
            "{words}"
        );
        assert_eq!(served(&shard), 0);
    }

    #[test]
    fn a_queue_goes_on_in_new_memory() {
        let (mut history, shard) = after(&BEGINNING);
        let new = memory_file(FILE_BYTES);
        send_flush(&new);
        let region = VhostUserMemoryRegion::new(0, FILE_BYTES, USER, 0);
        let files = vec![new.try_clone().unwrap()];
        history
            .session
            .set_mem_table(&[region], files, None)
            .unwrap();
        lock(&shard).run();
        assert_eq!((used(&new), used(&history.guest)), (1, 0));
        history.session.end_all().unwrap();
        lock(&shard).expect_empty();
    }
}
