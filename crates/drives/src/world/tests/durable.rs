//! Each path to the kernel requests durability explicitly and reports the kernel's errors.

use super::*;
use crate::drive::tests::special::{EINVAL, ENOSPC, EOPNOTSUPP, hanging, over, paced};
use std::process::Command;

const WAYS: [IoPath; 3] = [IoPath::Ring, IoPath::Inline, IoPath::Helpers];

fn serving(device: &str, way: IoPath) -> RingWorld<()> {
    world([Arc::new(over(device, way))])
}

/// Writes a record. Returns the errno, or zero.
fn persisted(world: &mut RingWorld<()>) -> i32 {
    world.persist(MemberId(0), &record(1));
    match inputs(world, 1)[..] {
        [Input::Persisted { result, .. }] => result.map_or_else(|error| error.errno, |()| 0),
        ref other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_flush_that_the_kernel_refuses_is_an_error_whichever_way() {
    for way in WAYS {
        let mut world = serving("/dev/null", way);
        start(&mut world, 1, (0, WRITE, 4096), &[(0, 512)]);
        succeed(&mut world, 1);
        start_bare(&mut world, 2, 0, StepKind::Flush, (0, 0));
        assert_eq!(fail(&mut world, 2).errno, EINVAL, "{way:?}");
    }
}

#[test]
fn an_error_of_a_member_whose_answers_are_held_back_stays_one() {
    for way in WAYS {
        let mut world = world([Arc::new(paced("/dev/null", way))]);
        start_bare(&mut world, 1, 0, StepKind::Flush, (0, 0));
        assert_eq!(fail(&mut world, 1).errno, EINVAL, "{way:?}");
    }
    let mut world = world([Arc::new(paced("/dev/null", IoPath::Helpers))]);
    assert_eq!(persisted(&mut world), EINVAL);
}

/// For this device the kernel refuses the durable flag of a plain call with an error of its own. What the ring is given
/// is checked in the tests of `crate::transfer`.
#[test]
fn a_write_with_fua_and_a_record_ask_for_durable_writes() {
    for way in [IoPath::Inline, IoPath::Helpers] {
        let mut world = serving("/dev/full", way);
        for pieces in [&[(0, 512)][..], &[(0, 512), (8192, 512)]] {
            start(&mut world, 1, (0, WRITE, 4096), pieces);
            assert_eq!(fail(&mut world, 1).errno, ENOSPC, "{way:?}");
            start(&mut world, 2, (0, WRITE_FUA, 4096), pieces);
            assert_eq!(fail(&mut world, 2).errno, EOPNOTSUPP, "{way:?}");
        }
        assert_eq!(persisted(&mut world), EOPNOTSUPP, "{way:?}");
    }
    assert_eq!(persisted(&mut serving("/dev/full", IoPath::Ring)), ENOSPC);
}

/// A file system that is another process may ignore the flag that comes with a write.
#[test]
fn helpers_flush_after_a_write_with_fua_and_after_a_record() {
    let mut world = serving("/dev/null", IoPath::Helpers);
    start(&mut world, 1, (0, WRITE, 4096), &[(0, 512)]);
    succeed(&mut world, 1);
    start(&mut world, 2, (0, WRITE_FUA, 4096), &[(0, 512)]);
    assert_eq!(fail(&mut world, 2).errno, EINVAL);
    assert_eq!(persisted(&mut world), EINVAL);
    for way in [IoPath::Ring, IoPath::Inline] {
        assert_eq!(persisted(&mut serving("/dev/null", way)), 0, "{way:?}");
    }
}

/// The kernel writes what fits below the process's limit on file sizes and refuses the rest. The limit is set in a
/// process of its own. Exceeding it also raises a signal, which the shell sets to be ignored.
#[test]
fn a_write_of_which_the_kernel_takes_a_part_is_no_success() {
    const CHILD: &str = "FULLSTRIPE_TEST_LIMITED_FILES";
    const LIMIT_BYTES: u64 = 1 << 19;
    const EFBIG: i32 = 27;
    if std::env::var_os(CHILD).is_none() {
        let name = "a_write_of_which_the_kernel_takes_a_part_is_no_success";
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("world::tests::durable::{name}")])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = WAYS.map(|way| {
        let path = image(folder.path(), &format!("{way}.img"), 1 << 20);
        let spec = path.to_str().unwrap().parse().unwrap();
        let drive = Drive::open(&spec, Access::Exclusive).unwrap();
        Arc::new(drive.with_io_path(way))
    });
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current = Some(LIMIT_BYTES);
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let mut world = world(files.clone());
    put(&world, 0, &[7; 16_384]);
    for (member, file) in (0..).zip(&files) {
        for kind in [WRITE, WRITE_FUA] {
            for pieces in [&[(0, 8192)][..], &[(0, 2048), (8192, 6144)]] {
                start(&mut world, 1, (member, kind, LIMIT_BYTES - 4096), pieces);
                assert_eq!(fail(&mut world, 1).errno, EFBIG, "{kind:?}");
                let back = file.read_at(LIMIT_BYTES - 4096, 8192).unwrap();
                assert_eq!(back, [[7; 4096], [0; 4096]].concat());
            }
        }
        let error = file.write_at(LIMIT_BYTES - 512, &[7; 1024]).unwrap_err();
        assert_eq!(error.error.errno, EFBIG);
    }
}

/// The parts of a record belong together: the next record begins when all of them are written.
#[test]
fn a_record_is_written_to_its_end_before_the_next_begins() {
    let drives = [0, 1].map(|_| drive("ram:1m,latency=1ms"));
    let mut world = world(drives.clone());
    world.encoder = Box::new(|_, record: &Record| {
        let part = |n: u64| (4096 * n, vec![(10 * record.generation + n) as u8; 512]);
        Ok((0..3).map(part).collect())
    });
    for generation in 1..=3 {
        (0..2).for_each(|member| world.persist(MemberId(member), &record(generation)));
    }
    let state = |drive: &Drive| [0, 4096, 8192].map(|at| drive.read_at(at, 1).unwrap()[0]);
    // Every state that such a member may have, in order.
    let steps = (1..=3).flat_map(|generation| (0..3).map(move |part| (generation, part)));
    let mut right = vec![[0; 3]];
    for (generation, part) in steps {
        let mut next = *right.last().unwrap();
        next[part] = 10 * generation + part as u8;
        right.push(next);
    }
    let mut at = [0; 2];
    let mut found = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while found.len() < 6 {
        assert!(Instant::now() < deadline, "{found:?}");
        let before = found.len();
        world.reap(&mut found);
        world.submit();
        for (at, drive) in at.iter_mut().zip(&drives) {
            let state = state(drive);
            let ahead = right[*at..].iter().position(|right| *right == state);
            *at += ahead.unwrap_or_else(|| panic!("{state:?} after {:?}", right[*at]));
        }
        if found.len() == before {
            let until = world.now().after(Nanos(100_000));
            world.wait(Some(until));
        }
    }
    assert_eq!(at, [9; 2]);
}

/// Parts that wait for memory keep their order: of two parts for the same sectors the later one remains.
#[test]
fn parts_that_wait_for_memory_are_written_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let files = [0, 1, 2].map(|n| drive(image(folder.path(), &format!("d{n}.img"), 8 << 20)));
    let mut world = world(files.clone());
    world.encoder = Box::new(|_, record: &Record| {
        let part = |n: u64| (4096, vec![(10 * record.generation + n) as u8; 3 << 20]);
        Ok((0..3).map(part).collect())
    });
    (0..3).for_each(|member| world.persist(MemberId(member), &record(2)));
    assert!(
        world.metadata.waiting_count() > 0,
        "memory sufficed for all parts"
    );
    for answer in inputs(&mut world, 3) {
        assert!(matches!(answer, Input::Persisted { result: Ok(()), .. }));
    }
    for file in files {
        let last = file.read_at(4096, 3 << 20).unwrap();
        assert!(last.iter().all(|&byte| byte == 22), "{}", last[0]);
    }
}

#[test]
fn a_record_that_does_not_fit_the_drive_is_not_written() {
    const SIZE: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = image(folder.path(), "d0.img", SIZE);
    for (drive, last_is_kept) in [(drive(&file), true), (drive("ram:8m"), false)] {
        let mut world = world([drive.clone()]);
        for (at, length, errno) in [
            (0, 0, EINVAL),
            (0, METADATA_BYTES / 2 + 512, EINVAL),
            (0, 100, EINVAL),
            (100, 512, EINVAL),
            (SIZE - 512, 1024, EINVAL),
            (SIZE, 512, EINVAL),
            (u64::MAX - 511, 512, EINVAL),
            (SIZE - 512, 512, if last_is_kept { EINVAL } else { 0 }),
            (SIZE - 1024, 512, 0),
        ] {
            world.encoder = Box::new(move |_, _: &Record| Ok(vec![(at, vec![1; length])]));
            assert_eq!(persisted(&mut world), errno, "{length} bytes at {at}");
        }
        assert_eq!(drive.read_at(0, 1024).unwrap(), [0; 1024]);
        world.encoder = Box::new(|_, _: &Record| Ok(Vec::new()));
        assert_eq!(persisted(&mut world), EINVAL);
    }
    assert_eq!(std::fs::metadata(file).unwrap().len(), SIZE);
}

#[test]
fn payload_that_is_not_as_long_as_its_range_reaches_no_drive() {
    let folder = tempfile::tempdir().unwrap();
    let file = drive(image(folder.path(), "d0.img", 1 << 20));
    let mut world = world([file.clone()]);
    put(&world, 0, &[7; 16_384]);
    // Memory of this process outside the arena of payload.
    let foreign = world.ring.internal_arena().start();
    let own = |offset| at(&world, offset);
    let cases = [
        vec![(own(0), 2048), (own(8192), 2048)],
        vec![(own(0), 4096), (own(8192), 8192)],
        vec![(own(0), 4096)],
        vec![(foreign, 8192)],
        vec![(own(0), 4096), (foreign, 4096)],
        vec![],
    ];
    for pieces in cases {
        let mut plan = Plan::with_capacity(1, 4);
        let mut next = 4096;
        for &(buffer, length_bytes) in &pieces {
            let step = Step::member(WRITE, 0, Slot(0), next, length_bytes);
            plan.transfer(step, buffer);
            next += length_bytes;
        }
        let io = Io {
            token: Token(1),
            member: MemberId(0),
            kind: WRITE,
            offset_bytes: 4096,
            length_bytes: 8192,
        };
        let steps = plan.steps().iter();
        world.io(io, steps.flat_map(|step| plan.segments_of(step)));
        assert_eq!(fail(&mut world, 1).errno, EINVAL, "{pieces:?}");
    }
    assert!(
        file.read_at(0, 65_536)
            .unwrap()
            .iter()
            .all(|&byte| byte == 0)
    );
}

/// Memory that a drive may still read or write must not be reused.
#[test]
fn io_that_is_given_up_stays_until_the_kernel_lets_go_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world([drive(image(folder.path(), "d0.img", 1 << 20))]);
    start(&mut world, 1, (0, WRITE, 4096), &[(0, 4096)]);
    start(&mut world, 2, (0, WRITE, 8192), &[(0, 4096)]);
    world.cancel(Token(1));
    // The kernel has not answered: the entries have not even been submitted.
    assert_eq!((world.transfers.len(), world.ready.len()), (2, 0));
    let all = results(&mut world, 2);
    assert_eq!(all[1], (2, Ok(())), "the other command continues");
    assert_eq!(world.transfers.len(), 0);
}

#[test]
fn what_helpers_that_hang_have_not_begun_can_be_given_up_and_is_no_success() {
    let mut world = world([Arc::new(hanging())]);
    for (token, kind) in [(1, WRITE), (2, WRITE_FUA)] {
        start(&mut world, token, (0, kind, 4096), &[(0, 4096)]);
    }
    start_bare(&mut world, 3, 0, StepKind::Flush, (0, 0));
    assert_eq!(world.transfers.len(), 3);
    world.cancel(Token(4));
    for token in [2, 3, 1] {
        world.cancel(Token(token));
        let error = fail(&mut world, token);
        assert_eq!((error.class, error.errno), (ErrorClass::Path, ECANCELED));
        world.cancel(Token(token));
        assert_eq!(
            world.ready.len(),
            0,
            "cancelled again, it is answered again"
        );
    }
    assert_eq!(world.transfers.len(), 0);
}

#[test]
fn a_drive_that_refuses_to_discard_is_told_of_once() {
    let mut world = world([drive("ram:4k"), drive("ram:1m")]);
    let drive = world.attachments.at(1).drive.clone();
    let refused = |world: &mut RingWorld<()>, kind, payload| {
        world.attachments.started(1);
        let transfer = Transfer {
            answer: Answer::Done(Token(1)),
            attachment: 1,
            way: Way::Inline,
            sector_bytes: 512,
            kind,
            payload,
            offset_bytes: 0,
            left_bytes: 512,
            finish: Nanos(0),
            memory: None,
        };
        world.transfer_ended(transfer, 0);
        world.submit();
        let said = |input: &Input| format!("{input:?}").contains("DiscardRefused(MemberId(1))");
        let mut inputs = Vec::new();
        world.reap(&mut inputs);
        inputs.into_iter().filter(|input| said(input)).count()
    };
    let zero = StepKind::Zero {
        keep_allocated: false,
    };
    assert_eq!(refused(&mut world, zero, Payload::Zeros), 0);
    assert_eq!(refused(&mut world, StepKind::Discard, Payload::Nothing), 0);
    assert!(drive.discards());
    assert_eq!(refused(&mut world, StepKind::Discard, Payload::Zeros), 1);
    assert!(!drive.discards());
    assert_eq!(refused(&mut world, StepKind::Discard, Payload::Zeros), 0);
}
