//! The machine at hand, and the drives that are in it, for `plan --here` and `doctor --advise`.

use crate::commands::platform::discover::machine_below;
use crate::terminal::print::print_note;
use anyhow::{Result, anyhow};
use catalogue::Catalogue;
use models::platform::{Installed, Machine};
use planner::discovered::with_bays_of;
use std::collections::BTreeSet;
use std::path::Path;

/// The machine whose `/sys` and `/proc` are below `root`, and the drive to plan with. Unless one is given, that is the one of which
/// the catalogue knows most drives here, and the machine has the bays of these drives alone.
///
/// # Errors
/// There is no such machine, or the catalogue knows none of its drives and none is given.
pub fn machine(root: &Path, given: Option<&str>) -> Result<(Machine, String)> {
    let machine = machine_below(root, None)?;
    if let Some(drive) = given {
        return Ok((machine, drive.to_owned()));
    }
    let (drive, names) = most_known(&machine.drives)?;
    print_note(&format!(
        "planned with the drives that are here: {}, {drive}",
        words::and(&names)
    ));
    Ok((with_bays_of(&machine, &names), drive))
}

/// How many drives fit into the machine's bays.
pub fn places(machine: &Machine) -> u32 {
    machine
        .bays
        .iter()
        .map(|row| row.figures.count.value as u32)
        .sum()
}

/// The id of the catalogue that most of the drives have, and their names.
///
/// # Errors
/// The catalogue knows none of them.
pub fn most_known(drives: &[Installed]) -> Result<(String, Vec<&str>)> {
    let catalogue = Catalogue::built_in();
    let mut known: Vec<(String, Vec<&str>)> = Vec::new();
    for drive in drives {
        let model = drive.model.as_deref();
        let Some(entry) = model.and_then(|model| catalogue.with_model(model)) else {
            continue;
        };
        let id = &entry.drive.id;
        match known.iter_mut().find(|(of, _)| of == id) {
            Some((_, names)) => names.push(&drive.name),
            None => known.push((id.clone(), vec![&drive.name])),
        }
    }
    // Of several with equally many, the first.
    let most = known.into_iter().rev().max_by_key(|(_, names)| names.len());
    most.ok_or_else(|| {
        let models: BTreeSet<&str> = drives.iter().filter_map(|drive| drive.model.as_deref()).collect();
        let models: Vec<&str> = models.into_iter().collect();
        let models = match models.as_slice() {
            [] => "they do not say what they are".to_owned(),
            models => models.join(", "),
        };
        anyhow!(
            "the catalogue knows none of the drives here ({models}): give one like them with --drive, or the file that \"fullstripe \
             drive new\" makes of their data sheet"
        )
    })
}
