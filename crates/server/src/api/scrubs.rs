//! Requests about scrubs: the report of the last one, the schedule, and the content of a stripe.

use super::errors::ApiError;
use super::names;
use super::schema::{Done, ErrorBody, ScheduleRequest};
use super::state::{App, blocking};
use crate::scrub::explain::Explanation;
use crate::scrub::kept::Schedule;
use crate::scrub::now_s;
use crate::scrub::report::{ScrubReport, describe};
use crate::status::VolumeStatus;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use std::sync::Arc;
use words::duration;

/// Longest interval of a schedule: ten years.
const EVERY_S_MAX: u64 = 10 * 365 * 24 * 3600;

/// Refuses volumes without redundancy, where a scrub has nothing to compare.
fn with_redundancy(volume: &VolumeStatus) -> Result<(), ApiError> {
    if volume.level == 0 {
        return Err(ApiError::conflict(format!(
            "volume {} is RAID 0, which has no redundancy to compare",
            volume.name
        )));
    }
    Ok(())
}

/// The running scrub of a volume, or its last one: what was found where, and what was done about it.
#[utoipa::path(get, path = "/v1/volumes/{volume}/scrub",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = ScrubReport), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "there has been no scrub")))]
pub async fn report(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<ScrubReport>, ApiError> {
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        with_redundancy(volume)?;
        let found = app.shared.scrubs.with_book(|book| {
            let volume = &book.volumes[usize::from(number)];
            let report = volume.kept.report.as_ref()?;
            Some(describe(&name, &volume.shape, report))
        });
        found.map(Json).ok_or_else(|| {
            ApiError::conflict(format!(
                "volume {name} has not been scrubbed; `fullstripe scrub {name}` does that"
            ))
        })
    })
    .await
}

/// Sets or ends the schedule of a volume: a scrub begins a fixed interval after the end of the one before. The
/// schedule is stored on the drives.
#[utoipa::path(put, path = "/v1/volumes/{volume}/scrub/schedule", request_body = ScheduleRequest,
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn schedule(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Done>, ApiError> {
    let ScheduleRequest { every_s, repair } = super::orders::parse(&body)?;
    if every_s.is_some_and(|every_s| !(1..=EVERY_S_MAX).contains(&every_s)) {
        return Err(ApiError::bad_input(format!(
            "every_s is the seconds between two scrubs, 1 to {EVERY_S_MAX}"
        )));
    }
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        with_redundancy(volume)?;
        if volume.read_only {
            return Err(ApiError::conflict(format!(
                "volume {name} is read-only; its schedule cannot be stored on the drives"
            )));
        }
        let schedule = every_s.map(|every_s| Schedule {
            every_s,
            repair,
            since_s: now_s(),
        });
        let scrubs = &app.shared.scrubs;
        let is_lasting =
            scrubs.with_book(|book| book.set_schedule(usize::from(number), schedule));
        if !scrubs.wait_until_saved() {
            return Err(ApiError::internal(format!(
                "the schedule of {name} holds, but no drive has taken it yet; it may be lost with this process"
            )));
        }
        let mut text = match every_s {
            Some(every_s) => {
                let doing = if repair { "repaired" } else { "checked" };
                format!("volume {name} is {doing} {} after the end of each scrub", duration(every_s))
            }
            None => format!("volume {name} is no longer scrubbed on a schedule"),
        };
        if !is_lasting {
            text += ", until `serve` ends: `scrub_every` of the settings file takes precedence from the next start on";
        }
        Ok(Json(Done { text, member: None }))
    })
    .await
}

/// Reads the stripe that contains a 512-byte sector of the volume from all drives, while nothing is written to it,
/// and says which drives agree.
#[utoipa::path(get, path = "/v1/volumes/{volume}/stripes/{lba}",
    params(("volume" = String, Path, description = "name of a volume"),
        ("lba" = u64, Path, description = "a 512-byte sector of the volume")),
    responses((status = 200, body = Explanation), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn explain(
    State(app): State<Arc<App>>,
    Path((name, lba)): Path<(String, String)>,
) -> Result<Json<Explanation>, ApiError> {
    let number = lba.parse::<u64>().map_err(|_| {
        ApiError::bad_input(format!(
            "{lba:?} is no sector of a volume; give a number from 0 on"
        ))
    })?;
    blocking(app, move |app| {
        let status = app.status()?;
        let (at, volume) = names::volume(&status, &name)?;
        with_redundancy(volume)?;
        let sectors = volume.size_bytes / 512;
        if number >= sectors {
            return Err(ApiError::bad_input(format!(
                "volume {name} has no LBA {number}; its last is {}",
                sectors - 1
            )));
        }
        let found = app.shared.explain_stripe(usize::from(at), &name, number);
        found.map(Json).map_err(ApiError::conflict)
    })
    .await
}
