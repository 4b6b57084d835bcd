//! PCI Express: each drive's link, compared with what the drive and the slot support, and controllers that hide drives.

use super::files::{Files, last_part, parent};
use super::finding::Finding;
use words::count;

const DEVICES: &str = "/sys/bus/pci/devices";
const INTEL: &str = "0x8086";
/// Mass storage, non-volatile memory, NVM Express (PCI Code and ID Assignment Specification): the class of NVMe drives.
const NVME_CLASS: &str = "0x010802";
/// Device IDs of Intel's Volume Management Devices, from the table of Linux's own driver and the PCI ID
/// repository.
const VMD_DEVICES: [&str; 10] = [
    "0x201d", "0x28c0", "0x467f", "0x4c3d", "0x7d0b", "0x9a0b", "0xa77f", "0xad0b", "0xb06f",
    "0xb60b",
];

/// Speed and width of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Tenths of a GT/s per lane.
    speed: u32,
    lanes: u32,
}

impl Link {
    fn read(files: &Files, folder: &str, which: &str) -> Option<Link> {
        let speed = files.text(&format!("{folder}/{which}_link_speed"))?;
        let lanes = files.number(&format!("{folder}/{which}_link_width"))?;
        // Virtual machines report 0 or 255 lanes and an unknown speed.
        let lanes = u32::try_from(lanes).ok().filter(|n| (1..=32).contains(n))?;
        Some(Link {
            speed: parse_speed(&speed)?,
            lanes,
        })
    }

    /// Throughput in one direction, without the line code's overhead, in units of 100 MB/s: 8b/10b below 8 GT/s,
    /// 128b/130b from 8 GT/s on (PCI Express Base Specification, "Encoding").
    fn hundred_megabytes(self) -> u32 {
        let (used, of) = if self.speed < 80 { (8, 10) } else { (128, 130) };
        let bits = self.speed * self.lanes * used;
        (bits + of * 4) / (of * 8)
    }

    fn rate(self) -> String {
        let hundreds = self.hundred_megabytes();
        format!("{}.{} GB/s", hundreds / 10, hundreds % 10)
    }
}

/// For example `PCIe 8 GT/s x4`.
impl std::fmt::Display for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, tenth) = (self.speed / 10, self.speed % 10);
        match tenth {
            0 => write!(out, "PCIe {whole} GT/s x{}", self.lanes),
            _ => write!(out, "PCIe {whole}.{tenth} GT/s x{}", self.lanes),
        }
    }
}

/// Parses texts like `8.0 GT/s PCIe` and `16 GT/s` into tenths of a GT/s.
fn parse_speed(text: &str) -> Option<u32> {
    let number = text.split_whitespace().next()?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let tenth = tenth.get(..1)?;
    let speed = whole.parse::<u32>().ok()?.checked_mul(10)? + tenth.parse::<u32>().ok()?;
    (1..=10_000).contains(&speed).then_some(speed)
}

/// The link of the PCI device in `folder`.
pub fn link(files: &Files, folder: &str) -> Option<Link> {
    Link::read(files, folder, "current")
}

/// Reports a link that is slower than it could be, for the drive `name`, whose PCI device is in `folder`.
pub fn slow_link(files: &Files, name: &str, folder: &str) -> Option<Finding> {
    let current = Link::read(files, folder, "current")?;
    let own = Link::read(files, folder, "max")?;
    if current.lanes >= own.lanes && current.speed >= own.speed {
        return None;
    }
    let what = format!(
        "its link runs at {current} of {own}: {} instead of {}",
        current.rate(),
        own.rate()
    );
    // The port to which the device's slot belongs.
    let slot = Link::read(files, parent(folder), "max");
    let by_slot = slot.filter(|slot| {
        slot.lanes.min(own.lanes) <= current.lanes && slot.speed.min(own.speed) <= current.speed
    });
    Some(Finding::warning(name, what).advise(match by_slot {
        Some(slot) => format!(
            "the slot offers no more than {slot}: move the drive to a slot that serves it fully"
        ),
        None => "reseat the drive or change its cable or riser, and look for PCIe errors in the kernel \
                 log"
            .to_owned(),
    }))
}

/// The address of the VMD controller behind which the device in `folder` is.
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

fn is_vmd(files: &Files, folder: &str) -> bool {
    let device = files.text(&format!("{folder}/device"));
    files.text(&format!("{folder}/vendor")).as_deref() == Some(INTEL)
        && device.is_some_and(|device| VMD_DEVICES.contains(&device.as_str()))
}

/// Finds whatever hides drives from the NVMe driver.
pub fn hidden_drives(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut vmd_in_use, mut vmd_without_driver) = (Vec::new(), Vec::new());
    for address in files.list(DEVICES) {
        let folder = format!("{DEVICES}/{address}");
        let driver = files.real(&format!("{folder}/driver"));
        let driver = driver.as_deref().map(last_part);
        if !is_vmd(files, &folder) {
            findings.extend(remapped(files, &address, &folder));
            findings.extend(taken(files, &address, &folder, driver));
        } else if driver == Some("vmd") {
            vmd_in_use.push(address);
        } else {
            vmd_without_driver.push(address);
        }
    }
    if !vmd_in_use.is_empty() {
        let what = format!("controllers in use: {}", vmd_in_use.join(", "));
        findings.push(Finding::ok("VMD", what));
    }
    if !vmd_without_driver.is_empty() {
        let what = format!(
            "{} without the vmd driver: drives behind cannot be seen",
            vmd_without_driver.join(", ")
        );
        findings.push(
            Finding::warning("VMD", what)
                .advise("run modprobe vmd, or turn VMD off in the firmware's setup"),
        );
    }
    findings
}

/// Reports NVMe drives that firmware in RAID mode has remapped behind a SATA controller.
fn remapped(files: &Files, address: &str, folder: &str) -> Option<Finding> {
    let number = files.number(&format!("{folder}/remapped_nvme"))?;
    (number > 0).then(|| {
        let drives = count(number as usize, "NVMe drive");
        let what = format!("the SATA controller {address} hides {drives} (RST remapping)");
        Finding::warning("firmware", what)
            .advise("set the SATA mode to AHCI in the firmware's setup")
    })
}

/// Reports NVMe drives that have another driver or none, like those passed through to a virtual machine.
fn taken(files: &Files, address: &str, folder: &str, driver: Option<&str>) -> Option<Finding> {
    let class = files.text(&format!("{folder}/class"))?;
    if class != NVME_CLASS || driver == Some("nvme") {
        return None;
    }
    let what = format!(
        "{address} has {}, so it is no block device",
        driver.map_or_else(
            || "no driver".to_owned(),
            |name| format!("the driver {name}")
        )
    );
    Some(Finding::note("NVMe", what).advise("bind it to the driver nvme if it is for an array"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_the_kernels_forms() {
        assert_eq!(parse_speed("8.0 GT/s PCIe"), Some(80));
        assert_eq!(parse_speed("2.5 GT/s"), Some(25));
        assert_eq!(parse_speed("16 GT/s"), Some(160));
        for nonsense in ["Unknown", "", "0", ".5", "8. GT/s", "99999999999"] {
            assert_eq!(parse_speed(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn rates_follow_the_line_code() {
        let rate = |speed, lanes| Link { speed, lanes }.rate();
        assert_eq!(rate(80, 4), "3.9 GB/s");
        assert_eq!(rate(50, 2), "1.0 GB/s");
        assert_eq!(rate(160, 4), "7.9 GB/s");
    }
}
