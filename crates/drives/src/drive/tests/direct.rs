//! Which members bypass the page cache, and how the others are served.

use super::super::open::takes_direct_io;
use super::*;
use rustix::fs::{Mode, OFlags};

/// This file is no drive, but it has a size, and opening it with `O_DIRECT` is refused.
const WITHOUT_DIRECT_IO: &str = "/sys/devices/system/cpu/online";

fn flags_of(drive: &Drive) -> OFlags {
    rustix::fs::fcntl_getfl(drive.fd().unwrap()).unwrap()
}

/// If several flushes run at once, the kernel reports lost data to only one of them. The helpers let one flush run at a
/// time.
#[test]
fn a_file_without_direct_io_goes_through_the_page_cache_by_helpers() {
    let spec = spec(WITHOUT_DIRECT_IO);
    let refused = rustix::fs::open(WITHOUT_DIRECT_IO, OFlags::DIRECT, Mode::empty());
    assert_eq!(refused.unwrap_err(), Errno::INVAL);
    let drive = Drive::open(&spec, Access::ExclusiveReadOnly).unwrap();
    assert!(!drive.direct() && !flags_of(&drive).contains(OFlags::DIRECT));
    assert_eq!(drive.io_path(), IoPath::Helpers);
    assert!(drive.helpers().is_some());
    let said = drive
        .notes()
        .iter()
        .any(|note| note.contains("the page cache is used"));
    assert!(said, "{:?}", drive.notes());
    // A drive that is opened only to be looked at needs neither direct I/O nor helpers.
    let looker = Drive::open(&spec, Access::ReadOnly).unwrap();
    assert!(!looker.direct() && looker.helpers().is_none() && looker.notes().is_empty());
}

#[test]
fn a_file_that_takes_direct_io_is_used_past_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "d0.img", 1 << 20);
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty());
    let mut bounce = crate::drive::blocking::Aligned::new(512);
    let read = opened.and_then(|fd| rustix::io::pread(&fd, bounce.as_mut_slice(), 512));
    for access in [
        Access::Exclusive,
        Access::ExclusiveReadOnly,
        Access::ReadOnly,
    ] {
        let drive = Drive::open(&spec(&path), access).unwrap();
        assert_eq!(drive.direct(), read.is_ok(), "{access:?}");
        assert_eq!(flags_of(&drive).contains(OFlags::DIRECT), read.is_ok());
    }
}

/// A device that takes direct I/O in larger blocks only would refuse each I/O in the array's sectors.
#[test]
fn direct_io_counts_only_if_it_takes_the_arrays_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "large.img", 1 << 20);
    let Some(device) = Loop::with(&path, &["--sector-size", "4096"]) else {
        println!("skipped: no loop device available (not root, or no losetup)");
        return;
    };
    let flags = OFlags::RDONLY | OFlags::DIRECT;
    let fd = rustix::fs::open(&device.0, flags, Mode::empty()).unwrap();
    assert!(!takes_direct_io(&fd, 512));
    assert!(takes_direct_io(&fd, 4096));
    let drive = open(&device.0);
    assert!(drive.sector_bytes() == 4096 && flags_of(&drive).contains(OFlags::DIRECT));
}

/// Reading a hole involves no drive, so it succeeds even in small blocks: what the kernel reports about the file
/// counts.
#[test]
fn a_file_system_that_wants_larger_blocks_is_found_out_by_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "hole.img", 1 << 20);
    let flags = OFlags::RDONLY | OFlags::DIRECT;
    let fd = rustix::fs::open(&path, flags, Mode::empty());
    let said = fd.as_ref().ok().and_then(|fd| {
        let mask = rustix::fs::StatxFlags::DIOALIGN;
        let found = rustix::fs::statx(fd, "", rustix::fs::AtFlags::EMPTY_PATH, mask).ok()?;
        (found.stx_mask & mask.bits() != 0).then_some(found.stx_dio_offset_align)
    });
    let (Ok(fd), Some(align @ 2..)) = (fd, said) else {
        println!("skipped: the temporary folder's file system does not say what direct I/O takes");
        return;
    };
    assert!(!takes_direct_io(&fd, align / 2));
    assert!(takes_direct_io(&fd, align) && takes_direct_io(&fd, 2 * align));
}

/// Older kernels report no alignment, so one read tells. This file can only be read in multiples of eight bytes.
#[test]
fn a_file_that_refuses_a_sector_is_found_out_by_reading_one() {
    let fd = rustix::fs::open("/proc/self/pagemap", OFlags::RDONLY, Mode::empty()).unwrap();
    assert!(!takes_direct_io(&fd, 4));
    assert!(takes_direct_io(&fd, 512));
}

/// Mounts, md and device mapper claim a block device in the same way. A device that they have claimed cannot be served,
/// and they cannot claim a device that is served.
#[test]
fn a_block_device_is_served_by_whoever_has_claimed_it() {
    let folder = tempfile::tempdir().unwrap();
    let devices =
        ["theirs.img", "ours.img"].map(|name| Loop::over(&image(folder.path(), name, 1 << 20)));
    let [Some(theirs), Some(ours)] = devices else {
        println!("skipped: no loop device available (not root, or no losetup)");
        return;
    };
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claim = |device: &Loop| rustix::fs::open(&device.0, flags, Mode::empty());
    let _claimed = claim(&theirs).unwrap();
    for access in [Access::Exclusive, Access::ExclusiveReadOnly] {
        let error = Drive::open(&spec(&theirs.0), access).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    }
    let looker = Drive::open(&spec(&theirs.0), Access::ReadOnly).unwrap();
    assert!(flags_of(&looker).contains(OFlags::DIRECT));
    let reader = Drive::open(&spec(&ours.0), Access::ExclusiveReadOnly).unwrap();
    assert_eq!(claim(&ours).unwrap_err(), Errno::BUSY);
    assert_eq!(flags_of(&reader) & OFlags::RWMODE, OFlags::RDONLY);
    assert!(reader.write_at(0, b"x").is_err());
}
