//! Gives up the block device of a volume whose server has ended and is not to come back.
//!
//! The requests of such a device wait for a server, those of ublk for ever: programs that use it cannot be ended, a file system on
//! it cannot be unmounted, and the machine does not shut down. Giving the device up ends them with errors. What was written to the
//! device and is not on the drives is lost then.

use crate::names::Given;
use crate::nbd::kernel;
use crate::ublk;
use anyhow::{Result, bail};
use metadata::imsm::Uuid;

/// Who has the device in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Ublk,
    Nbd,
}

/// Gives the device up, and takes its name away. Whoever has it open gets errors from then on.
///
/// # Errors
/// One sentence: a process serves it, it is not the device of that volume any more, or the kernel refuses.
pub fn give_up(device: &Given) -> Result<()> {
    let node = device.node.display();
    let Some(Uuid(identity)) = Uuid::parse(&device.uuid) else {
        bail!("what is written about {node} does not say whose it is");
    };
    let name = device.node.file_name().unwrap_or_default();
    match driver_of(&name.to_string_lossy()) {
        Some((Driver::Ublk, number)) => ublk::give_up(number, &identity)?,
        Some((Driver::Nbd, number)) => kernel::give_up(number, &identity)?,
        None => bail!("{node} is no device of ublk or NBD"),
    }
    device.forget();
    Ok(())
}

/// The driver of the kernel's device of this name, and the device's number.
fn driver_of(node: &str) -> Option<(Driver, u32)> {
    let number = |prefix| node.strip_prefix(prefix)?.parse().ok();
    let ublk = number("ublkb").map(|number| (Driver::Ublk, number));
    ublk.or_else(|| number("nbd").map(|number| (Driver::Nbd, number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_device_is_recognised_by_its_name() {
        assert_eq!(driver_of("ublkb12"), Some((Driver::Ublk, 12)));
        assert_eq!(driver_of("nbd0"), Some((Driver::Nbd, 0)));
        for other in ["ublkb", "ublkb0p1", "nbd0p1", "sda", ""] {
            assert_eq!(driver_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_device_of_which_too_little_is_known_is_left_alone() {
        let error = |uuid: String| {
            let device = Given {
                node: PathBuf::from("/dev/sda"),
                volume: "vol0".to_owned(),
                uuid,
            };
            give_up(&device).unwrap_err().to_string()
        };
        let another = error(Uuid([0; 16]).to_string());
        assert_eq!(another, "/dev/sda is no device of ublk or NBD");
        let nameless = error(String::new());
        let said = "what is written about /dev/sda does not say whose it is";
        assert_eq!(nameless, said);
    }
}
