//! Orders: everything that changes something.
//!
//! Each handler finds out from the published status which drive or volume is meant, gives the order to the
//! controller, which alone decides, and answers with one sentence.

use super::busy::why_busy;
use super::errors::ApiError;
use super::forgetting::{attached, forget};
use super::names;
use super::replaceable::check_replaceable;
use super::schema::{
    Done, ErrorBody, FailRequest, RateRequest, ReplaceRequest, ScrubRequest, SpareRequest,
};
use super::state::{App, blocking};
use crate::not_done::NotDone;
use crate::status::{MemberStatus, Status, VolumeStatus};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use engine::control::message::{Command, Refused};
use engine::units::{MemberId, Slot, VolumeId};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use words::size;

/// How often a status is looked at again that is published every tenth of a second.
const LOOKS_MAX: usize = 20;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

type Answer = Result<Json<Done>, ApiError>;
type Named = Path<String>;

fn done(text: String) -> Json<Done> {
    Json(Done { text, member: None })
}

pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_input(format!(
            "the body is not the JSON that this call takes: {error}"
        ))
    })
}

/// Parses a request body that may be left out.
pub(super) fn parse_or_default<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, ApiError> {
    match body.is_empty() {
        true => Ok(T::default()),
        false => parse(body),
    }
}

/// Stops using a drive, as if it had failed.
#[utoipa::path(post, path = "/v1/members/{member}/fail", request_body = FailRequest,
    params(("member" = String, Path, description = "number, name, serial or VOLUME:SLOT of a drive")),
    responses((status = 200, body = Done), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "a volume cannot do without it")))]
pub async fn fail(State(app): State<Arc<App>>, Path(name): Named, body: Bytes) -> Answer {
    let request: FailRequest = parse_or_default(&body)?;
    blocking(app, move |app| {
        let status = app.status()?;
        let member = names::member(&status, &name)?;
        let id = MemberId(member.id);
        let order = match request.volumes_may_fail {
            true => Command::FailWithVolumes(id),
            false => Command::Fail(id),
        };
        app.command(order).map_err(|refused| match refused {
            NotDone::Refused(Refused::NoSuch) => {
                ApiError::conflict(format!("{} is {} already", member.name, member.state))
            }
            NotDone::Refused(Refused::WouldLoseData) => {
                ApiError::conflict(needed_by(&status, member)).protecting_data()
            }
            refused => ApiError::not_done(&format!("{} is not failed", member.name), refused),
        })?;
        Ok(done(format!("{} is failed", member.name)))
    })
    .await
}

/// Which volumes cannot work without the drive, and why.
fn needed_by(status: &Status, member: &MemberStatus) -> String {
    let needs = |volume: &&VolumeStatus| {
        let mut slots = volume.slots.iter();
        slots.any(|slot| slot.member == Some(member.id) && !slot.can_be_lost)
    };
    let needing: Vec<String> = status
        .volumes
        .iter()
        .filter(needs)
        .map(|volume| format!("{} (RAID {}, {})", volume.name, volume.level, volume.state))
        .collect();
    let needing = match needing.is_empty() {
        true => "a volume".to_owned(),
        false => needing.join(" and "),
    };
    format!(
        "{} is {} and stays so: {needing} cannot do without it; `fullstripe status` says what to do first",
        member.name, member.state
    )
}

/// Releases a failed drive or a spare.
#[utoipa::path(post, path = "/v1/members/{member}/remove",
    params(("member" = String, Path, description = "number, name, serial or VOLUME:SLOT of a drive")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "the drive is in use")))]
pub async fn remove(State(app): State<Arc<App>>, Path(name): Named) -> Answer {
    blocking(app, move |app| {
        let status = app.status()?;
        let member = names::member(&status, &name)?;
        let attached = attached(&app.shared, member);
        app.command(Command::Remove(MemberId(member.id)))
            .map_err(|refused| match refused {
                NotDone::Refused(Refused::WouldLoseData) => {
                    ApiError::conflict(in_use(member)).protecting_data()
                }
                refused => ApiError::not_done(&format!("{} is not removed", member.name), refused),
            })?;
        let still = forget(&status, member, attached);
        app.shared.detach(MemberId(member.id));
        let removed = format!("{} is removed", member.name);
        Ok(done(match still {
            Some(why) => format!("{removed}; {why}"),
            None => removed,
        }))
    })
    .await
}

/// Why a drive is not released.
fn in_use(member: &MemberStatus) -> String {
    let name = &member.name;
    if member.state == "failed" {
        return format!(
            "{name} is not removed: a volume failed with it and needs what it holds; bring it back, `stop`, and serve again"
        );
    }
    format!("{name} is in use; `replace` it, or `fail` it first")
}

/// Adds a drive as a spare; a degraded volume takes it at once.
#[utoipa::path(post, path = "/v1/spares", request_body = SpareRequest,
    responses((status = 200, body = Done), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "the drive cannot or should not be used")))]
pub async fn spares(State(app): State<Arc<App>>, body: Bytes) -> Answer {
    let request: SpareRequest = parse(&body)?;
    blocking(app, move |app| {
        app.status()?;
        app.spares.add(&app.shared, &request).map(Json)
    })
    .await
}

/// Copies the drive in a slot to another one while it stays in service.
#[utoipa::path(post, path = "/v1/volumes/{volume}/replace", request_body = ReplaceRequest,
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn replace(State(app): State<Arc<App>>, Path(name): Named, body: Bytes) -> Answer {
    let request: ReplaceRequest = parse(&body)?;
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        check_replaceable(&status, volume, request.slot)?;
        let (to, added) = replacement(app, &status, &request)?;
        let order = Command::Replace {
            volume: VolumeId(number),
            slot: Slot(request.slot),
            to,
        };
        let slot = request.slot;
        app.command(order).map_err(|refused| {
            let error =
                ApiError::not_done(&format!("slot {slot} of {name} is not replaced"), refused);
            match added {
                Some(added) => error.map(|sentence| format!("{sentence}; {added}")),
                None => error,
            }
        })?;
        let status = app.status()?;
        let to_name = status.members.iter().find(|member| member.id == to.0);
        let to_name = to_name.map_or_else(|| format!("drive {}", to.0), |drive| drive.name.clone());
        Ok(Json(Done {
            text: format!("slot {slot} of {name} is being copied to {to_name}"),
            member: Some(to.0),
        }))
    })
    .await
}

/// The spare that the request means; if it had to be added first, also the sentence about that.
fn replacement(
    app: &App,
    status: &Status,
    request: &ReplaceRequest,
) -> Result<(MemberId, Option<String>), ApiError> {
    match names::member(status, &request.with) {
        Ok(member) if member.state == "spare" => Ok((MemberId(member.id), None)),
        // Another drive may have the path of a failed one; adding it compares the serial numbers.
        Ok(member) if member.state != "failed" || !request.with.starts_with('/') => {
            Err(ApiError::conflict(format!(
                "{} is {}, and only a spare can take a slot",
                member.name, member.state
            )))
        }
        Err(names::NameError::Ambiguous(sentence)) => Err(ApiError::conflict(sentence)),
        // A number can only mean a drive that the array has.
        Err(error) if request.with.parse::<u64>().is_ok() => Err(error.into()),
        Ok(_) | Err(_) => {
            let spare = SpareRequest {
                drive: request.with.clone(),
                force: request.force,
            };
            let added = app.spares.add(&app.shared, &spare)?;
            let member = added.member.map(MemberId);
            let member = member.ok_or_else(|| ApiError::internal("a new drive has no number"))?;
            Ok((member, Some(added.text)))
        }
    }
}

/// Fills the empty slots of a degraded volume with spares, also if spares are not taken automatically.
#[utoipa::path(post, path = "/v1/volumes/{volume}/rebuild",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "there is nothing to rebuild, or no spare for it")))]
pub async fn rebuild(State(app): State<Arc<App>>, Path(name): Named) -> Answer {
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        let is = format!("volume {name} is {}", volume.state);
        let Err(refused) = app.command(Command::Rebuild(VolumeId(number))) else {
            return Ok(done(format!("volume {name} is being rebuilt")));
        };
        let why = match refused {
            NotDone::Refused(Refused::NoSuch) if volume.state == "failed" => {
                "it has lost more drives than it survives; stop, bring a drive back, and serve again"
            }
            NotDone::Refused(Refused::NoSuch) if volume.state == "optimal" => {
                "there is nothing to rebuild"
            }
            NotDone::Refused(Refused::NoSuch) if becomes_optimal(app, number)? => {
                return Ok(done(format!("volume {name} has just been rebuilt")));
            }
            NotDone::Refused(Refused::NoSuch) => "there is nothing to rebuild",
            NotDone::Refused(Refused::TooSmall) => {
                "every spare is too small; `fullstripe add-spare DRIVE` adds one"
            }
            refused => &refused.to_string(),
        };
        Err(ApiError::conflict(format!("{is}, and {why}")))
    })
    .await
}

/// Whether a volume turns out to be optimal. The published status may be older than the controller's answer: the rebuild that
/// begins by itself when a spare is added may have ended in between.
fn becomes_optimal(app: &App, number: u8) -> Result<bool, ApiError> {
    for _ in 0..LOOKS_MAX {
        let status = app.status()?;
        let volume = status.volumes.get(usize::from(number));
        if volume.is_some_and(|volume| volume.state == "optimal") {
            return Ok(true);
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
    Ok(false)
}

/// Reads everything and compares the copies, or the data with their parity.
#[utoipa::path(post, path = "/v1/volumes/{volume}/scrub", request_body = ScrubRequest,
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn scrub(State(app): State<Arc<App>>, Path(name): Named, body: Bytes) -> Answer {
    let ScrubRequest { repair } = parse_or_default(&body)?;
    let doing = if repair { "repaired" } else { "checked" };
    on_volume(
        app,
        name,
        move |volume| Command::Scrub { volume, repair },
        doing,
    )
    .await
}

/// Cancels the scrub or replacement of a volume.
#[utoipa::path(delete, path = "/v1/volumes/{volume}/job",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "there is no job that can be cancelled")))]
pub async fn cancel(State(app): State<Arc<App>>, Path(name): Named) -> Answer {
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        let kind = volume.job.as_ref().map(|job| job.kind.clone());
        app.command(Command::CancelJob(VolumeId(number)))
            .map_err(|refused| match (refused, &kind) {
                (NotDone::Refused(Refused::NoSuch), Some(kind)) => ApiError::conflict(format!(
                    "the {kind} of {name} restores redundancy and cannot be cancelled; `pause` halts it"
                )),
                (NotDone::Refused(Refused::NoSuch), None) => {
                    ApiError::conflict(format!("volume {name} has no background work"))
                }
                (refused, _) => ApiError::not_done(&format!("{name} is not changed"), refused),
            })?;
        Ok(done(format!("the {} of {name} is cancelled", kind.as_deref().unwrap_or("job"))))
    })
    .await
}

/// Pauses the background work of a volume.
#[utoipa::path(post, path = "/v1/volumes/{volume}/pause",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "there is no background work")))]
pub async fn pause(State(app): State<Arc<App>>, Path(name): Named) -> Answer {
    on_volume(
        app,
        name,
        |volume| Command::Pause {
            volume,
            paused: true,
        },
        "paused",
    )
    .await
}

/// Resumes the background work of a volume.
#[utoipa::path(post, path = "/v1/volumes/{volume}/resume",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "there is no background work")))]
pub async fn resume(State(app): State<Arc<App>>, Path(name): Named) -> Answer {
    on_volume(
        app,
        name,
        |volume| Command::Pause {
            volume,
            paused: false,
        },
        "resumed",
    )
    .await
}

async fn on_volume(
    app: Arc<App>,
    name: String,
    order: impl FnOnce(VolumeId) -> Command + Send + 'static,
    doing: &'static str,
) -> Answer {
    blocking(app, move |app| {
        let status = app.status()?;
        let (number, volume) = names::volume(&status, &name)?;
        app.command(order(VolumeId(number)))
            .map_err(|refused| match refused {
                NotDone::Refused(Refused::Busy) if matches!(doing, "checked" | "repaired") => {
                    let why = why_busy(&status, volume).unwrap_or_else(|| refused.to_string());
                    ApiError::conflict(format!("volume {name} is not {doing}: {why}"))
                }
                NotDone::Refused(Refused::NoSuch) => {
                    ApiError::conflict(format!("volume {name} has no background work"))
                }
                refused => ApiError::not_done(&format!("volume {name} is not {doing}"), refused),
            })?;
        Ok(done(match doing {
            "checked" | "repaired" => format!("volume {name} is being {doing}"),
            _ => format!("the background work of {name} is {doing}"),
        }))
    })
    .await
}

/// Sets the limit of background work.
#[utoipa::path(put, path = "/v1/rate", request_body = RateRequest,
    responses((status = 200, body = Done), (status = 400, body = ErrorBody)))]
pub async fn rate(State(app): State<Arc<App>>, body: Bytes) -> Answer {
    let RateRequest { bytes_per_s } = parse(&body)?;
    blocking(app, move |app| {
        app.command(Command::Rate(bytes_per_s))
            .map_err(|refused| ApiError::not_done("the limit is not changed", refused))?;
        let limit = match bytes_per_s {
            0 => "background work is unlimited".to_owned(),
            limit => {
                format!(
                    "background work is limited to {}/s on each drive",
                    size(limit)
                )
            }
        };
        Ok(done(limit + &keep_rate(app, bytes_per_s)))
    })
    .await
}

/// Stores the limit for the next start; returns how long the limit holds, as the end of a sentence.
fn keep_rate(app: &App, bytes_per_s: u64) -> String {
    match app
        .keeper
        .as_ref()
        .map(|keeper| keeper.keep_rate(bytes_per_s))
    {
        None => String::new(),
        Some(Ok(())) => {
            app.shared.set_remembered_rate(Some(bytes_per_s));
            ", also after a restart of `serve`".to_owned()
        }
        Some(Err(error)) => format!(", until `serve` ends: {error:#}"),
    }
}

/// Asks the process to flush everything, mark the volumes clean, and end. Whoever asks wants an end, so an announcement that
/// another process follows does not count any more.
#[utoipa::path(post, path = "/v1/stop", responses((status = 200, body = Done)))]
pub async fn stop(State(app): State<Arc<App>>) -> Answer {
    app.hand_over.withdraw();
    (app.on_stop)();
    Ok(done("the array is being stopped".to_owned()))
}

/// Takes back what was announced by `POST`: no other process follows, so an end of this one disconnects NBD clients.
#[utoipa::path(delete, path = "/v1/hand-over", responses((status = 200, body = Done)))]
pub async fn withdraw_hand_over(State(app): State<Arc<App>>) -> Answer {
    app.hand_over.withdraw();
    Ok(done(
        "connections are not handed over if the process is ended".to_owned(),
    ))
}

/// Announces that the process is about to be ended and another one started: if it is ended within 30 s, NBD clients keep their
/// connections.
#[utoipa::path(post, path = "/v1/hand-over", responses((status = 200, body = Done),
    (status = 409, body = ErrorBody, description = "nobody keeps the connections")))]
pub async fn hand_over(State(app): State<Arc<App>>) -> Answer {
    match app.hand_over.ask(std::time::Instant::now()) {
        true => Ok(done(
            "connections are handed over if the process is ended within 30 s".to_owned(),
        )),
        false => Err(ApiError::conflict(
            "systemd has not started this server, so nobody keeps its connections until the next one has started"
                .to_owned(),
        )),
    }
}
