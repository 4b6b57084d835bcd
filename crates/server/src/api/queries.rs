//! Queries: everything that is answered from the published status and the event log.

use super::errors::ApiError;
use super::event_log::KEPT_MAX;
use super::schema::{ErrorBody, Events};
use super::state::App;
use super::{metrics, stream};
use crate::status::Status;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

/// The event after which the answer begins.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Number of the last event that the client has seen already.
    since: Option<u64>,
}

type EventsWanted = Result<Query<EventsQuery>, QueryRejection>;

fn since(wanted: EventsWanted) -> Result<Option<u64>, ApiError> {
    match wanted {
        Ok(Query(query)) => Ok(query.since),
        Err(_) => Err(ApiError::bad_input(
            "the only parameter here is since=N, the number of the last event that is known",
        )),
    }
}

/// The state of everything.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, body = Status), (status = 503, body = ErrorBody)))]
pub async fn status(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    Ok(Json(&*app.first_status().await?).into_response())
}

/// The newest events, at most a thousand.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery),
    responses((status = 200, body = Events), (status = 400, body = ErrorBody)))]
pub async fn events(
    State(app): State<Arc<App>>,
    wanted: EventsWanted,
) -> Result<Json<Events>, ApiError> {
    let since = since(wanted)?.unwrap_or(0);
    Ok(Json(app.events.since(since, KEPT_MAX)))
}

/// Events as they happen, as server-sent events: `id` is the number, `event` the kind, `data` the
/// event as JSON. The stream begins after `since` or the header `Last-Event-ID`; without both, with the next event.
#[utoipa::path(get, path = "/v1/events/stream", params(EventsQuery),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = 400, body = ErrorBody)))]
pub async fn event_stream(
    State(app): State<Arc<App>>,
    wanted: EventsWanted,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let since = since(wanted)?.or(last);
    Ok(stream::response(&app, since))
}

/// Counters and states for Prometheus.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let status = app.first_status().await?;
    let text = metrics::text(
        &status,
        &app.shared.export_statistics(),
        app.hook.as_deref(),
    )
    .map_err(|_| ApiError::internal("the metrics cannot be written"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
