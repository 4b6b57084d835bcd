//! The cost of each class of the engine's work, in instructions and bytes touched.
//!
//! A planner that runs the engine in virtual time charges processor time for the work that the engine has counted
//! ([`engine::stats`]). This module makes the price list, in five steps ([`measure`]):
//!
//! 1. In each [`scene`] the engine does much work of one kind: the real engine, in its own loop, in a [`world`] that
//!    costs next to nothing, where commands complete at once and time is virtual. So the price is that of RAID alone,
//!    without kernel, drives, export and client.
//! 2. [`count`] runs each scene in a process of its own, with N and with 2 N units of work, under a tool that counts
//!    instructions. The difference does not contain the cost of starting.
//! 3. [`fit`] finds the prices of classes that fit all scenes of a level best, by least squares of relative errors,
//!    with no negative price. The world's own cost was measured without an engine, and is subtracted before.
//! 4. Other scenes, which are in the [`catalogue`] only as checks, are predicted and counted.
//! 5. The [`table`] contains prices, machine, method, and the errors of predictions.
//!
//! Bytes that the processor itself touches, those of parity and log units, are priced over real memory ([`bytes`]).

mod bytes;
mod catalogue;
mod count;
mod fit;
mod measure;
mod scene;
mod table;
#[cfg(test)]
mod tests;
mod world;

use anyhow::Result;
use engine::layout::Level;

pub use table::Table;

/// Runs one scene with `units` units of work, and returns its work as JSON.
///
/// # Errors
///
/// If there is no such scene, or it fails.
pub fn scene(name: &str, units: u64) -> Result<String> {
    let done = match bytes::run(name, units) {
        Some(done) => done?,
        None => scene::run(name, units)?,
    };
    Ok(serde_json::to_string(&done)?)
}

/// Makes the table, of one level if `level` names one. `note` receives the name of each scene that is counted. The
/// scenes run in processes of this program: `fullstripe bench --cost-scene NAME` calls [`scene`].
///
/// # Errors
///
/// If no tool here can count instructions, or a scene fails: one sentence.
pub fn table(level: Option<Level>, note: &(dyn Fn(&str) + Sync)) -> Result<Table> {
    let tool = count::Tool::choose()?;
    measure::measure(&tool, level, note)
}
