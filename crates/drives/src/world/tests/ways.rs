//! The paths by which a file's I/O reaches the kernel, and files that are cut short on each of them.

use super::*;
use std::fs::{File, OpenOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WAYS: [IoPath; 3] = [IoPath::Ring, IoPath::Inline, IoPath::Helpers];

/// A new file of 1 MiB that is served by this path. The kernel may close the previous file later, so names differ.
fn drive_by(folder: &Path, way: IoPath) -> (Arc<Drive>, File) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("d{}.img", NEXT.fetch_add(1, Ordering::Relaxed));
    let path = image(folder, &name, 1 << 20);
    let spec = path.to_str().unwrap().parse().unwrap();
    let drive = Drive::open(&spec, Access::Exclusive).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    (Arc::new(drive.with_io_path(way)), file)
}

#[test]
fn a_member_does_everything_whichever_way_its_io_goes() {
    for way in WAYS {
        for completion in [CompletionMode::Interrupt, CompletionMode::Polling] {
            let folder = tempfile::tempdir().unwrap();
            let mut world = world_with((), completion);
            world.attach(MemberId(0), drive_by(folder.path(), way).0);
            check_member(&mut world);
        }
    }
}

#[test]
fn long_ranges_are_zeroed_and_discarded_to_their_end() {
    const LENGTH: u64 = 600 << 10;
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let drive = drive_by(folder.path(), way).0;
        let mut world = world([drive.clone()]);
        let zero = |keep_allocated| StepKind::Zero { keep_allocated };
        for kind in [zero(true), zero(false), StepKind::Discard] {
            drive.write_at(0, &vec![7; 1 << 20]).unwrap();
            start_bare(&mut world, 1, 0, kind, (8192, LENGTH));
            succeed(&mut world, 1);
            let back = drive.read_at(0, 1 << 20).unwrap();
            let inside = 8192..8192 + LENGTH;
            let wanted = (0..1 << 20).map(|at| if inside.contains(&at) { 0 } else { 7 });
            assert!(back.into_iter().eq(wanted), "{way:?} {kind:?}");
        }
    }
}

#[test]
fn the_last_sector_of_a_file_is_read_but_never_written() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let mut world = world([drive_by(folder.path(), way).0]);
        let last = (1 << 20) - 512;
        start(&mut world, 1, (0, StepKind::Read, last), &[(0, 512)]);
        succeed(&mut world, 1);
        start(&mut world, 2, (0, WRITE, last - 512), &[(0, 1024)]);
        assert_eq!(fail(&mut world, 2).class, ErrorClass::Misuse);
        let zero = StepKind::Zero {
            keep_allocated: true,
        };
        start_bare(&mut world, 3, 0, zero, (last, 512));
        assert_eq!(fail(&mut world, 3).class, ErrorClass::Misuse);
        start(&mut world, 4, (0, WRITE, last - 512), &[(0, 512)]);
        succeed(&mut world, 4);
    }
}

#[test]
fn nothing_of_a_file_that_has_been_cut_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let (drive, file) = drive_by(folder.path(), way);
        let mut world = world([drive.clone()]);
        put(&world, 0, &[7; 8192]);
        start(&mut world, 1, (0, WRITE, 8192), &[(0, 8192)]);
        succeed(&mut world, 1);
        file.set_len(4096).unwrap();
        // This write makes the file grow as far as any write of the member can. Its answer is no success.
        start(&mut world, 2, (0, WRITE, (1 << 20) - 1024), &[(0, 512)]);
        assert_eq!(fail(&mut world, 2).class, ErrorClass::Gone, "{way:?}");
        // The file now has zeros in place of the sevens.
        start(&mut world, 3, (0, StepKind::Read, 8192), &[(65_536, 8192)]);
        assert_eq!(fail(&mut world, 3).class, ErrorClass::Gone, "{way:?}");
        assert_eq!(get(&world, 65_536, 8192), [0; 8192], "{way:?}");
        assert_eq!(drive.is_alive().unwrap_err().class, ErrorClass::Gone);
        start_bare(&mut world, 4, 0, StepKind::Flush, (0, 0));
        assert_eq!(fail(&mut world, 4).class, ErrorClass::Gone, "{way:?}");
        world.persist(MemberId(0), &record(1));
        match inputs(&mut world, 1)[..] {
            [
                Input::Persisted {
                    result: Err(error), ..
                },
            ] => assert_eq!(error.class, ErrorClass::Gone),
            ref other => panic!("unexpected {other:?}"),
        }
        assert!(
            drive.is_alive().is_err(),
            "a write of the member has revived it"
        );
    }
}

/// Data behind the cut reads as zeros once a write has made the file grow past it.
#[test]
fn of_several_answers_in_a_turn_none_is_believed_after_a_cut() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let (drive, file) = drive_by(folder.path(), way);
        let other = drive_by(folder.path(), way).0;
        let mut world = world([drive, other]);
        file.set_len(4096).unwrap();
        start(&mut world, 0, (0, WRITE, (1 << 20) - 1024), &[(0, 512)]);
        assert_eq!(fail(&mut world, 0).class, ErrorClass::Gone);
        for token in 1..=4 {
            let to = 65_536 * token as u32;
            start(&mut world, token, (0, StepKind::Read, 8192), &[(to, 512)]);
        }
        start(&mut world, 5, (1, StepKind::Read, 8192), &[(0, 512)]);
        let all = results(&mut world, 5);
        assert_eq!(all[4], (5, Ok(())), "the other file is whole");
        for (token, result) in &all[..4] {
            let error = result.expect_err("the file was cut");
            assert_eq!(error.class, ErrorClass::Gone, "{way:?} {token}");
        }
    }
}

/// Cuts the file at various moments under reads and writes, many times: each answered read returns the right bytes.
#[test]
fn a_cut_at_any_moment_gives_right_bytes_or_none() {
    const ROUNDS: u64 = 150;
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let (mut right, mut refused) = (0, 0);
        for round in 0..ROUNDS {
            let (drive, file) = drive_by(folder.path(), way);
            let mut world = world([drive]);
            put(&world, 0, &[7; 8192]);
            start(&mut world, 1, (0, WRITE, 8192), &[(0, 8192)]);
            succeed(&mut world, 1);
            let cut = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Each round cuts at another moment of the load below.
                    std::thread::sleep(Duration::from_micros(round * 7));
                    file.set_len(round % 5 * 2048).unwrap();
                    cut.store(true, Ordering::SeqCst);
                });
                // Reads back what was written, while another write makes the file long again.
                let mut after = 0;
                while after < 3 {
                    after += u32::from(cut.load(Ordering::SeqCst));
                    put(&world, 65_536, &[1; 8192]);
                    start(&mut world, 2, (0, WRITE, (1 << 20) - 1024), &[(0, 512)]);
                    start(&mut world, 3, (0, StepKind::Read, 8192), &[(65_536, 8192)]);
                    match results(&mut world, 2)[1].1 {
                        Ok(()) => {
                            assert!(get(&world, 65_536, 8192) == [7; 8192], "{way:?} {round}");
                            right += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.class, ErrorClass::Gone);
                            refused += 1;
                        }
                    }
                }
            });
        }
        assert!(
            refused >= 2 * ROUNDS && right > 0,
            "{way:?} {right} {refused}"
        );
    }
}
