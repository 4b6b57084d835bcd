//! Files that shrink, vanish, are replaced, or are busy.

use super::*;

#[test]
fn a_replaced_drive_gets_none_of_the_old_ones_writes() {
    let folder = tempfile::tempdir().unwrap();
    let old = drive(image(folder.path(), "old.img", 1 << 20));
    let new = drive(image(folder.path(), "new.img", 1 << 20));
    let mut world = world([old.clone()]);
    put(&world, 0, &[1; 4096]);
    for n in 0..100 {
        start(&mut world, n, (0, WRITE, n * 4096), &[(0, 4096)]);
    }
    // The writes have not been submitted yet.
    world.attach(MemberId(0), new.clone());
    put(&world, 4096, &[2; 4096]);
    start(&mut world, 100, (0, WRITE, 0), &[(4096, 4096)]);
    let all = results(&mut world, 101);
    assert!(all.iter().all(|(_, result)| result.is_ok()), "{all:?}");
    assert_eq!(old.read_at(0, 4096).unwrap(), [1; 4096]);
    assert_eq!(old.read_at(99 * 4096, 4096).unwrap(), [1; 4096]);
    assert_eq!(new.read_at(0, 4096).unwrap(), [2; 4096]);
    assert_eq!(new.read_at(4096, 4096).unwrap(), [0; 4096]);
    assert_eq!(
        Arc::strong_count(&old),
        1,
        "the old drive is released after its last answer"
    );
    assert_eq!(Arc::strong_count(&new), 2);
}

/// Whether anything in this process has the file open: its descriptors, and tables of files of its rings, which only
/// show in that the file's lock is kept.
fn is_open(path: &Path) -> bool {
    let is_listed = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == path));
    let tried = std::fs::File::open(path).unwrap();
    let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    is_listed || rustix::fs::flock(&tried, lock).is_err()
}

fn closes_soon(path: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_secs(2);
    while is_open(path) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    !is_open(path)
}

#[test]
fn a_detached_drive_without_io_is_closed_by_every_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let drive = drive(&path);
    let mut worlds = worlds::<2>();
    for (token, world) in worlds.iter_mut().enumerate() {
        world.attach(MemberId(0), drive.clone());
        start(world, token as u64, (0, StepKind::Read, 0), &[(0, 4096)]);
        assert!(results(world, 1)[0].1.is_ok());
    }
    drop(drive);
    worlds[0].detach(MemberId(0));
    assert!(is_open(&path), "the second shard has not let go of it yet");
    worlds[1].detach(MemberId(0));
    assert!(closes_soon(&path), "{} is still open", path.display());
    // A shard answers that such a member is gone, without a drive.
    start(&mut worlds[0], 9, (0, StepKind::Read, 0), &[(0, 4096)]);
    let (_, result) = results(&mut worlds[0], 1)[0];
    assert_eq!(result.unwrap_err().class, ErrorClass::Gone);
}

#[test]
fn a_detached_drive_stays_open_until_its_last_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let slow = PathBuf::from(format!("{},latency=300ms", path.display()));
    let mut world = world([drive(slow)]);
    start(&mut world, 1, (0, StepKind::Read, 0), &[(0, 4096)]);
    world.submit();
    world.detach(MemberId(0));
    assert!(is_open(&path), "a read has not been answered yet");
    assert!(results(&mut world, 1)[0].1.is_ok());
    assert!(closes_soon(&path), "{} is still open", path.display());
}

#[test]
fn thousands_of_requests_through_a_small_ring_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world([drive(image(folder.path(), "d0.img", 4 << 20))]);
    for n in 0..10_000u64 {
        let place = (n * 37 % 1000) * 4096;
        start(
            &mut world,
            n,
            (0, StepKind::Read, place),
            &[(0, 2048), (8192, 2048)],
        );
    }
    let all = results(&mut world, 10_000);
    assert!(
        all.iter()
            .enumerate()
            .all(|(n, (token, result))| *token == n as u64 && result.is_ok())
    );
}

#[test]
fn cancelled_io_is_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world([drive(image(folder.path(), "d0.img", 1 << 20))]);
    start(&mut world, 1, (0, StepKind::Read, 0), &[(0, 4096)]);
    world.submit();
    world.cancel(Token(1));
    world.cancel(Token(999));
    let (token, result) = results(&mut world, 1)[0];
    assert_eq!(token, 1);
    assert!(
        result.is_ok() || result.unwrap_err().class == ErrorClass::Path,
        "{result:?}"
    );
    std::thread::sleep(Duration::from_millis(20));
    let mut late = Vec::new();
    world.reap(&mut late);
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn metadata_larger_than_its_memory_waits_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        ["d0.img", "d1.img", "d2.img"].map(|name| drive(image(folder.path(), name, 8 << 20)));
    let mut world = world(files.clone());
    world.encoder = Box::new(|_, record: &Record| {
        let mut bytes = vec![record.generation as u8; 3 << 20];
        bytes[0] = 0xEE;
        Ok(vec![(0, bytes)])
    });
    for generation in 1..=7 {
        (0..3).for_each(|member| world.persist(MemberId(member), &record(generation)));
    }
    let all = inputs(&mut world, 21);
    assert!(
        all.iter()
            .all(|input| matches!(input, Input::Persisted { result: Ok(()), .. }))
    );
    for file in files {
        let last = file.read_at(1, 1).unwrap();
        assert_eq!(last, [7], "the last record is the one that remains");
    }

    world.encoder = Box::new(|_, _: &Record| Ok(vec![(100, vec![0; 512])]));
    world.persist(MemberId(0), &record(1));
    assert_eq!(refused(&mut world), ErrorClass::Misuse);
}

fn refused(world: &mut RingWorld<()>) -> ErrorClass {
    match inputs(world, 1)[..] {
        [
            Input::Persisted {
                result: Err(error), ..
            },
        ] => error.class,
        ref other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_part_of_metadata_waits_until_the_one_before_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let file = image(folder.path(), "d0.img", 1 << 20);
    for spec in [
        "ram:1m,latency=200ms".to_owned(),
        format!("{},latency=200ms", file.display()),
    ] {
        let drive = drive(spec);
        let mut world = world([drive.clone()]);
        let first = |at: u64| drive.read_at(at, 1).unwrap()[0];
        world.encoder = Box::new(|_, record: &Record| {
            let bytes = vec![record.generation as u8; 512];
            Ok(vec![
                (0, bytes.clone()),
                (4096, bytes.clone()),
                (8192, bytes),
            ])
        });
        world.persist(MemberId(0), &record(3));
        let mut seen = Vec::new();
        let answer = loop {
            world.submit();
            let mut found = Vec::new();
            world.reap(&mut found);
            seen.push([first(0), first(4096), first(8192)]);
            if let Some(answer) = found.pop() {
                break answer;
            }
            let until = world.now().0 + 20 * Nanos::MILLISECOND.0;
            world.wait(Some(Nanos(until)));
        };
        assert!(matches!(answer, Input::Persisted { result: Ok(()), .. }));
        // A part is answered 200 ms after its start, and the next part is not written before that.
        seen.dedup();
        seen.retain(|parts| *parts != [0; 3]);
        assert_eq!(seen, [[3, 0, 0], [3, 3, 0], [3, 3, 3]]);

        // The parts after a failed one are not written.
        world.encoder = Box::new(|_, _: &Record| {
            let part = |at| (at, vec![9; 512]);
            Ok([0, 100, 8192].map(part).into())
        });
        world.persist(MemberId(0), &record(4));
        assert_eq!(refused(&mut world), ErrorClass::Misuse);
        assert_eq!([first(0), first(8192)], [9, 3]);

        // A record that the format cannot express is not written.
        world.encoder = Box::new(|_, _: &Record| Err(NotExpressible));
        world.persist(MemberId(0), &record(5));
        let answer = inputs(&mut world, 1);
        let refused = Input::NotExpressible {
            member: MemberId(0),
        };
        assert_eq!(format!("{answer:?}"), format!("{:?}", [refused]));
        assert_eq!([first(0), first(8192)], [9, 3]);
    }
}
