//! Answers whether the machine may hibernate. It may not while a volume is a block device: the kernel freezes the process that
//! serves the volume first, then makes room in memory and writes the image. What is swapped out or written to the volume
//! meanwhile waits for the frozen process, and the kernel waits for that.

use anyhow::Result;
use container::refusal::refused;
use exports::names::{Given, given};

/// Refuses if a volume is a block device.
///
/// # Errors
/// A refusal that names the devices; or they cannot be found out.
pub fn refuse_served() -> Result<()> {
    let mut devices = given()?;
    devices.retain(Given::is_there);
    match devices.is_empty() {
        true => Ok(()),
        false => Err(refused(sentence(&devices))),
    }
}

fn sentence(devices: &[Given]) -> String {
    let named: Vec<String> = devices
        .iter()
        .map(|device| {
            format!(
                "volume {} is the block device {}",
                device.volume,
                device.node.display()
            )
        })
        .collect();
    format!(
        "the machine cannot hibernate while {}, because the process that serves it is frozen before memory is written; unmount it \
         and stop its array first (systemctl stop fullstripe@NAME), or suspend to memory",
        words::and(&named)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_named() {
        let device = Given {
            node: "/dev/ublkb0".into(),
            volume: "vol0".to_owned(),
            uuid: String::new(),
        };
        insta::assert_snapshot!(sentence(&[device]), @"the machine cannot hibernate while volume vol0 is the block device /dev/ublkb0, because the process that serves it is frozen before memory is written; unmount it and stop its array first (systemctl stop fullstripe@NAME), or suspend to memory");
    }
}
