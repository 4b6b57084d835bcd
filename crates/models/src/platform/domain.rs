//! Drives by the volume management device (VMD) that owns the port above them.
//!
//! What is behind a VMD lies in a PCI domain of its own below a virtual root. The firmware's own list of devices and
//! software without a driver for VMD lack these drives.

use super::{Kind, Machine};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;

/// A VMD and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Domain {
    /// The name of its node.
    pub vmd: String,
    /// The PCI domain of what is behind it, if the machine was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_domain: Option<String>,
    /// The bays behind it.
    pub bays: Vec<String>,
    /// The drives that are in these, if the machine was looked at.
    pub drives: Vec<String>,
}

impl Machine {
    /// Its VMDs in the order of the file.
    #[must_use]
    pub fn vmd_domains(&self) -> Vec<Domain> {
        let vmds = self.nodes.iter().filter(|node| node.kind == Kind::Vmd);
        let domains = vmds.map(|node| {
            let behind = self.bays.iter().filter(|row| {
                let mut way = self.upwards(&row.parent);
                let nearest = way.find(|node| node.kind == Kind::Vmd);
                nearest.is_some_and(|nearest| nearest.name == node.name)
            });
            let bays: Vec<String> = behind
                .flat_map(|row| {
                    let count = row.figures.count.value as u64;
                    (0..count).map(move |number| format!("{}-{number}", row.name))
                })
                .collect();
            let inside = self.drives.iter().filter(|drive| bays.contains(&drive.bay));
            Domain {
                vmd: node.name.clone(),
                pci_domain: node.pci_domain.clone(),
                drives: inside.map(|drive| drive.name.clone()).collect(),
                bays,
            }
        });
        domains.collect()
    }
}
