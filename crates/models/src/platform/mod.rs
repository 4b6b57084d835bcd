//! The machine between drives and software, in numbers with their sources: processors, memory, and the tree of
//! PCIe links.
//!
//! A file describes one [`Machine`]; every number states its source, as in the profiles of drives. [`Machine::graph`]
//! checks the file and gives its [`Graph`]: plain numbers, and for each drive bay the list of links between it and a
//! socket. A [`Platform`] made from that tracks the busy time of every link, so that drives behind one uplink share it;
//! it is the [`Way`](crate::port::Way) of drives' data.
//!
//! | what | file |
//! |---|---|
//! | form of the files | this one |
//! | rules, and numbers of one machine | [`check`] |
//! | processors: clock, threads on a core, idle states | [`processor`] |
//! | links as shared servers | [`fabric`] |
//! | slots that are split among drives | [`slot`] |
//! | drives by their volume management device | [`domain`] |

pub mod check;
pub mod domain;
pub mod fabric;
pub mod processor;
pub mod slot;

use crate::tables::FigureError;
pub use check::{Bay, Graph, Link};
pub use fabric::{Buffers, DriveLink, Platform};
pub use processor::Cores;
pub use slot::{Slot, Split};

use crate::profile::figures;
use crate::tables::tables;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The version of the form of platform files.
pub const SCHEMA: u32 = 1;

figures! {
    /// All processors of the machine together; sockets are alike.
    Processor {
        /// Sockets.
        sockets,
        /// Cores of each.
        cores_per_socket,
        /// Clock that all cores sustain under this kind of load.
        clock_ghz,
        /// Instructions of storage software per clock.
        instructions_per_clock,
        /// 1 if each core runs two threads at once.
        hyper_threading,
        /// What two threads on one core achieve together, as a multiple of one thread.
        two_threads_gain,
        /// Idle time after which a core enters a deep sleep state, which takes long to leave.
        deep_idle_after_us,
        /// Time to wake from that state; 0 if such states are off.
        deep_idle_exit_us,
        /// Time to change a cache line that many cores change, if this core was the last to change it.
        line_own_ns,
        /// The same if another core of the same socket was.
        line_same_socket_ns,
        /// The same if a core of another socket was.
        line_other_socket_ns,
    }
}

figures! {
    /// Memory, shared by cores and drives.
    Memory {
        /// Bytes read and written per second, of one socket.
        socket_gb_s,
    }
}

figures! {
    /// The link between sockets, for each ordered pair of them.
    Interconnect {
        /// Payload per second in one direction.
        direction_gb_s,
        /// Latency of passing it, one way.
        latency_ns,
    }
}

figures! {
    /// The connection of PCIe to a socket.
    Root {
        /// PCIe lanes of one socket.
        socket_lanes,
        /// Most bandwidth of one root port (an I/O stack of up to 16 lanes) towards memory.
        port_to_host_gb_s,
        /// The same from memory.
        port_to_drive_gb_s,
    }
}

figures! {
    /// The payload of packets and its overhead.
    Packets {
        /// Payload of a packet towards the host: drives write to memory.
        payload_to_host_bytes,
        /// Header, framing and checksum around it.
        header_to_host_bytes,
        /// Payload of a packet from the host: memory answers drives' reads.
        payload_to_drive_bytes,
        /// Header, framing and checksum around it.
        header_to_drive_bytes,
        /// Share of each direction's bandwidth that acknowledgements and flow control take.
        link_layer_share,
        /// Bytes of a command in addition to its payload: queue entries, doorbells, interrupt.
        command_bytes,
    }
}

figures! {
    /// The figures of a node.
    NodeFigures {
        /// Lanes towards its parent; for a root port, the lanes towards what is behind it.
        lanes,
        /// PCIe generation of these.
        generation,
        /// Latency of passing it, one way.
        latency_ns,
        /// Additional processor time of an interrupt from behind it.
        interrupt_ns,
    }
}

figures! {
    /// The figures of a row of bays.
    BayFigures {
        /// How many drives fit.
        count,
        /// Lanes of each.
        lanes,
        /// PCIe generation of these.
        generation,
    }
}

/// The kind of a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Lanes of a socket that work as one link.
    RootPort,
    /// Intel's volume management device. It hides its children behind one device with few interrupts. In this model
    /// only the interrupts have a cost.
    Vmd,
    /// Refreshes the signal. Nothing is shared; packets take some time to pass.
    Retimer,
    /// A switch, whose uplink is shared by everything behind it.
    Switch,
    /// A chipset, which is connected to a socket by a link of its own (Intel's DMI, or lanes that AMD counts apart). Everything
    /// behind it shares that link, and it takes no lanes of the socket.
    Chipset,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in this file.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// `socket-0`, `socket-1` and so on for root ports and chipsets; otherwise a node that is defined earlier in the file.
    pub parent: String,
    /// The PCI domain of what is behind it: of a volume management device of a machine that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_domain: Option<String>,
    /// Its numbers.
    pub figures: NodeFigures,
}

/// A row of bays for drives. Rows are filled in the order of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bays {
    /// Its name in this file.
    pub name: String,
    /// The node that they are connected to.
    pub parent: String,
    /// Their numbers.
    pub figures: BayFigures,
}

/// A drive that is installed, as the machine itself shows it. Lanes and generation are missing where the kernel does not show
/// them, as in a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Installed {
    /// The name of its controller: `nvme0`.
    pub name: String,
    /// Its block devices: `nvme0n1`. Their number may differ from the controller's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Where it is: a row of bays and its index in the row, such as `bays-1-0`.
    pub bay: String,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its size.
    pub capacity_gb: f64,
    /// Lanes of its link now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u64>,
    /// PCIe generation of its link now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Lanes that drive and slot both support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_lanes: Option<u64>,
    /// PCIe generation that drive and slot both support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_generation: Option<u64>,
    /// Queues for commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u64>,
}

/// A machine: one platform file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the form: [`SCHEMA`].
    pub schema: u32,
    /// Name by which plans call it.
    pub platform: String,
    /// Full name, for people.
    pub title: String,
    /// Processors.
    pub processor: Processor,
    /// Memory.
    pub memory: Memory,
    /// The links between sockets.
    pub interconnect: Interconnect,
    /// The connection of PCIe to the sockets.
    pub root: Root,
    /// Packets.
    pub packets: Packets,
    /// The tree without its leaves.
    #[serde(rename = "node")]
    pub nodes: Vec<Node>,
    /// Its leaves.
    pub bays: Vec<Bays>,
    /// The drives in them, if the file describes a machine that was looked at. Nothing is computed from these.
    #[serde(default, rename = "drive", skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Installed>,
    /// Slots, as far as the firmware of such a machine shows them, or as publications describe them.
    #[serde(default, rename = "slot", skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Slot>,
    /// What could not be seen of such a machine, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<String>,
}

impl Machine {
    /// The machine's numbers, checked.
    ///
    /// # Errors
    /// The first number or name that breaks a rule: see [`FigureError`].
    pub fn graph(&self) -> Result<Graph, FigureError> {
        check::graph(self)
    }
}

tables!(
    Machine: processor, memory, interconnect, root, packets;
    nodes: name figures, bays: name figures
);
