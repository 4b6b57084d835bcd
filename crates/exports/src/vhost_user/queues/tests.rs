//! How many chains are taken in a turn, and that requests allocate nothing. Everything else is tested by histories (`exercise`).

use super::super::guest::{Guest, write};
use super::super::request::Rules;
use super::super::split_ring::{Places, SplitRing};
use super::super::wire::*;
use super::*;
use drives::arena::{Arena, ArenaOptions};
use drives::counting::allocations;
use engine::units::VolumeId;
use std::sync::Arc;
use vm_memory::GuestAddress;

const SIZE: u16 = 16;
const PLACES: Places = Places {
    table: 0,
    available: 0x1000,
    used: 0x2000,
};
const HEAD_AT: u64 = 0x3000;
const STATUS_AT: u64 = 0x4000;
const DATA_AT: u64 = 0x5000;
const DATA_BYTES: u32 = 4096;

/// The descriptors of a chain that is a request of this kind: address, length, flags.
fn parts(kind: u32) -> Vec<(u64, u32, u16)> {
    let data = match kind {
        REQUEST_READ => Some((DATA_AT, DATA_BYTES, DESCRIPTOR_NEXT | DESCRIPTOR_WRITE)),
        REQUEST_WRITE => Some((DATA_AT, DATA_BYTES, DESCRIPTOR_NEXT)),
        _ => None,
    };
    let head = (HEAD_AT, 16, DESCRIPTOR_NEXT);
    let status = (STATUS_AT, 1, DESCRIPTOR_WRITE);
    [Some(head), data, Some(status)]
        .into_iter()
        .flatten()
        .collect()
}

/// A guest that sends requests of one kind. The descriptors of its chains stand one behind the other in the table.
struct Requests {
    guest: Arc<Guest>,
    queues: Queues,
    available: u16,
    now_us: u64,
}

impl Requests {
    fn flushes() -> Requests {
        Requests::of(REQUEST_FLUSH)
    }

    fn of(kind: u32) -> Requests {
        let parts = parts(kind);
        let length = u16::try_from(parts.len()).unwrap();
        let chains = SIZE / length;
        let guest = Guest::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap();
        let put = |at: u64, bytes: &[u8]| write(&guest, at, bytes).unwrap();
        put(HEAD_AT, &kind.to_le_bytes());
        for chain in 0..chains {
            for (index, &(address, length_bytes, flags)) in (length * chain..).zip(&parts) {
                let at = PLACES.table + 16 * u64::from(index);
                put(at, &address.to_le_bytes());
                put(at + 8, &length_bytes.to_le_bytes());
                put(at + 12, &flags.to_le_bytes());
                put(at + 14, &(index + 1).to_le_bytes());
            }
        }
        for place in 0..SIZE {
            let head = length * (place % chains);
            put(
                PLACES.available + 4 + 2 * u64::from(place),
                &head.to_le_bytes(),
            );
        }
        let options = ArenaOptions {
            length_bytes: 1 << 16,
            prefault: false,
            lock: false,
        };
        let mut queues = Queues::new(Pool::new(Arena::new(options).unwrap(), 0..1 << 16));
        let guest = Arc::new(guest);
        queues.begin(Opening {
            volume: VolumeId(0),
            rules: Rules {
                size_bytes: 1 << 20,
                block_bytes: 512,
                write_through: false,
                identity: [0; IDENTITY_BYTES],
            },
            ring: SplitRing::new(&guest, PLACES, SIZE, true, 0).unwrap(),
            guest: guest.clone(),
            in_flight: None,
            again: Vec::new(),
        });
        Requests {
            guest,
            queues,
            available: 0,
            now_us: 0,
        }
    }

    fn send(&mut self, count: u16) {
        self.available = self.available.wrapping_add(count);
        write(
            &self.guest,
            PLACES.available + 2,
            &self.available.to_le_bytes(),
        )
        .unwrap();
    }

    /// A turn of a microsecond, as if the driver had told of its requests.
    fn take(&mut self, inputs: &mut Vec<Input>) {
        self.now_us += 1;
        self.queues.kicked(0);
        self.queues.go_on(Nanos(1000 * self.now_us), inputs);
    }

    /// Such a turn. Returns what the engine gets.
    fn turn(&mut self) -> Vec<u64> {
        let mut inputs = Vec::new();
        self.take(&mut inputs);
        let tag = |input: Input| match input {
            Input::Request(request) => request.tag,
            other => panic!("queues give nothing but requests, not {other:?}"),
        };
        inputs.into_iter().map(tag).collect()
    }

    fn answer(&mut self, tags: Vec<u64>) {
        for tag in tags {
            let result = Ok(());
            self.queues.completed(Completion { tag, result });
        }
        self.queues
            .publish(|_, published| assert!(published.is_ok()));
    }

    /// Single requests, each of which comes while the thread looks at the empty queue.
    fn run_beside(&mut self) {
        for _ in 0..3 {
            assert!(self.turn().is_empty());
            self.send(1);
            let tags = self.turn();
            self.answer(tags);
        }
    }
}

#[test]
fn a_guest_that_runs_beside_the_thread_is_answered_after_a_few_requests() {
    let mut guest = Requests::flushes();
    guest.run_beside();
    guest.send(8);
    for _ in 0..2 {
        let tags = guest.turn();
        assert_eq!(tags.len(), 4);
        assert!(guest.queues.may_go_on(), "the rest waits for no kick");
        guest.answer(tags);
    }
    assert!(guest.turn().is_empty());
}

#[test]
fn requests_for_drives_that_need_time_are_taken_together() {
    let mut guest = Requests::flushes();
    guest.run_beside();
    guest.send(2);
    let first = guest.turn();
    // Two are still under way.
    guest.send(6);
    let rest = guest.turn();
    assert_eq!((first.len(), rest.len()), (2, 6));
    guest.answer(first);
    guest.answer(rest);
}

#[test]
fn what_a_guest_has_sent_before_the_thread_ran_is_taken_together() {
    let mut guest = Requests::flushes();
    guest.send(8);
    assert_eq!(guest.turn().len(), 8);
}

/// The server before may have been killed when the driver could see answers and was not told of them.
#[test]
fn a_driver_is_told_once_when_a_server_begins() {
    let mut guest = Requests::flushes();
    let mut told = Vec::new();
    for _ in 0..2 {
        let publish = |place, published| told.push((place, published));
        guest.queues.publish(publish);
        assert!(guest.turn().is_empty());
    }
    assert_eq!(told, [(0, Ok(true))]);
}

#[test]
fn requests_allocate_nothing() {
    for kind in [REQUEST_FLUSH, REQUEST_READ, REQUEST_WRITE] {
        let mut guest = Requests::of(kind);
        let mut inputs = Vec::with_capacity(usize::from(SIZE));
        let mut round = || {
            guest.send(4);
            guest.take(&mut inputs);
            assert_eq!(inputs.len(), 4);
            for input in inputs.drain(..) {
                let Input::Request(Request { tag, .. }) = input else {
                    panic!("queues give nothing but requests, not {input:?}");
                };
                let result = Ok(());
                guest.queues.completed(Completion { tag, result });
            }
            guest
                .queues
                .publish(|_, published| assert!(published.is_ok()));
        };
        for _ in 0..10 {
            round();
        }
        let before = allocations();
        for _ in 0..1000 {
            round();
        }
        assert_eq!(allocations() - before, 0, "requests of type {kind}");
    }
}
