//! A real array over memory, served through a real socket, asked by the real client.

mod description;
mod garbage;
mod inexpressible;
mod life;
mod limits;
mod listening;
mod refusals;
mod work;

use super::event_log::EventLog;
use super::schema::{Done, Events, SpareRequest};
use super::socket_path::SocketPath;
use super::{ApiOptions, ApiServer, ApiSocket, Hook, Spares, serve_api};
use crate::client::connection::{Client, ClientError};
use crate::serve::runtime::{RunOptions, Runtime, Shared};
use crate::serve::status::{Status, VolumeStatus};
use container::Container;
use container::assemble::assemble;
use container::probe::{Probed, probe_all};
use container::write::write_record;
use drives::completion::CompletionMode;
use drives::drive::Access;
use engine::options::Options;
use hyper::Method;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::layout::SizeRequest;
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Level, Mpb, VolumeName};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// 512-byte sectors of each member in a volume: 32 MiB.
const MEMBER_SECTORS: u64 = 65_536;

/// A served array. Its one volume is called `v`.
pub struct Served {
    runtime: Option<Runtime>,
    server: Option<ApiServer>,
    shared: Arc<Shared>,
    events: EventLog,
    stop_asked: Arc<AtomicBool>,
    folder: TempDir,
}

impl Served {
    /// An array of `level` on `members` members of 64 MiB, serials `M0`, `M1`, ….
    pub fn new(level: Level, members: usize) -> Served {
        let specs = (0..members)
            .map(|at| format!("ram:64m,serial=M{at}"))
            .collect();
        Served::on(level, specs)
    }

    /// An array of `level` on the drives `specs`.
    pub fn on(level: Level, specs: Vec<String>) -> Served {
        Served::with(level, specs, Options::default())
    }

    /// As [`Served::new`], for an operator who gives every order himself.
    pub fn by_hand(level: Level, members: usize) -> Served {
        let specs = (0..members).map(|at| format!("ram:64m,serial=M{at}"));
        let options = Options {
            auto_rebuild: false,
            ..Options::default()
        };
        Served::with(level, specs.collect(), options)
    }

    fn with(level: Level, specs: Vec<String>, engine: Options) -> Served {
        let mut drives = probe_all(&specs, Access::Exclusive).unwrap();
        create(level, &mut drives);
        let container = assemble(drives, StartOptions::default(), false).unwrap();
        Served::container(container, engine)
    }

    fn container(container: Container, engine: Options) -> Served {
        let folder = TempDir::new().unwrap();
        let backups = folder.path().join("backups");
        let spares = Arc::new(Spares::of(&container, Some(backups)));
        let events = EventLog::new();
        let log = events.clone();
        let options = RunOptions {
            shards: 2,
            payload_bytes: 8 << 20,
            completion: CompletionMode::Interrupt,
            engine,
        };
        let make_port = Arc::new(|_, _| Ok(()));
        let runtime = Runtime::start(container, options, make_port, move |event| log.add(event));
        let runtime = runtime.unwrap();
        let stop_asked = Arc::new(AtomicBool::new(false));
        let asked = stop_asked.clone();
        let server = serve_api(ApiOptions {
            shared: runtime.handle(),
            events: events.clone(),
            spares,
            socket: ApiSocket::claim(&SocketPath {
                path: folder.path().join("api.sock"),
                is_default: false,
            })
            .unwrap(),
            on_stop: Box::new(move || asked.store(true, Ordering::Release)),
            hook: Some(Arc::new(Hook::new("true", |_| ()).unwrap())),
            keeper: None,
        });
        let served = Served {
            shared: runtime.handle(),
            runtime: Some(runtime),
            server: Some(server.unwrap()),
            events,
            stop_asked,
            folder,
        };
        served.wait_until("the first status", |status| status.version == 1);
        served
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("api.sock")
    }

    pub fn client(&self) -> Client {
        Client::connect(Some(&self.socket())).unwrap()
    }

    pub fn status(&self) -> Status {
        self.client().get("/v1/status").unwrap()
    }

    pub fn volume(&self) -> VolumeStatus {
        self.status().volumes.remove(0)
    }

    pub fn post(&self, path: &str) -> anyhow::Result<Done> {
        self.client().order(Method::POST, path)
    }

    pub fn add_spare(&self, drive: &str, force: bool) -> anyhow::Result<Done> {
        let request = SpareRequest {
            drive: drive.to_owned(),
            force,
        };
        self.client().send(Method::POST, "/v1/spares", &request)
    }

    /// Whether the serving process was asked to stop.
    pub fn is_asked_to_stop(&self) -> bool {
        self.stop_asked.load(Ordering::Acquire)
    }

    /// Looks at the status until it is as wanted.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.shared.status();
            if wanted(&status) {
                return (*status).clone();
            }
            assert!(
                Instant::now() < deadline,
                "{what} did not come: {status:#?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for an event of this kind.
    pub fn wait_for_event(&self, kind: &str) -> super::schema::NumberedEvent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events: Events = self.client().get("/v1/events").unwrap();
            if let Some(event) = events
                .events
                .into_iter()
                .find(|event| event.event.kind == kind)
            {
                return event;
            }
            assert!(Instant::now() < deadline, "no event {kind}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.server.take());
        if let Some(runtime) = self.runtime.take()
            && !std::thread::panicking()
        {
            runtime.stop(PATIENCE).unwrap();
        }
    }
}

/// Writes a container with the volume `v` to `drives`.
fn create(level: Level, drives: &mut [Probed]) {
    let new: Vec<NewDrive> = drives
        .iter()
        .map(|probed| NewDrive {
            serial: probed.serial,
            total_sectors: probed.placement.total_sectors(),
        })
        .collect();
    let volume = VolumeSpec {
        name: VolumeName::new("v").unwrap(),
        level,
        strip_sectors: 128,
        size: SizeRequest::PerMember {
            sectors: MEMBER_SECTORS,
        },
        born_in_sync: true,
        allow_wide: false,
    };
    let identity = ContainerIdentity {
        family_num: 0x5EED,
        creation_time: 1_700_000_000,
    };
    let mut mpb = Mpb::create(&new, &volume, identity).unwrap();
    mpb.bump_generation();
    write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
    drives
        .iter_mut()
        .for_each(|probed| probed.reread().unwrap());
}

/// The status code, the sentence, and whether data was protected.
pub fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> (u16, String, bool) {
    match result.unwrap_err().downcast::<ClientError>().unwrap() {
        ClientError::Answered { code, body } => (code, body.error, body.protects_data),
        other => panic!("{other}"),
    }
}
