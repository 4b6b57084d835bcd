//! Removes a device whose server has ended, and that no other will take over.

use super::device::{STOP_WITHIN, block_device, is_served, mark_of};
use anyhow::{Result, bail, ensure};
use drives::ublk::{Control, ControlError, State};
use rustix::io::Errno;
use std::time::Duration;

/// How long the last part of a device may take to go. It goes when nothing has the device open, and that is not waited for.
const DELETE_WITHIN: Duration = Duration::from_secs(1);

/// Removes the device with this number, if it is the one of the volume with this identity. One that is gone already is no error.
///
/// # Errors
/// A process serves it, it is another volume's by now, or the kernel refuses.
pub fn give_up(number: u32, identity: &[u8; 16]) -> Result<()> {
    let node = block_device(number);
    let mut control = Control::open()?;
    let info = match control.info(number) {
        Err(error) if error.is(Errno::NODEV) => return Ok(()),
        other => other?,
    };
    ensure!(
        info.mark == mark_of(identity),
        "{} is another volume's by now",
        node.display()
    );
    if info.state == State::Live {
        bail!("{}", is_served(info.process, number));
    }
    control.stop(number, STOP_WITHIN)?;
    match control.delete(number, DELETE_WITHIN) {
        Err(ControlError::TimedOut { .. }) => Ok(()),
        other => Ok(other?),
    }
}
