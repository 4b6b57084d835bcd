//! In what two setups of a comparison differ: the environment first, because a figure of another machine or system says little about
//! an array, then the array, then what changes and what limits either.

use super::ideal::{Narrowest, narrowest};
use super::report::PlanPoint;
use crate::predict::library::Library;
use crate::predict::point::{CHUNK_KIB, is_in_own_format};
use lab::schema::metric::Metric;
use lab::schema::setup::{Condition, Export, Setup};
use models::platform::Graph;
use serde::{Deserialize, Serialize};

/// Something in which two setups differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What it is about.
    pub about: String,
    /// As it is in our setup.
    pub ours: String,
    /// As it is in the other.
    pub other: String,
}

/// A setup of the plan and one of the plan that it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The name of our setup.
    pub ours: String,
    /// The name of the other.
    pub other: String,
    /// Differences of machine and operating system.
    pub environment: Vec<Difference>,
    /// Differences of drives and array.
    pub array: Vec<Difference>,
    /// What changes, load by load.
    pub loads: Vec<Changed>,
}

/// What changes in one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// The name of the load.
    pub load: String,
    /// How many times the requests of the other our setup serves; of drives that are known from their sheet only, of the usual ones.
    /// Missing if one of them has no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// What limits our setup; empty if unknown.
    pub ours_limited_by: String,
    /// What limits the other.
    pub other_limited_by: String,
}

/// Each point of the other plan with our point of the same load: that of the same level, or else the first.
#[must_use]
pub fn pairs(points: &[PlanPoint]) -> Vec<(&PlanPoint, &PlanPoint)> {
    let others = points.iter().filter(|point| point.is_other);
    let pairs = others.filter_map(|other| {
        let mine = || {
            let mine = points.iter().filter(|point| !point.is_other);
            mine.filter(|point| point.load == other.load)
        };
        let level = other.configuration.setup.level;
        let same = mine().find(|point| point.configuration.setup.level == level);
        Some((same.or(mine().next())?, other))
    });
    pairs.collect()
}

/// The comparisons of a plan, setup by setup.
#[must_use]
pub fn compared(points: &[PlanPoint], library: &Library) -> Vec<Compared> {
    let mut all: Vec<Compared> = Vec::new();
    for (ours, other) in pairs(points) {
        let changed = changed(ours, other);
        let is_same = |one: &&mut Compared| (&one.ours, &one.other) == (&ours.setup, &other.setup);
        if let Some(known) = all.iter_mut().find(is_same) {
            known.loads.push(changed);
            continue;
        }
        let setups = (&ours.configuration.setup, &other.configuration.setup);
        all.push(Compared {
            ours: ours.setup.clone(),
            other: other.setup.clone(),
            environment: environment(setups, library),
            array: array(setups),
            loads: vec![changed],
        });
    }
    all
}

fn changed(ours: &PlanPoint, other: &PlanPoint) -> Changed {
    let figures = ours.figure(Metric::Iops).zip(other.figure(Metric::Iops));
    Changed {
        load: ours.load.clone(),
        times: figures
            .filter(|(_, other)| *other > 0.0)
            .map(|(ours, other)| ours / other),
        ours_limited_by: ours.limit(),
        other_limited_by: other.limit(),
    }
}

/// A difference, unless both are alike.
fn differ(about: &str, ours: String, other: String) -> Option<Difference> {
    (ours != other).then(|| Difference {
        about: about.to_owned(),
        ours,
        other,
    })
}

fn environment((ours, other): (&Setup, &Setup), library: &Library) -> Vec<Difference> {
    let names = [
        differ("platform", name(&ours.platform), name(&other.platform)),
        differ("host", ours.host.clone(), other.host.clone()),
    ];
    let mut all: Vec<Difference> = names.into_iter().flatten().collect();
    let graphs = [ours, other].map(|setup| library.platform(&setup.platform).ok());
    if let [Some(mine), Some(theirs)] = graphs {
        let described = [processors, bays].map(|of| (of(mine), of(theirs)));
        let about = ["processors", "bays"].into_iter().zip(described);
        all.extend(about.filter_map(|(about, (ours, other))| differ(about, ours, other)));
        let links = (link(mine, ours.count), link(theirs, other.count));
        all.extend(differ("narrowest link above the drives", links.0, links.1));
    }
    all
}

fn name(reference: &lab::schema::setup::Reference) -> String {
    reference.text().to_owned()
}

fn processors(graph: &Graph) -> String {
    let cores = &graph.cores;
    format!(
        "{} of {} cores at {} GHz",
        words::count(cores.sockets as usize, "socket"),
        cores.cores / cores.sockets.max(1),
        cores.clock_ghz
    )
}

fn bays(graph: &Graph) -> String {
    graph.bays.first().map_or_else(String::new, |bay| {
        format!("PCIe {}.0 x{}", bay.generation, bay.lanes)
    })
}

/// The narrowest link above these drives, and how many share it.
fn link(graph: &Graph, drives: u32) -> String {
    let narrowest = narrowest(graph, drives as usize);
    narrowest.map_or_else(
        || "none".to_owned(),
        |Narrowest { link, drives, .. }| {
            let gb_per_s = link.to_host_bytes_per_s as f64 / 1e9;
            let drives = words::count(drives, "drive");
            format!("\"{}\", {gb_per_s:.1} GB/s for {drives}", link.name)
        },
    )
}

fn array((ours, other): (&Setup, &Setup)) -> Vec<Difference> {
    let chunk = |setup: &Setup| {
        let own = is_in_own_format(&setup.stack).then_some(CHUNK_KIB);
        match setup.chunk_kib.or(own) {
            Some(chunk) => format!("{chunk} KiB"),
            None => "the stack's own".to_owned(),
        }
    };
    let export = |setup: &Setup| match setup.export {
        None => "none: clients run in the engine's process",
        Some(Export::Nbd) => "NBD",
        Some(Export::Ublk) => "ublk",
    };
    let condition = |setup: &Setup| match setup.condition {
        None => "whole",
        Some(Condition::Degraded) => "one drive is missing",
        Some(Condition::Rebuilding) => "one drive is being rebuilt",
    };
    let rebuild = |setup: &Setup| match setup.rebuild_mb_s {
        Some(limit) => format!("{limit} MB/s"),
        None => "no limit".to_owned(),
    };
    let cores = |setup: &Setup| setup.engine_cores.unwrap_or(1).to_string();
    let text = |of: &dyn Fn(&Setup) -> String| (of(ours), of(other));
    let all = [
        ("drive", text(&|setup| name(&setup.drive))),
        ("drives", text(&|setup| setup.count.to_string())),
        ("level", text(&|setup| setup.level.name().to_owned())),
        ("stack", text(&|setup| setup.stack.clone())),
        ("chunk", text(&chunk)),
        ("cores of the engine", text(&cores)),
        ("export", text(&|setup| export(setup).to_owned())),
        ("condition", text(&|setup| condition(setup).to_owned())),
        ("rebuild", text(&rebuild)),
    ];
    let all = all.into_iter();
    all.filter_map(|(about, (ours, other))| differ(about, ours, other))
        .collect()
}
