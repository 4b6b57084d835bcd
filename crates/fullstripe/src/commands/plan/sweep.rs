//! `--sweep`: parses what varies, and over which values.

use super::args::chunk;
use anyhow::{Context, Result, anyhow, bail, ensure};
use lab::schema::nearest::nearest;
use planner::plan::sweep::{POINTS_MAX, Sweep, VARIATIONS, Variation};

/// Parses a text like `count=1..24,chunk=16k..256k`.
///
/// # Errors
/// A sentence that says what is wrong and which form is expected.
pub fn parse_sweep(text: &str) -> Result<Sweep> {
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
