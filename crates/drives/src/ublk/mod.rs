//! ublk: block devices of this machine whose requests a process serves through its io_uring (Linux 6.4 or newer, module
//! `ublk_drv`).
//!
//! A device is made, started and removed by commands to `/dev/ublk-control` ([`Control`]). Its requests arrive in queues.
//! For each place of a queue (a tag) the process keeps one command with the kernel ([`crate::ring::Ring::fetch`]). When
//! the command completes, the place holds a request, which [`Queue::descriptor`] describes. The answer is the next command
//! of the same tag ([`crate::ring::Ring::commit`]), so a tag has at most one request at a time.
//!
//! The kernel copies data: that of a write into the memory which the tag's last command named, that of a read out of the
//! memory which the answer names. Such memory lies in the arena.
//!
//! Layouts and numbers here are those of `linux/ublk_cmd.h`; they never change, since programs are built against them.

mod control;
mod kernels;
mod layout;
mod queue;

pub use control::{Control, ControlError};
pub use kernels::crashes;
pub use layout::{
    ALL_TAGS_ABORTED, Attributes, DEPTH_MAX, Descriptor, DeviceInfo, Features, Operation,
    Parameters, SECTOR_BYTES, State,
};
pub(crate) use layout::{COMMIT_AND_FETCH, FETCH, tag_command};
pub use queue::{CharacterDevice, Queue};
