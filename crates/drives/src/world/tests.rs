use super::*;
use crate::drive::{Access, Drive, IoPath};
use crate::mailbox;
use crate::ring::{RingMode, RingOptions};
use engine::plan::{Plan, Step, StepKind};
use engine::policy::{ErrorClass, MemberError};
use engine::request::Request;
use engine::units::{Slot, VolumeId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod durable;
mod files;
mod limits;
mod ports;
mod ram;
mod throttled;
mod ways;

fn drive(text: impl AsRef<Path>) -> Arc<Drive> {
    let spec = text.as_ref().to_str().unwrap().parse().unwrap();
    Arc::new(Drive::open(&spec, Access::Exclusive).unwrap())
}

fn image(folder: &Path, name: &str, size_bytes: u64) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path)
        .unwrap()
        .set_len(size_bytes)
        .unwrap();
    path
}

/// The metadata of these tests is the record's generation, in the second sector from the end of 1 MiB.
const RECORD_AT: u64 = (1 << 20) - 1024;

fn encode(_: MemberId, record: &Record) -> Result<Parts, NotExpressible> {
    let mut bytes = vec![0; 512];
    bytes[..8].copy_from_slice(&record.generation.to_le_bytes());
    Ok(vec![(RECORD_AT, bytes)])
}

fn record(generation: u64) -> Record {
    Record {
        generation,
        members: Vec::new(),
        volumes: Vec::new(),
        bad_blocks: engine::control::bad_blocks::BadBlocks::default(),
    }
}

fn world_with<P: Port>(port: P, completion: CompletionMode) -> RingWorld<P> {
    world_in(RingMode::Deferred, port, completion)
}

fn world_in<P: Port>(best_mode: RingMode, port: P, completion: CompletionMode) -> RingWorld<P> {
    world_of(Mailbox::new().unwrap(), best_mode, port, completion)
}

/// Worlds without ports that write to each other.
fn worlds<const COUNT: usize>() -> [RingWorld<()>; COUNT] {
    let mut mailboxes = mailbox::exchange(COUNT).unwrap().into_iter();
    std::array::from_fn(|_| {
        let mailbox = mailboxes.next().unwrap();
        world_of(mailbox, RingMode::Deferred, (), CompletionMode::Interrupt)
    })
}

fn world_of<P: Port>(
    mailbox: Mailbox,
    best_mode: RingMode,
    port: P,
    completion: CompletionMode,
) -> RingWorld<P> {
    let arena = Arena::new(ArenaOptions {
        length_bytes: 8 << 20,
        prefault: false,
        lock: false,
    })
    .unwrap();
    RingWorld::new(WorldOptions {
        arena,
        ring: RingOptions {
            submission_entries: 64,
            completion_entries: 256,
            best_mode,
        },
        completion,
        mailbox,
        port,
        log_encoder: Box::new(|_, _, _| {}),
        encoder: Box::new(encode),
        on_event: Box::new(|_| ()),
    })
    .unwrap()
}

/// A world that serves `members`, numbered from 0 in this order.
pub(super) fn world(members: impl IntoIterator<Item = Arc<Drive>>) -> RingWorld<()> {
    let mut world = world_with((), CompletionMode::Interrupt);
    (0..)
        .zip(members)
        .for_each(|(id, drive)| world.attach(MemberId(id), drive));
    world
}

pub(super) fn at(world: &RingWorld<()>, offset_bytes: u32) -> Buffer {
    world.ring.arena().start().at(offset_bytes)
}

pub(super) fn put(world: &RingWorld<()>, offset_bytes: u32, bytes: &[u8]) {
    world.ring.arena().write(at(world, offset_bytes), bytes);
}

pub(super) fn get(world: &RingWorld<()>, offset_bytes: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    world.ring.arena().read(at(world, offset_bytes), &mut bytes);
    bytes
}

/// Starts an I/O of `kind` on a member, over pieces of memory given as arena offset and length.
fn start(
    world: &mut RingWorld<()>,
    token: u64,
    (member, kind, offset_bytes): (u8, StepKind, u64),
    pieces: &[(u32, u32)],
) {
    let mut plan = Plan::with_capacity(1, 16);
    let mut next = offset_bytes;
    for &(from, length_bytes) in pieces {
        let step = Step::member(kind, 0, Slot(0), next, u64::from(length_bytes));
        plan.transfer(step, at(world, from));
        next += u64::from(length_bytes);
    }
    let length_bytes = next - offset_bytes;
    let io = Io {
        token: Token(token),
        member: MemberId(member),
        kind,
        offset_bytes,
        length_bytes,
    };
    world.io(io, plan.segments_of(&plan.steps()[0]));
}

/// Starts an I/O without payload.
fn start_bare(
    world: &mut RingWorld<()>,
    token: u64,
    member: u8,
    kind: StepKind,
    (offset_bytes, length_bytes): (u64, u64),
) {
    let io = Io {
        token: Token(token),
        member: MemberId(member),
        kind,
        offset_bytes,
        length_bytes,
    };
    world.io(io, std::iter::empty());
}

/// Runs the loop until there are `count` inputs.
fn inputs<P: Port>(world: &mut RingWorld<P>, count: usize) -> Vec<Input> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut inputs = Vec::new();
    loop {
        world.reap(&mut inputs);
        world.submit();
        if inputs.len() >= count {
            return inputs;
        }
        assert!(
            Instant::now() < deadline,
            "only {} of {count} inputs",
            inputs.len()
        );
        let until = world.now().after(Nanos(100_000_000));
        world.wait(Some(until));
    }
}

/// The results of member I/O, in the order of their tokens.
fn results(world: &mut RingWorld<()>, count: usize) -> Vec<(u64, Result<(), MemberError>)> {
    let mut all: Vec<_> = inputs(world, count)
        .into_iter()
        .map(|input| match input {
            Input::Done { token, result } => (token.0, result),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    all.sort_by_key(|(token, _)| *token);
    all
}

/// Waits for one I/O that must succeed.
fn succeed(world: &mut RingWorld<()>, token: u64) {
    assert_eq!(results(world, 1), [(token, Ok(()))]);
}

/// Waits for one I/O that must fail.
fn fail(world: &mut RingWorld<()>, token: u64) -> MemberError {
    let all = results(world, 1);
    assert_eq!(all[0].0, token);
    all[0].1.expect_err("it must fail")
}

const WRITE: StepKind = StepKind::Write { fua: false };
const WRITE_FUA: StepKind = StepKind::Write { fua: true };

/// Checks everything that each kind of member must do.
fn check_member(world: &mut RingWorld<()>) {
    let bytes: Vec<u8> = (0..8192u32).map(|n| (n % 251) as u8).collect();
    put(world, 0, &bytes);
    start(world, 1, (0, WRITE, 4096), &[(0, 8192)]);
    succeed(world, 1);
    start(
        world,
        2,
        (0, StepKind::Read, 4096 + 512),
        &[(65_536, 512), (1 << 20, 1024)],
    );
    succeed(world, 2);
    assert_eq!(get(world, 65_536, 512), bytes[512..1024]);
    assert_eq!(get(world, 1 << 20, 1024), bytes[1024..2048]);

    start(
        world,
        3,
        (0, WRITE_FUA, 512),
        &[(4096, 512), (0, 512), (1024, 512)],
    );
    succeed(world, 3);
    start(world, 4, (0, StepKind::Read, 512), &[(200_704, 1536)]);
    succeed(world, 4);
    let wanted = [&bytes[4096..4608], &bytes[..512], &bytes[1024..1536]].concat();
    assert_eq!(get(world, 200_704, 1536), wanted);

    start_bare(world, 5, 0, StepKind::Flush, (0, 0));
    succeed(world, 5);

    for (token, kind) in [
        (
            6,
            StepKind::Zero {
                keep_allocated: true,
            },
        ),
        (
            7,
            StepKind::Zero {
                keep_allocated: false,
            },
        ),
        (8, StepKind::Discard),
    ] {
        start(world, 100, (0, WRITE, 4096), &[(0, 8192)]);
        succeed(world, 100);
        start_bare(world, token, 0, kind, (4608, 4096));
        succeed(world, token);
        start(world, 101, (0, StepKind::Read, 4096), &[(300_032, 8192)]);
        succeed(world, 101);
        let mut wanted = bytes.clone();
        wanted[512..4608].fill(0);
        assert!(get(world, 300_032, 8192) == wanted, "{kind:?}");
    }

    start(world, 9, (0, StepKind::Read, (1 << 20) - 512), &[(0, 1024)]);
    assert_eq!(fail(world, 9).class, ErrorClass::Misuse, "past the end");

    world.persist(MemberId(0), &record(42));
    match inputs(world, 1)[..] {
        [
            Input::Persisted {
                member: MemberId(0),
                result: Ok(()),
            },
        ] => {}
        ref other => panic!("unexpected {other:?}"),
    }
    start(world, 10, (0, StepKind::Read, RECORD_AT), &[(0, 512)]);
    succeed(world, 10);
    assert_eq!(get(world, 0, 8), 42u64.to_le_bytes());
}

#[test]
fn a_ram_member_does_everything() {
    check_member(&mut world([drive("ram:1m")]));
}

#[test]
fn a_file_does_everything() {
    let folder = tempfile::tempdir().unwrap();
    let drive = drive(image(folder.path(), "d0.img", 1 << 20));
    println!("direct I/O: {}", drive.direct());
    for best_mode in [
        RingMode::Deferred,
        RingMode::Cooperative,
        RingMode::Interrupting,
    ] {
        for completion in [
            CompletionMode::Interrupt,
            CompletionMode::Polling,
            CompletionMode::Hybrid { poll_ns: 20_000 },
        ] {
            let mut world = world_in(best_mode, (), completion);
            world.attach(MemberId(0), drive.clone());
            check_member(&mut world);
        }
    }
}

#[test]
fn a_loop_device_does_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "loop.img", 1 << 20);
    let Some(device) = crate::drive::tests::Loop::over(&path) else {
        println!("skipped: no loop device available (not root, or no losetup)");
        return;
    };
    check_member(&mut world([drive(&device.0)]));
}

#[test]
fn a_file_in_memory_does_everything() {
    // tmpfs cannot zero a range, so zeros are written here. Its I/O goes inline.
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    let drive = drive(image(folder.path(), "d0.img", 1 << 20));
    assert_eq!(drive.io_path(), IoPath::Inline);
    check_member(&mut world([drive]));
}

#[test]
fn a_throttled_member_does_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let limits = "read-iops=50k,write-iops=50k,latency=100us";
    check_member(&mut world([drive(format!("{},{limits}", path.display()))]));
    check_member(&mut world([drive(format!("ram:1m,{limits}"))]));
}

#[test]
fn a_modelled_member_does_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    for model in ["model=p4510-2tb", "model=p4510-1tb,state=fresh"] {
        check_member(&mut world([drive(format!("{},{model}", path.display()))]));
        check_member(&mut world([drive(format!("ram:1m,{model}"))]));
    }
}

#[test]
fn a_null_member_answers_and_leaves_memory_alone() {
    let mut world = world([drive("null:1m")]);
    put(&world, 0, b"untouched");
    start(&mut world, 1, (0, StepKind::Read, 0), &[(0, 4096)]);
    start(&mut world, 2, (0, WRITE, 4096), &[(0, 4096)]);
    start_bare(&mut world, 3, 0, StepKind::Flush, (0, 0));
    start(&mut world, 4, (0, WRITE, 1 << 20), &[(0, 512)]);
    let all = results(&mut world, 4);
    assert_eq!(all[..3], [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
    assert_eq!(all[3].1.unwrap_err().class, ErrorClass::Misuse);
    assert_eq!(get(&world, 0, 9), b"untouched");
    world.persist(MemberId(0), &record(1));
    assert!(matches!(
        inputs(&mut world, 1)[..],
        [Input::Persisted { result: Ok(()), .. }]
    ));
}

#[test]
fn members_that_are_not_there_are_gone() {
    let mut world = world([drive("ram:1m")]);
    start(&mut world, 1, (7, StepKind::Read, 0), &[(0, 512)]);
    assert_eq!(fail(&mut world, 1).class, ErrorClass::Gone);
    world.persist(MemberId(7), &record(1));
    match inputs(&mut world, 1)[..] {
        [
            Input::Persisted {
                member: MemberId(7),
                result: Err(error),
            },
        ] => {
            assert_eq!(error.class, ErrorClass::Gone);
        }
        ref other => panic!("unexpected {other:?}"),
    }
    world.detach(MemberId(0));
    start(&mut world, 2, (0, StepKind::Read, 0), &[(0, 512)]);
    assert_eq!(fail(&mut world, 2).class, ErrorClass::Gone);
}

#[test]
fn memory_outside_the_arena_reaches_no_drive() {
    let folder = tempfile::tempdir().unwrap();
    let file = drive(image(folder.path(), "d0.img", 1 << 20));
    let mut world = world([drive("ram:1m"), file]);
    for member in 0..2 {
        start(
            &mut world,
            1,
            (member, WRITE, 0),
            &[((8 << 20) - 512, 1024)],
        );
        assert_eq!(fail(&mut world, 1).class, ErrorClass::Misuse);
        start(
            &mut world,
            2,
            (member, WRITE, 0),
            &[(0, 512), (9 << 20, 512)],
        );
        assert_eq!(fail(&mut world, 2).class, ErrorClass::Misuse);
    }
}

#[test]
fn parity_is_computed_over_the_arena() {
    let mut world = world([]);
    put(&world, 0, &[0b0011; 1000]);
    put(&world, 4096, &[0b0101; 1000]);
    put(&world, 8192, &[0b1000; 1000]);
    let sources = |world: &RingWorld<()>, offsets: &[u32]| {
        let mut plan = Plan::with_capacity(1, 8);
        plan.push(Step::compute(StepKind::Compare, 0, 1000));
        offsets
            .iter()
            .for_each(|&offset| plan.add_source(at(world, offset)));
        plan
    };
    let three = sources(&world, &[0, 4096, 8192]);
    let target = at(&world, 8192);
    world.xor(target, 1000, three.segments_of(&three.steps()[0]));
    assert_eq!(get(&world, 8192, 1000), [0b1110; 1000]);
    put(&world, 12_288, &[0b1000; 1000]);
    let four = sources(&world, &[0, 4096, 8192, 12_288]);
    assert!(world.xor_is_zero(1000, four.segments_of(&four.steps()[0])));
    put(&world, 12_288 + 999, &[0]);
    assert!(!world.xor_is_zero(1000, four.segments_of(&four.steps()[0])));
}
