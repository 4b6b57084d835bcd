//! Creating an array, with a power cut at every instant. The code that `create` uses writes the logs first, then
//! the record, to one half of the drives after the other.

use super::images::Cut;
use super::tape::Clock;
use crate::container::create::{SECTOR, drive, record};
use crate::container::probe::{Probed, probe};
use crate::history::Topology;
use crate::machine::Machine;
use anyhow::{Context, Result};
use assembly::log::{initialise_all, logged_volumes};
use assembly::write::write_record;
use std::cell::RefCell;
use std::rc::Rc;

/// All instants of the creation.
///
/// # Errors
/// The format does not take the topology.
pub(super) fn cuts(seed: u64, topology: &Topology) -> Result<Vec<Cut>> {
    let bays = usize::from(topology.members);
    let mut drives: Vec<_> = (0..bays)
        .map(|bay| drive(seed, topology, bay, false))
        .collect();
    let clock = Clock::default();
    drives.iter_mut().for_each(|drive| drive.record(&clock));
    let mpb = record(seed, topology)?;
    let machine = Rc::new(RefCell::new(Machine::new(seed, drives, false)));
    let probed: Option<Vec<Probed>> = (0..bays).map(|bay| probe(&machine, bay, SECTOR)).collect();
    let probed = probed.context("a drive cannot be read")?;
    let members: Vec<&Probed> = probed.iter().collect();
    initialise_all(&logged_volumes(&mpb, SECTOR), &members)?;
    write_record(&mpb, &members)?;
    let machine = machine.borrow();
    let instants = 0..=clock.get();
    Ok(instants
        .map(|until| Cut::new(&machine.drives, until, Vec::new()))
        .collect())
}
