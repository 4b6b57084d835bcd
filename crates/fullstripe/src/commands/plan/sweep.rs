//! What varies in a sweep, and over which values.

use super::args::chunk;
use super::ask::{Case, set};
use anyhow::{Context, Result, anyhow, bail, ensure};
use lab::schema::nearest::nearest;

/// Most points of a sweep at one level: some minutes.
const POINTS_MAX: usize = 128;

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Drives.
    Count,
    /// Chunk, in KiB.
    Chunk,
    /// Cores that run the engine.
    EngineCores,
    /// Requests outstanding per thread.
    Depth,
    /// Threads of clients.
    Threads,
}

/// By name.
const VARIATIONS: [(&str, Variation); 5] = [
    ("count", Variation::Count),
    ("chunk", Variation::Chunk),
    ("engine-cores", Variation::EngineCores),
    ("qd", Variation::Depth),
    ("threads", Variation::Threads),
];

impl Variation {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let row = VARIATIONS.iter().find(|(_, other)| *other == self);
        row.map_or("", |(name, _)| name)
    }

    /// A value of it, for people.
    pub fn value(self, value: u64) -> String {
        match self {
            Variation::Chunk => format!("{value}k"),
            _ => value.to_string(),
        }
    }

    /// Whether its values double, or follow one by one.
    fn doubles(self) -> bool {
        matches!(self, Variation::Chunk | Variation::Depth)
    }
}

/// A sweep: one or two things that vary, each over some values.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The first is drawn from row to row, the second from plot to plot.
    pub axes: Vec<(Variation, Vec<u64>)>,
}

impl Sweep {
    /// From `count=1..24,chunk=16k..256k`.
    ///
    /// # Errors
    /// A sentence with what is wrong and the form there is.
    pub fn parse(text: &str) -> Result<Sweep> {
        let mut axes = Vec::new();
        for part in text.split(',') {
            let (name, range) = part.split_once('=').with_context(|| {
                format!("--sweep: \"{part}\" has no range; write it like count=1..24")
            })?;
            let found = VARIATIONS.iter().find(|(known, _)| *known == name);
            let Some((_, what)) = found else {
                let offered = nearest(name, VARIATIONS.map(|(known, _)| known));
                bail!("--sweep does not know \"{name}\"; nearest: {offered}");
            };
            axes.push((*what, values(*what, range)?));
        }
        ensure!(
            axes.len() <= 2,
            "--sweep varies one or two things, not {}",
            axes.len()
        );
        ensure!(
            axes.len() < 2 || axes[0].0 != axes[1].0,
            "--sweep names {} twice",
            axes[0].0.name()
        );
        let points: usize = axes.iter().map(|(_, values)| values.len()).product();
        ensure!(
            points <= POINTS_MAX,
            "--sweep asks for {points} points, and at most {POINTS_MAX} are tried at each level"
        );
        Ok(Sweep { axes })
    }

    /// Each case with every value.
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

fn values(what: Variation, range: &str) -> Result<Vec<u64>> {
    let one = |text: &str| -> Result<u64> {
        if what == Variation::Chunk {
            return chunk(text)
                .map(u64::from)
                .map_err(|error| anyhow!("--sweep: chunk: {error}"));
        }
        let number = text.parse().ok().filter(|number| *number > 0);
        number.with_context(|| {
            format!(
                "--sweep: {}: \"{text}\" must be a number like 4",
                what.name()
            )
        })
    };
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let (first, last) = (one(first)?, one(last)?);
    ensure!(
        first <= last,
        "--sweep: {}: {first} to {last} goes backwards",
        what.name()
    );
    if !what.doubles() {
        ensure!(
            last - first < POINTS_MAX as u64,
            "--sweep: {}: {first} to {last} are more than {POINTS_MAX} values",
            what.name()
        );
        return Ok((first..=last).collect());
    }
    let doubled = std::iter::successors(Some(first), |value| value.checked_mul(2));
    Ok(doubled.take_while(|value| *value <= last).collect())
}
