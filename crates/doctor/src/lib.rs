//! Examines how well this machine can serve arrays, and says what to change.
//!
//! Each check reads what the kernel shows in `/sys` and `/proc`, or requests from it what `serve` would request
//! ([`granted`]), and returns [`finding`]s, one line each: `ok`, `note`, `warning`, or `problem`, which
//! prevents serving. Nothing is changed, and drives are only read.
//!
//! The order is from the machine to the drives: [`kernel`], [`processor`], [`memory`], [`nvme`] with [`pci`],
//! [`block`], [`drives`], [`other_programs`] (which take over drives with RAID metadata), [`tools`]. All checks
//! read files below a root ([`machine::files`]), so that tests can show them machines that are not available.

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod block;
mod drives;
pub mod finding;
mod granted;
mod health;
mod kernel;
mod memory;
mod nvme;
mod other_programs;
mod pci;
mod processor;
#[cfg(test)]
mod tests;
mod tools;

use ::drives::spec::{MemberSpec, Target};
use anyhow::{Result, bail};
use drives::Look;
use finding::Diagnosis;
use granted::{Granted, Need};
use machine::files::Files;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Memory available without swapping, on the whole machine and in this process's control group, whichever is less;
/// `None` if the kernel does not say.
#[must_use]
pub fn available_memory_bytes() -> Option<u64> {
    memory::available_bytes(&Files::below("/"))
}

/// The input of the checks.
struct Machine {
    files: Files,
    granted: Granted,
    /// The instruction set used for parity.
    instructions: &'static str,
    /// The folders in which programs are searched.
    search_path: Vec<PathBuf>,
}

/// Examines this machine and the drives with the specifications `drives`; if there are none, every block device.
///
/// # Errors
/// A specification that cannot be parsed, or that names no drive of this machine.
pub fn examine_this_machine(drives: &[String]) -> Result<Diagnosis> {
    let named = named_drives(drives)?;
    let files = Files::below("/");
    let machine = Machine {
        granted: Granted::ask(bytes_to_ask_for(&files)),
        files,
        instructions: engine::xor::instructions().name(),
        search_path: tools::search_path(),
    };
    let are_named = !named.is_empty();
    Ok(examine(&machine, &named, &|spec| {
        drives::look(spec, are_named)
    }))
}

/// A drive that the user named.
struct Named {
    /// The specification, as given.
    spec: String,
    path: String,
}

fn named_drives(specs: &[String]) -> Result<Vec<Named>> {
    let mut named = Vec::with_capacity(specs.len());
    for spec in specs {
        match spec.parse::<MemberSpec>()?.target {
            Target::Path(path) => named.push(Named {
                spec: spec.clone(),
                path: path.display().to_string(),
            }),
            Target::Ram { .. } | Target::Null { .. } => {
                bail!("{spec} is no drive of this machine; name block devices or files")
            }
        }
    }
    Ok(named)
}

/// How much memory to request: as much as `serve` needs, or if other programs would suffer, just enough for a ring.
fn bytes_to_ask_for(files: &Files) -> u64 {
    const LITTLE_BYTES: u64 = 2 << 20;
    let need = Need::of_defaults();
    let is_plenty =
        memory::available_bytes(files).is_some_and(|bytes| bytes >= 2 * need.locked_bytes);
    if is_plenty {
        need.arena_bytes
    } else {
        LITTLE_BYTES
    }
}

/// Runs all checks; if drives are named, those about drives cover only these.
fn examine(machine: &Machine, named: &[Named], look: Look) -> Diagnosis {
    let files = &machine.files;
    let mut findings = kernel::check(machine);
    findings.extend(processor::check(machine));
    findings.extend(memory::check(machine));
    let (devices, specs): (BTreeSet<String>, Vec<String>) = if named.is_empty() {
        let devices = block::candidates(files);
        let specs = devices.iter().map(|name| block::device_path(name));
        let specs = specs.collect();
        (devices, specs)
    } else {
        let paths = named.iter().map(|drive| drive.path.as_str());
        let devices = paths.filter_map(|path| block::whole_device(files, path));
        let specs = named.iter().map(|drive| drive.spec.clone());
        (devices.collect(), specs.collect())
    };
    let chosen = (!named.is_empty()).then_some(&devices);
    findings.extend(nvme::check(&machine.files, chosen));
    findings.extend(block::check(files, &devices));
    let looked = drives::check(&specs, !named.is_empty(), look);
    findings.extend(looked.findings);
    findings.extend(other_programs::check(files, &looked.imsm));
    findings.extend(tools::check(&machine.search_path));
    Diagnosis::new(findings)
}
