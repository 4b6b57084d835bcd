//! Ends a device whose server has ended, and that no other will take over.

use super::control::Control;
use super::device::{block_device, identifier};
use super::sysfs;
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Ends the device with this number, if it is the one of the volume with this identity. One that is gone already is no error. Whether
/// a process serves it, the kernel does not tell ([`sysfs`]).
///
/// # Errors
/// It is another volume's by now, or the kernel refuses.
pub fn give_up(number: u32, identity: &[u8; 16]) -> Result<()> {
    let node = block_device(number);
    let folder = Path::new(sysfs::FOLDER);
    if !sysfs::is_connected(folder, number) {
        return Ok(());
    }
    let found = sysfs::find(folder, &identifier(identity))?;
    ensure!(
        found == Some(number),
        "{} is another volume's by now",
        node.display()
    );
    let ended = Control::open().and_then(|mut control| control.disconnect(number));
    ended.with_context(|| format!("{} was not given up", node.display()))
}
