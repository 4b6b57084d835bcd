//! Turns a platform file into the numbers of one machine, and checks every rule that a real machine keeps.

use super::fabric::{Buffers, DriveLink};
use super::processor::Cores;
use super::slot::{self, FilledSlot};
use super::{Kind, Machine, SCHEMA};
use crate::nearest::nearest;
use crate::port::raw_bytes_per_s;
use crate::tables::{self, FigureError};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A link that is shared by everything behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node whose link it is.
    pub name: String,
    /// The kind of that node: a root port, a switch or a chipset.
    pub kind: Kind,
    /// Bytes per second towards the host, payload and command overhead together.
    pub to_host_bytes_per_s: u64,
    /// The same towards drives.
    pub to_drive_bytes_per_s: u64,
}

/// A place for a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bay {
    /// Its row and its index in the row.
    pub name: String,
    /// The socket that it is connected to.
    pub socket: u64,
    /// Its lanes.
    pub lanes: u64,
    /// Their generation.
    pub generation: u64,
    /// Shared links from here upwards, by index.
    pub links: Vec<usize>,
    /// Latency of all nodes on the way, one way.
    pub latency_ns: u64,
    /// Additional cost of an interrupt.
    pub interrupt_ns: u64,
    /// The volume management device (VMD) that it is behind, by name.
    pub vmd: Option<String>,
    /// The queues that the drive in it has here, where plans are of that drive and the kernel shows them.
    pub queues: Option<u64>,
}

/// Packets, in checked numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketCosts {
    /// Share of raw bandwidth that payload gets towards the host.
    pub to_host_share: f64,
    /// The same towards drives.
    pub to_drive_share: f64,
    /// Bytes of a command in addition to its payload.
    pub command_bytes: u64,
}

/// A machine in checked numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The platform's name.
    pub name: String,
    /// Processors.
    pub cores: Cores,
    /// Memory bandwidth of one socket.
    pub memory_bytes_per_s: u64,
    /// Bandwidth between two sockets, in one direction.
    pub crossing_bytes_per_s: u64,
    /// Latency between two sockets, one way.
    pub crossing_ns: u64,
    /// Packets.
    pub packets: PacketCosts,
    /// Shared links, parents first.
    pub links: Vec<Link>,
    /// Places for drives, in the order in which drives take them.
    pub bays: Vec<Bay>,
    /// Slots of which it is known how they are split among these places.
    pub slots: Vec<FilledSlot>,
    /// Whose memory holds the buffers of the drives' transfers: that of the drive's socket, unless it is to be found out what
    /// another socket costs.
    pub buffers: Buffers,
    /// Factor by which drives' own links are faster than their lanes allow: 1, except to find out what they limit.
    pub drive_links_speed: f64,
}

impl Graph {
    /// Has the bays know how many queues the machine's own drives have, because plans are of these drives.
    pub fn keep_queues_of(&mut self, machine: &Machine) {
        for bay in &mut self.bays {
            let drive = machine.drives.iter().find(|drive| drive.bay == bay.name);
            bay.queues = drive.and_then(|drive| drive.queues);
        }
    }

    /// The bays behind a node, of a row, or with this name.
    ///
    /// # Errors
    /// If the name is unknown; the error offers the nearest ones.
    pub fn bays_of(&self, name: &str) -> Result<Vec<usize>, FigureError> {
        let link = self.links.iter().position(|link| link.name == name);
        let row = |bay: &Bay| {
            bay.name
                .rsplit_once('-')
                .is_some_and(|(row, _)| row == name)
        };
        let found: Vec<usize> = (0..self.bays.len())
            .filter(|&at| {
                let bay = &self.bays[at];
                row(bay) || bay.name == name || link.is_some_and(|link| bay.links.contains(&link))
            })
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let links = self.links.iter().map(|link| link.name.as_str());
        let known = links.chain(self.bays.iter().map(|bay| bay.name.as_str()));
        Err(FigureError {
            name: self.name.clone(),
            key: "node".to_string(),
            rule: format!("\"{name}\" is not known; nearest: {}", nearest(name, known)),
        })
    }
}

/// What a drive and its bay negotiate: the lesser value of both.
pub(super) fn negotiated(bay: &Bay, drive: DriveLink) -> (u64, u64) {
    (
        bay.lanes.min(drive.lanes),
        bay.generation.min(drive.generation),
    )
}

/// Bytes per second towards the host and towards the drive.
pub(super) fn speed(packets: &PacketCosts, lanes: u64, generation: u64) -> (u64, u64) {
    let raw = raw_bytes_per_s(lanes, generation) as f64;
    (
        (raw * packets.to_host_share) as u64,
        (raw * packets.to_drive_share) as u64,
    )
}

/// Smallest and largest value of a key, and whether it must be a whole number.
fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "sockets" => (1.0, 32.0, true),
        "cores_per_socket" => (1.0, 1024.0, true),
        "clock_ghz" => (0.1, 10.0, false),
        "instructions_per_clock" => (0.05, 10.0, false),
        "hyper_threading" => (0.0, 1.0, true),
        "two_threads_gain" => (1.0, 2.0, false),
        "deep_idle_after_us" | "deep_idle_exit_us" => (0.0, 1e6, false),
        "socket_gb_s" | "direction_gb_s" | "port_to_host_gb_s" | "port_to_drive_gb_s" => {
            (0.1, 1e5, false)
        }
        "latency_ns" | "interrupt_ns" => (0.0, 1e6, false),
        "line_own_ns" | "line_same_socket_ns" | "line_other_socket_ns" => (0.0, 1e6, false),
        "socket_lanes" => (1.0, 1024.0, true),
        "lanes" => (1.0, 64.0, true),
        "generation" => (1.0, 6.0, true),
        "count" => (1.0, 256.0, true),
        "payload_to_host_bytes" | "payload_to_drive_bytes" => (32.0, 4096.0, true),
        "header_to_host_bytes" | "header_to_drive_bytes" => (8.0, 64.0, true),
        "link_layer_share" => (0.0, 0.5, false),
        "command_bytes" => (0.0, 4096.0, true),
        _ => (0.0, 1e9, false),
    }
}

pub(super) fn graph(machine: &Machine) -> Result<Graph, FigureError> {
    let name = &machine.platform;
    tables::check(machine, name, [machine.schema, SCHEMA], range)?;
    let processor = &machine.processor;
    let sockets = processor.sockets.value as u64;
    let mut tree = Tree {
        machine,
        packets: packets(machine),
        places: Vec::new(),
        links: Vec::new(),
        bays: Vec::new(),
        socket_lanes_left: alloc::vec![machine.root.socket_lanes.value as u64; sockets as usize],
    };
    let checked = tree.grow().and_then(|()| tree.check_installed());
    checked.map_err(|(key, rule)| FigureError {
        name: name.clone(),
        key,
        rule,
    })?;
    let us = |figure: &crate::profile::Figure| (figure.value * 1e3 + 0.5) as u64;
    let gb = |figure: &crate::profile::Figure| (figure.value * 1e9) as u64;
    Ok(Graph {
        name: machine.platform.clone(),
        cores: Cores {
            sockets,
            cores: sockets * processor.cores_per_socket.value as u64,
            clock_ghz: processor.clock_ghz.value,
            instructions_per_clock: processor.instructions_per_clock.value,
            hyper_threading: processor.hyper_threading.value >= 0.5,
            two_threads_gain: processor.two_threads_gain.value,
            deep_idle_after_ns: us(&processor.deep_idle_after_us),
            deep_idle_exit_ns: us(&processor.deep_idle_exit_us),
            line_ns: [
                &processor.line_own_ns,
                &processor.line_same_socket_ns,
                &processor.line_other_socket_ns,
            ]
            .map(|figure| (figure.value + 0.5) as u64),
        },
        memory_bytes_per_s: gb(&machine.memory.socket_gb_s),
        crossing_bytes_per_s: gb(&machine.interconnect.direction_gb_s),
        crossing_ns: machine.interconnect.latency_ns.value as u64,
        packets: tree.packets,
        links: tree.links,
        bays: tree.bays,
        slots: slot::filled(machine),
        buffers: Buffers::Local,
        drive_links_speed: 1.0,
    })
}

fn packets(machine: &Machine) -> PacketCosts {
    let packets = &machine.packets;
    let share = |payload: f64, header: f64| {
        payload / (payload + header) * (1.0 - packets.link_layer_share.value)
    };
    PacketCosts {
        to_host_share: share(
            packets.payload_to_host_bytes.value,
            packets.header_to_host_bytes.value,
        ),
        to_drive_share: share(
            packets.payload_to_drive_bytes.value,
            packets.header_to_drive_bytes.value,
        ),
        command_bytes: packets.command_bytes.value as u64,
    }
}

/// A node with everything on the way to its socket.
struct Place<'a> {
    name: &'a str,
    socket: u64,
    links: Vec<usize>,
    latency_ns: u64,
    interrupt_ns: u64,
    /// The nearest VMD above, or this one.
    vmd: Option<&'a str>,
    /// Lanes that children may still take; `None` if children share the uplink, as behind a switch.
    lanes_left: Option<u64>,
}

struct Tree<'a> {
    machine: &'a Machine,
    packets: PacketCosts,
    places: Vec<Place<'a>>,
    links: Vec<Link>,
    bays: Vec<Bay>,
    socket_lanes_left: Vec<u64>,
}

/// The key of a broken rule, and the rule.
type Broken = (String, String);

impl<'a> Tree<'a> {
    fn grow(&mut self) -> Result<(), Broken> {
        for node in &self.machine.nodes {
            self.check_name(&node.name)?;
            match node.kind {
                Kind::RootPort | Kind::Chipset => self.plant(node)?,
                Kind::Vmd | Kind::Retimer | Kind::Switch => self.branch(node)?,
            }
        }
        for bays in &self.machine.bays {
            self.check_name(&bays.name)?;
            let (lanes, count) = (bays.figures.lanes.value, bays.figures.count.value);
            let (lanes, count) = (lanes as u64, count as u64);
            let at = self.take(&bays.name, &bays.parent, lanes * count)?;
            let parent = &self.places[at];
            for number in 0..count {
                self.bays.push(Bay {
                    name: format!("{}-{number}", bays.name),
                    socket: parent.socket,
                    lanes,
                    generation: bays.figures.generation.value as u64,
                    // Links are listed from the bay upwards.
                    links: parent.links.iter().rev().copied().collect(),
                    latency_ns: parent.latency_ns,
                    interrupt_ns: parent.interrupt_ns,
                    vmd: parent.vmd.map(ToString::to_string),
                    queues: None,
                });
            }
            // A row is no parent of other nodes, but its name is taken.
            self.places.push(Place {
                name: &bays.name,
                socket: 0,
                links: Vec::new(),
                latency_ns: 0,
                interrupt_ns: 0,
                vmd: None,
                lanes_left: Some(0),
            });
        }
        Ok(())
    }

    /// Installed drives are in bays of the tree, one in each, and slots name what is in the file.
    fn check_installed(&self) -> Result<(), Broken> {
        let drives = &self.machine.drives;
        for (number, drive) in drives.iter().enumerate() {
            let refuse = |rule: String| Err((format!("drive.{}.bay", drive.name), rule));
            if !self.bays.iter().any(|bay| bay.name == drive.bay) {
                let known = self.bays.iter().map(|bay| bay.name.as_str());
                return refuse(format!(
                    "is \"{}\", which is no bay; nearest: {}",
                    drive.bay,
                    nearest(&drive.bay, known)
                ));
            }
            if let Some(other) = drives[..number].iter().find(|other| other.bay == drive.bay) {
                return refuse(format!("is \"{}\", where {} is", drive.bay, other.name));
            }
            if drive.queues == Some(0) {
                return Err((
                    format!("drive.{}.queues", drive.name),
                    "is 0: give the number of its queues, or leave the key out".to_string(),
                ));
            }
        }
        slot::wrong(self.machine).map_or(Ok(()), Err)
    }

    fn check_name(&self, name: &str) -> Result<(), Broken> {
        let tables = ["processor", "memory", "interconnect", "root", "packets"];
        if name.is_empty() || name.starts_with("socket-") || tables.contains(&name) {
            return Err((
                format!("\"{name}\""),
                "cannot be the name of a node".to_string(),
            ));
        }
        if self.places.iter().any(|place| place.name == name) {
            return Err((name.to_string(), "has its name twice".to_string()));
        }
        Ok(())
    }

    /// The socket that is the parent of a root port or of a chipset.
    fn socket_of(&self, node: &super::Node) -> Result<usize, Broken> {
        let sockets = self.socket_lanes_left.len();
        let number = node.parent.strip_prefix("socket-");
        let number = number.and_then(|number| number.parse::<usize>().ok());
        number.filter(|&number| number < sockets).ok_or_else(|| {
            let known: Vec<String> = (0..sockets).map(|at| format!("socket-{at}")).collect();
            let rule = format!(
                "is \"{}\", which is no socket; nearest: {}",
                node.parent,
                nearest(&node.parent, known.iter().map(String::as_str))
            );
            (format!("{}.parent", node.name), rule)
        })
    }

    /// Adds a node that is connected to a socket.
    fn plant(&mut self, node: &'a super::Node) -> Result<(), Broken> {
        let socket = self.socket_of(node)?;
        let lanes_left = if node.kind == Kind::Chipset {
            self.share(node);
            None
        } else {
            Some(self.take_of_socket(node, socket)?)
        };
        self.places.push(Place {
            name: &node.name,
            socket: socket as u64,
            links: alloc::vec![self.links.len() - 1],
            latency_ns: node.figures.latency_ns.value as u64,
            interrupt_ns: node.figures.interrupt_ns.value as u64,
            vmd: None,
            lanes_left,
        });
        Ok(())
    }

    /// Adds the link of a node towards the processor, which everything behind the node shares.
    fn share(&mut self, node: &super::Node) {
        let (lanes, generation) = (node.figures.lanes.value, node.figures.generation.value);
        let (to_host_bytes_per_s, to_drive_bytes_per_s) =
            speed(&self.packets, lanes as u64, generation as u64);
        self.links.push(Link {
            name: node.name.clone(),
            kind: node.kind,
            to_host_bytes_per_s,
            to_drive_bytes_per_s,
        });
    }

    /// Adds the link of a root port, whose lanes are taken of its socket. Returns how many these are.
    fn take_of_socket(&mut self, node: &super::Node, socket: usize) -> Result<u64, Broken> {
        let lanes = node.figures.lanes.value as u64;
        let left = &mut self.socket_lanes_left[socket];
        if lanes > *left {
            let rule = format!("is {lanes}, but {} has only {left} left", node.parent);
            return Err((format!("{}.lanes", node.name), rule));
        }
        *left -= lanes;
        let root = &self.machine.root;
        let raw = raw_bytes_per_s(lanes, node.figures.generation.value as u64);
        let (to_host, to_drive) = (root.port_to_host_gb_s.value, root.port_to_drive_gb_s.value);
        self.links.push(Link {
            name: node.name.clone(),
            kind: node.kind,
            to_host_bytes_per_s: ((to_host * 1e9) as u64).min(raw),
            to_drive_bytes_per_s: ((to_drive * 1e9) as u64).min(raw),
        });
        Ok(lanes)
    }

    fn branch(&mut self, node: &'a super::Node) -> Result<(), Broken> {
        let lanes = node.figures.lanes.value as u64;
        let at = self.take(&node.name, &node.parent, lanes)?;
        let parent = &self.places[at];
        let mut place = Place {
            name: &node.name,
            socket: parent.socket,
            links: parent.links.clone(),
            latency_ns: parent.latency_ns + node.figures.latency_ns.value as u64,
            interrupt_ns: parent.interrupt_ns + node.figures.interrupt_ns.value as u64,
            vmd: match node.kind {
                Kind::Vmd => Some(&node.name),
                _ => parent.vmd,
            },
            lanes_left: Some(lanes),
        };
        if node.kind == Kind::Switch {
            self.share(node);
            place.links.push(self.links.len() - 1);
            place.lanes_left = None;
        }
        self.places.push(place);
        Ok(())
    }

    /// Takes lanes of a parent that was defined before, and returns the parent's index in `places`.
    fn take(&mut self, name: &str, parent: &str, lanes: u64) -> Result<usize, Broken> {
        let Some(at) = self.places.iter().position(|place| place.name == parent) else {
            let known = self.places.iter().map(|place| place.name);
            let rule = format!(
                "is \"{parent}\", which no node before it is called; nearest: {}",
                nearest(parent, known)
            );
            return Err((format!("{name}.parent"), rule));
        };
        if let Some(left) = &mut self.places[at].lanes_left {
            if lanes > *left {
                let rule = format!("needs {lanes} lanes, but {parent} has only {left} left");
                return Err((name.to_string(), rule));
            }
            *left -= lanes;
        }
        Ok(at)
    }
}
