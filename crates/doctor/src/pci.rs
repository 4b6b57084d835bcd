//! PCI Express: each drive's link, compared with what the drive and the slot support, and controllers that hide drives.

use super::finding::Finding;
use machine::files::{Files, last_part, parent};
use machine::link::Link;
use machine::pci::{DEVICES, NVME_CLASS, is_vmd};
use words::count;

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
