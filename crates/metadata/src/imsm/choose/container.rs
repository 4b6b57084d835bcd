//! Decides how one container is assembled.

use super::winner::{self, Agreement, RecordCopy, Standing, standing};
use super::{Assembly, Candidate, Content, Eviction, MemberState, Refusal, Unfinished, returned};
use crate::imsm::codec::DecodeError;
use crate::imsm::record::{Mpb, SectorSize};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// Decides which drives container `family` consists of, and what each of them may do.
pub(super) fn decide(candidates: &[Candidate], family: u32) -> Result<Assembly, Refusal> {
    let in_group = |candidate: &Candidate| {
        candidate
            .container_record()
            .is_some_and(|mpb| mpb.container_family() == family)
    };
    refuse_duplicates(candidates, in_group)?;
    let sector = common_sector_size(candidates, in_group)?;
    let (copies, strangers) = split_by_own_record(candidates, family);
    if copies.is_empty() {
        let drives = strangers
            .iter()
            .map(|&(drive, _)| candidates[drive].label())
            .collect();
        return Err(Refusal::NoUsableRecord { drives });
    }
    let winner = winner::find(&copies)?;
    let mut roll = Roll::new(candidates, &winner, strangers, sector);
    for copy in &copies {
        roll.place_copy(&copies, &winner, copy)?;
    }
    winner::refuse_split(&copies, &winner, &roll.serving(), &roll.idle())?;
    for (drive, candidate) in candidates.iter().enumerate() {
        if !in_group(candidate) {
            roll.place_other(family, drive)?;
        }
    }
    roll.check_sizes();
    let highest = copies.iter().map(|copy| copy.mpb.generation).max();
    Ok(roll.finish(winner.mpb, highest.unwrap_or_default()))
}

pub(super) fn refuse_duplicates(
    candidates: &[Candidate],
    in_group: impl Fn(&Candidate) -> bool,
) -> Result<(), Refusal> {
    for member in candidates.iter().filter(|candidate| in_group(candidate)) {
        let serial = member.serial;
        let same: Vec<String> = candidates
            .iter()
            .filter(|candidate| candidate.serial == serial)
            .map(Candidate::label)
            .collect();
        if same.len() > 1 && !serial.is_empty() {
            return Err(Refusal::DuplicateSerial {
                serial,
                drives: same,
            });
        }
    }
    Ok(())
}

pub(super) fn common_sector_size(
    candidates: &[Candidate],
    in_group: impl Fn(&Candidate) -> bool,
) -> Result<SectorSize, Refusal> {
    let members: Vec<&Candidate> = candidates.iter().filter(|c| in_group(c)).collect();
    let first = members
        .first()
        .ok_or(Refusal::NoUsableRecord { drives: Vec::new() })?;
    match members.iter().find(|member| member.sector != first.sector) {
        None => Ok(first.sector),
        Some(other) => Err(Refusal::MixedSectorSizes {
            drives: vec![first.label(), other.label()],
        }),
    }
}

/// Splits the container's drives into those whose record lists them as healthy members, and the others.
fn split_by_own_record(
    candidates: &[Candidate],
    family: u32,
) -> (Vec<RecordCopy<'_>>, Vec<(usize, Eviction)>) {
    let mut copies = Vec::new();
    let mut strangers = Vec::new();
    for (drive, candidate) in candidates.iter().enumerate() {
        let Some(mpb) = candidate.container_record() else {
            continue;
        };
        if mpb.container_family() != family {
            continue;
        }
        match standing(mpb, &candidate.serial) {
            Standing::Listed(_) if !candidate.serial.is_empty() => {
                copies.push(RecordCopy {
                    drive,
                    candidate,
                    mpb,
                });
            }
            Standing::MarkedFailed(_) => strangers.push((drive, Eviction::MarkedFailed)),
            _ => strangers.push((drive, Eviction::NotInOwnRecord)),
        }
    }
    (copies, strangers)
}

/// The disk table of the chosen record, whose rows are being filled with drives.
pub(super) struct Roll<'a> {
    candidates: &'a [Candidate],
    mpb: Mpb,
    sector: SectorSize,
    pub members: Vec<MemberState>,
    outsiders: Vec<(usize, Eviction)>,
    pub rewrite_needed: bool,
    pub warnings: Vec<String>,
}

impl<'a> Roll<'a> {
    pub fn new(
        candidates: &'a [Candidate],
        winner: &RecordCopy<'_>,
        strangers: Vec<(usize, Eviction)>,
        sector: SectorSize,
    ) -> Self {
        let absent = |disk: &crate::imsm::record::Disk| {
            if disk.is_failed() {
                MemberState::MarkedFailed
            } else {
                MemberState::Missing
            }
        };
        let mut roll = Self {
            candidates,
            mpb: winner.mpb.clone(),
            sector,
            members: winner.mpb.disks.iter().map(absent).collect(),
            outsiders: Vec::new(),
            rewrite_needed: false,
            warnings: Vec::new(),
        };
        for (drive, reason) in strangers {
            match standing(&roll.mpb, &candidates[drive].serial) {
                Standing::Listed(row) | Standing::MarkedFailed(row) => {
                    roll.evict(row, drive, reason);
                }
                Standing::Unknown => roll.put_outside(drive, reason),
            }
        }
        roll
    }

    /// Drives that have been placed as members in service so far.
    fn serving(&self) -> Vec<usize> {
        let drive_of = |state: &MemberState| match state {
            MemberState::Present { drive } => Some(*drive),
            _ => None,
        };
        self.members.iter().filter_map(drive_of).collect()
    }

    /// Drives that have a record of the container but do not serve.
    fn idle(&self) -> Vec<usize> {
        let evicted = self.members.iter().filter_map(|state| match state {
            MemberState::Evicted { drive, .. } => Some(*drive),
            _ => None,
        });
        evicted
            .chain(self.outsiders.iter().map(|&(drive, _)| drive))
            .collect()
    }

    pub fn evict(&mut self, row: usize, drive: usize, reason: Eviction) {
        let label = self.candidates[drive].label();
        self.warnings
            .push(format!("{label} does not serve: {reason}"));
        self.members[row] = MemberState::Evicted { drive, reason };
    }

    pub fn put_outside(&mut self, drive: usize, reason: Eviction) {
        let label = self.candidates[drive].label();
        self.warnings
            .push(format!("{label} does not serve: {reason}"));
        self.outsiders.push((drive, reason));
    }

    /// Places a drive with a record of this container.
    fn place_copy(
        &mut self,
        copies: &[RecordCopy<'_>],
        winner: &RecordCopy<'_>,
        copy: &RecordCopy<'_>,
    ) -> Result<(), Refusal> {
        let drive = copy.drive;
        let row = match standing(winner.mpb, &copy.candidate.serial) {
            Standing::Listed(row) => row,
            Standing::MarkedFailed(row) => {
                self.evict(row, drive, Eviction::MarkedFailed);
                // A failed drive whose record is newer than the chosen one took part in an update that the
                // others missed; their records must be rewritten with a higher generation.
                self.rewrite_needed |= copy.mpb.generation >= winner.mpb.generation;
                return Ok(());
            }
            Standing::Unknown => {
                self.put_outside(drive, Eviction::Replaced);
                return Ok(());
            }
        };
        match winner::compare(copies, winner, copy)? {
            Agreement::Same => self.members[row] = MemberState::Present { drive },
            Agreement::Interrupted => {
                self.members[row] = MemberState::Present { drive };
                self.unite_dirty(copy.mpb);
                self.rewrite_after(drive, "missed the last update of the record");
            }
            Agreement::Stale => {
                let generation = copy.mpb.generation;
                let newest = winner.mpb.generation;
                self.evict(row, drive, Eviction::Stale { generation, newest });
            }
        }
        Ok(())
    }

    /// Places a drive without a valid record of this container, if the chosen record lists it.
    fn place_other(&mut self, family: u32, drive: usize) -> Result<(), Refusal> {
        let candidate = &self.candidates[drive];
        let (row, is_failed) = match standing(&self.mpb, &candidate.serial) {
            Standing::Listed(row) => (row, false),
            Standing::MarkedFailed(row) => (row, true),
            Standing::Unknown => return Ok(()),
        };
        if candidate.serial.is_empty() || !self.is_free(row) {
            return Ok(());
        }
        match &candidate.content {
            Content::Damaged(_) if is_failed => self.evict(row, drive, Eviction::MarkedFailed),
            Content::Damaged(error) => self.place_damaged(family, row, drive, error)?,
            // A failed drive that was erased or made a spare is free for another use.
            _ if is_failed => {}
            Content::Nothing => self.evict(row, drive, Eviction::NoRecord),
            Content::Record(mpb) if mpb.is_spare() => {
                self.evict(row, drive, Eviction::SpareRecord);
            }
            Content::Record(_) => self.evict(row, drive, Eviction::OtherContainer),
        }
        Ok(())
    }

    fn is_free(&self, row: usize) -> bool {
        matches!(
            self.members[row],
            MemberState::Missing | MemberState::MarkedFailed
        )
    }

    fn place_damaged(
        &mut self,
        family: u32,
        row: usize,
        drive: usize,
        error: &DecodeError,
    ) -> Result<(), Refusal> {
        let newest = self.mpb.generation;
        match error.torn() {
            Some(claims) if claims.container_family == family => {
                let claimed = claims.generation;
                if claimed.abs_diff(newest) <= 1 && self.candidates[drive].sector == self.sector {
                    self.members[row] = MemberState::Present { drive };
                    self.rewrite_after(drive, "has a record torn by an interrupted update");
                } else if claimed > newest {
                    let drive = self.candidates[drive].label();
                    return Err(Refusal::DamagedIsNewer {
                        drive,
                        claimed,
                        newest,
                    });
                } else {
                    self.evict(
                        row,
                        drive,
                        Eviction::Stale {
                            generation: claimed,
                            newest,
                        },
                    );
                }
            }
            _ => self.evict(row, drive, Eviction::DamagedRecord),
        }
        Ok(())
    }

    fn rewrite_after(&mut self, drive: usize, what: &str) {
        self.rewrite_needed = true;
        let label = self.candidates[drive].label();
        self.warnings.push(format!(
            "{label} {what}; it serves and will be written again"
        ));
    }

    pub fn unite_dirty(&mut self, older: &Mpb) {
        for volume in &mut self.mpb.volumes {
            let same = older.volumes.iter().find(|other| other.name == volume.name);
            let older = same.map_or(0, |other| other.dirty);
            volume.dirty |= older;
        }
    }

    /// Checks that drives are as large as the record says; smaller ones must at least hold every volume.
    pub fn check_sizes(&mut self) {
        let end = self
            .mpb
            .volumes
            .iter()
            .map(|volume| volume.extent().end)
            .max();
        let needed = end
            .unwrap_or_default()
            .saturating_add(crate::imsm::WRITE_HOLE_LOG_SECTORS);
        for row in 0..self.members.len() {
            let MemberState::Present { drive } = self.members[row] else {
                continue;
            };
            let (listed, real) = (
                self.mpb.disks[row].total_sectors,
                self.candidates[drive].total_sectors,
            );
            if real < needed {
                self.evict(row, drive, Eviction::TooSmall);
            } else if real != listed {
                let label = self.candidates[drive].label();
                self.warnings.push(format!(
                    "{label} has {real} sectors but the record says {listed}"
                ));
            }
        }
    }

    /// Completes the assembly; `truth` is the chosen record, as it was found.
    pub fn finish(mut self, truth: &Mpb, highest_generation: u32) -> Assembly {
        self.mpb.generation = self.mpb.generation.max(highest_generation);
        let unfinished = self.unfinished(truth);
        for (row, state) in self.members.iter().enumerate() {
            if *state == MemberState::Missing {
                let serial = self.mpb.disks[row].serial;
                self.warnings
                    .push(format!("the drive with serial {serial} is missing"));
            }
        }
        let returned = returned::find(&self.mpb, &self.members, self.candidates);
        Assembly {
            mpb: self.mpb,
            sector: self.sector,
            members: self.members,
            outsiders: self.outsiders,
            returned,
            taken_back: Vec::new(),
            spares: Vec::new(),
            unfinished,
            rewrite_needed: self.rewrite_needed,
            warnings: self.warnings,
        }
    }

    /// What is left to do of the update that wrote `truth`. If a drive that does not serve has a newer generation,
    /// the record is written with that generation.
    ///
    /// Dirty marks that only older copies have are written by the update after this one. If that is interrupted, too,
    /// they are lost. But a clean mark is never written while data is in flight, so only a resync that was not
    /// needed is lost.
    fn unfinished(&self, truth: &Mpb) -> Option<Unfinished> {
        let record = Mpb {
            generation: self.mpb.generation,
            ..truth.clone()
        };
        let lacks = |drive: &usize| match &self.candidates[*drive].content {
            Content::Record(own) => **own != record,
            Content::Nothing | Content::Damaged(_) => true,
        };
        let drives: Vec<usize> = self.serving().into_iter().filter(lacks).collect();
        (!drives.is_empty()).then(|| Unfinished {
            record: Box::new(record),
            drives,
            from_shadows: false,
        })
    }
}
