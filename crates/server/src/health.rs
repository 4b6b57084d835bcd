//! The health of an array in one word and one sentence: its worst problem, the cause, and what to do.
//!
//! It is computed from the status alone, so that a reader of the status can verify it. Problems that cost data or
//! service now come first, then those that would if one more drive were lost, then what should be tidied up.

use super::status::{JobStatus, MemberStatus, SlotStatus, Status, VolumeStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use words::{and, size};

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `well`: every volume has the redundancy of its level. `at risk`: a volume lacks redundancy, or is about to.
    /// `failed`: a volume has failed, is not started, or refuses writes. Empty: not known.
    pub state: String,
    /// The worst problem, its cause and what to do, in one sentence.
    pub text: String,
}

/// Every volume has the redundancy of its level.
pub const WELL: &str = "well";
/// A volume lacks redundancy, or is about to.
pub const AT_RISK: &str = "at risk";
/// A volume does not serve as it should.
pub const FAILED: &str = "failed";

/// The health of what `status` describes.
#[must_use]
pub fn health(status: &Status) -> Health {
    let worst = |state: &str, text: Option<String>| {
        text.map(|text| Health {
            state: state.to_owned(),
            text,
        })
    };
    let failed = || status.volumes.iter().find_map(out_of_service);
    let lacking = || {
        status
            .volumes
            .iter()
            .find_map(|volume| lacks_redundancy(status, volume))
    };
    let endangered = || {
        let mut members = status.members.iter();
        members.find_map(|member| endangers(status, member))
    };
    worst(FAILED, failed())
        .or_else(|| worst(AT_RISK, lacking()))
        .or_else(|| worst(AT_RISK, endangered()))
        .or_else(|| worst(WELL, status.members.iter().find_map(left_over)))
        .unwrap_or_else(|| Health {
            state: WELL.to_owned(),
            text: all_well(status),
        })
}

/// Why nothing restores redundancy.
const ONLY_READ: &str = "it is served read-only, so nothing is synchronised";

fn out_of_service(volume: &VolumeStatus) -> Option<String> {
    let name = &volume.name;
    let cause = volume.cause.as_deref().unwrap_or("the cause is not known");
    match volume.state.as_str() {
        "failed" => Some(format!("{name} has failed: {cause}")),
        "not started" => {
            let why = volume.not_started.as_deref();
            Some(why.map_or_else(|| format!("{name} is not started: {cause}"), str::to_owned))
        }
        "writes stopped" => Some(format!(
            "{name} refuses writes: {cause}; copy its content to another array"
        )),
        _ => None,
    }
}

fn lacks_redundancy(status: &Status, volume: &VolumeStatus) -> Option<String> {
    let (name, job) = (&volume.name, volume.job.as_ref());
    match volume.state.as_str() {
        "degraded" => {
            let lost = lost_slots(status, volume);
            let next = match (&volume.job, &volume.cause) {
                (None, Some(cause)) => cause.clone(),
                _ => degraded_next(status, volume),
            };
            Some(format!("{name} is degraded: {lost}; {next}"))
        }
        "not protected" => {
            let next = match job {
                _ if volume.read_only => ONLY_READ.to_owned(),
                None => format!("nothing establishes it: `fullstripe rebuild {name}`"),
                Some(job) => under_way(name, job),
            };
            Some(format!("{name} has no redundancy yet: {next}"))
        }
        _ => None,
    }
}

/// `slot 1 (d1.img) failed: it is gone`, of the first slot that is not in sync.
fn lost_slots(status: &Status, volume: &VolumeStatus) -> String {
    let is_lost = |(_, slot): &(usize, &SlotStatus)| slot.state != "in sync";
    let mut lost = volume.slots.iter().enumerate().filter(is_lost);
    let Some((at, slot)) = lost.next() else {
        return "a slot is not in sync".to_owned();
    };
    let drive = status
        .members
        .iter()
        .find(|one| Some(one.id) == slot.member);
    let first = match (slot.state.as_str(), drive) {
        ("missing", _) | (_, None) => format!("slot {at} has no drive"),
        ("rebuilding", Some(drive)) => format!("slot {at} ({}) is not in sync yet", drive.name),
        (state, Some(drive)) => match &drive.cause {
            Some(cause) => format!("slot {at} ({}) {state}, {cause}", drive.name),
            None => format!("slot {at} ({}) {state}", drive.name),
        },
    };
    match lost.count() {
        0 => first,
        1 => format!("{first}, and one slot more is not in sync"),
        more => format!("{first}, and {more} slots more are not in sync"),
    }
}

/// What restores the volume's redundancy.
fn degraded_next(status: &Status, volume: &VolumeStatus) -> String {
    let name = &volume.name;
    if volume.read_only {
        return ONLY_READ.to_owned();
    }
    if let Some(job) = &volume.job {
        return under_way(name, job);
    }
    if let Some(other) = status.volumes.iter().find(|other| other.job.is_some()) {
        return format!("its turn comes after the work on {}", other.name);
    }
    let is_filled = volume.slots.iter().any(|slot| slot.state == "rebuilding");
    let mut spares = status.members.iter().filter(|one| one.state == "spare");
    if is_filled || spares.clone().any(|spare| !spare.health.is_read_only()) {
        return format!("`fullstripe rebuild {name}` fills it");
    }
    match spares.next() {
        Some(spare) => format!(
            "the spare {} reports that it cannot be written any more: `fullstripe add-spare DRIVE` adds another",
            spare.name
        ),
        None => "no spare is there: `fullstripe add-spare DRIVE` adds one".to_owned(),
    }
}

fn under_way(name: &str, job: &JobStatus) -> String {
    let kind = &job.kind;
    if job.paused {
        return format!("its {kind} is paused: `fullstripe resume {name}`");
    }
    let percent = u128::from(job.done_bytes) * 100 / u128::from(job.total_bytes.max(1));
    format!("its {kind} is at {percent} %")
}

/// Why a drive that is in use is about to lose data or redundancy, or has lost some.
fn endangers(status: &Status, member: &MemberStatus) -> Option<String> {
    let name = &member.name;
    if !matches!(member.state.as_str(), "active" | "spare") {
        // A drive that no volume uses any more endangers nothing.
        return None;
    }
    if member.deleted {
        return Some(format!(
            "the file of {name} has been deleted and is gone when serve ends: `fullstripe replace {name} --with DRIVE` \
             before that"
        ));
    }
    if member.bad_block_bytes > 0 {
        return Some(format!(
            "{name} has bad blocks ({}), which other drives hold alone: `fullstripe replace {name} --with DRIVE`",
            size(member.bad_block_bytes)
        ));
    }
    reports_its_end(status, member)
}

/// That a drive reports that it is about to fail, and what to do.
fn reports_its_end(status: &Status, member: &MemberStatus) -> Option<String> {
    let (name, why) = (&member.name, member.health.failing()?);
    if member.state == "spare" {
        return Some(format!(
            "the spare {name} reports that {why}: `fullstripe remove {name}`, and `fullstripe add-spare DRIVE` adds another"
        ));
    }
    let copies = |volume: &&VolumeStatus| {
        let job = volume.job.as_ref().filter(|job| job.kind == "replace");
        let slot = job.and_then(|job| volume.slots.get(usize::from(job.slot?)));
        slot.is_some_and(|slot| slot.member == Some(member.id))
    };
    let copying = status.volumes.iter().find(copies);
    let next = match copying.and_then(|volume| Some((&volume.name, volume.job.as_ref()?))) {
        Some((volume, job)) => format!(", and is being copied: {}", under_way(volume, job)),
        None => format!(": `fullstripe replace {name} --with DRIVE`"),
    };
    Some(format!("{name} reports that {why}{next}"))
}

/// Advice about a failed drive that is still in the container.
fn left_over(member: &MemberStatus) -> Option<String> {
    let name = &member.name;
    (member.state == "failed").then(|| {
        format!("all volumes are whole without {name}, which has failed: `fullstripe remove {name}` removes it")
    })
}

/// `data and fast are optimal`.
fn all_well(status: &Status) -> String {
    let names: Vec<&str> = status.volumes.iter().map(|one| one.name.as_str()).collect();
    match &names[..] {
        [] => "the array has no volume".to_owned(),
        [one] if status.volumes[0].level == 0 => {
            format!("{one} is optimal, as far as RAID 0 goes: it survives no loss")
        }
        [one] => format!("{one} is optimal"),
        _ => format!("{} are optimal", and(&names)),
    }
}

#[cfg(test)]
mod tests;
