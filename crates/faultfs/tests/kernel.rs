//! What the kernel makes of a program's calls on FUSE, and that cuts, errors and the journal do what they promise.
//!
//! These need root and /dev/fuse, and fail with a sentence without them.

use faultfs::{CutAt, Entry, Fault, FaultFs, Loss, Operation, Options};
use repeatable::random::Stream;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fdatasync};
use rustix::io::{Errno, IoSlice, ReadWriteFlags, pread, pwrite, pwritev2};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

const SIZE_BYTES: u64 = 1 << 20;

struct Bed {
    // Dropped in this order: the file system is unmounted, then the folder is removed.
    fs: FaultFs,
    _folder: tempfile::TempDir,
}

fn mounted(options: Options) -> Bed {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [("d0", SIZE_BYTES), ("d1", SIZE_BYTES)];
    let fs = FaultFs::mount(&folder.path().join("files"), &files, options);
    let fs = fs.unwrap_or_else(|error| panic!("{error}"));
    Bed {
        fs,
        _folder: folder,
    }
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDWR, Mode::empty()).expect("the file opens")
}

fn write_dsync(fd: &OwnedFd, offset: u64, bytes: &[u8]) {
    let written = pwritev2(fd, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC);
    assert_eq!(written, Ok(bytes.len()));
}

fn changes(fs: &FaultFs) -> Vec<Entry> {
    let mut entries = fs.journal();
    entries.retain(|entry| entry.operation != Operation::Read);
    entries
}

/// A durable write on FUSE needs a sync after it: the kernel passes the flag to the file system, which may ignore it,
/// and sends no sync of its own. The helpers of `drives` rely on no more than this.
#[test]
fn the_kernel_passes_dsync_on_as_a_flag_and_sends_no_sync_after_it() {
    let bed = mounted(Options::default());
    let fd = open(&bed.fs.path(0));
    write_dsync(&fd, 4096, &[5; 4096]);
    let [write] = changes(&bed.fs)
        .try_into()
        .expect("one write and nothing else");
    assert_eq!((write.operation, write.dsync), (Operation::Write, true));
    assert_eq!(write.durable, None);
    assert_eq!(bed.fs.durable(0, 4096, 1), [0]);
    fdatasync(&fd).unwrap();
    let [write, sync] = changes(&bed.fs).try_into().expect("a write and a sync");
    assert!(write.answered.unwrap() < sync.arrived && write.durable == sync.durable);
    assert_eq!(bed.fs.durable(0, 4096, 1), [5]);
}

#[test]
fn a_file_system_that_heeds_the_flag_has_it_at_once() {
    let bed = mounted(Options {
        heeds_dsync: true,
        ..Options::default()
    });
    let fd = open(&bed.fs.path(1));
    write_dsync(&fd, 0, &[5; 512]);
    assert_eq!(pwrite(&fd, &[6; 512], 512), Ok(512));
    assert_eq!(bed.fs.durable(1, 0, 1), [5]);
    assert_eq!(bed.fs.durable(1, 512, 1), [0]);
}

#[test]
fn after_a_cut_nothing_is_answered_well_and_what_was_not_synced_is_lost() {
    let bed = mounted(Options::default());
    let fd = open(&bed.fs.path(0));
    pwrite(&fd, &[1; 4096], 0).unwrap();
    fdatasync(&fd).unwrap();
    pwrite(&fd, &[2; 4096], 0).unwrap();
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&fd, how, 4096, 4096).unwrap();
    let how = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    fallocate(&fd, how, 8192, 4096).unwrap();
    let asked: Vec<Operation> = changes(&bed.fs)
        .iter()
        .map(|entry| entry.operation)
        .collect();
    use Operation::{Punch, Sync, Write, ZeroRange};
    assert_eq!(asked, [Write, Sync, Write, Punch, ZeroRange]);
    bed.fs.cut();
    let mut bytes = [0; 512];
    assert_eq!(pread(&fd, &mut bytes, 0), Err(Errno::IO));
    assert_eq!(pwrite(&fd, &[3; 512], 0), Err(Errno::IO));
    assert_eq!(fdatasync(&fd), Err(Errno::IO));
    drop(fd);
    assert!(bed.fs.wait_closed(Duration::from_secs(10)));
    bed.fs
        .go_on(&[Loss::Everything; 2], &mut Stream::new(1, "loss", 0));
    let fd = open(&bed.fs.path(0));
    assert_eq!(pread(&fd, &mut bytes, 0), Ok(512));
    assert_eq!(bytes, [1; 512]);
}

#[test]
fn the_power_goes_at_the_operation_that_was_asked_for() {
    for is_carried_out in [false, true] {
        let bed = mounted(Options::default());
        let fd = open(&bed.fs.path(0));
        bed.fs.cut_at(CutAt {
            operations: vec![Operation::Sync],
            range: 0..u64::MAX,
            skip: 1,
            is_carried_out,
        });
        for value in 1..=2 {
            pwrite(&fd, &[value; 512], 0).unwrap();
            let synced = fdatasync(&fd);
            assert_eq!(synced.is_ok(), value == 1, "{synced:?}");
        }
        assert!(bed.fs.is_cut());
        let durable = bed.fs.durable(0, 0, 1)[0];
        assert_eq!(durable, if is_carried_out { 2 } else { 1 });
    }
}

#[test]
fn operations_fail_as_they_were_told_to() {
    let bed = mounted(Options::default());
    let fd = open(&bed.fs.path(0));
    bed.fs.inject(Fault {
        range: 4096..8192,
        skip: 1,
        count: 2,
        ..Fault::always(0, Operation::Write, 28)
    });
    let tried: Vec<_> = [0, 4096, 4096, 7680, 4096]
        .map(|at| pwrite(&fd, &[1; 512], at))
        .to_vec();
    let full = Err(Errno::NOSPC);
    assert_eq!(tried, [Ok(512), Ok(512), full, full, Ok(512)]);
    bed.fs.inject(Fault {
        loses: true,
        ..Fault::once(0, Operation::Sync, 5)
    });
    assert_eq!(fdatasync(&fd), Err(Errno::IO));
    assert_eq!(fdatasync(&fd), Ok(()));
    assert_eq!(bed.fs.durable(0, 0, 1), [0]);
}

#[test]
fn answers_that_are_held_back_come_after_all() {
    let bed = mounted(Options {
        held: (1, 1),
        ..Options::default()
    });
    let fd = open(&bed.fs.path(0));
    for value in 1..50 {
        pwrite(&fd, &[value; 512], 0).unwrap();
        fdatasync(&fd).unwrap();
        assert_eq!(bed.fs.durable(0, 0, 1), [value]);
    }
}
