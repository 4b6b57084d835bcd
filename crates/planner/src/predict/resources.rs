//! What can limit a point: servers that commands wait for. Each can be made faster on its own.
//!
//! Links that are alike (same kind and speed, same number of drives behind each) are one resource: a stripe waits for
//! the slowest of them, so that making only one of them faster would never show.

use models::platform::{Graph, Kind};
use models::port::Port;
use models::profile::Profile;

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The controller, which accepts commands.
    Controller,
    /// The flash units, which carry out reads.
    FlashUnits,
    /// The data path between port and flash.
    DataPath,
    /// The programs that empty the write buffer, and garbage collection.
    Programs,
    /// What map units cost that writes fill only in part. It is no part of its own, but a reason why programs limit.
    MapUnits,
}

/// All parts of a drive that can limit.
pub const PARTS: [Part; 4] = [
    Part::Controller,
    Part::FlashUnits,
    Part::DataPath,
    Part::Programs,
];

/// What can be made faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The drives, with all their parts.
    Drives,
    /// One part of each drive.
    PartOfDrives(Part),
    /// The drives' own links.
    DriveLinks,
    /// Links of the platform, by index.
    Links(Vec<usize>),
    /// The links between sockets.
    Crossings,
    /// Memory of all sockets.
    Memory,
    /// The cores of the clients' threads, including the stack's work if it is done there.
    ClientCores,
    /// The stack's own cores, including the kernel's work on them.
    StackCores,
    /// Cache lines that all cores of the stack change for each request: its counter and lock.
    StackLines,
    /// The kernel's counters of commands per drive, which all cores change.
    DriveCounters,
    /// The locks of drives' queues, where several cores share one.
    DriveQueues,
    /// The latency of a command in an idle drive. Nothing queues for it, but requests wait for it.
    DriveLatency,
    /// The latency of the platform's links. Nothing queues for it either.
    Hops,
    /// All processor time of a request, likewise.
    Software,
}

impl Resource {
    /// Makes the resource `times` times as fast, if it is part of a drive.
    pub fn speed_up(&self, profile: &mut Profile, times: f64) {
        let sooner = |ns: &mut u64| *ns = (*ns as f64 / times + 0.5) as u64;
        let more = |per_s: &mut u64| *per_s = (*per_s as f64 * times) as u64;
        match self {
            Resource::Drives => {
                let parts = PARTS.map(Resource::PartOfDrives);
                parts.iter().for_each(|part| part.speed_up(profile, times));
            }
            Resource::PartOfDrives(Part::Controller) => {
                sooner(&mut profile.command_ns);
                sooner(&mut profile.sector_ns);
            }
            Resource::PartOfDrives(Part::FlashUnits) => {
                sooner(&mut profile.read_unit_ns);
                more(&mut profile.unit_transfer_bytes_per_s);
            }
            Resource::PartOfDrives(Part::DataPath) => more(&mut profile.path_bytes_per_s),
            Resource::PartOfDrives(Part::Programs) => {
                sooner(&mut profile.program_ns);
                more(&mut profile.program_bytes_per_s);
                more(&mut profile.burst_bytes_per_s);
                more(&mut profile.worn_write_bytes_per_s);
            }
            Resource::PartOfDrives(Part::MapUnits) => {
                let cost = profile.partial_write_per_mille as f64 / times;
                profile.partial_write_per_mille = (cost + 0.5) as u64;
            }
            Resource::DriveLinks => {
                let Port {
                    to_host_bytes_per_s,
                    to_drive_bytes_per_s,
                    ..
                } = &mut profile.port;
                more(to_host_bytes_per_s);
                more(to_drive_bytes_per_s);
            }
            Resource::DriveLatency => {
                sooner(&mut profile.read_latency_ns);
                sooner(&mut profile.write_latency_ns);
            }
            _ => {}
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self, graph: Option<&Graph>, stack: &str) -> String {
        match self {
            Resource::Drives => "drives".to_owned(),
            Resource::PartOfDrives(Part::Controller) => "drives (controllers)".to_owned(),
            Resource::PartOfDrives(Part::FlashUnits) => "drives (flash units)".to_owned(),
            Resource::PartOfDrives(Part::DataPath) => "drives (data paths)".to_owned(),
            Resource::PartOfDrives(Part::Programs) => "drives (programs and collection)".to_owned(),
            Resource::PartOfDrives(Part::MapUnits) => {
                "drives (programs of map units that writes fill in part)".to_owned()
            }
            Resource::DriveLinks => "drives' links".to_owned(),
            Resource::Links(links) => {
                graph.map_or_else(String::new, |graph| of_links(graph, links))
            }
            Resource::Crossings => "links between sockets".to_owned(),
            Resource::Memory => "memory".to_owned(),
            Resource::ClientCores => "client cores".to_owned(),
            Resource::StackCores if stack == "fullstripe" => "engine cores".to_owned(),
            Resource::StackCores => format!("cores of {stack}"),
            Resource::StackLines => format!("shared counter and lock of {stack}"),
            Resource::DriveCounters => "drives' shared counters".to_owned(),
            Resource::DriveQueues => "drives' shared queues".to_owned(),
            Resource::DriveLatency => "the drives' latency".to_owned(),
            Resource::Hops => "the links' latency".to_owned(),
            Resource::Software => "software".to_owned(),
        }
    }
}

fn of_links(graph: &Graph, links: &[usize]) -> String {
    let names: Vec<&str> = links
        .iter()
        .map(|at| graph.links[*at].name.as_str())
        .collect();
    let kind = links.first().map(|at| graph.links[*at].kind);
    let (one, several) = match kind {
        Some(Kind::Switch | Kind::Chipset) => ("uplink of", "uplinks of"),
        _ => ("root port", "root ports"),
    };
    match names.as_slice() {
        [only] => format!("{one} \"{only}\""),
        [first, .., last] => format!("{several} \"{first}\" to \"{last}\""),
        [] => String::new(),
    }
}

/// The links that the first `drives` bays use, grouped by likeness.
#[must_use]
pub fn links_of(graph: &Graph, drives: usize) -> Vec<Vec<usize>> {
    let behind = |link: usize| {
        let bays = graph.bays.iter().take(drives);
        bays.filter(|bay| bay.links.contains(&link)).count()
    };
    let mut groups: Vec<(_, Vec<usize>)> = Vec::new();
    for (number, link) in graph.links.iter().enumerate() {
        let speed = (link.to_host_bytes_per_s, link.to_drive_bytes_per_s);
        let drives_behind = behind(number);
        if drives_behind == 0 {
            continue;
        }
        let alike = (link.kind, speed, drives_behind);
        match groups.iter_mut().find(|(other, _)| *other == alike) {
            Some((_, group)) => group.push(number),
            None => groups.push((alike, vec![number])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
