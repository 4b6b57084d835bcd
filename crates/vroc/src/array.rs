//! The array that is asked about.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What an array is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The machine starts from it.
    Boot,
    /// Anything else.
    Data,
}

/// Where a drive is connected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Behind the VMD of this name.
    Behind(String),
    /// Behind no VMD.
    Outside,
    /// That cannot be seen: a file, or a drive that is not on PCIe.
    Unseen,
}

/// A drive of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, for sentences.
    pub name: String,
    /// What its maker sells it as; `None` if that is not known.
    pub title: Option<String>,
    /// Its maker; `None` if that is not known.
    pub maker: Option<String>,
    /// What it is made for; `None` if that is not known.
    pub purpose: Option<catalogue::sheet::Purpose>,
    /// Where it is connected.
    pub place: Place,
}

/// An array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// RAID level.
    pub level: u8,
    /// Chunk size; `None` if there are no chunks, as in a RAID 1.
    pub chunk_kib: Option<u32>,
    /// Volumes on these drives, with this one.
    pub volumes: usize,
    /// What it is for.
    pub purpose: Purpose,
    /// Its drives.
    pub members: Vec<Member>,
}

impl Array {
    /// Where its drives are, each place once.
    #[must_use]
    pub fn places(&self) -> BTreeSet<&Place> {
        self.members.iter().map(|member| &member.place).collect()
    }

    /// The VMDs that have drives of it.
    #[must_use]
    pub fn domains(&self) -> BTreeSet<&str> {
        let names = self
            .members
            .iter()
            .filter_map(|member| match &member.place {
                Place::Behind(name) => Some(name.as_str()),
                Place::Outside | Place::Unseen => None,
            });
        names.collect()
    }
}
