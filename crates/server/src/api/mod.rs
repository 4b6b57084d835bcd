//! The HTTP interface of a serving process, on a Unix socket.
//!
//! The command line, a web console and monitoring all come through here. [`socket_path`] says where
//! the socket lies and [`socket`] claims it: one process answers on a path, and only its owner may
//! ask, so many at once as [`connections`] says. An [`App`](state::App) holds what the answers need; [`routes`] lists every path once, for
//! the router as for the description at `/v1/openapi.json`. Questions are answered from the
//! published status ([`queries`], [`metrics`], [`stream`]); orders ([`orders`], [`spare`]) go to
//! the controller and come back when the published status shows them, so that who orders and then
//! looks sees the effect.
//!
//! The only tokio of the program runs here, on one thread of its own. No data thread waits for it,
//! and whatever can block (an order's answer, opening a drive) is moved off that thread.
//!
//! [`event_log`] keeps the newest events for whoever asks later; [`hook`] runs a command for each;
//! [`letting_go`] releases drives that have left the array.

mod busy;
mod connections;
mod errors;
pub mod event_log;
pub mod hook;
mod letting_go;
mod metrics;
pub mod names;
mod orders;
mod queries;
mod routes;
pub mod schema;
mod scrubs;
pub mod socket_path;
pub mod spare;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub use event_log::EventLog;
pub use hook::Hook;
pub use spare::Spares;

use crate::runtime::Shared;
use crate::state_folder::keeper::Keeper;
use anyhow::{Context, Result, anyhow};
use connections::{CONNECTIONS_MAX, Limited};
use exports::unix_socket::ClaimedSocket;
use socket_path::SocketPath;
use state::App;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Calls that block at the same time; more wait in line.
const BLOCKING_CALLS_MAX: usize = 8;
/// How long answers under way may take once the server is told to stop.
const LINGER: Duration = Duration::from_secs(2);

/// What the server needs.
pub struct ApiOptions {
    /// The running array.
    pub shared: Arc<Shared>,
    /// The log that hears the array's events.
    pub events: EventLog,
    /// What a drive must be to join; made of the container before it was started.
    pub spares: Arc<Spares>,
    /// Where to listen.
    pub socket: ApiSocket,
    /// Called when somebody asks the process to stop. It must return at once; the process stops
    /// afterwards and drops the [`ApiServer`] last, so that the answer gets out.
    pub on_stop: Box<dyn Fn() + Send + Sync>,
    /// The event hook, for its counters.
    pub hook: Option<Arc<Hook>>,
    /// Who keeps settings for the next start, if anybody does.
    pub keeper: Option<Arc<Keeper>>,
}

/// A socket that is this process's and on which nobody answers yet: who asks there waits until [`serve_api`] does.
#[derive(Debug)]
pub struct ApiSocket {
    claimed: ClaimedSocket,
    listener: std::os::unix::net::UnixListener,
}

impl ApiSocket {
    /// Makes the socket, with mode 0600.
    ///
    /// # Errors
    /// Another process answers there, or the path cannot be used.
    pub fn claim(path: &SocketPath) -> Result<ApiSocket> {
        path.prepare_folder()?;
        let (claimed, listener) = ClaimedSocket::claim(&path.path, "--socket")?;
        listener.set_nonblocking(true)?;
        Ok(ApiSocket { claimed, listener })
    }
}

/// A running server. When dropped it lets answers under way finish, for at most two seconds, ends its thread and removes
/// the socket.
#[derive(Debug)]
pub struct ApiServer {
    /// Removes the socket's file when it goes.
    _socket: ClaimedSocket,
    /// Connections that there may be beside those that there are.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests to look at"))]
    free_connections: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to answer on `options.socket`.
///
/// # Errors
/// No thread can be started.
pub fn serve_api(options: ApiOptions) -> Result<ApiServer> {
    let ApiSocket { claimed, listener } = options.socket;
    let (stop, stopping) = watch::channel(false);
    let app = Arc::new(App {
        shared: options.shared,
        events: options.events,
        spares: options.spares,
        on_stop: options.on_stop,
        hook: options.hook,
        keeper: options.keeper,
        stopping: stopping.clone(),
    });
    let free_connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let free = free_connections.clone();
    let (ready, started) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("api".to_owned())
        .spawn(move || run((listener, free), app, stopping, &ready))?;
    let server = ApiServer {
        _socket: claimed,
        free_connections,
        stop,
        thread: Some(thread),
    };
    match started.recv() {
        Ok(result) => result.context("cannot start the HTTP interface")?,
        Err(_) => return Err(anyhow!("the thread of the HTTP interface did not start")),
    }
    Ok(server)
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The body of the thread.
fn run(
    (listener, free): (std::os::unix::net::UnixListener, Arc<Semaphore>),
    app: Arc<App>,
    stopping: watch::Receiver<bool>,
    ready: &std::sync::mpsc::SyncSender<std::io::Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_CALLS_MAX)
        .thread_name("api-order")
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    runtime.block_on(async {
        let listener = match tokio::net::UnixListener::from_std(listener) {
            Ok(listener) => Limited { listener, free },
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        tokio::spawn(letting_go::run(app.shared.clone()));
        let server = axum::serve(listener, routes::router(app))
            .with_graceful_shutdown(stopped(stopping.clone()));
        let deadline = async {
            stopped(stopping).await;
            tokio::time::sleep(LINGER).await;
        };
        tokio::select! {
            _ = server => {}
            () = deadline => {}
        }
    });
    // An order that waits for an answer that will not come must not hold up the process.
    runtime.shutdown_timeout(LINGER);
}

/// Resolves when the server is told to stop.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the server is gone, which is as good.
    let _ = stopping.wait_for(|stop| *stop).await;
}
