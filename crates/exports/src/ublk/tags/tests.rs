//! Tags without a kernel: the test completes commands with requests, and answers requests as the engine does.

use super::*;
use drives::arena::{Arena, ArenaOptions};
use drives::counting::allocations;
use proptest::prelude::*;
use std::collections::BTreeSet;

const DEPTH: u16 = 4;
const REQUEST_BYTES: u32 = 64 << 10;
const RULES: Rules = Rules {
    size_bytes: 1 << 20,
    block_bytes: 512,
    request_bytes_max: REQUEST_BYTES,
};
const READ: u32 = 0;
const WRITE: u32 = 1;

fn tags(blocks: usize) -> Tags {
    let length_bytes = 2 << 20;
    let options = ArenaOptions {
        length_bytes,
        prefault: false,
        lock: false,
    };
    let pool = Pool::new(
        Arena::new(options).unwrap(),
        0..blocks * REQUEST_BYTES as usize,
    );
    Tags::new(pool)
}

/// Tags of one queue, and what a kernel and an engine would hold.
struct Bench {
    tags: Tags,
    commands: Vec<Command>,
    inputs: Vec<Input>,
}

impl Bench {
    /// A queue of [`DEPTH`] tags whose memory comes from a pool of `blocks` blocks.
    fn new(blocks: usize) -> Bench {
        let (mut tags, mut commands) = (tags(blocks), Vec::new());
        assert_eq!(
            tags.begin(VolumeId(3), RULES, DEPTH, &mut commands),
            Some(0)
        );
        Bench {
            tags,
            commands,
            inputs: Vec::new(),
        }
    }

    fn request(&mut self, tag: u16, operation: u32) -> Request {
        let descriptor = Descriptor {
            operation_and_flags: operation,
            sectors: 8,
            first_sector: 16,
        };
        let name = TagName { place: 0, tag };
        self.tags
            .requested(name, &descriptor, &mut self.inputs)
            .unwrap();
        self.taken()
    }

    /// The request that has gone to the engine.
    fn taken(&mut self) -> Request {
        match self.inputs.pop() {
            Some(Input::Request(request)) if self.inputs.is_empty() => request,
            other => panic!("one request is expected, not {other:?}"),
        }
    }

    fn complete(&mut self, request: &Request, result: Result<(), Failure>) {
        let tag = request.tag;
        self.tags.completed(Completion { tag, result });
    }

    /// The commands of the end of a turn.
    fn turn(&mut self) -> Vec<Command> {
        if self.tags.may_go_on() {
            self.tags.go_on(&mut self.inputs, &mut self.commands);
        }
        self.tags.take_commands(&mut self.commands);
        std::mem::take(&mut self.commands)
    }

    fn written(&self, at: Buffer) -> [u8; 4] {
        let mut bytes = [0; 4];
        self.tags.pool.arena().read(at, &mut bytes);
        bytes
    }
}

#[test]
fn every_tag_begins_with_memory_of_its_own() {
    let mut bench = Bench::new(4);
    let first = bench.turn();
    assert_eq!(first.len(), usize::from(DEPTH));
    assert!(
        first
            .iter()
            .all(|command| command.answer.is_none() && command.length_bytes == REQUEST_BYTES)
    );
    let places: BTreeSet<u64> = first.iter().map(|command| command.buffer.0).collect();
    assert_eq!(places.len(), usize::from(DEPTH));
    assert!(first.iter().all(|command| bench.tags.own(command.buffer)));
}

#[test]
fn a_queue_for_which_there_is_no_memory_leaves_nothing_behind() {
    let (mut tags, mut commands) = (tags(4), Vec::new());
    assert_eq!(tags.begin(VolumeId(0), RULES, 5, &mut commands), None);
    assert!(commands.is_empty() && tags.is_empty());
    assert_eq!(tags.begin(VolumeId(0), RULES, 4, &mut commands), Some(0));
}

#[test]
fn a_request_goes_to_the_engine_and_its_answer_to_the_kernel() {
    let mut bench = Bench::new(4);
    let buffers: Vec<Buffer> = bench.turn().iter().map(|command| command.buffer).collect();
    let request = bench.request(2, WRITE);
    assert_eq!((request.volume, request.buffer), (VolumeId(3), buffers[2]));
    assert_eq!((request.offset_bytes, request.length_bytes), (8192, 4096));
    assert!(bench.turn().is_empty());
    bench.complete(&request, Ok(()));
    let wanted = Command {
        name: TagName { place: 0, tag: 2 },
        answer: Some(4096),
        buffer: buffers[2],
        length_bytes: REQUEST_BYTES,
    };
    assert_eq!(bench.turn(), [wanted]);
    let counted = bench.tags.statistics();
    assert_eq!(
        (
            counted.requests,
            counted.requests_in_flight,
            counted.received_bytes
        ),
        (1, 0, 4096)
    );
}

/// The kernel may write to get memory, so no request may need memory that is not there already.
#[test]
fn requests_allocate_nothing() {
    let mut bench = Bench::new(usize::from(DEPTH));
    let mut round = |operation| {
        bench.commands.clear();
        let requests: [Request; 4] = [0, 1, 2, 3].map(|tag| bench.request(tag, operation));
        for request in &requests {
            bench.complete(request, Ok(()));
        }
        bench.tags.take_commands(&mut bench.commands);
        assert_eq!(bench.commands.len(), 4);
    };
    // The first requests find the lists of the test without room.
    round(READ);
    let before = allocations();
    for _ in 0..500 {
        round(READ);
        round(WRITE);
    }
    assert_eq!(allocations() - before, 0);
}

#[test]
fn a_failure_is_an_error_of_the_kernel() {
    let mut bench = Bench::new(4);
    bench.turn();
    let request = bench.request(0, READ);
    bench.complete(&request, Err(Failure::Unrecoverable { offset_bytes: 8192 }));
    assert_eq!(bench.turn()[0].answer, Some(-5));
    assert_eq!(bench.tags.statistics().requests_failed, 1);
}

#[test]
fn a_request_that_breaks_a_rule_never_reaches_the_engine() {
    let mut bench = Bench::new(4);
    bench.turn();
    let past_end = Descriptor {
        operation_and_flags: WRITE,
        sectors: 8,
        first_sector: 1 << 40,
    };
    let name = TagName { place: 0, tag: 1 };
    let refused = bench.tags.requested(name, &past_end, &mut bench.inputs);
    assert_eq!(refused, Err(Refusal::PastEnd));
    assert!(bench.inputs.is_empty());
    assert_eq!(bench.turn()[0].answer, Some(-22));
    let counted = bench.tags.statistics();
    assert_eq!((counted.requests, counted.requests_failed), (0, 1));
}

/// A hung drive may still read the memory of a write that was answered without it. The kernel must not put the next write
/// there.
#[test]
fn memory_that_a_drive_may_use_is_not_offered_to_the_kernel() {
    let mut bench = Bench::new(5);
    bench.turn();
    let request = bench.request(0, WRITE);
    bench.tags.pin(request.buffer.at(512));
    bench.complete(&request, Ok(()));
    let answered = bench.turn();
    assert_eq!(answered[0].answer, Some(4096));
    assert_ne!(answered[0].buffer, request.buffer);
    assert_eq!(
        bench.tags.statistics().pinned_bytes,
        u64::from(REQUEST_BYTES)
    );
    // There is no sixth block, so another tag waits until the drive has let go.
    let other = bench.request(1, WRITE);
    bench.tags.pin(other.buffer);
    bench.complete(&other, Ok(()));
    assert!(bench.turn().is_empty() && bench.turn().is_empty());
    bench.tags.release(request.buffer.at(512));
    let answered = bench.turn();
    assert_eq!((answered.len(), answered[0].buffer), (1, request.buffer));
}

/// The memory for which a tag waits may be its own.
#[test]
fn a_tag_goes_on_when_its_own_memory_is_free_again() {
    let mut bench = Bench::new(4);
    bench.turn();
    let request = bench.request(0, WRITE);
    bench.tags.pin(request.buffer);
    bench.complete(&request, Ok(()));
    assert!(bench.turn().is_empty());
    assert!(!bench.tags.may_go_on());
    bench.tags.release(request.buffer);
    assert!(bench.tags.may_go_on());
    assert_eq!(bench.turn()[0].buffer, request.buffer);
}

#[test]
fn what_was_read_goes_with_the_tag_to_other_memory() {
    let mut bench = Bench::new(5);
    bench.turn();
    let request = bench.request(0, READ);
    bench.tags.pool.arena().write(request.buffer, b"data");
    bench.tags.pin(request.buffer);
    bench.complete(&request, Ok(()));
    let answered = bench.turn();
    assert_ne!(answered[0].buffer, request.buffer);
    assert_eq!(bench.written(answered[0].buffer), *b"data");
}

#[test]
fn a_held_read_is_repeated_in_other_memory() {
    let mut bench = Bench::new(5);
    bench.turn();
    let first = bench.request(0, READ);
    bench.tags.pin(first.buffer);
    bench.complete(&first, Err(Failure::BufferHeld));
    assert!(bench.turn().is_empty());
    let second = bench.taken();
    assert_ne!(second.buffer, first.buffer);
    assert_eq!(
        (second.tag, second.offset_bytes, second.length_bytes),
        (first.tag, 8192, 4096)
    );
    // The next one finds no memory, and waits for the drive.
    let other = bench.request(1, READ);
    bench.tags.pin(other.buffer);
    bench.complete(&other, Err(Failure::BufferHeld));
    assert!(bench.turn().is_empty() && bench.inputs.is_empty());
    bench.tags.release(first.buffer);
    bench.turn();
    assert_eq!(bench.taken().buffer, first.buffer);
    bench.complete(&second, Ok(()));
    assert_eq!(bench.turn()[0].answer, Some(4096));
}

#[test]
fn a_queue_ends_with_its_last_tag_and_its_memory_serves_the_next() {
    let mut bench = Bench::new(4);
    bench.turn();
    for tag in 0..DEPTH {
        assert!(!bench.tags.is_empty());
        let is_last = bench.tags.ended(TagName { place: 0, tag });
        assert_eq!(is_last, tag + 1 == DEPTH);
    }
    assert!(bench.tags.is_empty());
    bench.tags.leave();
    assert!(bench.tags.has_left());
    assert_eq!(bench.tags.statistics().clients, 0);
    assert_eq!(
        bench
            .tags
            .begin(VolumeId(0), RULES, DEPTH, &mut bench.commands),
        Some(0)
    );
}

/// A process that ends answers what it has begun, and leaves the rest to the next one.
#[test]
fn requests_that_are_left_are_neither_carried_out_nor_answered() {
    let mut bench = Bench::new(4);
    bench.turn();
    let begun = bench.request(0, WRITE);
    bench.tags.leave();
    let late = Descriptor {
        operation_and_flags: WRITE,
        sectors: 8,
        first_sector: 0,
    };
    let name = TagName { place: 0, tag: 1 };
    bench
        .tags
        .requested(name, &late, &mut bench.inputs)
        .unwrap();
    assert!(bench.inputs.is_empty() && bench.turn().is_empty() && !bench.tags.has_left());
    bench.complete(&begun, Ok(()));
    assert!(!bench.tags.has_left());
    assert_eq!(bench.turn()[0].answer, Some(4096));
    assert!(bench.tags.has_left() && !bench.tags.is_empty());
    assert_eq!(bench.tags.with_kernel(), usize::from(DEPTH) - 1);
}

#[test]
#[should_panic(expected = "one request at a time")]
fn a_tag_that_is_busy_takes_no_second_request() {
    let mut bench = Bench::new(4);
    bench.turn();
    bench.request(0, READ);
    bench.request(0, READ);
}

proptest! {
    /// Any history, with any description of a request: see `exercise`.
    #[test]
    fn no_history_breaks_a_rule(history in proptest::collection::vec(any::<u8>(), 0..2000)) {
        crate::ublk::fuzz_one(&history);
    }
}
