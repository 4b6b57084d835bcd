//! Decides when the shadows replace the records: only when nothing better is left.
//!
//! A [`Shadow`] must never bring back a state older than one that was acknowledged. So the
//! newest one is used only if, for every drive here that it lists as a healthy member:
//!
//! * the drive's own record is torn: its header is there, its checksum is wrong. If a record is whole,
//!   the ordinary rules decide, whatever the shadows say; if it is missing, it was erased on purpose, and so was the
//!   array;
//! * by its header, the torn record is the one that the shadow holds or the one that it replaced.
//!   Any other was written later, by a program that keeps no shadows (md, firmware), and may have
//!   recorded a failure;
//! * the drive's own shadow, if it is whole, holds the same record, or the one that the newest shadow's record
//!   replaced.
//!
//! A drive that the newest shadow marks failed, or does not list any more, is not a member: its copies
//! were written before it was lost. But if they are not older, or mark one of the members failed, then
//! the drives were used separately, and the shadows are not used.
//!
//! If the shadows are not used and no record of the container is whole, that is a [`Refusal`], which
//! says why; if a record is whole, the ordinary rules apply as if there were no shadows.

use super::container::{Roll, common_sector_size, refuse_duplicates};
use super::winner::{RecordCopy, Standing, standing};
use super::{Assembly, Candidate, Content, Eviction, Half, MemberState, Refusal, ShadowDoubt};
use crate::imsm::codec::RecordIdentity;
use crate::imsm::record::Mpb;
use crate::imsm::shadow::Shadow;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// A drive whose own record is torn and whose shadow is whole and lists it as a healthy member.
#[derive(Clone, Copy)]
struct Carrier<'a> {
    drive: usize,
    candidate: &'a Candidate,
    shadow: &'a Shadow,
}

impl<'a> Carrier<'a> {
    fn of(drive: usize, candidate: &'a Candidate) -> Option<Self> {
        let shadow = candidate.shadow.as_deref()?;
        let header = torn_header(candidate)?;
        // A drive that has since been used in another container may still have the shadow of the earlier one.
        let is_its_own = header.container_family == shadow.print.identity.container_family
            || shadow.explains(&header);
        let lists_itself = matches!(
            standing(&shadow.mpb, &candidate.serial),
            Standing::Listed(_)
        );
        (is_its_own && lists_itself && !candidate.serial.is_empty()).then_some(Self {
            drive,
            candidate,
            shadow,
        })
    }

    fn half(&self) -> Half {
        Half {
            drives: vec![self.candidate.label()],
            generation: self.shadow.mpb.generation,
        }
    }
}

fn torn_header(candidate: &Candidate) -> Option<RecordIdentity> {
    match &candidate.content {
        Content::Damaged(error) => error.torn(),
        _ => None,
    }
}

fn carriers(candidates: &[Candidate]) -> impl Iterator<Item = Carrier<'_>> {
    candidates
        .iter()
        .enumerate()
        .filter_map(|(drive, candidate)| Carrier::of(drive, candidate))
}

/// The containers to which the shadows belong.
pub(super) fn families(candidates: &[Candidate]) -> impl Iterator<Item = u32> {
    carriers(candidates).map(|carrier| carrier.shadow.print.identity.container_family)
}

/// Decides about container `family` by its shadows; `None` if the ordinary rules apply.
pub(super) fn decide(candidates: &[Candidate], family: u32) -> Option<Result<Assembly, Refusal>> {
    let carriers: Vec<Carrier<'_>> = carriers(candidates)
        .filter(|carrier| carrier.shadow.print.identity.container_family == family)
        .collect();
    let newest = *carriers
        .iter()
        .max_by_key(|carrier| carrier.shadow.mpb.generation)?;
    let case = Case {
        candidates,
        family,
        carriers,
        newest,
    };
    match case.doubt() {
        None => Some(case.assemble()),
        Some(_) if candidates.iter().any(|other| case.record(other).is_some()) => None,
        Some(why) => Some(Err(Refusal::ShadowsInDoubt {
            drives: case.carriers.iter().map(|c| c.candidate.label()).collect(),
            why,
        })),
    }
}

/// Everything that is known about one container.
struct Case<'a> {
    candidates: &'a [Candidate],
    family: u32,
    carriers: Vec<Carrier<'a>>,
    newest: Carrier<'a>,
}

impl<'a> Case<'a> {
    /// What the newest shadow says about a drive.
    fn standing(&self, candidate: &Candidate) -> Standing {
        if candidate.serial.is_empty() {
            return Standing::Unknown;
        }
        standing(&self.newest.shadow.mpb, &candidate.serial)
    }

    fn is_member(&self, candidate: &Candidate) -> bool {
        matches!(self.standing(candidate), Standing::Listed(_))
    }

    /// The drive's own record, if it is whole and one of this container.
    fn record(&self, candidate: &'a Candidate) -> Option<&'a Mpb> {
        candidate
            .container_record()
            .filter(|mpb| mpb.container_family() == self.family)
    }

    /// The drive's shadow of this container.
    fn shadow_of(&self, drive: usize) -> Option<&'a Shadow> {
        let own = self.carriers.iter().find(|carrier| carrier.drive == drive);
        own.map(|carrier| carrier.shadow)
    }

    /// Whether a record is the one in the newest shadow, or one that its update was replacing.
    fn is_known(&self, identity: &RecordIdentity) -> bool {
        let newest = self.newest.shadow.print.identity;
        self.carriers
            .iter()
            .filter(|carrier| carrier.shadow.print.identity == newest)
            .any(|carrier| carrier.shadow.explains(identity))
    }

    /// The first reason why the shadows cannot be used.
    fn doubt(&self) -> Option<ShadowDoubt> {
        let mut drives = self.candidates.iter().enumerate();
        drives.find_map(|(drive, candidate)| {
            if self.is_member(candidate) {
                self.doubt_about_member(drive, candidate)
            } else {
                self.doubt_about_other(drive, candidate)
            }
        })
    }

    fn doubt_about_member(&self, drive: usize, candidate: &Candidate) -> Option<ShadowDoubt> {
        let Some(header) = torn_header(candidate) else {
            let drive = candidate.label();
            return Some(ShadowDoubt::NotTorn { drive });
        };
        let own = self.shadow_of(drive);
        if let Some(own) = own.filter(|own| !self.is_known(&own.print.identity)) {
            return Some(self.disagreement(candidate, &own.mpb));
        }
        (!self.is_known(&header)).then(|| ShadowDoubt::Overtaken {
            drive: candidate.label(),
            generation: header.generation,
            shadow_generation: self.newest.shadow.mpb.generation,
        })
    }

    fn doubt_about_other(&self, drive: usize, candidate: &'a Candidate) -> Option<ShadowDoubt> {
        let shadow = self.shadow_of(drive).map(|shadow| &shadow.mpb);
        let mpb = self.record(candidate).or(shadow)?;
        let accuses = |member: &Candidate| {
            self.is_member(member)
                && matches!(standing(mpb, &member.serial), Standing::MarkedFailed(_))
        };
        let is_older = mpb.generation < self.newest.shadow.mpb.generation;
        (!is_older || self.candidates.iter().any(accuses))
            .then(|| self.disagreement(candidate, mpb))
    }

    fn disagreement(&self, candidate: &Candidate, mpb: &Mpb) -> ShadowDoubt {
        ShadowDoubt::Disagree {
            first: self.newest.half(),
            second: Half {
                drives: vec![candidate.label()],
                generation: mpb.generation,
            },
        }
    }

    fn assemble(&self) -> Result<Assembly, Refusal> {
        let is_member = |candidate: &Candidate| self.is_member(candidate);
        refuse_duplicates(self.candidates, is_member)?;
        let sector = common_sector_size(self.candidates, is_member)?;
        let mpb = &self.newest.shadow.mpb;
        let winner = RecordCopy {
            drive: self.newest.drive,
            candidate: self.newest.candidate,
            mpb,
        };
        let mut roll = Roll::new(self.candidates, &winner, Vec::new(), sector);
        roll.warnings.push(self.sentence());
        roll.rewrite_needed = true;
        for (drive, candidate) in self.candidates.iter().enumerate() {
            let has_trace = self.record(candidate).is_some() || self.is_torn_copy(candidate);
            match self.standing(candidate) {
                Standing::Listed(row) => {
                    roll.members[row] = MemberState::Present { drive };
                    if let Some(own) = self.shadow_of(drive) {
                        roll.unite_dirty(&own.mpb);
                    }
                }
                Standing::MarkedFailed(row) if has_trace => {
                    roll.evict(row, drive, Eviction::MarkedFailed);
                }
                Standing::Unknown if has_trace => roll.put_outside(drive, Eviction::Replaced),
                Standing::MarkedFailed(_) | Standing::Unknown => {}
            }
        }
        roll.check_sizes();
        let mut assembly = roll.finish(mpb, mpb.generation);
        if let Some(unfinished) = &mut assembly.unfinished {
            unfinished.from_shadows = true;
        }
        Ok(assembly)
    }

    fn is_torn_copy(&self, candidate: &Candidate) -> bool {
        torn_header(candidate).is_some_and(|header| header.container_family == self.family)
    }

    fn sentence(&self) -> String {
        let newest = self.newest.shadow.print.identity;
        let drives: Vec<String> = self
            .carriers
            .iter()
            .filter(|carrier| carrier.shadow.print.identity == newest)
            .map(|carrier| carrier.candidate.label())
            .collect();
        format!(
            "every member's record is torn: the shadow copy of generation {} on {} serves, and the \
             records will be written again from it",
            newest.generation,
            drives.join(", ")
        )
    }
}
