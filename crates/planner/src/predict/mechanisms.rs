//! What causes a prediction: mechanisms of the models by name. Each can be switched off.
//!
//! A mechanism is switched off by numbers, not by other code: a shared link that is never full, a stall that never
//! occurs. So the same models run without it ([`Point::without`]) to show what a result is due to.
//!
//! [`Point::without`]: super::point::Point::without

use lab::claims::book;
use lab::schema::configuration::State;
use models::md::MdCosts;
use models::platform::Graph;
use models::profile::Profile;
use serde::Serialize;

/// Far beyond any rate that occurs here per second, and far below what would overflow.
const PLENTY: u64 = 1_000_000_000_000_000;
/// The factor by which work becomes so fast that its time does not show.
pub(super) const AT_ONCE: f64 = 1e6;

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Reads of the same flash unit of a drive wait for each other. If off, each takes the unit that is free first.
    Collisions,
    /// A read waits for the program that its flash unit is carrying out.
    ReadsMeetPrograms,
    /// Rare stalls inside a drive.
    Stalls,
    /// Random overwrites leave garbage that has to be collected.
    Collection,
    /// Collection and service alternate once the clean pool is empty. If off, both proceed all the time.
    Episodes,
    /// A write completes when it is in the drive's buffer. If off, when it is in flash.
    WriteBuffer,
    /// A drive reads ahead for one sequential stream.
    ReadAhead,
    /// A drive's single controller handles a limited number of commands per second.
    ControllerCap,
    /// Bandwidth between a drive's port and its flash.
    DataPath,
    /// Reading flash takes time.
    FlashReads,
    /// Programming flash takes time.
    FlashPrograms,
    /// Drives share the bandwidth of uplinks and root ports.
    LinkSharing,
    /// The bandwidth of a drive's own lanes is limited.
    DriveLinks,
    /// Passing a link takes time.
    Hops,
    /// Data cross the link between sockets.
    SocketCrossing,
    /// All drives of a socket share its memory bandwidth.
    SharedMemory,
    /// The client's own work for a request.
    ClientWork,
    /// The kernel's work for a request: system calls, interrupts, context switches.
    KernelWork,
    /// Cores in a deep sleep state take long to wake.
    DeepSleep,
    /// The work of the RAID software itself.
    RaidWork,
    /// Each drive has one counter of commands in flight, which all cores change.
    DriveCounters,
    /// Cores share queues of a drive that has fewer of them: their locks and their interrupts.
    SharedQueues,
    /// Changing a cache line takes longer when a core of another socket was the last to do so.
    LinesBetweenSockets,
    /// All cores change md's counter of an array and take its locks.
    ArrayLines,
    /// One thread of md handles the stripe heads of RAID 5, page by page. If off, its passes and parity sums take no
    /// time.
    StripeThread,
    /// md reads mirrors from the most suitable copy. If off, from the first.
    ReadBalance,
    /// md writes all copies. If off, only one, as for a read.
    Copies,
}

use Mechanism::{
    ArrayLines, ClientWork, Collection, Collisions, ControllerCap, Copies, DataPath, DeepSleep,
    DriveCounters, DriveLinks, Episodes, FlashPrograms, FlashReads, Hops, KernelWork,
    LinesBetweenSockets, LinkSharing, RaidWork, ReadAhead, ReadBalance, ReadsMeetPrograms,
    SharedMemory, SharedQueues, SocketCrossing, Stalls, StripeThread, WriteBuffer,
};

/// Every mechanism, with its name.
pub const ALL: [(Mechanism, &str); 27] = [
    (Collisions, "collisions of units"),
    (ReadsMeetPrograms, "reads meet programs"),
    (Stalls, "stalls"),
    (Collection, "collection of garbage"),
    (Episodes, "episodes of collection"),
    (WriteBuffer, "write buffer"),
    (ReadAhead, "read-ahead"),
    (ControllerCap, "controller cap"),
    (DataPath, "data path"),
    (FlashReads, "flash reads"),
    (FlashPrograms, "flash programs"),
    (LinkSharing, "link sharing"),
    (DriveLinks, "drives' links"),
    (Hops, "hops"),
    (SocketCrossing, "crossing of sockets"),
    (SharedMemory, "shared memory"),
    (ClientWork, "client work"),
    (KernelWork, "kernel work"),
    (DeepSleep, "deep sleep"),
    (RaidWork, "RAID work"),
    (DriveCounters, "drives' counters"),
    (SharedQueues, "shared queues"),
    (LinesBetweenSockets, "lines between sockets"),
    (ArrayLines, "array's lines"),
    (StripeThread, "stripe thread"),
    (ReadBalance, "read balance"),
    (Copies, "copies"),
];

impl Mechanism {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = ALL.iter().find(|(mechanism, _)| *mechanism == self);
        named.map_or("", |(_, name)| name)
    }
}

/// Mechanisms that are switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms {
    off: Vec<Mechanism>,
}

impl Mechanisms {
    /// The set with these mechanisms switched off.
    #[must_use]
    pub fn without(off: &[Mechanism]) -> Mechanisms {
        Mechanisms { off: off.to_vec() }
    }

    /// The mechanisms that a claim's word stands for. A row names by that word what must produce its result. Empty if
    /// nothing of it is modelled.
    #[must_use]
    pub fn meant_by(word: book::Mechanism) -> &'static [Mechanism] {
        match word {
            book::Mechanism::Link => &[LinkSharing, DriveLinks],
            book::Mechanism::Controller => &[ControllerCap, DataPath, ReadAhead],
            book::Mechanism::HostCpu => &[
                ClientWork,
                KernelWork,
                DeepSleep,
                DriveCounters,
                SharedQueues,
            ],
            book::Mechanism::RaidSoftware => {
                &[RaidWork, ArrayLines, StripeThread, ReadBalance, Copies]
            }
            book::Mechanism::Gc => &[Collection],
            book::Mechanism::WriteBuffer => &[WriteBuffer],
            book::Mechanism::Dmi => &[],
            book::Mechanism::Numa => &[SocketCrossing, LinesBetweenSockets],
            book::Mechanism::Client => &[ClientWork],
            book::Mechanism::Media => &[FlashReads, FlashPrograms],
            book::Mechanism::Queueing => &[Collisions, FlashReads],
        }
    }

    /// Whether it is switched off.
    #[must_use]
    pub fn is_off(&self, mechanism: Mechanism) -> bool {
        self.off.contains(&mechanism)
    }

    /// Switches off what is part of drives that are in this state.
    pub(super) fn apply_to_drives(&self, profile: &mut Profile, state: State) {
        for mechanism in &self.off {
            without_of_drive(*mechanism, profile, state);
        }
    }

    /// Switches off what is part of Linux md.
    pub(super) fn apply_to_md(&self, costs: &mut MdCosts) {
        for mechanism in &self.off {
            without_of_md(*mechanism, costs);
        }
    }

    /// Switches off what is part of a platform.
    pub(super) fn apply_to_platform(&self, graph: &mut Graph) {
        for mechanism in &self.off {
            match mechanism {
                LinkSharing => {
                    for link in &mut graph.links {
                        link.to_host_bytes_per_s = PLENTY;
                        link.to_drive_bytes_per_s = PLENTY;
                    }
                }
                DriveLinks => graph.drive_links_speed = 1e4,
                Hops => {
                    graph.crossing_ns = 0;
                    graph.bays.iter_mut().for_each(|bay| bay.latency_ns = 0);
                }
                SocketCrossing => {
                    graph.crossing_ns = 0;
                    graph.crossing_bytes_per_s = PLENTY;
                }
                SharedMemory => graph.memory_bytes_per_s = PLENTY,
                LinesBetweenSockets => graph.cores.line_ns[2] = graph.cores.line_ns[1],
                DeepSleep => graph.cores.deep_idle_exit_ns = 0,
                SharedQueues => graph.bays.iter_mut().for_each(|bay| bay.queues = None),
                _ => {}
            }
        }
    }
}

fn without_of_md(mechanism: Mechanism, costs: &mut MdCosts) {
    match mechanism {
        ArrayLines => costs.line_ns = [0; 3],
        StripeThread => (costs.stripe_pass_ns, costs.page_ns) = (0, 0),
        ReadBalance => costs.balances_reads = false,
        Copies => costs.writes_copies = false,
        _ => {}
    }
}

fn without_of_drive(mechanism: Mechanism, profile: &mut Profile, state: State) {
    match mechanism {
        Collisions => profile.collides = false,
        ReadsMeetPrograms => {
            profile.suspends = true;
            profile.suspend_ns = 0;
        }
        Stalls => profile.without_stalls(),
        Collection => profile.amplification_per_mille = 1000,
        // What remains where data is scattered: the long-run write rate, all the time.
        Episodes if matches!(state, State::Steady | State::Worn | State::PoweredOn) => {
            let rate = u128::from(profile.program_bytes_per_s) * 1000;
            let rate = rate / u128::from(profile.amplification_per_mille.max(1000));
            profile.program_bytes_per_s = u64::try_from(rate).unwrap_or(u64::MAX);
            profile.amplification_per_mille = 1000;
        }
        WriteBuffer if !profile.is_in_place() => profile.write_latency_ns += profile.program_ns,
        ReadAhead => profile.read_ahead_bytes = 0,
        ControllerCap => {
            profile.command_ns = 0;
            profile.sector_ns = 0;
        }
        DataPath => profile.path_bytes_per_s = PLENTY,
        FlashReads => {
            profile.read_unit_ns = 0;
            profile.unit_transfer_bytes_per_s = PLENTY;
        }
        FlashPrograms => {
            profile.program_ns = 1;
            profile.burst_bytes = 0;
            profile.program_bytes_per_s = PLENTY / 1000;
        }
        SharedQueues => profile.io_queues = u64::MAX,
        // Without a platform, a drive's link is its own port.
        DriveLinks => {
            profile.port.to_host_bytes_per_s = PLENTY;
            profile.port.to_drive_bytes_per_s = PLENTY;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
