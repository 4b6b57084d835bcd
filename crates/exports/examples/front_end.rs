//! The parts of the front ends that do no I/O, alone: `front_end nbd|ublk|vhost-user read|write REQUESTS`.
//!
//! For `benchmarks/run front_ends`, which counts their instructions. Requests are of 4 KiB and come 32 at a time, as
//! clients of such a queue depth send them. Each is taken from what the client has sent, becomes a request for the
//! engine or, with NBD, a command, is answered as done, and the answer is put where the client finds it. What the client
//! itself does is prepared before.
//!
//! A guest's payload is copied (see ARCHITECTURE.md); NBD's and ublk's comes from the kernel and is not part of this.

use drives::arena::{Arena, ArenaOptions, Pool};
use engine::request::Completion;
use engine::units::{Nanos, VolumeId};
use engine::world::Input;
use exports::nbd::{
    Abilities, Accept, BlockSizes, Command, Export, ExportList, Phase, Refusal, Session, Sink,
};
use exports::ublk::{Descriptor, TagName, Tags};
use exports::vhost_user::{Guest, Opening, Places, Queues, SplitRing};
use exports::{ublk, vhost_user};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, GuestAddress};

const DEPTH: u16 = 32;
const BLOCK_BYTES: u32 = 4096;
const SIZE_BYTES: u64 = 1 << 30;
/// The guest sends its next requests so late that its queue is not looked at until then, and they are taken in one turn.
const PAUSE_NS: u64 = 100_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Read,
    Write,
}

fn pool() -> Pool {
    let options = ArenaOptions {
        length_bytes: 1 << 20,
        prefault: false,
        lock: false,
    };
    let arena = Arena::new(options).expect("memory for payload");
    Pool::new(arena, 0..1 << 20)
}

/// Where request `number` of a round is, in bytes.
fn place(number: u16) -> u64 {
    u64::from(number) * 7 * u64::from(BLOCK_BYTES)
}

/// Answers what the engine was asked, as done.
fn answer(inputs: &mut Vec<Input>, mut completed: impl FnMut(Completion)) {
    for input in inputs.drain(..) {
        let Input::Request(request) = input else {
            panic!("a front end gives nothing but requests");
        };
        completed(Completion {
            tag: request.tag,
            result: Ok(()),
        });
    }
}

/// Commands of NBD, which the server's connection would make requests of.
#[derive(Default)]
struct Taken(Vec<Command>);

impl Sink for Taken {
    fn command(&mut self, command: Command) -> Accept {
        self.0.push(command);
        Accept::Taken
    }

    fn refusal(&mut self, refusal: Refusal) -> Accept {
        panic!("a request was refused: {refusal:?}");
    }

    fn payload(&mut self, _: &[u8], _: u32) {
        panic!("payload is received into its place");
    }
}

fn nbd_session() -> Session {
    let export = Export {
        name: "v".to_owned(),
        description: String::new(),
        size_bytes: SIZE_BYTES,
        block_sizes: BlockSizes {
            minimum_bytes: 512,
            preferred_bytes: 4096,
            maximum_payload_bytes: 1 << 20,
        },
        abilities: Abilities {
            read_only: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: false,
            multi_conn: true,
        },
    };
    let exports = ExportList::new(vec![export]).expect("a valid export");
    let mut session = Session::new(Arc::new(exports));
    // The greeting, without which nothing is taken.
    session.take_output();
    // Fixed newstyle and no zeroes; then NBD_OPT_GO for `v` without information requests.
    let mut said = 3u32.to_be_bytes().to_vec();
    said.extend(*b"IHAVEOPT");
    said.extend(7u32.to_be_bytes());
    said.extend(7u32.to_be_bytes());
    said.extend(1u32.to_be_bytes());
    said.extend(*b"v\0\0");
    let fed = session.feed(&said, &mut Taken::default());
    assert_eq!(fed, Ok(said.len()));
    assert_eq!(session.phase(), Phase::Transmission);
    session.take_output();
    session
}

fn nbd(kind: Kind, rounds: u64) {
    let mut session = nbd_session();
    let encoder = session.reply_encoder();
    let headers: Vec<Vec<u8>> = (0..DEPTH)
        .map(|number| {
            let mut header = 0x2560_9513u32.to_be_bytes().to_vec();
            header.extend([0, 0, 0, u8::from(kind == Kind::Write)]);
            header.extend(u64::from(number).to_be_bytes());
            header.extend(place(number).to_be_bytes());
            header.extend(BLOCK_BYTES.to_be_bytes());
            header
        })
        .collect();
    let reads = headers.concat();
    let mut taken = Taken::default();
    for _ in 0..rounds {
        match kind {
            Kind::Read => {
                let fed = session.feed(&reads, &mut taken);
                assert_eq!(fed, Ok(reads.len()));
            }
            Kind::Write => {
                for header in &headers {
                    let fed = session.feed(header, &mut taken);
                    assert_eq!(fed, Ok(header.len()));
                    assert_eq!(session.payload_received(BLOCK_BYTES), 0);
                }
            }
        }
        assert_eq!(taken.0.len(), usize::from(DEPTH));
        for command in taken.0.drain(..) {
            let header = match kind {
                Kind::Read => {
                    encoder.read(command.cookie, command.offset_bytes, command.length_bytes)
                }
                Kind::Write => encoder.done(command.cookie),
            };
            black_box(&header);
        }
    }
}

fn ublk(kind: Kind, rounds: u64) {
    let mut tags = Tags::new(pool());
    let rules = ublk::Rules {
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        request_bytes_max: BLOCK_BYTES,
    };
    let mut commands = Vec::new();
    let begun = tags.begin(VolumeId(0), rules, DEPTH, &mut commands);
    let place_of_queue = begun.expect("memory for a queue");
    commands.clear();
    let descriptors: Vec<Descriptor> = (0..DEPTH)
        .map(|number| Descriptor {
            operation_and_flags: u32::from(kind == Kind::Write),
            sectors: BLOCK_BYTES / 512,
            first_sector: place(number) / 512,
        })
        .collect();
    let mut inputs = Vec::new();
    for _ in 0..rounds {
        for (descriptor, tag) in descriptors.iter().zip(0..) {
            let name = TagName {
                place: place_of_queue,
                tag,
            };
            let asked = tags.requested(name, descriptor, &mut inputs);
            assert_eq!(asked, Ok(()));
        }
        answer(&mut inputs, |completion| tags.completed(completion));
        tags.take_commands(&mut commands);
        assert_eq!(commands.len(), usize::from(DEPTH));
        black_box(&commands);
        commands.clear();
    }
}

/// Where things lie in the guest's memory. The table has three descriptors for each request: head, data and status.
const PLACES: Places = Places {
    table: 0,
    available: 0x1000,
    used: 0x2000,
};
const STATUSES_AT: u64 = 0x3000;
const HEADS_AT: u64 = 0x4000;
const DATA_AT: u64 = 0x10000;
const RING_PLACES: u16 = 128;
const NEXT: u16 = 1;
const BY_THE_DEVICE: u16 = 2;

/// A guest's memory, with all requests described and the available ring full of their heads.
fn guest_with_requests(kind: Kind) -> Arc<Guest> {
    let guest = Guest::from_ranges(&[(GuestAddress(0), 1 << 20)]).expect("memory of a guest");
    let put = |at: u64, bytes: &[u8]| {
        let written = guest.write_slice(bytes, GuestAddress(at));
        written.expect("it is in memory");
    };
    let data_flags = if kind == Kind::Read { BY_THE_DEVICE } else { 0 };
    for number in 0..DEPTH {
        let (index, at) = (3 * number, u64::from(number));
        let (head, data, status) = (HEADS_AT + 64 * at, DATA_AT + 4096 * at, STATUSES_AT + at);
        put(head, &u32::from(kind == Kind::Write).to_le_bytes());
        put(head + 8, &(place(number) / 512).to_le_bytes());
        for (step, (address, length_bytes, flags)) in [
            (head, 16, NEXT),
            (data, BLOCK_BYTES, NEXT | data_flags),
            (status, 1, BY_THE_DEVICE),
        ]
        .into_iter()
        .enumerate()
        {
            let index = index + step as u16;
            let at = PLACES.table + 16 * u64::from(index);
            put(at, &u64::to_le_bytes(address));
            put(at + 8, &u32::to_le_bytes(length_bytes));
            put(at + 12, &flags.to_le_bytes());
            put(at + 14, &(index + 1).to_le_bytes());
        }
    }
    for at in 0..RING_PLACES {
        let head = 3 * (at % DEPTH);
        put(
            PLACES.available + 4 + 2 * u64::from(at),
            &head.to_le_bytes(),
        );
    }
    Arc::new(guest)
}

fn vhost_user(kind: Kind, rounds: u64) {
    let guest = guest_with_requests(kind);
    let ring = SplitRing::new(&guest, PLACES, RING_PLACES, true, 0).expect("a ring");
    let mut queues = Queues::new(pool());
    queues.begin(Opening {
        volume: VolumeId(0),
        rules: vhost_user::Rules {
            size_bytes: SIZE_BYTES,
            block_bytes: 512,
            write_through: false,
            identity: [0; 20],
        },
        guest: guest.clone(),
        ring,
        in_flight: None,
        again: Vec::new(),
    });
    let mut inputs = Vec::new();
    let mut available = 0u16;
    for round in 0..rounds {
        available = available.wrapping_add(DEPTH);
        let index = GuestAddress(PLACES.available + 2);
        let stored = guest.store(available.to_le(), index, Ordering::Release);
        stored.expect("the ring is in memory");
        queues.go_on(Nanos(PAUSE_NS * round), &mut inputs);
        assert_eq!(inputs.len(), usize::from(DEPTH));
        answer(&mut inputs, |completion| queues.completed(completion));
        queues.publish(|_, published| assert!(published.is_ok()));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: front_end nbd|ublk|vhost-user read|write REQUESTS";
    let [front_end, kind, requests] = &words[..] else {
        panic!("{usage}");
    };
    let kind = match kind.as_str() {
        "read" => Kind::Read,
        "write" => Kind::Write,
        _ => panic!("{usage}"),
    };
    let requests: u64 = requests.parse().expect("a number of requests");
    let rounds = requests / u64::from(DEPTH);
    match front_end.as_str() {
        "nbd" => nbd(kind, rounds),
        "ublk" => ublk(kind, rounds),
        "vhost-user" => vhost_user(kind, rounds),
        _ => panic!("{usage}"),
    }
}
