use engine::request::{Failure, Operation, Request};

use super::*;
use crate::nbd::server::name::RequestTag;
use crate::nbd::server::requests::tests::memory;

/// The work of one connection and what it needs.
struct Scene {
    work: Work,
    memory: Memory,
    stats: NbdStats,
    text: Vec<u8>,
    inputs: Vec<Input>,
}

impl Scene {
    fn new() -> Scene {
        let work = Work {
            name: ConnectionName {
                index: 0,
                generation: 5,
            },
            volume: VolumeId(3),
            encoder: ReplyEncoder::new(true),
            requests: Requests::new(),
            incoming: None,
            last_write_bytes: 0,
            text_in_use: false,
        };
        Scene {
            work,
            memory: memory(),
            stats: NbdStats::default(),
            text: Vec::new(),
            inputs: Vec::new(),
        }
    }

    fn intake(&mut self) -> Intake<'_> {
        Intake {
            area: self.memory.area(0),
            work: &mut self.work,
            memory: &mut self.memory,
            stats: &mut self.stats,
            text: &mut self.text,
            inputs: &mut self.inputs,
        }
    }

    fn command(&mut self, kind: CommandKind, (offset_bytes, length_bytes): (u64, u32)) {
        let command = Command {
            cookie: 1,
            kind,
            offset_bytes,
            length_bytes,
        };
        assert_eq!(self.intake().command(command), Accept::Taken);
    }

    /// The request to the engine, if any. There is at most one, and then no reply yet.
    fn asked(&mut self) -> Option<Request> {
        assert!(self.inputs.len() <= 1);
        assert_eq!(self.work.requests.answered_count(), 0);
        match self.inputs.pop()? {
            Input::Request(request) => Some(request),
            other => panic!("unexpected {other:?}"),
        }
    }

    /// The reply to the only request that has been answered.
    fn answer(&mut self) -> Answer {
        assert_eq!(self.work.requests.answered_count(), 1);
        let answer = self.work.requests.answered(0).expect("an answer").1;
        self.work.requests.release_answered(1, &mut self.memory);
        answer
    }
}

const RANGE: (u64, u32) = (1024, 4096);

#[test]
fn what_makes_or_becomes_durable_is_asked_of_the_engine_and_waits_for_it() {
    let zeroes = |fua, no_hole| CommandKind::WriteZeroes {
        fua,
        no_hole,
        fast_only: false,
    };
    let written = |keep_allocated| Operation::WriteZeroes {
        keep_allocated,
        only_if_fast: false,
    };
    for (kind, operation, fua, range) in [
        (CommandKind::Flush, Operation::Flush, false, (0, 0)),
        (
            CommandKind::Trim { fua: true },
            Operation::Trim,
            true,
            RANGE,
        ),
        (
            CommandKind::Trim { fua: false },
            Operation::Trim,
            false,
            RANGE,
        ),
        (zeroes(true, false), written(false), true, RANGE),
        (zeroes(false, true), written(true), false, RANGE),
        (CommandKind::Read, Operation::Read, false, RANGE),
    ] {
        let mut scene = Scene::new();
        scene.command(kind, range);
        let request = scene.asked().expect("a request to the engine");
        assert_eq!(
            (request.operation, request.fua),
            (operation, fua),
            "{kind:?}"
        );
        assert_eq!((request.offset_bytes, request.length_bytes), range);
        assert_eq!(request.volume, VolumeId(3));
        let tag = RequestTag(request.tag);
        let lost = Err(Failure::Unrecoverable { offset_bytes: 0 });
        assert!(scene.work.requests.complete(tag, lost));
        let error = Answer::Error(ErrorCode::InputOutput);
        assert_eq!(scene.answer(), error, "{kind:?}");
    }
}

#[test]
fn a_write_goes_to_the_engine_when_all_of_it_is_there() {
    for fua in [true, false] {
        let mut scene = Scene::new();
        let bytes: Vec<u8> = (0..4096u32).map(|at| (at % 251) as u8).collect();
        scene.command(CommandKind::Write { fua }, RANGE);
        let mut remaining_bytes = 4096;
        for piece in [&bytes[..100], &bytes[100..4095]] {
            remaining_bytes -= piece.len() as u32;
            scene.intake().payload(piece, remaining_bytes);
            assert!(
                scene.asked().is_none(),
                "{remaining_bytes} bytes are missing"
            );
        }
        scene.intake().payload(&bytes[4095..], 0);
        let request = scene.asked().expect("a request to the engine");
        assert_eq!((request.operation, request.fua), (Operation::Write, fua));
        assert_eq!((request.offset_bytes, request.length_bytes), RANGE);
        let mut stored = vec![0; 4096];
        scene.memory.arena().read(request.buffer, &mut stored);
        assert!(stored == bytes);
    }
}

#[test]
fn what_finds_no_memory_is_an_error() {
    let mut scene = Scene::new();
    // Hanging drives pin all memory of the pool.
    while let Some(payload) = scene.memory.allocate(&mut 0, 4096) {
        scene.memory.pin(payload.buffer);
        scene.memory.free(&mut 4096, payload);
    }
    let refused = Answer::Error(ErrorCode::OutOfMemory);
    scene.command(CommandKind::Read, RANGE);
    assert_eq!(scene.answer(), refused);
    scene.command(CommandKind::Write { fua: true }, RANGE);
    scene.intake().payload(&[1; 4096], 0);
    assert_eq!(scene.answer(), refused);
    assert!(scene.asked().is_none());
}
