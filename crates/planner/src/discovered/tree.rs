//! The tree of a discovered platform: nodes on the ways to the drives, rows of bays, and which drive is in which bay.
//!
//! What the kernel shows is finer than the model:
//! - All ports of one host bridge are one root port of the model, because they share what leads from there to memory: an I/O stack
//!   of a Xeon, a quarter of an EPYC's I/O die. Eight drives on one such quarter were seen to reach 40 GiB/s of the 53 that their
//!   links allow (README of ParAlg/PLAID, 2024). If the ports have more lanes than the model knows of one link, each is by itself.
//! - Ports of a chipset are one chipset. Its link to the socket is not in sysfs.
//! - The ports of a switch towards devices share its link towards the processor, and nothing else.
//!
//! A bay has the link of its slot. If drive and slot have agreed on less than both support, the bay has the link that they agreed
//! on, because a plan is of the machine as it is.

use super::{as_usual, measured, prior};
use machine::link::Link;
use machine::seen::Seen;
use machine::tree::{Drive, Kind as Seat, Place};
use models::platform::{BayFigures, Bays, Installed, Kind, Machine, Node, NodeFigures};
use models::profile::{Figure, Use};
use std::collections::BTreeSet;

/// Most lanes of a link of the model ([`models::platform::check`]).
const MOST_LANES: u64 = 64;

/// The name of the chipset, of which a machine has one.
const CHIPSET: &str = "chipset";

/// Nodes, rows of bays, and drives.
pub struct Grown {
    pub nodes: Vec<Node>,
    pub bays: Vec<Bays>,
    pub drives: Vec<Installed>,
}

/// Grows the tree, drive by drive.
pub fn grow(seen: &Seen, usual: &Machine) -> Grown {
    let mut growing = Growing {
        seen,
        usual,
        grown: Grown {
            nodes: Vec::new(),
            bays: Vec::new(),
            drives: Vec::new(),
        },
    };
    for drive in &seen.tree.drives {
        growing.add(drive);
    }
    growing.widen();
    growing.grown
}

/// What a bay's link is, and where that is known from.
struct BayLink {
    lanes: Figure,
    generation: Figure,
}

struct Growing<'a> {
    seen: &'a Seen,
    usual: &'a Machine,
    grown: Grown,
}

impl Growing<'_> {
    fn add(&mut self, drive: &Drive) {
        let link = bay_link(drive);
        let mut parent = self.place_of(drive);
        if drive.express.is_some_and(|express| express.retimers > 0) {
            let name = format!("retimer-{}", drive.name);
            let figures = self.retimer(&link);
            parent = self.node(name, Kind::Retimer, parent, figures);
        }
        let bay = self.bay(&parent, link);
        self.grown.drives.push(installed(drive, bay));
    }

    /// The node above a drive. Missing ones are added.
    fn place_of(&mut self, drive: &Drive) -> String {
        let places = &self.seen.tree.places;
        let mut way: Vec<&Place> = self
            .seen
            .tree
            .upwards(drive.above)
            .map(|at| &places[at])
            .collect();
        way.reverse();
        let socket = self.seen.processors.socket_of(drive.node).unwrap_or(0);
        let mut parent = self.root(drive, &way, socket);
        for (at, place) in way.iter().enumerate() {
            match place.kind {
                Seat::Vmd => {
                    // One on a personal computer has ports of the processor and of the chipset.
                    let name = match parent.as_str() {
                        CHIPSET => format!("vmd-{}-{CHIPSET}", place.address),
                        _ => format!("vmd-{}", place.address),
                    };
                    let figures = self.vmd();
                    parent = self.node(name, Kind::Vmd, parent, figures);
                    self.set_pci_domain(&parent, way.get(at + 1));
                }
                Seat::SwitchUp => {
                    let name = format!("switch-{}", place.address);
                    let figures = self.switch(place);
                    parent = self.node(name, Kind::Switch, parent, figures);
                }
                Seat::Host
                | Seat::RootPort
                | Seat::ChipsetPort
                | Seat::SwitchDown
                | Seat::Unknown => {}
            }
        }
        parent
    }

    /// The root port, or the chipset, at which a drive's way begins.
    fn root(&mut self, drive: &Drive, way: &[&Place], socket: u64) -> String {
        let socket = format!("socket-{socket}");
        if way.iter().any(|place| place.kind == Seat::ChipsetPort) {
            let figures = self.chipset();
            return self.node(CHIPSET.to_owned(), Kind::Chipset, socket, figures);
        }
        let host = way.first().expect("a drive is below a host bridge");
        let host = host.address.as_str();
        let port = way.iter().find(|place| place.kind == Seat::RootPort);
        let address = if self.lanes_of(host) <= MOST_LANES {
            host
        } else {
            port.map_or(drive.address.as_str(), |port| port.address.as_str())
        };
        let figures = NodeFigures {
            // Widened when all that is behind it is known.
            lanes: measured(
                1.0,
                "the lanes of its ports that lead to drives, from sysfs",
            ),
            generation: measured(
                1.0,
                "the fastest of its ports that lead to drives, from sysfs",
            ),
            latency_ns: prior(0.0, "part of the latency of a drive on its own".to_owned()),
            interrupt_ns: prior(0.0, "nothing is shared".to_owned()),
        };
        self.node(format!("root-{address}"), Kind::RootPort, socket, figures)
    }

    /// The lanes of everything below a host bridge that leads to drives: of bays, and of switches instead of what is behind them.
    fn lanes_of(&self, host: &str) -> u64 {
        let tree = &self.seen.tree;
        let mut switches = BTreeSet::new();
        let lanes = tree.drives.iter().map(|drive| {
            let way: Vec<usize> = tree.upwards(drive.above).collect();
            let is_below = way
                .last()
                .is_some_and(|top| tree.places[*top].address == host);
            let is_of_chipset = way
                .iter()
                .any(|at| tree.places[*at].kind == Seat::ChipsetPort);
            // The first switch from above.
            let switch = way
                .iter()
                .rev()
                .find(|at| tree.places[**at].kind == Seat::SwitchUp);
            match switch {
                _ if !is_below || is_of_chipset => 0,
                Some(at) if !switches.insert(*at) => 0,
                Some(at) => self.switch(&tree.places[*at]).lanes.value as u64,
                None => bay_link(drive).lanes.value as u64,
            }
        });
        lanes.sum()
    }

    fn node(&mut self, name: String, kind: Kind, parent: String, figures: NodeFigures) -> String {
        let nodes = &mut self.grown.nodes;
        if !nodes.iter().any(|node| node.name == name) {
            nodes.push(Node {
                name: name.clone(),
                kind,
                parent,
                pci_domain: None,
                figures,
            });
        }
        name
    }

    /// Says in which PCI domain the virtual root behind a VMD is: the first part of the root's address.
    fn set_pci_domain(&mut self, vmd: &str, root: Option<&&Place>) {
        let domain = root.and_then(|root| Some(root.address.split_once(':')?.0.to_owned()));
        let mut nodes = self.grown.nodes.iter_mut();
        let node = nodes.find(|node| node.name == vmd);
        node.expect("it has been added").pci_domain = domain;
    }

    /// Adds a place to the row of such bays, or begins a new row. Gives the bay's name.
    fn bay(&mut self, parent: &str, link: BayLink) -> String {
        let rows = &mut self.grown.bays;
        let is_such = |row: &&mut Bays| {
            row.parent == parent
                && row.figures.lanes == link.lanes
                && row.figures.generation == link.generation
        };
        if let Some(row) = rows.iter_mut().find(is_such) {
            row.figures.count.value += 1.0;
            return format!("{}-{}", row.name, row.figures.count.value - 1.0);
        }
        let name = format!("bays-{}", rows.len());
        let bay = format!("{name}-0");
        rows.push(Bays {
            name,
            parent: parent.to_owned(),
            figures: BayFigures {
                count: measured(1.0, "drives that are here"),
                lanes: link.lanes,
                generation: link.generation,
            },
        });
        bay
    }

    /// Gives each root port and VMD the lanes and the generation of what is behind it; parents come before children. What is usual of
    /// a part is usual of the whole.
    fn widen(&mut self) {
        for at in (0..self.grown.nodes.len()).rev() {
            let node = &self.grown.nodes[at];
            if !matches!(node.kind, Kind::RootPort | Kind::Vmd) {
                continue;
            }
            let name = &node.name;
            let bays = self.grown.bays.iter().filter(|row| row.parent == *name);
            let bays = bays.map(|row| {
                (
                    &row.figures.lanes,
                    &row.figures.generation,
                    row.figures.count.value,
                )
            });
            let nodes = self.grown.nodes.iter().filter(|node| node.parent == *name);
            let nodes = nodes.map(|node| (&node.figures.lanes, &node.figures.generation, 1.0));
            let (mut lanes, mut generation, mut is_read) = (0.0, 1.0f64, true);
            for (of_one, its_generation, count) in bays.chain(nodes) {
                lanes += of_one.value * count;
                generation = generation.max(its_generation.value);
                is_read &= of_one.r#use == Use::Measured && its_generation.r#use == Use::Measured;
            }
            let figures = &mut self.grown.nodes[at].figures;
            for (figure, value) in [
                (&mut figures.lanes, lanes),
                (&mut figures.generation, generation),
            ] {
                figure.value = value;
                if !is_read {
                    *figure = prior(
                        value,
                        "of what is behind it, of which sysfs does not show every link".to_owned(),
                    );
                }
            }
        }
    }

    fn vmd(&self) -> NodeFigures {
        NodeFigures {
            lanes: measured(1.0, "the lanes of the ports behind it that lead to drives, from sysfs"),
            generation: measured(1.0, "the fastest of these ports, from sysfs"),
            latency_ns: prior(0.0, "as s2600wft-8170: none was seen".to_owned()),
            interrupt_ns: prior(150.0, "as s2600wft-8170: the interrupt of several drives is one, and the handler looks for whose it is".to_owned()),
        }
    }

    fn switch(&self, place: &Place) -> NodeFigures {
        let known = place
            .now
            .or(place.most)
            .filter(|link| link.generation() > 1);
        let (lanes, generation) = match known {
            Some(link) => (
                measured(
                    f64::from(link.lanes),
                    "its link towards the processor now, from sysfs",
                ),
                measured(
                    link.generation() as f64,
                    "its link towards the processor now, from sysfs",
                ),
            ),
            None => {
                let source = "sysfs shows no link, or 2.5 GT/s as tunnels of Thunderbolt do, which carry at least PCIe 3.0 x4";
                (prior(4.0, source.to_owned()), prior(3.0, source.to_owned()))
            }
        };
        NodeFigures {
            lanes,
            generation,
            latency_ns: prior(
                150.0,
                "as s2600wft-6154-x8: 100 to 200 ns each way".to_owned(),
            ),
            interrupt_ns: prior(0.0, "nothing is shared".to_owned()),
        }
    }

    fn retimer(&self, link: &BayLink) -> NodeFigures {
        NodeFigures {
            lanes: link.lanes.clone(),
            generation: link.generation.clone(),
            latency_ns: prior(30.0, "as s2600wft-8170: tens of nanoseconds".to_owned()),
            interrupt_ns: prior(0.0, "nothing is shared".to_owned()),
        }
    }

    /// The link of an Intel chipset (DMI), by the speed of the chipset's own ports: those of the 600 series and later have PCIe 4.0
    /// and DMI 4.0 x8, earlier ones PCIe 3.0 and DMI 3.0 x4 (data sheets of the chipsets; boards with few lanes wire only half).
    fn chipset(&self) -> NodeFigures {
        let ports = self
            .seen
            .tree
            .places
            .iter()
            .filter(|place| place.kind == Seat::ChipsetPort);
        let generation = ports
            .filter_map(|place| place.most)
            .map(Link::generation)
            .max();
        let (lanes, link, source) = match generation {
            Some(4..) => (
                8.0,
                4.0,
                "its ports have PCIe 4.0, so its own link is taken to be DMI 4.0 x8; sysfs does not show it",
            ),
            _ => (
                4.0,
                3.0,
                "its ports have at most PCIe 3.0, so its own link is taken to be DMI 3.0 x4; sysfs does not show it",
            ),
        };
        let known = self
            .usual
            .nodes
            .iter()
            .find(|node| node.kind == Kind::Chipset);
        NodeFigures {
            lanes: prior(lanes, source.to_owned()),
            generation: prior(link, source.to_owned()),
            latency_ns: match known {
                Some(node) => as_usual(self.usual, &node.figures.latency_ns),
                None => prior(
                    300.0,
                    "as z790-14900k-5: twice a switch of today".to_owned(),
                ),
            },
            interrupt_ns: prior(0.0, "drives behind it have their own interrupts".to_owned()),
        }
    }
}

fn bay_link(drive: &Drive) -> BayLink {
    let (Some(now), Some(possible)) = (drive.now, drive.possible()) else {
        let source = "sysfs does not show the link; the usual one of NVMe drives";
        return BayLink {
            lanes: prior(4.0, source.to_owned()),
            generation: prior(3.0, source.to_owned()),
        };
    };
    let slot = drive.slot.unwrap_or(possible);
    let figure = |now: u64, possible: u64, slot: u64, what: &str| {
        if now < possible {
            measured(
                now as f64,
                &format!(
                    "what drive and slot have agreed on, from sysfs; both support {what}{possible}"
                ),
            )
        } else {
            measured(slot as f64, "what the slot supports, from sysfs")
        }
    };
    BayLink {
        // A drive has at most four lanes as a rule, and a wide slot serves one drive only.
        lanes: figure(
            u64::from(now.lanes),
            u64::from(possible.lanes),
            u64::from(slot.lanes.min(possible.lanes.max(4))),
            "x",
        ),
        generation: figure(
            now.generation(),
            possible.generation(),
            slot.generation(),
            "generation ",
        ),
    }
}

fn installed(drive: &Drive, bay: String) -> Installed {
    let possible = drive.possible();
    Installed {
        name: drive.name.clone(),
        namespaces: drive.namespaces.clone(),
        bay,
        model: drive.model.clone(),
        capacity_gb: drive.bytes as f64 / 1e9,
        lanes: drive.now.map(|link| u64::from(link.lanes)),
        generation: drive.now.map(Link::generation),
        possible_lanes: possible.map(|link| u64::from(link.lanes)),
        possible_generation: possible.map(Link::generation),
        queues: drive.queues,
    }
}
