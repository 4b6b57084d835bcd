//! Members over character devices, whose errors show what the kernel was requested to do:
//!
//! | | a plain write | a write with `RWF_DSYNC` | fdatasync |
//! |---|---|---|---|
//! | `/dev/null` | taken | taken | EINVAL |
//! | `/dev/full` | ENOSPC | EOPNOTSUPP; by the ring ENOSPC | EINVAL |
//!
//! The driver of `/dev/full` cannot be given flags, so the kernel refuses them before it calls the driver.

use super::super::*;
use rustix::fs::{Mode, OFlags};
use std::sync::atomic::AtomicBool;

pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EOPNOTSUPP: i32 = 95;

/// A member of 1 MiB over the given device.
pub(crate) fn over(device: &str, io_path: IoPath) -> Drive {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = Arc::new(rustix::fs::open(device, flags, Mode::empty()).expect("the device exists"));
    let helpers = (io_path == IoPath::Helpers)
        .then(|| Helpers::start(&fd, FileSize::new(0, true)).expect("threads can be started"));
    Drive {
        name: device.to_owned(),
        serial: "SPECIAL".to_owned(),
        size_bytes: 1 << 20,
        sector_bytes: 512,
        volatile_cache: true,
        discards: AtomicBool::new(true),
        direct: true,
        block_device: None,
        io_path,
        file_size: None,
        backing: Backing::File(fd),
        helpers,
        pace: None,
        notes: Vec::new(),
    }
}

/// Like `over`, with answers held back by a millisecond.
pub(crate) fn paced(device: &str, io_path: IoPath) -> Drive {
    let spec: crate::spec::MemberSpec = "ram:1m,latency=1ms".parse().unwrap();
    let throttle = crate::pace::throttle::Throttle::new(spec.limits);
    Drive {
        pace: Some(Pace::Limited(throttle)),
        ..over(device, io_path)
    }
}

/// A member whose helpers hang.
pub(crate) fn hanging() -> Drive {
    let drive = over("/dev/null", IoPath::Inline);
    let Backing::File(fd) = &drive.backing else {
        unreachable!("the member is a file");
    };
    let helpers = Helpers::hanging(fd, FileSize::new(0, true));
    Drive {
        io_path: IoPath::Helpers,
        helpers: Some(helpers),
        ..drive
    }
}
