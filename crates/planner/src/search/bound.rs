//! A rate that an array certainly does not exceed, from its drives' figures alone.
//!
//! The calculator of plans is an estimate: a run may exceed it, where writes fill whole stripes or drives are not in their steady
//! state. This is a bound instead, so it takes the kindest case everywhere: reads and writes do not disturb each other, RAID 5 writes whole stripes
//! only, and garbage is collected only where random writes cannot do without.
//!
//! | part | bound |
//! |---|---|
//! | reads | the controllers and data paths of all drives, and the narrowest link that they share |
//! | writes | what all drives can program, less copies or parity; at random in a steady state, less collection and the rest of map units |

use crate::plan::ideal::narrowest_bytes_per_s;
use crate::predict::library::Library;
use crate::sizing::endurance::amplification_at_least;
use lab::schema::configuration::{Configuration, State};
use lab::workload::Operation;
use models::profile::Profile;

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
    let drives = f64::from(setup.count);
    let controller_iops = 1e9 / profile.controller_ns(bytes as u64) as f64;
    let link_bytes_per_s = narrowest_bytes_per_s(graph, setup.count as usize);
    let path_bytes_per_s = drives * profile.path_bytes_per_s as f64;
    let programmed = programmed_bytes(configuration, profile, bytes);
    let copies = amplification_at_least(setup.level, setup.count);
    let bounds = [
        (reads, drives * controller_iops, "drives' controllers"),
        (reads, path_bytes_per_s / bytes, "drives' data paths"),
        (
            reads,
            link_bytes_per_s.unwrap_or(f64::INFINITY) / bytes,
            "a shared link",
        ),
        (
            1.0 - reads,
            drives * profile.program_bytes_per_s.max(profile.burst_bytes_per_s) as f64
                / (programmed * copies),
            "drives' programs",
        ),
    ];
    let of_all = bounds.into_iter().filter(|(share, _, _)| *share > 0.0);
    let of_all = of_all.map(|(share, iops, by)| Bound {
        iops: iops / share,
        by,
    });
    of_all.min_by(|one, other| one.iops.total_cmp(&other.iops))
}

/// What one drive programs at least for a write of `bytes`, on average over a long time.
fn programmed_bytes(configuration: &Configuration, profile: &Profile, bytes: f64) -> f64 {
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
