//! Every path of the HTTP interface, and its description.

use super::errors::ApiError;
use super::state::App;
use super::{access, devices, orders, queries, scrubs};
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;

/// Maximum size of a request body, far above what any request needs.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The description of the interface. A test compares it with [`routes`].
#[derive(OpenApi)]
#[openapi(
    info(
        title = "fullstripe",
        description = "A running array, on a Unix socket. Root and the user of the serving process may do everything, others \
                       whom the mode of the socket lets in may only look."
    ),
    paths(
        queries::status,
        queries::events,
        queries::event_stream,
        queries::metrics,
        orders::fail,
        orders::remove,
        orders::spares,
        orders::replace,
        orders::rebuild,
        orders::scrub,
        scrubs::report,
        scrubs::schedule,
        scrubs::explain,
        orders::cancel,
        orders::pause,
        orders::resume,
        orders::rate,
        devices::attach,
        devices::detach,
        devices::end_export,
        orders::hand_over,
        orders::withdraw_hand_over,
        orders::stop,
        openapi
    )
)]
pub struct Description;

/// All paths and their handlers.
pub fn routes() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
    vec![
        ("/v1/status", get(queries::status)),
        ("/v1/events", get(queries::events)),
        ("/v1/events/stream", get(queries::event_stream)),
        ("/v1/members/{member}/fail", post(orders::fail)),
        ("/v1/members/{member}/remove", post(orders::remove)),
        ("/v1/spares", post(orders::spares)),
        ("/v1/volumes/{volume}/replace", post(orders::replace)),
        ("/v1/volumes/{volume}/rebuild", post(orders::rebuild)),
        (
            "/v1/volumes/{volume}/scrub",
            post(orders::scrub).get(scrubs::report),
        ),
        ("/v1/volumes/{volume}/scrub/schedule", put(scrubs::schedule)),
        ("/v1/volumes/{volume}/stripes/{lba}", get(scrubs::explain)),
        ("/v1/volumes/{volume}/job", delete(orders::cancel)),
        ("/v1/volumes/{volume}/pause", post(orders::pause)),
        ("/v1/volumes/{volume}/resume", post(orders::resume)),
        ("/v1/volumes/{volume}/attach", post(devices::attach)),
        ("/v1/volumes/{volume}/detach", post(devices::detach)),
        ("/v1/volumes/{volume}/end-export", post(devices::end_export)),
        ("/v1/rate", put(orders::rate)),
        (
            "/v1/hand-over",
            post(orders::hand_over).delete(orders::withdraw_hand_over),
        ),
        ("/v1/stop", post(orders::stop)),
        ("/v1/openapi.json", get(openapi)),
        ("/metrics", get(queries::metrics)),
    ]
}

/// The router of the whole interface.
pub fn router(app: Arc<App>) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods)
        })
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn(access::judge))
        .with_state(app)
}

/// The description of this interface.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::unknown(format!(
        "there is no {}; /v1/openapi.json lists what there is",
        uri.path()
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let sentence = format!(
        "{} does not take {method}; see /v1/openapi.json",
        uri.path()
    );
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, sentence)
}
