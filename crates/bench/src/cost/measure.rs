//! Runs the scenes and makes the table.

use super::bytes::BytePrices;
use super::catalogue::{LEVELS, UNPRICED, checks, of, of_the_world};
use super::count::{Sample, Tool};
use super::scene::{Scene, WORLD_COMMANDS, WORLD_REQUESTS};
use super::table::{LevelPrices, SCHEMA, Table, WorldPrices, rounded};
use anyhow::{Context, Result, bail, ensure};
use engine::layout::Level;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Receives the name of the scene that is being counted.
type Note<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs all scenes, or those of one level, under `tool`, and computes the prices.
///
/// # Errors
///
/// If a scene fails.
pub(super) fn measure(tool: &Tool, only: Option<Level>, note: Note<'_>) -> Result<Table> {
    let world = world(tool, note)?;
    let (bytes, parity_by) = BytePrices::measure(tool)?;
    let mut levels = Vec::new();
    for (level, number) in LEVELS {
        if only.is_some_and(|only| only != level) {
            continue;
        }
        let (priced, judging) = (of(level), checks(level));
        let all: Vec<Scene> = priced.iter().chain(&judging).cloned().collect();
        let samples = samples(tool, &all, note)?;
        let (samples, checks) = samples.split_at(priced.len());
        levels.push(LevelPrices::new(number, world, samples, checks, bytes));
    }
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    Ok(Table {
        schema: SCHEMA,
        fullstripe: env!("CARGO_PKG_VERSION").to_owned(),
        build: build.to_owned(),
        machine: machine(),
        parity_by,
        method: format!("{}; twice as much work minus once", tool.words()),
        world,
        unpriced: UNPRICED.map(str::to_owned).to_vec(),
        levels,
    })
}

/// The world's own instructions for a request and for a command, measured without an engine.
fn world(tool: &Tool, note: Note<'_>) -> Result<WorldPrices> {
    let samples = samples(tool, &of_the_world(), note)?;
    let [(_, one), (_, several)] = samples.as_slice() else {
        bail!("the world is priced by two scenes");
    };
    let requests = one.count(WORLD_REQUESTS);
    let more = several.count(WORLD_COMMANDS) - one.count(WORLD_COMMANDS);
    let command = (several.instructions - one.instructions) / more;
    Ok(WorldPrices {
        instructions_per_request: rounded(one.instructions / requests - command),
        instructions_per_command: rounded(command),
    })
}

/// Runs scenes in parallel, which does not affect the counts.
fn samples(tool: &Tool, scenes: &[Scene], note: Note<'_>) -> Result<Vec<(String, Sample)>> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let take = || {
        let mut mine = Vec::new();
        while let Some(scene) = scenes.get(next.fetch_add(1, Ordering::Relaxed)) {
            note(&format!("counting {}", scene.name));
            let sample = tool.scene(&scene.name, scene.units());
            mine.push((scene.name.clone(), sample?));
        }
        Ok(mine)
    };
    let mut found = BTreeMap::new();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        for worker in workers {
            let mine: Result<Vec<(String, Sample)>> =
                (worker.join()).unwrap_or_else(|_| Err(anyhow::anyhow!("a worker has panicked")));
            found.extend(mine?);
        }
        Ok(())
    })?;
    ensure!(found.len() == scenes.len(), "two scenes have the same name");
    let in_order = scenes.iter().map(|scene| found.remove_entry(&scene.name));
    in_order
        .map(|sample| sample.context("every scene has been run"))
        .collect()
}

/// The processor's name. The counts are valid for its instruction set.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = model.and_then(|rest| rest.split(':').nth(1)).map(str::trim);
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}
