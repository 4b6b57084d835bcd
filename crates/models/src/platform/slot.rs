//! Slots, and whether one takes several drives.
//!
//! A slot of sixteen lanes serves four drives of four lanes only if it is split (bifurcation): by itself, when the board recognises
//! the card in it, or by a setting of the firmware. One that is not split takes one drive, unless the card has a switch.

use super::{Kind, Machine, Node};
use crate::nearest::nearest;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How a slot comes to be split among several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The board recognises the card.
    ByItself,
    /// By a setting of the firmware.
    BySetting,
    /// Not at all.
    No,
}

/// A slot, as the firmware of a machine shows it or as a publication describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Its name, as printed on the board.
    pub name: String,
    /// Lanes that are wired to it.
    pub lanes: u64,
    /// The card that is in it or that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// How it is split with this card; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Where that is known from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The node of the tree that it is; absent if nothing of the tree is in it, or if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The drives in it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<String>,
}

/// A slot of the tree, with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledSlot {
    /// Its name.
    pub name: String,
    /// How it is split.
    pub split: Split,
    /// The bays in it without a switch between, by index.
    pub bays: Vec<usize>,
}

impl FilledSlot {
    /// How many of the first `drives` bays are in it.
    #[must_use]
    pub fn drives_of(&self, drives: usize) -> usize {
        self.bays.iter().filter(|&&bay| bay < drives).count()
    }
}

/// What is wrong with a slot: key and rule.
pub(super) fn wrong(machine: &Machine) -> Option<(String, String)> {
    machine.slots.iter().find_map(|slot| {
        let refuse = |key: &str, rule: String| Some((format!("slot.{}.{key}", slot.name), rule));
        let drives = &machine.drives;
        let is_lost = |name: &&String| !drives.iter().any(|drive| drive.name == **name);
        if let Some(lost) = slot.drives.iter().find(is_lost) {
            let rule = format!("has \"{lost}\", which is no drive of the file");
            return refuse("drives", rule);
        }
        if slot.split.is_some() && slot.source.is_none() {
            return refuse(
                "source",
                "is missing: say where split is known from".to_string(),
            );
        }
        let node = slot.node.as_deref()?;
        let mut names = machine.nodes.iter().map(|node| node.name.as_str());
        if names.clone().any(|name| name == node) {
            return None;
        }
        let rule = format!(
            "is \"{node}\", which no node is called; nearest: {}",
            nearest(node, &mut names)
        );
        refuse("node", rule)
    })
}

/// The slots of the tree of which it is known how they are split.
pub(super) fn filled(machine: &Machine) -> Vec<FilledSlot> {
    let known = machine.slots.iter().filter_map(|slot| {
        let (node, split) = (slot.node.as_deref()?, slot.split?);
        Some(FilledSlot {
            name: slot.name.clone(),
            split,
            bays: bays_in(machine, node),
        })
    });
    known.collect()
}

/// The bays below a node without a switch between, by their index among all bays.
fn bays_in(machine: &Machine, node: &str) -> Vec<usize> {
    let mut bays = Vec::new();
    let mut next = 0;
    for row in &machine.bays {
        let count = row.figures.count.value as usize;
        if is_straight(machine, &row.parent, node) {
            bays.extend(next..next + count);
        }
        next += count;
    }
    bays
}

/// Whether the way from the node `from` up to the node `to` exists and has no switch.
fn is_straight(machine: &Machine, from: &str, to: &str) -> bool {
    for node in machine.upwards(from) {
        if node.kind == Kind::Switch {
            return false;
        }
        if node.name == to {
            return true;
        }
    }
    false
}

impl Machine {
    /// The nodes from the one of this name up to a socket; none if there is no such node.
    pub fn upwards<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a Node> + use<'a> {
        let node = |name: &str| self.nodes.iter().find(|node| node.name == name);
        core::iter::successors(node(from), move |at| node(&at.parent))
    }
}
