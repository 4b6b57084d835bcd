//! Whether Linux md can take a container over from fullstripe as it lies on the drives.
//!
//! Both read the same format, but some states only fullstripe understands, and one form of the bitmap md reads wrongly
//! (`docs/interop.md` names them, with the tests that found them). Most of these states are made whole by serving the
//! array once and stopping it.

use crate::assemble::bitmap::FoundBitmap;
use crate::decide::{Decision, decide};
use crate::log::{logged_volume, rehearse};
use crate::probe::{Member, Probed};
use crate::refusal::refused;
use anyhow::Result;
use metadata::imsm::Mpb;
use metadata::imsm::bitmap::REGION_BYTES_DEFAULT;
use metadata::imsm::choose::{Assembly, choose};
use metadata::imsm::geometry::{Shape, WideReason};
use metadata::imsm::start::StartOptions;
use words::{and, size};

/// The first version of mdadm that reads a RAID 10 of more than four drives.
const MDADM_FOR_WIDE_RAID10: (u32, u32) = (4, 4);
/// What makes an interrupted update whole.
const SERVE_ONCE: &str = "serve it once with fullstripe and stop it, then release it";

/// Refuses to give `members`, the drives of one container, to md if md could not read the container or would damage
/// it. `mdadm` is the version of mdadm on this machine, if it is known. Returns sentences about programs other than
/// md that do not accept the array.
///
/// # Errors
/// The refusal: why, and what to do first.
pub fn check(members: &[Probed], mdadm: Option<(u32, u32)>) -> Result<Vec<String>> {
    let candidates: Vec<_> = members.iter().map(Member::candidate).collect();
    let mut notes = Vec::new();
    for found in choose(&candidates).containers {
        let assembly = found.outcome.map_err(|refusal| {
            refused(format!(
                "md cannot take the container: {refusal}; repair it with fullstripe first"
            ))
        })?;
        refuse_unfinished(&assembly)?;
        // md starts an array that lacks drives on its own terms, so only other reasons count here.
        let options = StartOptions {
            degraded: true,
            ..StartOptions::default()
        };
        let decision = decide(members, &assembly, options, false);
        for at in 0..assembly.mpb.volumes.len() {
            refuse_state(members, &decision, at)?;
            notes.extend(refuse_shape(&assembly.mpb, at, mdadm)?);
        }
        decision
            .bitmaps
            .iter()
            .try_for_each(|bitmap| refuse_bitmap(&assembly.mpb, bitmap))?;
    }
    Ok(notes)
}

fn refuse_unfinished(assembly: &Assembly) -> Result<()> {
    if assembly.unfinished.is_none() {
        return Ok(());
    }
    let volumes = assembly.mpb.volumes.iter();
    let names: Vec<String> = volumes.map(|volume| volume.name.to_string()).collect();
    Err(refused(format!(
        "the last update of the metadata of {} was interrupted, and md may take its drives for two arrays; \
         {SERVE_ONCE}",
        and(&names)
    )))
}

fn refuse_state(members: &[Probed], decision: &Decision, at: usize) -> Result<()> {
    if let Some((why, _)) = decision.refusal(members, at) {
        let name = decision.assembly.mpb.volumes[at].name;
        return Err(refused(format!(
            "volume {name} cannot be given to md, which may start it with wrong data where fullstripe does not start \
             it: {why}; repair it with fullstripe first"
        )));
    }
    let assembly = &decision.assembly;
    let log = logged_volume(&assembly.mpb, at, assembly.sector)
        .and_then(|_| rehearse(members, assembly, at));
    if log.is_some_and(|report| !report.slots_interrupted.is_empty()) {
        let name = decision.assembly.mpb.volumes[at].name;
        return Err(refused(format!(
            "the write-hole log of volume {name} was being emptied when its server was interrupted, and md does not \
             start the volume in this state; {SERVE_ONCE}"
        )));
    }
    Ok(())
}

/// Refuses a shape that this machine's mdadm cannot read, and returns what other programs do not accept.
fn refuse_shape(mpb: &Mpb, at: usize, mdadm: Option<(u32, u32)>) -> Result<Vec<String>> {
    let volume = &mpb.volumes[at];
    let Some(level) = volume.map.level() else {
        return Ok(Vec::new());
    };
    let shape = Shape {
        level,
        members: volume.map.members(),
        strip_sectors: volume.map.sectors_per_strip,
    };
    let reasons = shape.reasons_wide(at + 1);
    let is_large_raid10 =
        |reason: &WideReason| matches!(reason, WideReason::Raid10AboveFour { .. });
    let reads_it = mdadm.is_some_and(|version| version >= MDADM_FOR_WIDE_RAID10);
    if !reads_it && let Some(reason) = reasons.iter().find(|reason| is_large_raid10(reason)) {
        let found = match mdadm {
            Some((major, minor)) => format!("is {major}.{minor}"),
            None => "is not installed, or does not say its version".to_owned(),
        };
        return Err(refused(format!(
            "volume {} cannot be given to md: {reason}, and mdadm here {found}; install mdadm 4.4 or newer first",
            volume.name
        )));
    }
    let others = reasons.iter().filter(|reason| !is_large_raid10(reason));
    Ok(others
        .map(|reason| format!("volume {}: {reason}", volume.name))
        .collect())
}

fn refuse_bitmap(mpb: &Mpb, bitmap: &FoundBitmap) -> Result<()> {
    let region_bytes = bitmap.header.region_bytes;
    if region_bytes == REGION_BYTES_DEFAULT {
        return Ok(());
    }
    let name = mpb.volumes[bitmap.at].name;
    Err(refused(format!(
        "md takes the regions of the bitmap of volume {name} for 64 MiB, but they have {}, so after a crash it would \
         leave out what has to be synchronised; remove the bitmap first: fullstripe write-hole {name} off DRIVE...",
        size(region_bytes.into())
    )))
}
