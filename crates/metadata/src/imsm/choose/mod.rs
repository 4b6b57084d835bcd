//! Decides which copy of a record to use, and which drives may serve.
//!
//! Every member carries a full copy. After a crash, a failure or use in another machine the
//! copies can differ. The record that is chosen is called the *truth* or the *winner*. The rules are stricter than
//! those of md, which accepts outdated members silently:
//!
//! * Records belong together if they have the same original family number of the container.
//! * The highest generation wins. A copy one generation behind, whose drive is not marked failed,
//!   is an interrupted update: its drive serves, a volume is dirty if either copy says so, and all copies must be
//!   written again. A copy further behind is stale and its drive is evicted.
//! * A drive that the winner marks failed is evicted, whatever its own record says. If the highest
//!   generation is on a drive that another copy, at most one generation behind, marks failed, then
//!   that other copy wins: it was written without the drive.
//! * If the container was split in two halves that were each used without the other, they are never merged: the
//!   container is refused and both halves are reported. Also refused: copies of one generation that differ, drives that
//!   the format cannot tell apart, and a damaged copy that claims to be newer than every readable one.
//! * A damaged copy on a drive that the winner lists as healthy is an interrupted update, if its
//!   header matches; the drive serves and its copy is written again.
//! * If every member's record is torn, the private second copies are used ([`Shadow`]), if they agree
//!   and nothing was written after them.
//! * A drive that should be a member but has no record, a spare's, or another container's is
//!   evicted: the winner decides which drive belongs in a slot, not what can be read from the drive.
//!
//! The result is an [`Assembly`] or a [`Refusal`] for each container. Nothing is written.

mod container;
mod outcome;
mod returned;
mod shadow;
mod winner;

#[cfg(test)]
mod tests;

pub use outcome::{Assembly, Eviction, Half, MemberState, Refusal, ShadowDoubt, Unfinished};
pub use returned::Returned;

use super::codec::DecodeError;
use super::record::{Mpb, SectorSize};
use super::serial::Serial;
use super::shadow::Shadow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A drive that has been examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The drive's name in messages, such as its path.
    pub name: String,
    /// Its serial in stored form.
    pub serial: Serial,
    /// Its real size.
    pub total_sectors: u64,
    /// Its logical sector size.
    pub sector: SectorSize,
    /// The content of its metadata region.
    pub content: Content,
    /// Its shadow, if it has a whole one.
    pub shadow: Option<Box<Shadow>>,
}

/// The content of a drive's metadata region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No IMSM signature.
    Nothing,
    /// A valid record.
    Record(Box<Mpb>),
    /// A signature without a valid record.
    Damaged(DecodeError),
}

impl Candidate {
    fn label(&self) -> String {
        format!("{} (serial {})", self.name, self.serial)
    }

    /// The record, if it is that of a container with volumes.
    fn container_record(&self) -> Option<&Mpb> {
        match &self.content {
            Content::Record(mpb) if !mpb.is_spare() => Some(mpb),
            _ => None,
        }
    }

    fn is_spare(&self) -> bool {
        matches!(&self.content, Content::Record(mpb) if mpb.is_spare())
    }
}

/// Everything that was found on a set of drives. Numbers are indexes into the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Each container, in order of its first drive.
    pub containers: Vec<Found>,
    /// Drives with a record of their own that belongs to no container.
    pub spares: Vec<usize>,
    /// Drives with a damaged record that no container lists.
    pub damaged: Vec<usize>,
}

/// One container that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its identity, see [`Mpb::container_family`].
    pub container_family: u32,
    /// How it can be assembled, or why not.
    pub outcome: Result<Assembly, Refusal>,
}

/// Groups drives into containers and decides for each container which record to use.
#[must_use]
pub fn choose(candidates: &[Candidate]) -> Choice {
    let records = candidates.iter().filter_map(Candidate::container_record);
    let recorded = records.map(Mpb::container_family);
    let mut families: Vec<u32> = Vec::new();
    for family in recorded.chain(shadow::families(candidates)) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let containers: Vec<Found> = families
        .into_iter()
        .map(|container_family| Found {
            container_family,
            outcome: shadow::decide(candidates, container_family)
                .unwrap_or_else(|| container::decide(candidates, container_family)),
        })
        .collect();
    let claimed = |drive: usize| {
        containers.iter().any(|container| {
            container
                .outcome
                .as_ref()
                .is_ok_and(|assembly| assembly.lists(drive))
        })
    };
    let unclaimed = |wanted: fn(&Candidate) -> bool| -> Vec<usize> {
        (0..candidates.len())
            .filter(|&drive| wanted(&candidates[drive]) && !claimed(drive))
            .collect()
    };
    let spares = unclaimed(Candidate::is_spare);
    let damaged = unclaimed(|candidate| matches!(candidate.content, Content::Damaged(_)));
    let mut choice = Choice {
        containers,
        spares,
        damaged,
    };
    for container in &mut choice.containers {
        if let Ok(assembly) = &mut container.outcome {
            assembly.offer_spares(candidates, &choice.spares);
        }
    }
    choice
}
