//! Processors, memory, root and packets of a discovered platform.

use super::{as_usual, measured, prior};
use machine::seen::Seen;
use models::platform::{Interconnect, Kind, Machine, Memory, Node, Packets, Processor, Root};
use models::port::raw_bytes_per_s;
use models::profile::Figure;

/// What all cores sustain of the highest clock of one core, where the rated clock is not shown: between four fifths of it on servers
/// and nine tenths on personal computers (boost tables of AMD EPYC 9004 and Ryzen 7000).
const SUSTAINED_SHARE: f64 = 0.85;

/// What streams reach of the memory's own rate (see `socket_gb_s` of the platforms of the program).
const STREAM_SHARE: f64 = 5.0 / 6.0;

pub fn processor(seen: &Seen, usual: &Machine) -> Processor {
    let processors = &seen.processors;
    let like = &usual.processor;
    let as_usual = |figure: &Figure| as_usual(usual, figure);
    let (deep_idle_after_us, deep_idle_exit_us) = match &processors.deepest_idle {
        Some(state) => (
            measured(
                state.residency_us as f64,
                &format!(
                    "target residency of {}, the deepest idle state that is on, from sysfs",
                    state.name
                ),
            ),
            measured(
                state.exit_us as f64,
                &format!(
                    "exit latency of {}, the deepest idle state that is on, from sysfs",
                    state.name
                ),
            ),
        ),
        None => (
            as_usual(&like.deep_idle_after_us),
            as_usual(&like.deep_idle_exit_us),
        ),
    };
    Processor {
        sockets: measured(
            processors.sockets as f64,
            "packages of the processors that are online, from sysfs",
        ),
        cores_per_socket: measured(
            processors.cores_per_socket as f64,
            "cores that are online, from sysfs",
        ),
        clock_ghz: clock(seen, usual),
        instructions_per_clock: as_usual(&like.instructions_per_clock),
        hyper_threading: measured(
            f64::from(processors.threads_per_core > 1),
            "threads of a core that are online, from sysfs",
        ),
        two_threads_gain: as_usual(&like.two_threads_gain),
        deep_idle_after_us,
        deep_idle_exit_us,
        line_own_ns: as_usual(&like.line_own_ns),
        line_same_socket_ns: as_usual(&like.line_same_socket_ns),
        line_other_socket_ns: as_usual(&like.line_other_socket_ns),
    }
}

/// Where both clocks are shown, what all cores sustain lies about midway: 2.8 GHz between 2.1 and 3.7 on a Xeon Platinum 8170 and 2.9
/// between 1.9 and 3.9 on an 8592+ (`clock_ghz` of the platforms of the program).
fn clock(seen: &Seen, usual: &Machine) -> Figure {
    let ghz = |mhz: u64| mhz as f64 / 1000.0;
    let rounded = |ghz: f64| (ghz * 100.0).round() / 100.0;
    match (seen.processors.rated_mhz, seen.processors.highest_mhz) {
        (Some(rated), Some(highest)) if rated < highest => prior(
            rounded(f64::midpoint(ghz(rated), ghz(highest))),
            format!(
                "midway between the rated clock, {} GHz, and the highest of one core, {} GHz: what all cores usually sustain",
                ghz(rated),
                ghz(highest)
            ),
        ),
        (Some(rated), _) => measured(
            ghz(rated),
            "rated clock, from sysfs or the processor's name",
        ),
        (None, Some(highest)) => prior(
            rounded(ghz(highest) * SUSTAINED_SHARE),
            format!(
                "{SUSTAINED_SHARE} of the highest clock of one core, {} GHz: what all cores usually sustain",
                ghz(highest)
            ),
        ),
        (None, None) => as_usual(usual, &usual.processor.clock_ghz),
    }
}

pub fn memory(seen: &Seen, usual: &Machine) -> Memory {
    Memory {
        socket_gb_s: stream(seen).unwrap_or_else(|| as_usual(usual, &usual.memory.socket_gb_s)),
    }
}

/// What streams reach with the modules that are there. Two modules on one channel are no faster than one.
fn stream(seen: &Seen) -> Option<Figure> {
    let modules = &seen.tables.as_ref()?.modules;
    let speed = modules.iter().filter_map(|module| module.mt_per_s).min()?;
    let width_bits = modules.iter().map(|module| module.width_bits).min()?;
    let count = modules.len() as u64;
    let channels = seen
        .memory_channels
        .map_or(count, |channels| channels.min(count));
    let bytes_per_transfer = (channels * width_bits) as f64 / 8.0;
    let gb_s = bytes_per_transfer * speed as f64 / 1000.0 / seen.processors.sockets as f64;
    let gb_s = (gb_s * STREAM_SHARE * 10.0).round() / 10.0;
    let known = match seen.memory_channels {
        Some(channels) => format!("{channels} channels"),
        None => "each on a channel of its own".to_owned(),
    };
    (gb_s > 0.0).then(|| {
        prior(
            gb_s,
            format!(
                "{count} modules of {speed} MT/s and {width_bits} bits in the firmware's tables, {known}; streams reach five sixths of that"
            ),
        )
    })
}

pub fn interconnect(usual: &Machine) -> Interconnect {
    Interconnect {
        direction_gb_s: as_usual(usual, &usual.interconnect.direction_gb_s),
        latency_ns: as_usual(usual, &usual.interconnect.latency_ns),
    }
}

/// Lanes that lead to drives, and what the widest of the nodes moves: the same share of its lanes as on the usual platform.
pub fn root(usual: &Machine, processor: &Processor, nodes: &[Node]) -> Root {
    let ports = || nodes.iter().filter(|node| node.kind == Kind::RootPort);
    let lanes_of = |socket: usize| -> f64 {
        let parent = format!("socket-{socket}");
        ports()
            .filter(|node| node.parent == parent)
            .map(|node| node.figures.lanes.value)
            .sum()
    };
    let sockets = processor.sockets.value as usize;
    let lanes = (0..sockets).map(lanes_of).fold(1.0, f64::max);
    let raw = |node: &Node| {
        raw_bytes_per_s(
            node.figures.lanes.value as u64,
            node.figures.generation.value as u64,
        ) as f64
            / 1e9
    };
    let widest = ports().map(raw).fold(0.1, f64::max);
    let generation = usual
        .nodes
        .iter()
        .filter(|node| node.kind == Kind::RootPort);
    let generation = generation
        .map(|node| node.figures.generation.value)
        .fold(3.0, f64::max);
    let of_sixteen = raw_bytes_per_s(16, generation as u64) as f64 / 1e9;
    let moves = |figure: &Figure| {
        let gb_s = (figure.value / of_sixteen * widest * 10.0).round() / 10.0;
        prior(
            gb_s.max(0.1),
            format!(
                "the widest root here has {widest:.1} GB/s of lanes, of which it moves the same share as 16 lanes of {}: {}",
                usual.platform, figure.source
            ),
        )
    };
    Root {
        socket_lanes: prior(
            lanes,
            "lanes that lead to drives; the processor may have more".to_owned(),
        ),
        port_to_host_gb_s: moves(&usual.root.port_to_host_gb_s),
        port_to_drive_gb_s: moves(&usual.root.port_to_drive_gb_s),
    }
}

pub fn packets(seen: &Seen, usual: &Machine) -> Packets {
    let like = &usual.packets;
    let as_usual = |figure: &Figure| as_usual(usual, figure);
    let payloads = seen
        .tree
        .drives
        .iter()
        .map(|drive| drive.express.map(|express| express.payload_bytes));
    let payload: Option<Vec<u32>> = payloads.collect();
    let payload = payload.and_then(|all| all.into_iter().min());
    Packets {
        payload_to_host_bytes: match payload {
            Some(bytes) => measured(
                f64::from(bytes),
                "the least that a drive's Device Control register allows",
            ),
            None => as_usual(&like.payload_to_host_bytes),
        },
        header_to_host_bytes: as_usual(&like.header_to_host_bytes),
        payload_to_drive_bytes: as_usual(&like.payload_to_drive_bytes),
        header_to_drive_bytes: as_usual(&like.header_to_drive_bytes),
        link_layer_share: as_usual(&like.link_layer_share),
        command_bytes: as_usual(&like.command_bytes),
    }
}
