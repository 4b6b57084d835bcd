//! The PCIe tree between the sockets and the NVMe drives, from the paths of the drives' folders in sysfs.
//!
//! A drive's folder lies in that of the port above it, and so on up to the host bridge: a path such as
//! `/sys/devices/pci0000:16/0000:16:00.0/0000:17:00.0` says everything about the way. Bridges come one by one:
//! - directly below a host bridge, a bridge is a root port;
//! - below that, bridges come in pairs: the port of a switch towards the processor, and one of those towards devices;
//! - a volume management device (VMD) has a host bridge of its own in its folder, and root ports below that.
//!
//! The link of a port of a socket or of a switch towards devices is the one below it; the link of a switch's port towards the
//! processor is the one above it, so that both ends of a link show the same.

use super::config_space::Express;
use super::files::{Files, last_part, parent};
use super::link::Link;
use super::nvme::{self, Controller};
use super::pci::is_vmd;

/// The class of bridges between PCI buses: all others in front of a drive are named as unknown.
const BRIDGE: &str = "0x0604";

/// What a node of the tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A host bridge: where a part of the tree is connected to a socket. On Intel's server processors, a stack of up to 16 lanes.
    Host,
    /// A port of a socket.
    RootPort,
    /// A port of an Intel chipset, which is connected to the socket by a link of its own (DMI).
    ChipsetPort,
    /// A volume management device.
    Vmd,
    /// The port of a switch towards the processor.
    SwitchUp,
    /// A port of a switch towards devices.
    SwitchDown,
    /// A device that is none of these.
    Unknown,
}

/// A node on the way to a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// What it is.
    pub kind: Kind,
    /// Its PCI address; of a host bridge, domain and bus: `0000:16`.
    pub address: String,
    /// The node above it, by index; `None` above a host bridge of a socket.
    pub above: Option<usize>,
    /// Its link now. `None` if the kernel does not say, or if nothing is connected.
    pub now: Option<Link>,
    /// The link that it supports.
    pub most: Option<Link>,
    /// Its NUMA node, if the firmware says it.
    pub node: Option<u32>,
}

/// An NVMe drive on PCIe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// The name of its controller: `nvme0`.
    pub name: String,
    /// What it calls itself.
    pub model: Option<String>,
    /// Its block devices, by their names in `/dev`. Their number may differ from the controller's.
    pub namespaces: Vec<String>,
    /// The sizes of these together.
    pub bytes: u64,
    /// Its PCI address.
    pub address: String,
    /// The node above it, by index.
    pub above: usize,
    /// Its link now.
    pub now: Option<Link>,
    /// The link that the drive supports.
    pub own: Option<Link>,
    /// The link that the port above it supports.
    pub slot: Option<Link>,
    /// Its NUMA node, if the firmware says it.
    pub node: Option<u32>,
    /// Queues for commands, without the one for administration. `None` if the kernel does not say.
    pub queues: Option<u64>,
    /// Retimers on its link, and its payload; `None` if its configuration space cannot be read.
    pub express: Option<Express>,
}

impl Drive {
    /// The link that drive and port could have: what both support.
    #[must_use]
    pub fn possible(&self) -> Option<Link> {
        let own = self.own?;
        let slot = self.slot.unwrap_or(own);
        Some(Link {
            speed: own.speed.min(slot.speed),
            lanes: own.lanes.min(slot.lanes),
        })
    }
}

/// The tree, parents before children.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// All nodes on the way to drives.
    pub places: Vec<Place>,
    /// The drives, in the order of their names.
    pub drives: Vec<Drive>,
}

impl Tree {
    /// Reads it.
    #[must_use]
    pub fn read(files: &Files) -> Tree {
        let mut tree = Tree::default();
        for controller in nvme::list(files) {
            if let Some(folder) = &controller.pci {
                tree.add(files, &controller, folder);
            }
        }
        tree
    }

    /// The nodes from this one up to the host bridge of a socket.
    pub fn upwards(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(from), |at| self.places[*at].above)
    }

    fn add(&mut self, files: &Files, controller: &Controller, folder: &str) {
        let Some(above) = self.grow_to(files, parent(folder)) else {
            return;
        };
        let queues = controller.attribute(files, "queue_count");
        let queues = queues.and_then(|text| text.parse::<u64>().ok());
        let blocks = controller.namespaces.iter();
        let blocks =
            blocks.filter_map(|name| files.number(&format!("/sys/class/block/{name}/size")));
        self.drives.push(Drive {
            name: controller.name.clone(),
            namespaces: controller.namespaces.clone(),
            model: controller.attribute(files, "model"),
            // The kernel counts in blocks of 512 bytes, whatever the drive's own are.
            bytes: blocks.sum::<u64>().saturating_mul(512),
            address: last_part(folder).to_owned(),
            above,
            now: Link::read(files, folder, "current"),
            own: Link::read(files, folder, "max"),
            slot: self.places[above].most,
            node: controller
                .numa_node(files)
                .or_else(|| node_of(files, folder)),
            // A controller that has only the one for administration has no drive to show.
            queues: queues.and_then(|queues| queues.checked_sub(1).filter(|queues| *queues > 0)),
            express: Express::read(files, folder),
        });
    }

    /// Adds the device in `folder` and all above it; gives its index. `None` if the folder is in no host bridge.
    fn grow_to(&mut self, files: &Files, folder: &str) -> Option<usize> {
        let name = last_part(folder);
        let is_host = name
            .strip_prefix("pci")
            .is_some_and(|rest| rest.contains(':'));
        let address = name.strip_prefix("pci").unwrap_or(name);
        let is_known =
            |place: &Place| place.address == address && (place.kind == Kind::Host) == is_host;
        if let Some(at) = self.places.iter().position(is_known) {
            return Some(at);
        }
        if folder.is_empty() {
            return None;
        }
        // Above the first host bridge there are no PCI devices.
        let above = self.grow_to(files, parent(folder));
        if above.is_none() && !is_host {
            return None;
        }
        self.places.push(Place {
            kind: match above {
                _ if is_host => Kind::Host,
                Some(above) => self.kind(files, folder, above),
                None => Kind::Unknown,
            },
            address: address.to_owned(),
            above,
            now: Link::read(files, folder, "current"),
            most: Link::read(files, folder, "max"),
            node: node_of(files, folder),
        });
        Some(self.places.len() - 1)
    }

    fn kind(&self, files: &Files, folder: &str, above: usize) -> Kind {
        if is_vmd(files, folder) {
            return Kind::Vmd;
        }
        let class = files.text(&format!("{folder}/class")).unwrap_or_default();
        if !class.starts_with(BRIDGE) {
            return Kind::Unknown;
        }
        match self.places[above].kind {
            Kind::Host if is_of_chipset(files, folder) => Kind::ChipsetPort,
            Kind::Host => Kind::RootPort,
            Kind::SwitchUp => Kind::SwitchDown,
            Kind::RootPort | Kind::ChipsetPort | Kind::SwitchDown => Kind::SwitchUp,
            Kind::Vmd | Kind::Unknown => Kind::Unknown,
        }
    }
}

/// The NUMA node of the PCI device in `folder`; the kernel writes -1 if the firmware does not say.
fn node_of(files: &Files, folder: &str) -> Option<u32> {
    files.text(&format!("{folder}/numa_node"))?.parse().ok()
}

/// Whether the port in `folder`, below a host bridge, is one of an Intel chipset. Those are devices 26 to 29 of their bus, from
/// the first chipset with PCIe to those of today (data sheets of the chipsets, "PCI devices and functions"); ports of processors
/// have lower numbers. The bus is the first one, but for the newest chipsets and behind a volume management device.
fn is_of_chipset(files: &Files, folder: &str) -> bool {
    const DEVICES: std::ops::RangeInclusive<u8> = 0x1a..=0x1d;
    let place = last_part(folder).rsplit_once(':').map(|(_, place)| place);
    let device = place.and_then(|place| u8::from_str_radix(place.split('.').next()?, 16).ok());
    let vendor = files.text(&format!("{folder}/vendor"));
    vendor.as_deref() == Some(super::pci::INTEL)
        && device.is_some_and(|device| DEVICES.contains(&device))
}
