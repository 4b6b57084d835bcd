//! What can limit a point: servers that commands wait for, each of which can be made faster on its own.
//!
//! Links that are alike (the same kind and speed, with as many drives behind each) are one resource: a stripe waits
//! for the slowest of them, so that making one alone faster would never show.

use models::platform::{Graph, Kind};
use models::port::Port;
use models::profile::Profile;

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What takes commands.
    Controller,
    /// What reads flash.
    FlashUnits,
    /// What moves data between port and flash.
    DataPath,
    /// What empties the write buffer: programs and the collection of garbage.
    Programs,
}

/// All parts of a drive.
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
    /// The links that drives bring.
    DriveLinks,
    /// Links of the platform, by their number.
    Links(Vec<usize>),
    /// The links between sockets.
    Crossings,
    /// Memory of all sockets.
    Memory,
    /// The cores of the clients' threads, and the stack's work where it is done there.
    ClientCores,
    /// The cores that the stack has for itself, kernel's work on them included.
    StackCores,
    /// The lines of memory that all cores of the stack change for a request: its counter and lock.
    StackLines,
    /// The kernel's counters of the drives' commands, which all cores change.
    DriveCounters,
    /// What a command takes in a drive that has nothing else to do. No server, but what is waited for.
    DriveLatency,
    /// What passing the platform's links takes. No server either.
    Hops,
    /// All that processors do for a request, likewise.
    Software,
}

impl Resource {
    /// Makes it so many times as fast, as far as it lies in a drive.
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
                more(&mut profile.worn_write_bytes_per_s);
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
        Some(Kind::Switch) => ("uplink of", "uplinks of"),
        _ => ("root port", "root ports"),
    };
    match names.as_slice() {
        [only] => format!("{one} \"{only}\""),
        [first, .., last] => format!("{several} \"{first}\" to \"{last}\""),
        [] => String::new(),
    }
}

/// The links that the first `drives` bays use, alike ones together.
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
