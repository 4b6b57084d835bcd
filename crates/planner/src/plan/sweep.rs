//! What varies in a sweep, and over which values.

use super::ask::{Case, set};

/// Most points of a sweep at one level. So many take some minutes.
pub const POINTS_MAX: usize = 128;

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Number of drives.
    Count,
    /// Chunk size, in KiB.
    Chunk,
    /// Number of cores that run the engine.
    EngineCores,
    /// Requests outstanding per thread (queue depth).
    Depth,
    /// Number of client threads.
    Threads,
}

/// The variations with their names on the command line.
pub const VARIATIONS: [(&str, Variation); 5] = [
    ("count", Variation::Count),
    ("chunk", Variation::Chunk),
    ("engine-cores", Variation::EngineCores),
    ("qd", Variation::Depth),
    ("threads", Variation::Threads),
];

impl Variation {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = VARIATIONS.iter().find(|(_, other)| *other == self);
        row.map_or("", |(name, _)| name)
    }

    /// One value as people read it.
    #[must_use]
    pub fn value(self, value: u64) -> String {
        match self {
            Variation::Chunk => format!("{value}k"),
            _ => value.to_string(),
        }
    }

    /// Whether a range steps by doubling, or by one.
    #[must_use]
    pub fn doubles(self) -> bool {
        matches!(self, Variation::Chunk | Variation::Depth)
    }
}

/// A sweep: one or two things that vary, each over some values.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The first axis varies along the rows of a plot, the second from plot to plot.
    pub axes: Vec<(Variation, Vec<u64>)>,
}

impl Sweep {
    /// Combines each case with every value of every axis.
    #[must_use]
    pub fn vary(&self, cases: &[Case]) -> Vec<Case> {
        let mut varied: Vec<Case> = cases.to_vec();
        // The last axis varies slowest.
        for (what, values) in self.axes.iter().rev() {
            let each = varied.iter().flat_map(|case| {
                values.iter().map(|value| {
                    let mut case = case.clone();
                    set(&mut case.configuration, *what, *value);
                    case.varied.insert(0, *value);
                    case
                })
            });
            varied = each.collect();
        }
        varied
    }
}
