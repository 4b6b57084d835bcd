//! What an array certainly does not exceed, from its drives' figures alone: a rate, and the time until its endurance is spent.
//!
//! The calculator of plans is an estimate: a run may exceed it, where writes fill whole stripes or drives are not in their steady
//! state. This is a bound instead, so it takes the kindest case everywhere: reads and writes do not disturb each other, RAID 5 writes
//! whole stripes where requests may fill them, and garbage is collected only where random writes cannot do without.
//!
//! | part | bound |
//! |---|---|
//! | reads | the controllers and data paths of all drives, and the narrowest link that they share |
//! | writes | what all drives can program, less copies, parity and log; at random in a steady state, less collection and the rest of map units |
//!
//! A write at random that lies within a chunk of a RAID 5 ([`is_small`]) cannot fill a stripe. Its parity needs two reads, or one
//! if there is one other chunk; it writes data, parity and log.

use crate::plan::ideal::narrowest_bytes_per_s;
use crate::predict::library::Library;
use crate::predict::point::CHUNK_KIB;
use crate::sizing::endurance::amplification_at_least;
use lab::schema::configuration::{Configuration, State};
use lab::schema::setup::Level;
use lab::workload::Operation;
use models::profile::Profile;

/// Within a bound times this, an array is run all the same: runs count whole requests of a short window, and small writes may meet in a
/// stripe now and then.
pub(super) const BOUND_SLACK: f64 = 1.05;

/// Requests per second that are not exceeded, and by what they are bounded.
pub(super) struct Bound {
    pub iops: f64,
    pub by: &'static str,
}

/// The bound of a configuration; `None` if its load has no size or its drive no profile.
pub(super) fn bound(configuration: &Configuration, library: &Library) -> Option<Bound> {
    let Configuration {
        setup, workload, ..
    } = configuration;
    let profile = library.profile(&setup.drive).ok()?;
    let graph = library.platform(&setup.platform).ok()?;
    let bytes = f64::from(workload.bs?.bytes());
    let reads = f64::from(workload.read_percent()?) / 100.0;
    let writes = 1.0 - reads;
    let drives = f64::from(setup.count);
    let controller_iops = 1e9 / profile.controller_ns(bytes as u64) as f64;
    let link_bytes_per_s = narrowest_bytes_per_s(graph, setup.count as usize);
    let path_bytes_per_s = drives * profile.path_bytes_per_s as f64;
    let program_bytes_per_s = profile.program_bytes_per_s.max(profile.burst_bytes_per_s) as f64;
    // For each request of clients.
    let member_reads = reads + writes * reads_for_parity(configuration);
    let programmed_bytes = writes * programmed_bytes(configuration, profile, bytes);
    let bounds = [
        (
            member_reads,
            drives * controller_iops,
            "drives' controllers",
        ),
        (member_reads * bytes, path_bytes_per_s, "drives' data paths"),
        (
            member_reads * bytes,
            link_bytes_per_s.unwrap_or(f64::INFINITY),
            "a shared link",
        ),
        (
            programmed_bytes,
            drives * program_bytes_per_s,
            "drives' programs",
        ),
    ];
    let of_all = bounds.into_iter().filter(|(each, _, _)| *each > 0.0);
    let of_all = of_all.map(|(each, most, by)| Bound {
        iops: most / each,
        by,
    });
    of_all.min_by(|one, other| one.iops.total_cmp(&other.iops))
}

/// Whether requests are at random and each lies within a chunk, or the level has no chunks.
pub(super) fn is_small(configuration: &Configuration) -> bool {
    let Configuration {
        setup, workload, ..
    } = configuration;
    let is_random = matches!(
        workload.op,
        Operation::RandRead | Operation::RandWrite | Operation::RandMix
    );
    let chunk_bytes = setup.chunk_kib.unwrap_or(CHUNK_KIB) * 1024;
    let divides = |bytes: u32| setup.level == Level::Raid1 || chunk_bytes.is_multiple_of(bytes);
    let is_shifted = workload.align.is_some();
    is_random && !is_shifted && workload.bs.is_some_and(|size| divides(size.bytes()))
}

/// What drives are told to write at least for each byte that clients write.
pub(super) fn written_at_least(configuration: &Configuration) -> f64 {
    let setup = &configuration.setup;
    amplification_at_least(setup.level, setup.count, is_small(configuration))
}

/// Reads for the parity of a write, at least.
fn reads_for_parity(configuration: &Configuration) -> f64 {
    let setup = &configuration.setup;
    match setup.level {
        Level::Raid5 if is_small(configuration) => f64::from(setup.count - 2).min(2.0),
        _ => 0.0,
    }
}

/// What all drives together program at least for a write of `bytes` of a client. The log lies in one place, so what it programs makes no
/// garbage.
fn programmed_bytes(configuration: &Configuration, profile: &Profile, bytes: f64) -> f64 {
    let written = written_at_least(configuration);
    let logged = match configuration.setup.level {
        Level::Raid5 if is_small(configuration) => 1.0,
        _ => 0.0,
    };
    (written - logged) * programmed_in_place(configuration, profile, bytes) + logged * bytes
}

/// What one drive programs at least for a write of `bytes`, on average over a long time.
fn programmed_in_place(configuration: &Configuration, profile: &Profile, bytes: f64) -> f64 {
    let is_random = matches!(
        configuration.workload.op,
        Operation::RandWrite | Operation::RandMix
    );
    let is_steady = matches!(
        configuration.state,
        State::Steady | State::Worn | State::PoweredOn
    );
    // A larger request may fill whole stripes, which drives then write in order.
    let is_small = bytes <= profile.map_unit_bytes as f64;
    if is_random && is_steady && is_small {
        profile.map_unit_bytes as f64 * profile.amplification_per_mille as f64 / 1000.0
    } else {
        bytes
    }
}
