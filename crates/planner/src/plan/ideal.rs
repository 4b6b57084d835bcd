//! What a plain calculator predicts for the same point: [`lab::calculator`] with the figures of the drive's profile and
//! the narrowest link that the drives share.

use crate::predict::library::Library;
use lab::calculator::{Calculator, Sheet};
use lab::claims::predictor::{Predictor, Samples};
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use models::platform::{Graph, Link};
use models::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The calculator's prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ideal {
    /// Requests per second.
    pub iops: f64,
    /// Their payload per second.
    pub bytes_per_s: f64,
    /// Power of the drives.
    pub watts: f64,
    /// `drives`, `link` or `demand`.
    pub limited_by: String,
}

/// The calculator's sheet of a drive, from its profile.
fn sheet(profile: &Profile) -> Sheet {
    /// Size of random reads in data sheets.
    const BYTES: u64 = 4096;
    let programmed_bytes = profile.map_unit_bytes * profile.amplification_per_mille / 1000;
    let read_watts = profile.read_pj_per_byte as f64 * profile.path_bytes_per_s as f64 / 1e12;
    Sheet {
        read_iops: 1e9 / profile.controller_ns(BYTES) as f64,
        write_iops: profile.program_bytes_per_s as f64 / programmed_bytes as f64,
        read_bytes_per_s: profile.path_bytes_per_s as f64,
        write_bytes_per_s: profile.program_bytes_per_s as f64,
        active_watts: profile.idle_mw as f64 / 1e3 + read_watts,
    }
}

/// The link that limits drives first if all move as much.
pub(crate) struct Narrowest<'a> {
    /// The link.
    pub link: &'a Link,
    /// The drives behind it.
    pub drives: usize,
    /// What all drives together can then move in one direction.
    pub all_bytes_per_s: f64,
}

/// The narrowest link above the first `drives` drives; `None` without links.
pub(crate) fn narrowest(graph: &Graph, drives: usize) -> Option<Narrowest<'_>> {
    let of_all = graph.links.iter().enumerate().filter_map(|(at, link)| {
        let bays = graph.bays.iter().take(drives);
        let behind = bays.filter(|bay| bay.links.contains(&at)).count();
        let share = behind as f64 / drives as f64;
        (behind > 0).then(|| Narrowest {
            link,
            drives: behind,
            all_bytes_per_s: link.to_host_bytes_per_s as f64 / share,
        })
    });
    of_all.min_by(|one, other| one.all_bytes_per_s.total_cmp(&other.all_bytes_per_s))
}

/// Bytes per second that `drives` drives can move together in one direction, as the narrowest link allows.
pub(crate) fn narrowest_bytes_per_s(graph: &Graph, drives: usize) -> Option<f64> {
    narrowest(graph, drives).map(|narrowest| narrowest.all_bytes_per_s)
}

/// The calculator's prediction; `None` where it has no figures.
pub fn ideal(configuration: &Configuration, library: &Library) -> Option<Ideal> {
    let setup = &configuration.setup;
    if setup.condition.is_some() {
        // The calculator knows only arrays with all their drives.
        return None;
    }
    let profile = library.profile(&setup.drive).ok()?;
    let graph = library.platform(&setup.platform).ok()?;
    let link = narrowest_bytes_per_s(graph, setup.count as usize);
    let mut calculator = Calculator {
        drives: BTreeMap::from([(setup.drive.text().to_owned(), sheet(profile))]),
        links: link
            .map(|link| (setup.platform.text().to_owned(), link))
            .into_iter()
            .collect(),
    };
    let prediction = calculator.predict(configuration, &BTreeSet::new()).ok()?;
    let figure = |metric| match prediction.metrics.get(&metric) {
        Some(Samples::Exact(value)) => Some(*value),
        _ => None,
    };
    Some(Ideal {
        iops: figure(Metric::Iops)?,
        bytes_per_s: figure(Metric::BytesPerSecond)?,
        watts: figure(Metric::Watts)?,
        limited_by: prediction.limited_by?,
    })
}
