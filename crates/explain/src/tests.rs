//! `explain` shows what the engine submits: the same requests go through a real engine, in memory, and both lists
//! of member I/O must be equal.

use crate::cut::{Asked, Background, State, plans};
use engine::claims::Claims;
use engine::control::bad_blocks::BadBlocks;
use engine::control::record::{
    LogArea, MemberRecord, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::output::Output;
use engine::plan::StepKind;
use engine::request::{Operation, Request};
use engine::setup::Setup;
use engine::shard::Engine;
use engine::units::{Buffer, MemberId, Nanos, ShardId, Slot, SlotSet, VolumeId};
use engine::world::{Input, Io};
use std::collections::VecDeque;

/// A member I/O: write or read, slot, offset, length.
type Transfer = (bool, u8, u64, u64);

fn shape(level: Level, members: u8, chunk_bytes: u32) -> Geometry {
    let component_bytes = 64u64 << 20;
    let data_members = match level {
        Level::Raid0 => members,
        Level::Raid1 => 1,
        Level::Raid10 => members / 2,
        Level::Raid5 => members - 1,
    };
    Geometry::new(Geometry {
        level,
        members,
        chunk_bytes,
        start_bytes: 0,
        component_bytes,
        size_bytes: component_bytes * u64::from(data_members),
        block_bytes: 512,
    })
    .unwrap()
}

fn record(shape: Geometry, state: &State) -> Record {
    let slot = |slot: u8| SlotRecord {
        member: (!state.lost.has(Slot(slot))).then_some(MemberId(slot)),
        current: !state.lost.has(Slot(slot)),
    };
    let sync = match state.background {
        Background::Sync { done_bytes } => Some(SyncRecord {
            kind: SyncKind::Initial,
            done_bytes,
        }),
        _ => None,
    };
    let member = MemberRecord {
        state: MemberState::Active,
        size_bytes: 1 << 30,
        ..MemberRecord::ABSENT
    };
    Record {
        generation: 1,
        bad_blocks: BadBlocks::default(),
        members: vec![member; usize::from(shape.members)],
        volumes: vec![VolumeRecord {
            geometry: shape,
            not_started: false,
            read_only: false,
            // Dirty already, so that the request is not preceded by a dirty mark.
            dirty: true,
            slots: (0..shape.members).map(slot).collect(),
            sync,
            then_resync: false,
            log: state.logged.then_some(LogArea {
                offset_bytes: shape.component_bytes,
                length_bytes: 1 << 20,
            }),
            bitmap: None,
        }],
    }
}

/// Carries out `asked` in a real engine and lists the member I/O.
fn submitted(shape: Geometry, state: &State, asked: Asked) -> Vec<Transfer> {
    let record = record(shape, state);
    let scratch = Setup::scratch_bytes_min(&record.volumes);
    let setup = Setup {
        shard: ShardId(0),
        shards: 1,
        record,
        scratch: (Buffer(1 << 40), scratch),
        zeros: Buffer(1 << 39),
        options: Options {
            // Background work would mix its own I/O in.
            rate_bytes_per_s: 1,
            ..Options::default()
        },
        claims: Claims::new(),
    };
    let mut engine = Engine::new(setup, Nanos(0));
    let mut now = 0;
    let mut transfers = Vec::new();
    let mut answers: VecDeque<Input> = VecDeque::new();
    let request = Request {
        tag: 7,
        volume: VolumeId(0),
        operation: if asked.is_write {
            Operation::Write
        } else {
            Operation::Read
        },
        fua: false,
        offset_bytes: asked.offset_bytes,
        length_bytes: asked.length_bytes as u32,
        buffer: Buffer(0),
    };
    answers.push_back(Input::Request(request));
    for _ in 0..100_000 {
        now += 1_000_000;
        match answers.pop_front() {
            Some(input) => engine.handle(input, Nanos(now)),
            None => engine.tick(Nanos(now), false),
        }
        let mut outputs = Vec::new();
        while engine.poll(&mut outputs) {
            for output in outputs.drain(..) {
                match output {
                    Output::Io(io) | Output::Log(io) => {
                        // I/O of the write-hole log lies beyond the component and is left out of the comparison.
                        if io.offset_bytes < shape.component_bytes {
                            transfers.extend(transfer(&io));
                        }
                        answers.push_back(Input::Done {
                            token: io.token,
                            result: Ok(()),
                        });
                    }
                    Output::Compute(token) => engine.computed(token, false),
                    Output::Send(_, message) => answers.push_back(Input::Message(message)),
                    Output::Persist(member) => answers.push_back(Input::Persisted {
                        member,
                        result: Ok(()),
                    }),
                    Output::Complete(done) => {
                        assert_eq!(done.result, Ok(()));
                        return transfers;
                    }
                    Output::Cancel(_)
                    | Output::Event(_)
                    | Output::Pin(_)
                    | Output::Release(_)
                    | Output::Bitmap { .. } => {}
                }
            }
        }
    }
    panic!("the request was never answered");
}

fn transfer(io: &Io) -> Option<Transfer> {
    match io.kind {
        StepKind::Read => Some((false, io.member.0, io.offset_bytes, io.length_bytes)),
        StepKind::Write { .. } => Some((true, io.member.0, io.offset_bytes, io.length_bytes)),
        _ => None,
    }
}

fn explained(shape: &Geometry, state: &State, asked: Asked) -> Vec<Transfer> {
    plans(shape, state, asked)
        .unwrap()
        .iter()
        .flat_map(|work| work.plan.steps())
        .filter_map(|step| match step.kind {
            StepKind::Read => Some((false, step.slot.0, step.offset_bytes, step.length_bytes)),
            StepKind::Write { .. } => {
                Some((true, step.slot.0, step.offset_bytes, step.length_bytes))
            }
            _ => None,
        })
        .collect()
}

fn compare(shape: Geometry, state: &State, asked: Asked) {
    let mut wanted = submitted(shape, state, asked);
    let mut found = explained(&shape, state, asked);
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted, "{shape:?} {state:?} {asked:?}");
}

/// Requests around every kind of boundary: inside a chunk, across chunks, rows and bands.
fn requests(shape: &Geometry) -> Vec<Asked> {
    let chunk = u64::from(shape.chunk_bytes);
    let row = shape.row_bytes();
    let mut requests = Vec::new();
    for offset_bytes in [0, 4096, chunk - 4096, row - 512, 5 * row + chunk / 2] {
        for length_bytes in [512, 4096, 8192, chunk, chunk + 4096, row, 2 * row + 8192] {
            for is_write in [false, true] {
                requests.push(Asked {
                    is_write,
                    offset_bytes,
                    length_bytes,
                });
            }
        }
    }
    requests
}

fn compare_all(shape: Geometry, state: &State) {
    for asked in requests(&shape) {
        compare(shape, state, asked);
    }
}

fn without(slots: &[u8]) -> State {
    State {
        lost: slots
            .iter()
            .fold(SlotSet(0), |set, &slot| set.with(Slot(slot))),
        ..State::healthy()
    }
}

#[test]
fn raid0_is_explained_as_the_engine_does_it() {
    compare_all(shape(Level::Raid0, 3, 16 << 10), &State::healthy());
    compare_all(shape(Level::Raid0, 4, 1 << 20), &State::healthy());
}

#[test]
fn mirrors_are_explained_as_the_engine_does_them() {
    for state in [State::healthy(), without(&[1])] {
        compare_all(shape(Level::Raid1, 2, 64 << 10), &state);
        compare_all(shape(Level::Raid10, 4, 64 << 10), &state);
        compare_all(shape(Level::Raid10, 6, 1 << 20), &state);
    }
    compare_all(shape(Level::Raid10, 4, 64 << 10), &without(&[0, 3]));
}

#[test]
fn parity_is_explained_as_the_engine_does_it() {
    for state in [State::healthy(), without(&[0]), without(&[2])] {
        compare_all(shape(Level::Raid5, 3, 4096), &state);
        compare_all(shape(Level::Raid5, 4, 64 << 10), &state);
        compare_all(shape(Level::Raid5, 5, 1 << 20), &state);
    }
}

#[test]
fn logged_parity_is_explained_as_the_engine_does_it() {
    for state in [State::healthy(), without(&[0]), without(&[2])] {
        let logged = State {
            logged: true,
            ..state
        };
        compare_all(shape(Level::Raid5, 3, 4096), &logged);
        compare_all(shape(Level::Raid5, 4, 64 << 10), &logged);
        compare_all(shape(Level::Raid5, 5, 1 << 20), &logged);
    }
}

#[test]
fn parity_that_is_not_established_is_never_modified() {
    let shape = shape(Level::Raid5, 4, 64 << 10);
    let state = State {
        lost: SlotSet(0),
        background: Background::Sync { done_bytes: 0 },
        logged: false,
    };
    let asked = Asked {
        is_write: true,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    let parity = shape.parity_slot(0).unwrap().0;
    let steps = explained(&shape, &state, asked);
    assert!(!steps.contains(&(false, parity, 0, 4096)), "{steps:?}");
    assert!(steps.contains(&(true, parity, 0, 4096)), "{steps:?}");
}

#[test]
fn too_many_losses_are_an_error_not_a_plan() {
    let asked = Asked {
        is_write: true,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    let raid5 = shape(Level::Raid5, 4, 64 << 10);
    assert!(plans(&raid5, &without(&[0, 1]), asked).is_err());
    let raid0 = shape(Level::Raid0, 4, 64 << 10);
    assert!(plans(&raid0, &without(&[3]), asked).is_err());
}
