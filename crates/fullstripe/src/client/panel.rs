//! A status as a small panel of text.

use crate::api::names::places;
use crate::commands::words::{size, table};
use crate::serve::scrub::kept::ScrubStatus;
use crate::serve::scrub::now_s;
use crate::serve::status::{JobStatus, MemberStatus, Status, VolumeStatus};

/// Characters of a progress bar.
const BAR_WIDTH: u64 = 30;

/// The panel: how the array is, volumes with their slots and background work, then drives, then the rest.
#[must_use]
pub fn panel(status: &Status) -> String {
    let mut text = format!("{}\n\n", status.health.text);
    for volume in &status.volumes {
        text += &volume_text(status, volume);
        text.push('\n');
    }
    let head = ["DRIVE", "SERIAL", "SIZE", "PLACE", "STATE"]
        .map(str::to_owned)
        .to_vec();
    let present = status
        .members
        .iter()
        .filter(|member| member.state != "removed");
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(present.map(|member| drive_row(status, member)))
        .collect();
    text += &table(0, &rows);
    text.push('\n');
    for export in &status.exports {
        text += &format!("{export}\n");
    }
    text += &format!(
        "container {}, update {}, process {}, data threads {} (completion {}), background work {}\n",
        status.container_uuid,
        status.generation,
        status.pid,
        status.shards,
        status.completion,
        limit(status.rate_bytes_per_s)
    );
    text
}

fn limit(bytes_per_s: u64) -> String {
    match bytes_per_s {
        0 => "unlimited".to_owned(),
        limit => format!("limited to {}/s", size(limit)),
    }
}

fn drive_row(status: &Status, member: &MemberStatus) -> Vec<String> {
    let places = places(status, member);
    vec![
        member.name.clone(),
        member.serial.clone(),
        size(member.size_bytes),
        if places.is_empty() {
            "-".to_owned()
        } else {
            places.join(" ")
        },
        member_state(member),
    ]
}

/// Its state, how much of it is on record as lost, and whether all of it will be.
pub(super) fn member_state(member: &MemberStatus) -> String {
    let mut text = member.state.clone();
    if let Some(cause) = &member.cause {
        text += &format!(": {cause}");
    }
    if member.deleted {
        text += ", its file is deleted and gone when serve ends";
    }
    match member.bad_block_bytes {
        0 => {}
        bytes => text += &format!(", {} of bad blocks", size(bytes)),
    }
    text
}

fn volume_text(status: &Status, volume: &VolumeStatus) -> String {
    let mut text = format!("{}: {}\n", volume.name, headline(volume));
    // The first line says the worst already.
    let cause = volume.cause.as_ref();
    if let Some(cause) = cause.filter(|cause| !status.health.text.contains(cause.as_str())) {
        text += &format!("  cause: {cause}\n");
    }
    let row = |(at, slot): (usize, &crate::serve::status::SlotStatus)| {
        let drive = slot
            .member
            .and_then(|id| status.members.iter().find(|member| member.id == id));
        vec![
            format!("slot {at}"),
            drive.map_or("-".to_owned(), |drive| drive.name.clone()),
            slot.state.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = volume.slots.iter().enumerate().map(row).collect();
    text += &table(2, &rows);
    let why = volume.not_started.as_ref();
    if let Some(why) = why.filter(|why| !status.health.text.contains(why.as_str())) {
        text += &format!("  {why}\n");
    }
    if let Some(job) = &volume.job {
        text += &format!("  {}{} {}\n", job.kind, target(status, job), progress(job));
    }
    if let Some(scrub) = &volume.scrub {
        text += &scrub_text(scrub, now_s());
    }
    text
}

/// `  scrub: last finished 2 h 05 min ago, all matched; next in 6 h 00 min`.
fn scrub_text(scrub: &ScrubStatus, now_s: u64) -> String {
    let last = match scrub.last_ended_s {
        None => "never finished".to_owned(),
        Some(ended_s) => {
            let how = match scrub.last_complete {
                true => "last finished",
                false => "last ended before its time",
            };
            let found = match (scrub.last_mismatches, scrub.last_unrecoverable) {
                (0, 0) => "all matched".to_owned(),
                (mismatches, 0) => format!("{mismatches} stripes did not match"),
                (mismatches, lost) => {
                    format!("{mismatches} stripes did not match, {lost} places are lost")
                }
            };
            format!("{how} {}, {found}", ago(ended_s, now_s))
        }
    };
    let next = match (scrub.unfinished_bytes, scrub.next_s) {
        (Some(done_bytes), _) => format!("; one is unfinished at {}", size(done_bytes)),
        (None, Some(next_s)) if next_s > now_s => {
            format!("; next in {}", duration(next_s - now_s))
        }
        (None, Some(_)) => "; next is due".to_owned(),
        (None, None) => String::new(),
    };
    format!("  scrub: {last}{next}\n")
}

/// `3 min 20 s ago`.
#[must_use]
pub fn ago(then_s: u64, now_s: u64) -> String {
    format!("{} ago", duration(now_s.saturating_sub(then_s)))
}

/// ` of slot 1 onto d4.img`, where the slot does not name the drive that is being filled.
fn target(status: &Status, job: &JobStatus) -> String {
    let drive = status
        .members
        .iter()
        .find(|member| Some(member.id) == job.member);
    match (job.slot, drive) {
        (Some(slot), Some(drive)) if job.kind == "replace" => {
            format!(" of slot {slot} onto {}", drive.name)
        }
        _ => String::new(),
    }
}

/// `RAID 5 of 3, 2.8 GiB, chunk 64 KiB, degraded`.
fn headline(volume: &VolumeStatus) -> String {
    let mut text = format!(
        "RAID {} of {}, {}",
        volume.level,
        volume.slots.len(),
        size(volume.size_bytes)
    );
    if volume.chunk_bytes > 0 {
        text += &format!(", chunk {}", size(u64::from(volume.chunk_bytes)));
    }
    text += &format!(", {}", volume.state);
    if volume.read_only {
        text += ", read-only";
    }
    if volume.dirty {
        text += ", marked dirty";
    }
    text
}

fn progress(job: &JobStatus) -> String {
    let part = |whole: u64| {
        let done = u128::from(job.done_bytes.min(job.total_bytes)) * u128::from(whole);
        (done / u128::from(job.total_bytes.max(1))) as u64
    };
    let filled = part(BAR_WIDTH) as usize;
    let tenths = part(1000);
    format!(
        "[{}{}] {}.{} %, {}",
        "#".repeat(filled),
        "-".repeat(BAR_WIDTH as usize - filled),
        tenths / 10,
        tenths % 10,
        pace(job)
    )
}

/// How fast a job is, until when, and what it has found.
#[must_use]
pub fn pace(job: &JobStatus) -> String {
    let mut text = if job.paused {
        "paused".to_owned()
    } else if !job.running {
        "waiting".to_owned()
    } else {
        let left = job
            .remaining_s
            .map_or(String::new(), |left| format!(", {} left", duration(left)));
        format!("{}/s{left}", size(job.rate_bytes_per_s))
    };
    if job.mismatches > 0 {
        text += &format!(", {} stripes did not match", job.mismatches);
    }
    if job.failures > 0 {
        text += &format!(", {} stripes could not be done", job.failures);
    }
    text
}

/// `12 s`, `3 min 20 s`, `2 h 05 min`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}
