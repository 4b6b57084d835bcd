//! Finds the record to use (the winner), and detects when there is none.

use super::{Candidate, Half, Refusal};
use crate::imsm::record::Mpb;
use crate::imsm::serial::Serial;
use alloc::string::String;
use alloc::vec::Vec;

/// A drive with a record that lists the drive itself as a healthy member.
#[derive(Clone, Copy)]
pub(super) struct RecordCopy<'a> {
    pub drive: usize,
    pub candidate: &'a Candidate,
    pub mpb: &'a Mpb,
}

/// What a record says about a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Healthy, in this row of the disk table.
    Listed(usize),
    /// Marked failed, in this row.
    MarkedFailed(usize),
    /// Not mentioned.
    Unknown,
}

pub(super) fn standing(mpb: &Mpb, serial: &Serial) -> Standing {
    if let Some(row) = mpb.disk_index_of(serial) {
        return if mpb.disks[row].is_failed() {
            Standing::MarkedFailed(row)
        } else {
            Standing::Listed(row)
        };
    }
    let failed = |disk: &crate::imsm::record::Disk| {
        disk.is_failed() && serial.is_listed_as_failed_by(&disk.serial)
    };
    match mpb.disks.iter().position(failed) {
        Some(row) => Standing::MarkedFailed(row),
        None => Standing::Unknown,
    }
}

impl<'a> RecordCopy<'a> {
    fn considers(&self, other: &RecordCopy<'a>) -> Standing {
        standing(self.mpb, &other.candidate.serial)
    }

    fn lists(&self, other: &RecordCopy<'a>) -> bool {
        matches!(self.considers(other), Standing::Listed(_))
    }

    fn marks_failed(&self, other: &RecordCopy<'a>) -> bool {
        matches!(self.considers(other), Standing::MarkedFailed(_))
    }

    /// Whether the generations differ by at most one.
    fn is_near(&self, other: &RecordCopy<'a>) -> bool {
        self.mpb.generation.abs_diff(other.mpb.generation) <= 1
    }
}

fn half(copies: &[RecordCopy<'_>], like: &RecordCopy<'_>) -> Half {
    let drives: Vec<String> = copies
        .iter()
        .filter(|copy| copy.mpb == like.mpb)
        .map(|copy| copy.candidate.label())
        .collect();
    Half {
        drives,
        generation: like.mpb.generation,
    }
}

/// The winner: the copy with the highest generation, unless a copy at most one generation
/// behind marks its drive failed. Among several copies with the highest generation, one is preferred whose drive no
/// copy marks failed: a drive that is taken back gets the new record before the drives whose old record marks it
/// failed do.
pub(super) fn find<'a>(copies: &[RecordCopy<'a>]) -> Result<RecordCopy<'a>, Refusal> {
    let highest = copies.iter().map(|copy| copy.mpb.generation).max();
    let is_highest = |copy: &&RecordCopy<'_>| Some(copy.mpb.generation) == highest;
    let is_accused = |copy: &&RecordCopy<'_>| copies.iter().any(|other| other.marks_failed(copy));
    let mut candidates = copies.iter().filter(is_highest);
    let mut winner = *candidates
        .clone()
        .find(|copy| !is_accused(copy))
        .or_else(|| candidates.next())
        .ok_or(Refusal::NoUsableRecord { drives: Vec::new() })?;
    for _ in 0..=copies.len() {
        // The newest copy that does so: failed marks in older records may have been revoked since.
        let accuser = copies
            .iter()
            .filter(|copy| copy.marks_failed(&winner) && winner.lists(copy))
            .max_by_key(|copy| copy.mpb.generation);
        let Some(accuser) = accuser else {
            return Ok(winner);
        };
        if !accuser.is_near(&winner) {
            return Err(contradiction(copies, &winner, accuser));
        }
        winner = *accuser;
    }
    // Drives mark each other failed in a circle.
    let accuser = copies
        .iter()
        .find(|copy| copy.marks_failed(&winner))
        .unwrap_or(&winner);
    Err(contradiction(copies, &winner, accuser))
}

fn contradiction(
    copies: &[RecordCopy<'_>],
    winner: &RecordCopy<'_>,
    other: &RecordCopy<'_>,
) -> Refusal {
    Refusal::Contradiction {
        first: half(copies, winner),
        second: half(copies, other),
    }
}

/// How another copy, whose drive the winner lists as healthy, relates to the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The same record.
    Same,
    /// One generation behind: an interrupted update.
    Interrupted,
    /// Further behind.
    Stale,
}

pub(super) fn compare(
    copies: &[RecordCopy<'_>],
    winner: &RecordCopy<'_>,
    copy: &RecordCopy<'_>,
) -> Result<Agreement, Refusal> {
    if copy.mpb == winner.mpb {
        return Ok(Agreement::Same);
    }
    match winner.mpb.generation.checked_sub(copy.mpb.generation) {
        Some(0) => Err(Refusal::DifferentContent {
            first: half(copies, winner),
            second: half(copies, copy),
        }),
        Some(1) => Ok(Agreement::Interrupted),
        Some(_) => Ok(Agreement::Stale),
        // This happens only if the winner does not have the highest generation: the newer record was written with a
        // drive that the winner had marked failed.
        None => Err(contradiction(copies, winner, copy)),
    }
}

/// Refuses the container if a copy that does not serve was used separately.
///
/// A copy is merely old if a drive that it lists as healthy now carries the winner's record, or a newer record
/// that is itself merely old: that drive stayed in use and the copy was left behind. Otherwise the copy was used
/// separately if it marks one of the winner's drives failed, or if all drives it lists are here with nearly the same
/// record. A copy with the winner's generation whose drive the winner does not list cannot be merely old: one of the
/// two records is wrong.
pub(super) fn refuse_split(
    copies: &[RecordCopy<'_>],
    winner: &RecordCopy<'_>,
    serving: &[usize],
    idle: &[usize],
) -> Result<(), Refusal> {
    let of = |drives: &[usize]| -> Vec<RecordCopy<'_>> {
        copies
            .iter()
            .filter(|copy| drives.contains(&copy.drive))
            .copied()
            .collect()
    };
    let (serving, idle) = (of(serving), of(idle));
    let old = merely_old(&serving, &idle);
    for copy in idle {
        let is_merely_old = old.contains(&copy.drive);
        let unknown = winner.considers(&copy) == Standing::Unknown;
        if is_merely_old && unknown && copy.mpb.generation == winner.mpb.generation {
            return Err(Refusal::DifferentContent {
                first: half(copies, winner),
                second: half(copies, &copy),
            });
        }
        let accuses = serving.iter().any(|carrier| copy.marks_failed(carrier));
        if !is_merely_old && (accuses || is_complete(copies, &copy)) {
            return Err(Refusal::SplitHalves {
                first: half(copies, winner),
                second: half(copies, &copy),
            });
        }
    }
    Ok(())
}

/// The drives whose copies are merely old. A copy counts as old, too, if it lists as healthy the drive of a newer
/// copy that is old: if several drives were lost one after the other, each such step leads closer to the winner.
fn merely_old(serving: &[RecordCopy<'_>], idle: &[RecordCopy<'_>]) -> Vec<usize> {
    let mut newest_first = idle.to_vec();
    newest_first.sort_by_key(|copy| core::cmp::Reverse(copy.mpb.generation));
    let mut old: Vec<RecordCopy<'_>> = Vec::new();
    for copy in newest_first {
        let is_newer = |later: &&RecordCopy<'_>| later.mpb.generation > copy.mpb.generation;
        let mut went_on = serving.iter().chain(old.iter().filter(is_newer));
        if went_on.any(|carrier| copy.lists(carrier)) {
            old.push(copy);
        }
    }
    old.iter().map(|copy| copy.drive).collect()
}

/// Whether every drive that `copy` lists as a healthy member is here and carries nearly the same
/// record, of the same family.
fn is_complete(copies: &[RecordCopy<'_>], copy: &RecordCopy<'_>) -> bool {
    copy.mpb
        .disks
        .iter()
        .filter(|disk| !disk.is_failed())
        .all(|disk| {
            copies.iter().any(|other| {
                other.candidate.serial == disk.serial
                    && other.mpb.family_num == copy.mpb.family_num
                    && other.is_near(copy)
            })
        })
}
