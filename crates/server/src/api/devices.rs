//! Makes volumes block devices of the machine, and removes these.

use super::errors::ApiError;
use super::names;
use super::orders::parse_or_default;
use super::schema::{AttachDone, AttachRequest, Done, ErrorBody};
use super::state::{App, blocking};
use crate::status::DeviceStatus;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use std::sync::Arc;

/// Makes a volume a block device. The answer comes when the kernel has read its table of partitions.
#[utoipa::path(post, path = "/v1/volumes/{volume}/attach", request_body = AttachRequest,
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = AttachDone), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "it is one already, or the machine cannot do it")))]
pub async fn attach(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<AttachDone>, ApiError> {
    let request: AttachRequest = parse_or_default(&body)?;
    blocking(app, move |app| {
        let status = app.status()?;
        let (_, volume) = names::volume(&status, &name)?;
        if volume.state == "failed" {
            return Err(ApiError::conflict(format!(
                "volume {name} is failed and cannot be attached; `fullstripe status` says what to do first"
            )));
        }
        let attached = app
            .exports
            .attach(&app.shared, &name, request.kind, request.nvmet.as_ref());
        let (offer, device) = attached.map_err(|error| ApiError::conflict(format!("{error:#}")))?;
        Ok(Json(AttachDone {
            text: in_words(&name, &device),
            device,
            chunk_bytes: offer.chunk_bytes,
            row_bytes: offer.row_bytes,
        }))
    })
    .await
}

fn in_words(volume: &str, device: &DeviceStatus) -> String {
    let DeviceStatus {
        kind,
        path,
        node,
        nvmet,
    } = device;
    let exported = match nvmet {
        Some(export) => format!(", and exported at {}", export.address),
        None => String::new(),
    };
    let kind = kind.name();
    format!("volume {volume} is the block device {path} ({node}, {kind}){exported}")
}

/// Removes the block device of a volume.
#[utoipa::path(post, path = "/v1/volumes/{volume}/detach",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "it is in use, or no block device")))]
pub async fn detach(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Done>, ApiError> {
    change(app, name, |app, name| {
        let device = app.exports.detach(&app.shared, name)?;
        Ok(format!(
            "volume {name} is no block device any more; {} is removed",
            device.path
        ))
    })
    .await
}

/// Ends the export of a volume to other machines. Its block device stays.
#[utoipa::path(post, path = "/v1/volumes/{volume}/end-export",
    params(("volume" = String, Path, description = "name of a volume")),
    responses((status = 200, body = Done), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "it is not exported, or the kernel does not end it")))]
pub async fn end_export(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Done>, ApiError> {
    change(app, name, |app, name| {
        app.exports.end_export(&app.shared, name)?;
        Ok(format!(
            "volume {name} is not exported by NVMe over TCP any more; its block device stays"
        ))
    })
    .await
}

/// Changes how a volume can be reached; `act` returns what was done, in one sentence.
async fn change(
    app: Arc<App>,
    name: String,
    act: fn(&App, &str) -> anyhow::Result<String>,
) -> Result<Json<Done>, ApiError> {
    blocking(app, move |app| {
        let status = app.status()?;
        names::volume(&status, &name)?;
        let text = act(app, &name).map_err(|error| ApiError::conflict(format!("{error:#}")))?;
        Ok(Json(Done { text, member: None }))
    })
    .await
}
