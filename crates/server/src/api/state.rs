//! What all handlers share, and how they give orders to the controller.

use super::errors::ApiError;
use super::event_log::EventLog;
use super::hook::Hook;
use super::spare::Spares;
use crate::exporting::Exports;
use crate::handing_over::HandOver;
use crate::not_done::NotDone;
use crate::runtime::Shared;
use crate::state_folder::keeper::Keeper;
use crate::status::Status;
use axum::http::StatusCode;
use engine::control::message::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The status is published every 100 ms, and an idle shard wakes every 250 ms; this is ample.
const EFFECT_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What all handlers share.
pub struct App {
    pub shared: Arc<Shared>,
    pub events: EventLog,
    pub spares: Arc<Spares>,
    pub on_stop: Box<dyn Fn() + Send + Sync>,
    pub hand_over: HandOver,
    pub hook: Option<Arc<Hook>>,
    pub keeper: Option<Arc<Keeper>>,
    pub exports: Exports,
    pub stopping: watch::Receiver<bool>,
}

impl App {
    /// The published status; an error if none has been published yet, just after the start.
    pub fn status(&self) -> Result<Arc<Status>, ApiError> {
        let status = self.shared.status();
        if status.version == 0 {
            let sentence = "the array is being started; ask again in a second";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, sentence));
        }
        Ok(status)
    }

    /// The published status; waits a moment for the first one, because the socket opens before it is there.
    pub async fn first_status(&self) -> Result<Arc<Status>, ApiError> {
        let deadline = Instant::now() + EFFECT_WITHIN;
        while self.shared.updates() == 0 && Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.status()
    }

    /// See [`command`].
    pub fn command(&self, order: Command) -> Result<(), NotDone> {
        command(&self.shared, order)
    }
}

/// The published status; waits for the first one. Blocks.
pub fn published(shared: &Shared) -> Arc<Status> {
    let deadline = Instant::now() + EFFECT_WITHIN;
    while shared.updates() == 0 && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    shared.status()
}

/// Gives an order and waits until the published status shows its effect. Blocks.
pub fn command(shared: &Shared, order: Command) -> Result<(), NotDone> {
    shared.command(order)?;
    // Any status published after the order was answered shows its effect.
    let before = shared.updates();
    let deadline = Instant::now() + EFFECT_WITHIN;
    while shared.updates() == before && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Runs `work`, which may block, on another thread than the server's.
pub async fn blocking<T: Send + 'static>(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(move || work(&app))
        .await
        .unwrap_or_else(|_| {
            Err(ApiError::internal(
                "the serving process could not do this; its log says why",
            ))
        })
}
