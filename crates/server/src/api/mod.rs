//! The HTTP interface of a serving process, on a Unix socket.
//!
//! The command line, a web console and monitoring all use this interface. [`socket_path`] says where
//! the socket is and [`ApiSocket`] claims it: one process answers on a path. [`access`] says who may connect, who may
//! look, and who may give orders. [`connections`] limits how many clients are connected at once. An [`App`](state::App) holds what the
//! handlers need; [`routes`] lists every path once, for both the router and the description at `/v1/openapi.json`.
//! Queries are answered from the published status ([`queries`], [`metrics`], [`stream`]). [`devices`] makes volumes block
//! devices of the machine. Orders ([`orders`], [`spare`]) go to the controller, and are answered when the published status
//! shows their effect, so that a client that queries the status after an order sees that effect.
//!
//! The program's only tokio runtime runs here, on one thread of its own. No data thread waits for it,
//! and everything that can block (waiting for the answer to an order, opening a drive) is moved off that thread.
//!
//! [`event_log`] keeps the newest events for readers that ask later; [`hook`] runs a command for each event;
//! [`letting_go`] releases drives that have left the array.

pub mod access;
mod busy;
mod connections;
mod devices;
mod errors;
pub mod event_log;
pub(crate) mod forgetting;
pub mod hook;
mod letting_go;
mod metrics;
pub mod names;
mod orders;
mod queries;
mod replaceable;
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
pub(crate) use replaceable::check_replaceable;
pub use spare::{Spares, refuse_content, refuse_users};
pub use state::command;

use crate::exporting::Exports;
use crate::handing_over::HandOver;
use crate::runtime::Shared;
use crate::state_folder::keeper::Keeper;
use anyhow::{Context, Result, anyhow};
use connections::{CONNECTIONS_MAX, Limited};
use exports::unix_socket::ClaimedSocket;
use socket_path::SocketPath;
use state::App;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Maximum number of blocking calls at the same time; further ones wait in line.
const BLOCKING_CALLS_MAX: usize = 8;
/// How long requests in progress may take once the server is told to stop.
const LINGER: Duration = Duration::from_secs(2);

/// What the server needs.
pub struct ApiOptions {
    /// The running array.
    pub shared: Arc<Shared>,
    /// The log to which the array's events are added.
    pub events: EventLog,
    /// What a drive must be to join; determined from the container before it was started.
    pub spares: Arc<Spares>,
    /// Where to listen.
    pub socket: ApiSocket,
    /// Called when a client asks the process to stop. It must return at once; the process stops
    /// afterwards and drops the [`ApiServer`] last, so that the client still gets its answer.
    pub on_stop: Box<dyn Fn() + Send + Sync>,
    /// Whether the end of the process will be a hand-over.
    pub hand_over: HandOver,
    /// The event hook, for its counters.
    pub hook: Option<Arc<Hook>>,
    /// Keeps settings for the next start; `None` if they are not kept.
    pub keeper: Option<Arc<Keeper>>,
    /// The exports, which attach and detach volumes.
    pub exports: Exports,
}

/// A socket that this process owns but does not answer on yet: clients wait until [`serve_api`] runs.
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

    /// Lets the members of the group [`access::READERS`] look, if this process is root's and the machine has the group.
    ///
    /// # Errors
    /// The group exists, and the socket cannot be opened to it.
    pub fn admit_readers(&self) -> Result<()> {
        match access::readers(Path::new(access::GROUPS)) {
            Some(group) if rustix::process::geteuid().is_root() => self.admit_group(group),
            _ => Ok(()),
        }
    }

    /// Lets the members of the group with this number look.
    pub(crate) fn admit_group(&self, group: u32) -> Result<()> {
        self.claimed.admit_group(group)
    }
}

/// A running server. When dropped it lets requests in progress finish, for at most two seconds, ends its thread and
/// removes the socket.
#[derive(Debug)]
pub struct ApiServer {
    /// Removes the socket's file when it is dropped.
    _socket: ClaimedSocket,
    /// One permit for each further connection that is allowed.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests to look at"))]
    free_connections: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to answer requests on `options.socket`.
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
        hand_over: options.hand_over,
        hook: options.hook,
        keeper: options.keeper,
        exports: options.exports,
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

/// The body of the server's thread.
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
            Ok(listener) => Limited::new(listener, free),
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        tokio::spawn(letting_go::run(app.shared.clone()));
        let router = routes::router(app).into_make_service_with_connect_info::<access::Peer>();
        let server =
            axum::serve(listener, router).with_graceful_shutdown(stopped(stopping.clone()));
        let deadline = async {
            stopped(stopping).await;
            tokio::time::sleep(LINGER).await;
        };
        tokio::select! {
            _ = server => {}
            () = deadline => {}
        }
    });
    // An order that waits for an answer that will not come must not delay the end of the process.
    runtime.shutdown_timeout(LINGER);
}

/// Resolves when the server is told to stop.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the server has been dropped, which counts as told to stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}
