//! Refuses to change drives while a volume on them is a block device that waits for its next server.
//!
//! A server that was killed, or stopped while its device was in use, leaves the device. The file system on it still has writes for
//! the volume. If the volume were destroyed meanwhile, or md had it, the next server would carry these writes out on what somebody
//! else has written since.

use anyhow::Result;
use container::probe::Probed;
use container::refusal::refused;
use exports::names::{Given, given};
use metadata::imsm::Uuid;

/// Refuses if a volume of these drives, which no server has, is still a block device.
///
/// # Errors
/// A refusal that names the device and what is to be done; or the machine's devices cannot be found out.
pub fn refuse(drives: &[Probed]) -> Result<()> {
    let mut devices = given()?;
    devices.retain(Given::is_there);
    let volumes: Vec<String> = drives.iter().flat_map(volumes_of).collect();
    match first_of(&devices, &volumes) {
        None => Ok(()),
        Some(device) => Err(refused(sentence(device))),
    }
}

/// The UUIDs of the volumes that a drive's record describes.
fn volumes_of(probed: &Probed) -> Vec<String> {
    let Ok(Some(found)) = &probed.found else {
        return Vec::new();
    };
    let uuids = (0..found.mpb.volumes.len()).filter_map(|at| Uuid::of_volume(&found.mpb, at));
    uuids.map(|uuid| uuid.to_string()).collect()
}

fn first_of<'a>(devices: &'a [Given], volumes: &[String]) -> Option<&'a Given> {
    devices.iter().find(|device| volumes.contains(&device.uuid))
}

fn sentence(device: &Given) -> String {
    format!(
        "volume {} is still the block device {}, which waits for its next server and may have writes for these drives; serve the \
         array again, release the device (umount), stop the array, and repeat this; or lose these writes with `fullstripe detach {} --give-up`",
        device.volume,
        device.node.display(),
        device.volume
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(node: &str, volume: &str, uuid: &str) -> Given {
        Given {
            node: node.into(),
            volume: volume.to_owned(),
            uuid: uuid.to_owned(),
        }
    }

    #[test]
    fn only_a_device_of_these_volumes_is_in_the_way() {
        let devices = [
            device("/dev/ublkb0", "vol0", "1:2"),
            device("/dev/nbd0", "vol0", "3:4"),
        ];
        let of = |uuid: &str| first_of(&devices, &[uuid.to_owned()]).map(sentence);
        assert_eq!(of("5:6"), None);
        insta::assert_snapshot!(of("3:4").unwrap(), @"volume vol0 is still the block device /dev/nbd0, which waits for its next server and may have writes for these drives; serve the array again, release the device (umount), stop the array, and repeat this; or lose these writes with `fullstripe detach vol0 --give-up`");
    }
}
