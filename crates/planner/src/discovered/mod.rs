//! The machine at hand as a platform: what its kernel shows ([`machine::seen`]), and usual values where that shows nothing.
//!
//! | what | file |
//! |---|---|
//! | which platform of the program the usual values come from | this one |
//! | processors, memory, packets | [`figures`] |
//! | the tree of links, and the bays | [`tree`] |
//! | the text of the file | [`written`] |
//!
//! A figure that was read is `measured`. What no file of the kernel shows, such as how fast a cache line changes its core, is taken
//! from the platform of the program that is most like the machine, as a `prior` that names it.

mod figures;
#[cfg(test)]
mod tests;
mod tree;
pub mod written;

use crate::predict::built_in::machines;
use anyhow::{Result, bail, ensure};
use machine::seen::Seen;
use machine::tree::Drive;
use models::nearest::nearest;
use models::platform::{Installed, Machine, SCHEMA, Slot};
use models::profile::{Figure, Use};

/// The machine as a platform called `id`. Usual values come from the platform `like`, or from the one that is most like it.
///
/// # Errors
/// There is no platform `like`, the machine has no NVMe drive on PCIe, or its links make no machine that a plan can use.
pub fn platform(seen: &Seen, id: &str, like: Option<&str>) -> Result<Machine> {
    ensure!(
        !seen.tree.drives.is_empty(),
        "this machine has no NVMe drive on PCIe, so there is no tree of links to show"
    );
    let usual = usual(like.unwrap_or_else(|| most_like(seen)))?;
    let processor = figures::processor(seen, &usual);
    let tree = tree::grow(seen, &usual);
    let machine = Machine {
        schema: SCHEMA,
        platform: id.to_owned(),
        title: title(seen),
        memory: figures::memory(seen, &usual),
        interconnect: figures::interconnect(&usual),
        root: figures::root(&usual, &processor, &tree.nodes),
        packets: figures::packets(seen, &usual),
        processor,
        nodes: tree.nodes,
        bays: tree.bays,
        drives: tree.drives,
        slots: slots(seen),
        not_seen: seen.not_seen.clone(),
    };
    machine.graph()?;
    Ok(machine)
}

/// The machine with these of its drives' bays alone, in this order.
///
/// # Panics
/// A drive is not in the machine.
#[must_use]
pub fn with_bays_of(machine: &Machine, names: &[&str]) -> Machine {
    let rows = names.iter().enumerate().map(|(number, name)| {
        let drive = machine.drives.iter().find(|drive| drive.name == *name);
        let drive = drive.expect("the machine has the drive");
        let row = drive
            .bay
            .rsplit_once('-')
            .and_then(|(row, _)| machine.bays.iter().find(|bays| bays.name == row));
        let mut row = row.expect("the drive's bay is in the machine").clone();
        row.name = format!("bays-{number}");
        row.figures.count.value = 1.0;
        (
            row,
            Installed {
                bay: format!("bays-{number}-0"),
                ..drive.clone()
            },
        )
    });
    let (bays, drives) = rows.unzip();
    let slots = machine.slots.iter().filter(|slot| {
        slot.drives
            .iter()
            .all(|drive| names.contains(&drive.as_str()))
    });
    Machine {
        bays,
        drives,
        slots: slots.cloned().collect(),
        ..machine.clone()
    }
}

fn usual(id: &str) -> Result<Machine> {
    let all = machines();
    let offered = nearest(id, all.iter().map(|machine| machine.platform.as_str()));
    match all.into_iter().find(|machine| machine.platform == id) {
        Some(machine) => Ok(machine),
        None => bail!("--like does not know \"{id}\"; nearest: {offered}"),
    }
}

/// The platform of the program that is most like the machine: by the generation of its links, its maker, and its sockets.
fn most_like(seen: &Seen) -> &'static str {
    let model = seen.processors.model.as_deref().unwrap_or_default();
    let is = |word: &str| model.contains(word);
    // What drives support says nothing of the machine.
    let links = seen.tree.places.iter().filter_map(|place| place.most);
    let generation = links.map(|link| link.generation()).max();
    let sockets = seen.processors.sockets;
    if is("Xeon") || (is("Intel") && sockets > 1) {
        return match generation {
            Some(4..) => "sys221h-8592-24",
            _ => "s2600wft-6154-x16",
        };
    }
    if is("Threadripper") {
        return "wrx90-7965wx-4";
    }
    if is("Intel") || is("Ryzen") {
        return "z790-14900k-5";
    }
    // AMD's EPYC, and whatever is unknown: ARM's servers do not name their processors.
    match sockets {
        1 => "epyc-9554p-24",
        _ => "r7725xd-9575f-24",
    }
}

fn title(seen: &Seen) -> String {
    let board = [&seen.board.vendor, &seen.board.product]
        .into_iter()
        .flatten();
    let board: Vec<&str> = board.map(String::as_str).collect();
    let board = if board.is_empty() {
        "A machine"
    } else {
        &board.join(" ")
    };
    let model = seen
        .processors
        .model
        .as_deref()
        .unwrap_or("processor of an unknown model");
    let drives = words::count(seen.tree.drives.len(), "NVMe drive");
    match seen.processors.sockets {
        1 => format!("{board}, {model}, {drives}"),
        sockets => format!("{board}, {sockets} x {model}, {drives}"),
    }
}

/// The slots with drives. The firmware gives each the address of a port, or of the device in it.
fn slots(seen: &Seen) -> Vec<Slot> {
    let all = seen.tables.iter().flat_map(|tables| &tables.slots);
    let slots = all.map(|slot| {
        let is_inside = |drive: &&Drive| {
            let mut above = seen.tree.upwards(drive.above);
            slot.address.as_ref().is_some_and(|address| {
                drive.address == *address
                    || above.any(|at| seen.tree.places[at].address == *address)
            })
        };
        let drives = seen.tree.drives.iter().filter(is_inside);
        Slot {
            name: slot.name.clone(),
            lanes: slot.lanes,
            card: None,
            split: None,
            source: None,
            node: None,
            drives: drives.map(|drive| drive.name.clone()).collect(),
        }
    });
    slots.filter(|slot| !slot.drives.is_empty()).collect()
}

/// A figure that the machine itself shows.
fn measured(value: f64, source: &str) -> Figure {
    Figure {
        value,
        source: source.to_owned(),
        r#use: Use::Measured,
    }
}

/// A usual value.
fn prior(value: f64, source: String) -> Figure {
    Figure {
        value,
        source,
        r#use: Use::Prior,
    }
}

/// The figure of the platform `usual`, as a usual value.
fn as_usual(usual: &Machine, figure: &Figure) -> Figure {
    prior(
        figure.value,
        format!("as {}: {}", usual.platform, figure.source),
    )
}
