//! Blocking I/O moves all its bytes, and a flush reaches the kernel.

use super::special::{EINVAL, ENOSPC, over};
use super::*;

#[test]
fn a_flush_is_asked_of_the_kernel_and_its_error_is_told() {
    for io_path in [IoPath::Ring, IoPath::Inline, IoPath::Helpers] {
        let drive = over("/dev/null", io_path);
        drive.write_at(0, &[1; 512]).unwrap();
        let error = drive.flush().unwrap_err();
        assert_eq!((error.what, error.error.errno), ("flush", EINVAL));
    }
}

/// The kernel reports lost data to one flush only, so its error has to reach all later flushes.
#[test]
fn a_flush_fails_after_one_that_a_thread_of_the_member_saw_fail() {
    let folder = tempfile::tempdir().unwrap();
    let drive = open(image(folder.path(), "d0.img", 1 << 20)).with_io_path(IoPath::Helpers);
    drive.flush().unwrap();
    let helpers = drive.helpers().unwrap();
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, 0.into()).unwrap();
    assert_eq!(helpers.flush(null.as_fd()), Err(EINVAL));
    assert_eq!(drive.flush().unwrap_err().error.errno, EINVAL);
}

const EBADF: i32 = 9;

#[test]
fn what_the_drive_refuses_or_has_not_is_an_error() {
    let full = over("/dev/full", IoPath::Ring);
    for bytes in [512, 100] {
        let error = full.write_at(0, &vec![1; bytes]).unwrap_err();
        assert_eq!((error.what, error.error.errno), ("write", ENOSPC));
    }
    // Opened for writing only.
    let flags = rustix::fs::OFlags::WRONLY;
    let unreadable = rustix::fs::open("/dev/null", flags, 0.into()).unwrap();
    let unreadable = Drive {
        backing: Backing::File(Arc::new(unreadable)),
        ..over("/dev/null", IoPath::Ring)
    };
    for error in [unreadable.read_at(0, 512), unreadable.read_at(7, 7)] {
        assert_eq!(error.unwrap_err().error.errno, EBADF);
    }
    assert_eq!(unreadable.write_at(7, b"x").unwrap_err().error.errno, EBADF);
    unreadable.write_at(0, &[1; 512]).unwrap();
    // The device ends before the member does.
    let empty = over("/dev/null", IoPath::Ring);
    for bytes in [512, 100] {
        let error = empty.read_at(0, bytes).unwrap_err();
        assert_eq!(error.error.class, ErrorClass::Gone);
    }
    // The rest of the sector has to be read first; when that fails, nothing is written.
    let error = empty.write_at(0, &[1; 100]).unwrap_err();
    assert_eq!(error.error.class, ErrorClass::Gone);
    assert_eq!(empty.is_alive().unwrap_err().class, ErrorClass::Gone);
}

#[test]
fn a_range_that_the_drive_has_in_part_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let drive = open(&path);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 19).unwrap();
    let error = drive.read_at((1 << 19) - 4096, 8192).unwrap_err();
    assert_eq!(error.error.class, ErrorClass::Gone);
}

/// The ranges are longer than one system call takes.
#[test]
fn long_ranges_arrive_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let drive = open(image(folder.path(), "d0.img", 16 << 20));
    let bytes: Vec<u8> = (0..9u32 << 20).map(|at| (at / 4096 + at) as u8).collect();
    drive.write_at(1000, &bytes).unwrap();
    let back = drive.read_at(0, 16 << 20).unwrap();
    assert!(back[1000..][..bytes.len()] == bytes);
    assert!(back[..1000].iter().all(|&byte| byte == 0));
    assert!(back[1000 + bytes.len()..].iter().all(|&byte| byte == 0));
}

#[test]
fn opening_a_file_changes_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    for length in [1 << 20, 10_000] {
        let path = folder.path().join(format!("{length}.img"));
        let bytes: Vec<u8> = (1..=255).cycle().take(length).collect();
        std::fs::write(&path, &bytes).unwrap();
        let drive = open(&path);
        assert!(std::fs::read(&path).unwrap() == bytes);
        let flags = rustix::fs::fcntl_getfl(drive.fd().unwrap()).unwrap();
        let direct = flags.contains(rustix::fs::OFlags::DIRECT);
        assert_eq!(
            drive.direct(),
            direct,
            "the drive reports the flag that its file has"
        );
    }
}

#[test]
fn only_who_may_write_is_said_to_discard() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    for access in [Access::ReadOnly, Access::ExclusiveReadOnly] {
        assert!(!Drive::open(&spec(&path), access).unwrap().discards());
    }
    // A file system that frees a range beyond the end of a file can free one inside it.
    let drive = open(&path);
    let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let frees = rustix::fs::fallocate(drive.fd().unwrap(), how, 0, 4096).is_ok();
    assert_eq!(drive.discards(), frees);
    assert_eq!(
        drive.refuse_discards(),
        frees,
        "only the first refusal is news"
    );
    assert!(!drive.discards() && !drive.refuse_discards());
}

/// Stands for a file system that cannot free ranges: this file is sealed, so the kernel refuses to punch a hole.
#[test]
fn a_file_in_which_no_hole_can_be_punched_is_not_said_to_discard() {
    use rustix::fs::{MemfdFlags, SealFlags};
    use std::os::fd::AsRawFd;
    let file = rustix::fs::memfd_create("sealed", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, 1 << 20).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    assert!(open(&path).discards(), "not sealed yet");
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    assert!(!open(&path).discards());
}

/// Somebody may switch the cache on while the array is served.
#[test]
fn the_cache_of_a_block_device_is_looked_at_again_and_so_is_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let (all, queue) = sysfs::tests::drive_with_partition(folder.path());
    let device = sysfs::Device::among(&all, rustix::fs::makedev(259, 1));
    let drive = Drive {
        size_bytes: 0,
        volatile_cache: false,
        block_device: Some(device),
        ..over("/dev/null", IoPath::Ring)
    };
    for (mode, now) in [("write through", false), ("write back", true)] {
        std::fs::write(queue.join("write_cache"), mode).unwrap();
        assert_eq!(
            (drive.volatile_cache(), drive.volatile_cache_now()),
            (false, now)
        );
    }
    drive.is_alive().unwrap();
    std::fs::remove_file(all.join("259:1")).unwrap();
    assert_eq!(drive.is_alive().unwrap_err().class, ErrorClass::Gone);
    assert!(
        drive.volatile_cache_now(),
        "an unreadable cache mode counts as volatile"
    );
}
