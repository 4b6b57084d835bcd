//! How many chains are taken in a turn. Everything else is tested by histories (`exercise`).

use super::super::guest::{Guest, write};
use super::super::request::Rules;
use super::super::split_ring::{Places, SplitRing};
use super::super::wire::*;
use super::*;
use drives::arena::{Arena, ArenaOptions};
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

/// A guest that sends flushes: chain `n` has the descriptors `2 n` and `2 n + 1`.
struct Flushes {
    guest: Arc<Guest>,
    queues: Queues,
    available: u16,
    now_us: u64,
}

impl Flushes {
    fn new() -> Flushes {
        let guest = Guest::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap();
        let put = |at: u64, bytes: &[u8]| write(&guest, at, bytes).unwrap();
        put(HEAD_AT, &REQUEST_FLUSH.to_le_bytes());
        for chain in 0..SIZE / 2 {
            let parts = [
                (HEAD_AT, 16u32, DESCRIPTOR_NEXT),
                (STATUS_AT, 1, DESCRIPTOR_WRITE),
            ];
            for (index, (address, length_bytes, flags)) in (2 * chain..).zip(parts) {
                let at = PLACES.table + 16 * u64::from(index);
                put(at, &address.to_le_bytes());
                put(at + 8, &length_bytes.to_le_bytes());
                put(at + 12, &flags.to_le_bytes());
                put(at + 14, &(index + 1).to_le_bytes());
            }
        }
        for place in 0..SIZE {
            let head = 2 * (place % (SIZE / 2));
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
        Flushes {
            guest,
            queues,
            available: 0,
            now_us: 0,
        }
    }

    fn send(&mut self, count: u16) {
        self.available += count;
        write(
            &self.guest,
            PLACES.available + 2,
            &self.available.to_le_bytes(),
        )
        .unwrap();
    }

    /// A turn of a microsecond, as if the driver had told of its requests. Returns what the engine gets.
    fn turn(&mut self) -> Vec<u64> {
        self.now_us += 1;
        self.queues.kicked(0);
        let mut inputs = Vec::new();
        self.queues.go_on(Nanos(1000 * self.now_us), &mut inputs);
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
    let mut guest = Flushes::new();
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
    let mut guest = Flushes::new();
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
    let mut guest = Flushes::new();
    guest.send(8);
    assert_eq!(guest.turn().len(), 8);
}

/// The server before may have been killed when the driver could see answers and was not told of them.
#[test]
fn a_driver_is_told_once_when_a_server_begins() {
    let mut guest = Flushes::new();
    let mut told = Vec::new();
    for _ in 0..2 {
        let publish = |place, published| told.push((place, published));
        guest.queues.publish(publish);
        assert!(guest.turn().is_empty());
    }
    assert_eq!(told, [(0, Ok(true))]);
}
