//! A status as a small panel of text.

use super::health::health_table;
use crate::terminal::table::{Give, table};
use crate::terminal::{Paper, Tone};
use server::api::names::places;
use server::scrub::kept::ScrubStatus;
use server::scrub::now_s;
use server::status::{JobStatus, MemberStatus, SlotStatus, Status, VolumeStatus};
use words::{count_of, duration, size};

/// Characters of a progress bar.
const BAR_WIDTH: u64 = 30;

/// Blanks before the continuation of a folded line.
const INDENT: usize = 2;

/// The panel: the array's health, volumes with their slots and background work, drives and their health, and the rest.
#[must_use]
pub fn panel(status: &Status, paper: Paper) -> String {
    let tone = Tone::of_state(&status.health.state);
    let worst = paper.fold(&status.health.text, 0);
    let worst: Vec<String> = worst.lines().map(|line| paper.paint(tone, line)).collect();
    let mut text = format!("{}\n\n", worst.join("\n"));
    for volume in &status.volumes {
        text += &volume_text(status, volume, paper);
        text.push('\n');
    }
    text += &drives_table(status, paper);
    text += &health_table(status, paper);
    text.push('\n');
    for export in &status.exports {
        text += &format!("{export}\n");
    }
    let rest = format!(
        "container {}, update {}, process {}, data threads {} (completion {}), background work {}\n",
        status.container_uuid,
        status.generation,
        status.pid,
        status.shards,
        status.completion,
        limit(status)
    );
    text + &paper.fold(&rest, INDENT)
}

fn drives_table(status: &Status, paper: Paper) -> String {
    let head = ["DRIVE", "SERIAL", "SIZE", "PLACE", "STATE"]
        .map(str::to_owned)
        .to_vec();
    let present = status
        .members
        .iter()
        .filter(|member| member.state != "removed");
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(present.map(|member| drive_row(status, member, paper)))
        .collect();
    let give = [
        Give::Shorten,
        Give::Stay,
        Give::Stay,
        Give::Fold,
        Give::Fold,
    ];
    table(0, &rows, &give, paper.columns)
}

/// The limit of background work, and what it will be after a restart if `rate` has set one.
fn limit(status: &Status) -> String {
    let words = |bytes_per_s| match bytes_per_s {
        0 => "unlimited".to_owned(),
        limit => format!("limited to {}/s", size(limit)),
    };
    let now = words(status.rate_bytes_per_s);
    match status.remembered_rate_bytes_per_s {
        Some(next) if next != status.rate_bytes_per_s => {
            format!("{now} (after a restart {})", words(next))
        }
        Some(limit) if limit > 0 => format!("{now} (also after a restart)"),
        Some(_) | None => now,
    }
}

fn drive_row(status: &Status, member: &MemberStatus, paper: Paper) -> Vec<String> {
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
        member_state(member, paper),
    ]
}

/// The member's state, how much of it is recorded as lost, and whether its deleted file will lose all of it.
pub(super) fn member_state(member: &MemberStatus, paper: Paper) -> String {
    let mut text = paper.state(&member.state);
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

fn volume_text(status: &Status, volume: &VolumeStatus, paper: Paper) -> String {
    let line = |text: String| paper.fold(&text, 2 * INDENT);
    let head = format!("{}: {}\n", volume.name, headline(volume, paper));
    let mut text = paper.fold(&head, INDENT);
    // The panel's first line already names the worst problem.
    let is_news = |text: &&String| !status.health.text.contains(text.as_str());
    if let Some(cause) = volume.cause.as_ref().filter(is_news) {
        text += &line(format!("  cause: {cause}\n"));
    }
    let row = |(at, slot): (usize, &SlotStatus)| {
        let drive = slot
            .member
            .and_then(|id| status.members.iter().find(|member| member.id == id));
        vec![
            format!("slot {at}"),
            drive.map_or("-".to_owned(), |drive| drive.name.clone()),
            paper.state(&slot.state),
        ]
    };
    let rows: Vec<Vec<String>> = volume.slots.iter().enumerate().map(row).collect();
    let give = [Give::Stay, Give::Shorten, Give::Stay];
    text += &table(INDENT, &rows, &give, paper.columns);
    if let Some(why) = volume.not_started.as_ref().filter(is_news) {
        text += &line(format!("  {why}\n"));
    }
    if let Some(job) = &volume.job {
        let target = target(status, job);
        text += &line(format!("  {}{target} {}\n", job.kind, progress(job)));
    }
    if let Some(scrub) = &volume.scrub {
        text += &line(scrub_text(scrub, now_s()));
    }
    text
}

/// `  scrub: last finished 2h 5m ago, all matched; next in 6h`.
fn scrub_text(scrub: &ScrubStatus, now_s: u64) -> String {
    let last = match scrub.last_ended_s {
        None => "never finished".to_owned(),
        Some(ended_s) => {
            let how = match scrub.last_complete {
                true => "last finished",
                false => "last ended early",
            };
            let found = match (scrub.last_mismatches, scrub.last_unrecoverable) {
                (0, 0) => "all matched".to_owned(),
                (mismatches, 0) => format!("{} did not match", stripes(mismatches)),
                (mismatches, 1) => {
                    format!("{} did not match, 1 place is lost", stripes(mismatches))
                }
                (mismatches, lost) => {
                    format!(
                        "{} did not match, {lost} places are lost",
                        stripes(mismatches)
                    )
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

/// `1 stripe`, `2 stripes`.
#[must_use]
pub fn stripes(number: u64) -> String {
    count_of(number, "stripe")
}

/// `3m 20s ago`.
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
fn headline(volume: &VolumeStatus, paper: Paper) -> String {
    let mut text = format!(
        "RAID {} of {}, {}",
        volume.level,
        volume.slots.len(),
        size(volume.size_bytes)
    );
    if volume.chunk_bytes > 0 {
        text += &format!(", chunk {}", size(u64::from(volume.chunk_bytes)));
    }
    text += &format!(", {}", paper.state(&volume.state));
    if volume.read_only {
        text += &format!(", {}", paper.state("read-only"));
    }
    // The volume is marked dirty while clients write and for a moment afterwards.
    if volume.dirty {
        text += ", in use";
    }
    text
}

/// `[###---] 50.0 %, 210 MiB/s, 3m 20s left`.
fn progress(job: &JobStatus) -> String {
    let part = |whole: u64| {
        let done = u128::from(job.done_bytes.min(job.total_bytes)) * u128::from(whole);
        (done / u128::from(job.total_bytes.max(1))) as u64
    };
    let filled = part(BAR_WIDTH) as usize;
    format!(
        "[{}{}] {}",
        "#".repeat(filled),
        "-".repeat(BAR_WIDTH as usize - filled),
        reached(job)
    )
}

/// `50.0 %, 210 MiB/s, 3m 20s left`.
#[must_use]
pub fn reached(job: &JobStatus) -> String {
    let done = u128::from(job.done_bytes.min(job.total_bytes)) * 1000;
    let tenths = done / u128::from(job.total_bytes.max(1));
    format!("{}.{} %, {}", tenths / 10, tenths % 10, pace(job))
}

/// A job's speed, the time left, and what it has found.
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
        text += &format!(", {} did not match", stripes(job.mismatches));
    }
    if job.failures > 0 {
        text += &format!(", {} could not be processed", stripes(job.failures));
    }
    text
}
