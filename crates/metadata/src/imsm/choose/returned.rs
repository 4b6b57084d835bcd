//! Drives that are marked failed, are here, and hold something that nobody else has.
//!
//! A volume that cannot go on without a drive stands still while that is away, and its slot stays in sync on record
//! ([`Mpb::mark_failed_in`]), although another volume goes on and the drive is marked failed for it. So what the
//! drive holds of the first volume is current still, if it is the drive that left, as it was then. That cannot be
//! told from the records: whoever started another copy of the drive in between, or puts back one from before, has
//! a record like this too. So somebody has to say it
//! ([`TRUST_RETURNED_FLAG`](crate::imsm::start::TRUST_RETURNED_FLAG)).

use super::{Assembly, Candidate, Eviction, MemberState};
use crate::imsm::record::{Mpb, Volume};
use crate::imsm::serial::Serial;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A drive that volumes have waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Its row of the disk table.
    pub row: usize,
    /// The drive, an index into the candidates.
    pub drive: usize,
    /// What messages call it.
    pub label: String,
    serial: Serial,
    /// Its own record.
    record: Box<Mpb>,
}

/// Which of the drives that must not serve are waited for by volumes of `truth`.
pub(super) fn find(
    truth: &Mpb,
    members: &[MemberState],
    candidates: &[Candidate],
) -> Vec<Returned> {
    let returned = |(row, state): (usize, &MemberState)| {
        let MemberState::Evicted {
            drive,
            reason: Eviction::MarkedFailed,
        } = *state
        else {
            return None;
        };
        let candidate = &candidates[drive];
        let own = candidate.container_record()?;
        is_waited_for(truth, row, own, &candidate.serial).then(|| Returned {
            row,
            drive,
            label: candidate.label(),
            serial: candidate.serial,
            record: Box::new(own.clone()),
        })
    };
    members.iter().enumerate().filter_map(returned).collect()
}

/// Whether a volume has waited for the drive in `row`, and all that have find in the drive's `own` record what they
/// left there.
fn is_waited_for(truth: &Mpb, row: usize, own: &Mpb, serial: &Serial) -> bool {
    let Some(own_row) = own.disk_index_of(serial) else {
        return false;
    };
    let is_older = own.generation <= truth.generation;
    if own.disks[own_row].is_failed() || !is_older || own.volumes.len() != truth.volumes.len() {
        return false;
    }
    let mut is_waited_for = false;
    for (now, then) in truth.volumes.iter().zip(&own.volumes) {
        let Some(slot) = current_slot(now, row) else {
            continue;
        };
        if current_slot(then, own_row) != Some(slot) || !is_same(now, then) {
            return false;
        }
        is_waited_for = true;
    }
    is_waited_for
}

/// The slot of a volume in which the drive of this row holds what is current.
fn current_slot(volume: &Volume, row: usize) -> Option<usize> {
    let mut order = volume.current_map().order.iter();
    order.position(|entry| entry.disk_index as usize == row && !entry.out_of_sync)
}

/// Whether two records mean the same volume in the same place.
fn is_same(now: &Volume, then: &Volume) -> bool {
    let (map, other) = (now.current_map(), then.current_map());
    now.name == then.name
        && now.size_sectors == then.size_sectors
        && map.start_sector == other.start_sector
        && map.sectors_per_strip == other.sectors_per_strip
        && map.stored_level == other.stored_level
        && map.members() == other.members()
}

impl Assembly {
    /// Takes back the drives that volumes have waited for, as if they had never been away for those; for the others
    /// they are to be filled anew. They have to be written before all other drives: a record that lists them
    /// means nothing as long as they carry the one from before.
    pub fn take_back(&mut self) {
        for returned in core::mem::take(&mut self.returned) {
            let Returned {
                row,
                drive,
                label,
                serial,
                record,
            } = returned;
            if let Err(error) = self.mpb.take_back(row, &serial, &record) {
                self.warnings
                    .push(format!("{label} cannot be taken back: {error}"));
                continue;
            }
            self.members[row] = MemberState::Present { drive };
            self.rewrite_needed = true;
            let about = format!("{label} does not serve");
            self.warnings.retain(|warning| !warning.starts_with(&about));
            self.warnings.push(format!(
                "{label} is back and trusted: nothing was written while it was away to volumes that could not go \
                 on without it; what it holds of others is filled anew"
            ));
            self.taken_back.push(drive);
        }
    }
}
