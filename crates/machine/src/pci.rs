//! PCIe devices that matter to drives.

use super::files::{Files, last_part, parent};

/// The folder with a link to each PCI device.
pub const DEVICES: &str = "/sys/bus/pci/devices";
pub(crate) const INTEL: &str = "0x8086";
/// Mass storage, non-volatile memory, NVM Express (PCI Code and ID Assignment Specification): the class of NVMe drives.
pub const NVME_CLASS: &str = "0x010802";
/// Device IDs of Intel's Volume Management Devices, from the table of Linux's own driver and the PCI ID
/// repository.
const VMD_DEVICES: [&str; 10] = [
    "0x201d", "0x28c0", "0x467f", "0x4c3d", "0x7d0b", "0x9a0b", "0xa77f", "0xad0b", "0xb06f",
    "0xb60b",
];

/// The address of the VMD controller behind which the device in `folder` is.
#[must_use]
pub fn vmd_above<'path>(files: &Files, folder: &'path str) -> Option<&'path str> {
    let mut above = parent(folder);
    while !above.is_empty() {
        if is_vmd(files, above) {
            return Some(last_part(above));
        }
        above = parent(above);
    }
    None
}

/// Whether the device in `folder` is a VMD controller.
#[must_use]
pub fn is_vmd(files: &Files, folder: &str) -> bool {
    let device = files.text(&format!("{folder}/device"));
    files.text(&format!("{folder}/vendor")).as_deref() == Some(INTEL)
        && device.is_some_and(|device| VMD_DEVICES.contains(&device.as_str()))
}
