//! What each class of the engine's work costs, in instructions and bytes touched.
//!
//! A planner that runs the engine in virtual time charges processor time for what the engine has
//! counted ([`engine::stats`]). This makes the price list, in five steps ([`measure`]):
//!
//! 1. [`scene`]s make the engine do much of one kind of work each: the engine itself, in its own loop,
//!    in a [`world`] that costs next to nothing, where answers come at once and time is virtual. So
//!    the price is that of RAID alone, without the kernel, the drives, the export and the client.
//! 2. [`count`] runs each scene in a process of its own, with N and with 2 N units of work, under a tool
//!    that counts instructions. The difference is free of what starting costs.
//! 3. [`fit`] finds the prices of the classes that explain all scenes of a level best, by least squares
//!    of relative errors, none negative. What the world itself costs has been measured without an
//!    engine and is subtracted before.
//! 4. Other scenes, which are in the [`catalogue`] for that alone, are predicted and counted.
//! 5. The [`table`] has it all: prices, machine, method, and how far off predictions are.
//!
//! Bytes that the processor itself touches, parity and log units, are priced over real memory ([`bytes`]).

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

/// Runs one scene with so many units of work, and gives what it has done as JSON.
///
/// # Errors
///
/// There is no such scene, or it fails.
pub fn scene(name: &str, units: u64) -> Result<String> {
    let done = match bytes::run(name, units) {
        Some(done) => done?,
        None => scene::run(name, units)?,
    };
    Ok(serde_json::to_string(&done)?)
}

/// Makes the table, of one level if one is named; `note` hears which scene is being counted. The scenes run in processes
/// of this program: `fullstripe bench --cost-scene NAME` calls [`scene`].
///
/// # Errors
///
/// One sentence when nothing here can count instructions, or a scene fails.
pub fn table(level: Option<Level>, note: &(dyn Fn(&str) + Sync)) -> Result<Table> {
    let tool = count::Tool::choose()?;
    measure::measure(&tool, level, note)
}
