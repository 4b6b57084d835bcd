//! What of a machine may cost its drives their speed, each with the machine in which it is changed.
//!
//! A change takes away one limit and leaves every other as it is: a wider link of a drive stays behind its switch, and drives on another
//! socket stay behind theirs. Root ports and VMDs, which are as wide as what is behind them, become wider with it.

use engine::limits::{SHARDS_MAX, VOLUME_MEMBERS_MAX};
use models::platform::{DriveLink, Installed, Kind, Machine, Node, NodeFigures, Slot, Split};
use models::port::raw_bytes_per_s;
use models::profile::{Figure, Use};

/// Something that may cost speed.
pub struct Change {
    /// What it is about: drives, or the node that they share.
    pub about: String,
    /// What is the matter.
    pub what: String,
    /// What is changed.
    pub change: String,
    /// The machine with the change.
    pub then: Machine,
    /// The socket whose memory has all buffers, in both plans; that of each drive if not given.
    pub buffers_on: Option<u64>,
    /// Cores that submit commands, in both plans; as usual if not given.
    pub cores: Option<u32>,
}

impl Change {
    /// The machine as it is and with the change, which is one of several by its `number`, each with a name. Plans of the machine as
    /// it is are shared by all changes with the same buffers.
    pub fn machines<'a>(&'a self, number: usize, now: &'a Machine) -> [(String, &'a Machine); 2] {
        let name = match self.buffers_on {
            Some(socket) => format!("this machine, buffers on socket {socket}"),
            None => "this machine".to_owned(),
        };
        let then = format!("{name}, change {number}");
        [(name, now), (then, &self.then)]
    }
}

/// Everything that may cost drives with this link something.
pub fn all(machine: &Machine, link: DriveLink) -> Vec<Change> {
    let shared = machine
        .nodes
        .iter()
        .filter_map(|node| shared_uplink(machine, link, node));
    let wide = machine
        .slots
        .iter()
        .filter_map(|slot| wide_slot(machine, link, slot));
    slow_links(machine, link)
        .into_iter()
        .chain(shared)
        .chain(far_drives(machine))
        .chain(wide)
        .chain(few_queues(machine))
        .collect()
}

/// A link: `3.0 x4`.
fn said(lanes: u64, generation: u64) -> String {
    format!("{generation}.0 x{lanes}")
}

/// What drive and bay agree on.
fn agreed(machine: &Machine, row: usize, link: DriveLink) -> DriveLink {
    let figures = &machine.bays[row].figures;
    DriveLink {
        lanes: link.lanes.min(figures.lanes.value as u64),
        generation: link.generation.min(figures.generation.value as u64),
    }
}

fn link_of(node: &Node) -> DriveLink {
    DriveLink {
        lanes: node.figures.lanes.value as u64,
        generation: node.figures.generation.value as u64,
    }
}

fn bytes_per_s(link: DriveLink) -> u64 {
    raw_bytes_per_s(link.lanes, link.generation)
}

/// The names of the drives in rows of bays; each row has one.
fn names(machine: &Machine, rows: &[usize]) -> String {
    let names: Vec<&str> = rows
        .iter()
        .map(|row| machine.drives[*row].name.as_str())
        .collect();
    words::and(&names)
}

/// Drives whose link is known and has less than they support. All of them are changed at once: the parts of an array are equal, so
/// it is as slow as the slowest.
fn slow_links(machine: &Machine, link: DriveLink) -> Option<Change> {
    let is_slow = |row: &usize| {
        let drive = &machine.drives[*row];
        let is_known = drive.lanes.is_some() && drive.possible_lanes.is_some();
        is_known && bytes_per_s(agreed(machine, *row, link)) < bytes_per_s(link)
    };
    let rows: Vec<usize> = (0..machine.bays.len()).filter(is_slow).collect();
    if rows.is_empty() {
        return None;
    }
    let whole = said(link.lanes, link.generation);
    let each = rows.iter().map(|row| {
        let has = agreed(machine, *row, link);
        let drive = &machine.drives[*row];
        let has = said(has.lanes, has.generation);
        // What drive and slot both support was not agreed on: something is wrong.
        let is_less =
            drive.lanes < drive.possible_lanes || drive.generation < drive.possible_generation;
        match is_less {
            true => format!("{} runs at {has} of {whole}", drive.name),
            false => format!("the slot of {} has {has} of {whole}", drive.name),
        }
    });
    let mut then = machine.clone();
    for row in &rows {
        set_link(&mut then, *row, link);
    }
    keep_share(&mut then, widest(machine));
    Some(Change {
        about: names(machine, &rows),
        what: words::and(&each.collect::<Vec<String>>()),
        change: format!(
            "PCIe {whole} for {}",
            if rows.len() == 1 { "it" } else { "each" }
        ),
        then,
        buffers_on: None,
        cores: None,
    })
}

/// Drives behind a switch or a chipset whose own link is slower than all of theirs.
fn shared_uplink(machine: &Machine, link: DriveLink, node: &Node) -> Option<Change> {
    let what = match node.kind {
        Kind::Switch => "the switch",
        Kind::Chipset => "the chipset",
        Kind::RootPort | Kind::Vmd | Kind::Retimer => return None,
    };
    let is_behind = |row: &usize| upwards(machine, *row).any(|above| above == node.name);
    let rows: Vec<usize> = (0..machine.bays.len()).filter(is_behind).collect();
    let uplink = link_of(node);
    let together: u64 = rows
        .iter()
        .map(|row| bytes_per_s(agreed(machine, *row, link)))
        .sum();
    if together <= bytes_per_s(uplink) {
        return None;
    }
    let mut then = machine.clone();
    for row in &rows {
        on_a_port_of_its_own(
            &mut then,
            *row,
            socket_of(machine, *row),
            agreed(machine, *row, link),
        );
    }
    let drives = names(machine, &rows);
    Some(Change {
        about: node.name.clone(),
        what: match rows.as_slice() {
            [_] => format!(
                "{drives} is behind {what}, whose own link is {}",
                said(uplink.lanes, uplink.generation)
            ),
            _ => format!(
                "{drives} share {what}'s link of {}",
                said(uplink.lanes, uplink.generation)
            ),
        },
        change: match rows.len() {
            1 => "lanes of the processor for it".to_owned(),
            _ => "lanes of the processor for each".to_owned(),
        },
        then,
        buffers_on: None,
        cores: None,
    })
}

/// Drives on another socket than most, if the engine's memory is on the socket of most.
fn far_drives(machine: &Machine) -> Option<Change> {
    let sockets: Vec<u64> = (0..machine.bays.len())
        .map(|row| socket_of(machine, row))
        .collect();
    let on = |socket: u64| sockets.iter().filter(|one| **one == socket).count();
    // Of sockets with equally many, the first.
    let most = sockets
        .iter()
        .copied()
        .rev()
        .max_by_key(|socket| (on(*socket), u64::MAX - *socket))?;
    let rows: Vec<usize> = (0..sockets.len())
        .filter(|row| sockets[*row] != most)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut then = machine.clone();
    let there = format!("socket-{most}");
    for node in &mut then.nodes {
        if node.parent.starts_with("socket-") {
            node.parent.clone_from(&there);
        }
    }
    // As many lanes as both had.
    then.root.socket_lanes.value *= machine.processor.sockets.value;
    let count = words::count(sockets.len(), "drive");
    Some(Change {
        about: names(machine, &rows),
        what: format!(
            "{} of {count} on another socket than the rest, with the engine's memory on socket {most}",
            rows.len()
        ),
        change: format!("all of them on socket {most}"),
        then,
        buffers_on: Some(most),
        cores: None,
    })
}

/// A slot with lanes for several drives that has one. Only the firmware's table of slots proves such wiring: a port may have more
/// lanes than are wired to its slot.
fn wide_slot(machine: &Machine, link: DriveLink, slot: &Slot) -> Option<Change> {
    let [name] = slot.drives.as_slice() else {
        return None;
    };
    if slot.split == Some(Split::No) {
        return None;
    }
    let row = machine
        .drives
        .iter()
        .position(|drive| drive.name == *name)?;
    let room = (VOLUME_MEMBERS_MAX - machine.bays.len()) as u64 + 1;
    let fit = (slot.lanes / link.lanes.max(1)).min(room);
    if fit < 2 {
        return None;
    }
    let mut then = machine.clone();
    for number in 1..fit {
        let (mut bays, mut drive) = (machine.bays[row].clone(), machine.drives[row].clone());
        bays.name = format!("{}-and-{number}", bays.name);
        drive.name = format!("{name}-and-{number}");
        drive.bay = format!("{}-0", bays.name);
        then.bays.push(bays);
        then.drives.push(drive);
        let added = then.bays.len() - 1;
        let lanes = then.bays[added].figures.lanes.value;
        add_lanes(&mut then, added, lanes);
    }
    keep_share(&mut then, widest(machine));
    Some(Change {
        about: slot.name.clone(),
        what: format!(
            "the slot has {} lanes and one drive, {name}, which uses {}",
            slot.lanes,
            agreed(machine, row, link).lanes
        ),
        change: match slot.split {
            Some(Split::ByItself) => {
                format!("a card for {fit} drives in it, for which the slot splits by itself")
            }
            Some(Split::BySetting) => format!(
                "a card for {fit} drives in it, and the slot bifurcated in the firmware's setup"
            ),
            // Not known: such slots are left out above if they do not split.
            Some(Split::No) | None => format!(
                "a card for {fit} drives in it, and the slot bifurcated in the firmware's setup, if that can do so"
            ),
        },
        then,
        buffers_on: None,
        cores: None,
    })
}

/// Drives with fewer queues than the machine has processors, if more cores can submit to an array of them than there are queues:
/// as many as the machine has, and as the engine has shards at most.
fn few_queues(machine: &Machine) -> Option<Change> {
    // A machine with a number that none can have is refused when its plans are made.
    let cores = machine.graph().ok()?.cores;
    let (processors, submit) = (cores.processors(), cores.cores.min(SHARDS_MAX as u64));
    let few: Vec<(&Installed, u64)> = machine
        .drives
        .iter()
        .filter_map(|drive| Some((drive, drive.queues.filter(|queues| *queues < submit)?)))
        .collect();
    let (_, fewest) = *few.iter().min_by_key(|(_, queues)| queues)?;
    let names: Vec<&str> = few.iter().map(|(drive, _)| drive.name.as_str()).collect();
    let mut then = machine.clone();
    for drive in &mut then.drives {
        drive.queues = Some(processors);
    }
    let has = match few.as_slice() {
        [_] => "has".to_owned(),
        _ if few.iter().all(|(_, queues)| *queues == fewest) => "have".to_owned(),
        _ => "have as few as".to_owned(),
    };
    Some(Change {
        about: words::and(&names),
        what: format!(
            "{} {has} {} for {processors} processors; if {submit} cores submit commands, they share them",
            words::and(&names),
            words::count(fewest as usize, "queue")
        ),
        change: format!(
            "a queue for each of {submit} cores; up to {fewest} cores that submit (--shards) share none"
        ),
        then,
        buffers_on: None,
        cores: Some(submit as u32),
    })
}

/// The nodes above a row of bays, and the socket at last.
fn upwards(machine: &Machine, row: usize) -> impl Iterator<Item = &str> {
    let above = |name: &&str| {
        let node = machine.nodes.iter().find(|node| node.name == *name);
        node.map(|node| node.parent.as_str())
    };
    std::iter::successors(Some(machine.bays[row].parent.as_str()), above)
}

fn socket_of(machine: &Machine, row: usize) -> u64 {
    let socket = upwards(machine, row)
        .last()
        .and_then(|name| name.strip_prefix("socket-"));
    let socket = socket.and_then(|number| number.parse().ok());
    socket.expect("the machine's tree has been checked")
}

/// Gives the drive of a row of one bay this link where it is. Links that are shared stay as they are.
fn set_link(machine: &mut Machine, row: usize, link: DriveLink) {
    let figures = &mut machine.bays[row].figures;
    let more = link.lanes as f64 - figures.lanes.value;
    if more > 0.0 {
        figures.lanes = planned(link.lanes);
    }
    let faster = link.generation as f64 > figures.generation.value;
    if faster {
        figures.generation = planned(link.generation);
    }
    add_lanes(machine, row, more.max(0.0));
}

/// Adds lanes to root port and VMD above a row, up to the first shared link, and has them as fast as the row.
fn add_lanes(machine: &mut Machine, row: usize, more: f64) {
    let generation = machine.bays[row].figures.generation.value;
    let above: Vec<String> = upwards(machine, row).map(str::to_owned).collect();
    for name in above {
        let Some(node) = machine.nodes.iter_mut().find(|node| node.name == name) else {
            // The socket.
            machine.root.socket_lanes.value += more;
            return;
        };
        match node.kind {
            Kind::Switch | Kind::Chipset => return,
            Kind::RootPort | Kind::Vmd | Kind::Retimer => {
                node.figures.lanes.value += more;
                node.figures.generation.value = node.figures.generation.value.max(generation);
            }
        }
    }
}

/// Bytes per second of the lanes of the widest root port.
fn widest(machine: &Machine) -> u64 {
    let ports = machine
        .nodes
        .iter()
        .filter(|node| node.kind == Kind::RootPort);
    ports
        .map(|node| bytes_per_s(link_of(node)))
        .max()
        .unwrap_or(0)
}

/// What a root port moves is known as a share of the widest one's lanes. If there is a wider one now than `before`, it moves the same
/// share of its own. The model has one limit for all ports, so the limit of the others rises too.
fn keep_share(machine: &mut Machine, before: u64) {
    let gain = widest(machine) as f64 / before.max(1) as f64;
    if before > 0 && gain > 1.0 {
        machine.root.port_to_host_gb_s.value *= gain;
        machine.root.port_to_drive_gb_s.value *= gain;
    }
}

/// A figure of the second plan.
fn planned(value: u64) -> Figure {
    Figure {
        value: value as f64,
        source: "what is changed for the second plan".to_owned(),
        r#use: Use::Prior,
    }
}

/// Puts a row of one bay on a root port of its own, with the link that drive and bay have agreed on.
fn on_a_port_of_its_own(machine: &mut Machine, row: usize, socket: u64, link: DriveLink) {
    let name = format!("port-of-{}", machine.bays[row].name);
    machine.nodes.push(Node {
        name: name.clone(),
        kind: Kind::RootPort,
        parent: format!("socket-{socket}"),
        pci_domain: None,
        figures: NodeFigures {
            lanes: planned(link.lanes),
            generation: planned(link.generation),
            latency_ns: planned(0),
            interrupt_ns: planned(0),
        },
    });
    let bays = &mut machine.bays[row];
    bays.parent = name;
    bays.figures.lanes = planned(link.lanes);
    bays.figures.generation = planned(link.generation);
    let root = &mut machine.root;
    root.socket_lanes.value += link.lanes as f64;
    let gb_per_s = bytes_per_s(link) as f64 / 1e9;
    for limit in [&mut root.port_to_host_gb_s, &mut root.port_to_drive_gb_s] {
        limit.value = limit.value.max(gb_per_s);
    }
}
