//! Drives that are marked failed, are present, and hold current data that no other drive has.
//!
//! A volume that cannot work without a drive is stopped while the drive is away, and the drive's slot stays in sync on
//! record ([`Mpb::mark_failed_in`]), although another volume continues and the drive is marked failed for it. So what
//! the drive holds of the first volume is still current, provided that this is the drive that left and that it has not
//! been changed since. The records cannot prove that: another copy of the drive that was used in the meantime, or a
//! copy restored from an earlier time, has such a record too. So the operator has to confirm it
//! ([`TRUST_RETURNED_FLAG`](crate::imsm::start::TRUST_RETURNED_FLAG)).

use super::{Assembly, Candidate, Eviction, MemberState};
use crate::imsm::record::{Mpb, Volume};
use crate::imsm::serial::Serial;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A drive for which volumes have waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Its row of the disk table.
    pub row: usize,
    /// The drive, an index into the candidates.
    pub drive: usize,
    /// The drive's name in messages.
    pub label: String,
    serial: Serial,
    /// Its own record.
    record: Box<Mpb>,
}

/// Finds the evicted drives for which volumes of `truth` have waited.
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

/// Whether at least one volume has waited for the drive in `row`, and for each volume that has, the drive's `own`
/// record shows the volume as it was when the drive left.
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

/// The slot of a volume in which the drive of this row holds current data.
fn current_slot(volume: &Volume, row: usize) -> Option<usize> {
    let mut order = volume.current_map().order.iter();
    order.position(|entry| entry.disk_index as usize == row && !entry.out_of_sync)
}

/// Whether two records describe the same volume in the same place.
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
    /// Takes back the drives for which volumes have waited. For those volumes it is as if the drives had never been
    /// away; for the others the drives are to be rebuilt. The record must be written to these drives before all others:
    /// a record that lists them is of no use as long as they still have their old one.
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
                "{label} is back and trusted: volumes that could not start without it use its content as it is, \
                 trusting that nothing was written to them while it was away; its part of the other volumes is rebuilt"
            ));
            self.taken_back.push(drive);
        }
    }
}
