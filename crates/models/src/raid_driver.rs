//! The costs of a RAID driver of Windows of 2017, in numbers with their sources.
//!
//! A file describes one [`DriverFile`]; [`DriverFile::costs`] checks it and gives the [`DriverCosts`] on the processors
//! that a [`Cores`] describes. The driver's behaviour is modelled in `crates/timed/src/stacks/raid_driver.rs`.

use crate::host::SCHEMA;
use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

figures! {
    /// How arrays are made.
    Arrays {
        /// Chunk size of RAID 0, unless a configuration gives another.
        chunk_kib,
    }
}

figures! {
    /// Work of the driver, by kind.
    Work {
        /// A request, on the core of the thread that makes it: its translation, its pieces, its answer.
        request_cycles,
        /// Each piece of a request after the first, with its completion.
        command_cycles,
        /// The part after that, which one core at a time does for an array.
        serial_ns,
        /// From then until the drives get the request, while no core works on it.
        delay_ns,
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// Version of the form, the same as that of hosts.
    pub schema: u32,
    /// Name by which plans call it.
    pub stack: String,
    /// The host that it is a driver of.
    pub host: String,
    /// Full name, for people.
    pub title: String,
    /// How arrays are made.
    pub array: Arrays,
    /// Its work.
    pub work: Work,
}

/// The costs of a driver on a given processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCosts {
    /// Chunk size, unless a configuration gives another.
    pub chunk_bytes: u32,
    /// A request, on its own core.
    pub request_ns: u64,
    /// Each piece of it after the first.
    pub command_ns: u64,
    /// The part of a request that one core at a time does.
    pub serial_ns: u64,
    /// From then until the drives get the request.
    pub delay_ns: u64,
}

fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "chunk_kib" => (4.0, 1024.0, true),
        _ => (0.0, 1e6, false),
    }
}

impl DriverFile {
    /// The costs on these processors while `threads` threads compute at once.
    ///
    /// # Errors
    /// The first number that breaks a rule.
    pub fn costs(&self, cores: &Cores, threads: u64) -> Result<DriverCosts, FigureError> {
        check(self, &self.stack, [self.schema, SCHEMA], range)?;
        let slowdown = cores.slowdown(threads);
        let ns = |cycles: &Figure| (cores.cycles_ns(cycles.value) * slowdown + 0.5) as u64;
        let DriverFile { array, work, .. } = self;
        Ok(DriverCosts {
            chunk_bytes: (array.chunk_kib.value * 1024.0) as u32,
            request_ns: ns(&work.request_cycles),
            command_ns: ns(&work.command_cycles),
            serial_ns: (work.serial_ns.value + 0.5) as u64,
            delay_ns: (work.delay_ns.value + 0.5) as u64,
        })
    }
}

tables!(DriverFile: array, work);
