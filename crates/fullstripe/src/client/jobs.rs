//! `rebuild`, and waiting for the end of long work.
//!
//! While a command waits, it shows the progress on standard error ([`Bar`]); its result goes to standard output.

use super::panel::pace;
use super::{Reach, volume};
use crate::commands::bar::Bar;
use crate::terminal::print::print_json;
use anyhow::{Result, bail};
use clap::Args;
use hyper::Method;
use server::api::schema::{Done, Events, NumberedEvent};
use server::client::{Client, encode};
use server::status::{JobStatus, Status, VolumeStatus};
use std::process::ExitCode;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval between two looks where the awaited change is imminent.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// The status drops a job a moment after its end; if it still shows the job after this many looks, that is an error.
const LOOKS_AFTER_END_MAX: u32 = 500;
/// A job disappears from the status before its last event is reported, and an ordered job begins only when the
/// preceding failure is on record. After this many looks neither is expected any more.
const LOOKS_IN_VAIN_MAX: u32 = 25;

/// Which volume, and whether to wait.
#[derive(Args, Debug)]
pub struct RebuildArgs {
    /// Name of the volume; may be left out where there is only one
    volume: Option<String>,
    /// Wait until the volume has its redundancy back, or the replacement is complete
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Shows the progress of the job that the command waits for.
struct Shown<'a> {
    volume: &'a str,
    bar: Bar,
    /// The job's kind and whether it is paused, as last shown.
    last: Option<(String, bool)>,
}

impl Shown<'_> {
    fn new(volume: &str) -> Shown<'_> {
        Shown {
            volume,
            bar: Bar::of_others(),
            last: None,
        }
    }

    fn show(&mut self, job: &JobStatus) {
        self.bar.set_steps(job.total_bytes);
        self.bar.at(job.done_bytes);
        let course = Some((job.kind.clone(), job.paused));
        if self.last == course {
            self.bar.say(pace(job));
        } else {
            let what = format!("{} of {}", job.kind, self.volume);
            self.bar.turn_to(what, pace(job));
            self.last = course;
        }
    }
}

fn is_whole(volume: &VolumeStatus) -> bool {
    volume.state == "optimal"
}

/// Whether a drive of the volume is being filled or its redundancy restored.
fn is_restoring(volume: &VolumeStatus) -> bool {
    let kind = volume.job.as_ref().map(|job| job.kind.as_str());
    kind.is_some_and(|kind| !matches!(kind, "check" | "repair"))
}

/// `rebuild`.
///
/// # Errors
/// The volume cannot regain redundancy, or with `--wait` has not regained it.
pub fn rebuild(args: &RebuildArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let status: Status = client.get("/v1/status")?;
    let before = volume(&status, args.volume.as_deref())?;
    let name = &before.name;
    if before.job.as_ref().is_some_and(|job| job.paused) {
        let path = format!("/v1/volumes/{}/resume", encode(name));
        let _: Done = client.order(Method::POST, &path)?;
    }
    let is_ordered = !is_whole(before) && !is_restoring(before);
    if is_ordered {
        let path = format!("/v1/volumes/{}/rebuild", encode(name));
        let _: Done = client.order(Method::POST, &path)?;
    }
    let later = if args.wait {
        wait_until_whole(&client, name, is_ordered)?
    } else {
        client.get("/v1/status")?
    };
    let after = volume(&later, Some(name))?;
    if args.reach.json {
        print_json(after)?;
    } else {
        let text = outcome(after);
        args.reach.print(&Done { text, member: None })?;
    }
    if args.wait && !is_whole(after) {
        bail!(
            "volume {} is {}, and nothing is under way to change that",
            after.name,
            after.state
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The volume's state and the job that changes it; a scrub is left out, because it does not change the state.
fn outcome(volume: &VolumeStatus) -> String {
    let text = format!("volume {} is {}", volume.name, volume.state);
    match volume.job.as_ref().filter(|_| is_restoring(volume)) {
        Some(job) => format!("{text}; {}: {}", job.kind, pace(job)),
        None => text,
    }
}

/// Whether a job is under way that restores this volume, or that its own job has to wait for.
fn is_working(status: &Status, volume: &VolumeStatus) -> bool {
    volume.job.is_some() || status.volumes.iter().any(|other| other.job.is_some())
}

/// Waits until the volume is whole or no job is under way for it; a job that was just ordered (`is_ordered`) may take
/// a moment to begin.
fn wait_until_whole(client: &Client, name: &str, is_ordered: bool) -> Result<Status> {
    let mut shown = Shown::new(name);
    let mut looks_without_work = if is_ordered { LOOKS_IN_VAIN_MAX } else { 0 };
    loop {
        let status: Status = client.get("/v1/status")?;
        let now = volume(&status, Some(name))?;
        if let Some(job) = now.job.as_ref().filter(|_| is_restoring(now)) {
            shown.show(job);
        }
        let done = is_whole(now) && !is_restoring(now);
        let works = is_working(&status, now);
        let never = now.state == "failed" || now.not_started.is_some();
        if done || never || (!works && looks_without_work == 0) {
            return Ok(status);
        }
        looks_without_work = if works { 0 } else { looks_without_work - 1 };
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits for the end of the job on volume `name` and returns the event that reports it. A volume has one job at a
/// time, so the first end after event number `since` is the one. When this returns, the status no longer shows the job,
/// so that an order which depends on the status finds the volume idle.
pub(super) fn wait_for_end(
    client: &Client,
    name: &str,
    since: u64,
) -> Result<Option<NumberedEvent>> {
    let mut shown = Shown::new(name);
    let mut looks_without_event = 0;
    loop {
        let status: Status = client.get("/v1/status")?;
        let events: Events = client.get(&format!("/v1/events?since={since}"))?;
        let is_end = |event: &NumberedEvent| {
            event.event.kind == "job-ended" && event.event.volume.as_deref() == Some(name)
        };
        if let Some(end) = events.events.into_iter().find(is_end) {
            wait_until_gone(client, name, end.number)?;
            return Ok(Some(end));
        }
        match &volume(&status, Some(name))?.job {
            Some(job) => shown.show(job),
            None => looks_without_event += 1,
        }
        if looks_without_event > LOOKS_IN_VAIN_MAX {
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the status shows no job of volume `name` any more, or another one that began after event number
/// `end`.
fn wait_until_gone(client: &Client, name: &str, end: u64) -> Result<()> {
    for _ in 0..LOOKS_AFTER_END_MAX {
        let status: Status = client.get("/v1/status")?;
        if volume(&status, Some(name))?.job.is_none() {
            return Ok(());
        }
        let events: Events = client.get(&format!("/v1/events?since={end}"))?;
        let begins = |one: &NumberedEvent| {
            one.event.kind == "job-started" && one.event.volume.as_deref() == Some(name)
        };
        if events.events.iter().any(begins) {
            return Ok(());
        }
        std::thread::sleep(LOOK_SOON);
    }
    bail!(
        "the work on volume {name} has ended, but the status still shows it; `fullstripe status` tells when it is gone"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rebuild_speaks_only_of_what_restores_redundancy() {
        let said = |kind: &str| {
            let volume = json!({
                "name": "v", "uuid": "u", "level": 1, "state": "optimal", "size_bytes": 1 << 20,
                "chunk_bytes": 0, "dirty": false, "read_only": false, "slots": [],
                "job": {
                    "kind": kind, "running": true, "paused": false, "done_bytes": 0,
                    "total_bytes": 1 << 20, "rate_bytes_per_s": 0, "mismatches": 0, "failures": 0,
                },
            });
            outcome(&serde_json::from_value(volume).unwrap())
        };
        assert_eq!(said("rebuild"), "volume v is optimal; rebuild: 0 bytes/s");
        assert_eq!(said("replace"), "volume v is optimal; replace: 0 bytes/s");
        for kind in ["check", "repair"] {
            assert_eq!(said(kind), "volume v is optimal");
        }
    }
}
