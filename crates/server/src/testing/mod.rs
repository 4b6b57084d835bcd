//! For tests of this crate and of programs that use a server: a served array, and parts of a status.

pub mod samples;

use crate::api::event_log::EventLog;
use crate::api::schema::{Done, Events, SpareRequest};
use crate::api::socket_path::SocketPath;
use crate::api::{ApiOptions, ApiServer, ApiSocket, Hook, Spares, serve_api};
use crate::client::Client;
use crate::events::Told;
use crate::exporting::Exports;
use crate::handing_over::HandOver;
use crate::runtime::{Clients, RunOptions, Runtime, Shared};
use crate::scrub::every::ScrubEvery;
use crate::status::{Status, VolumeStatus};
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

/// The longest wait of any test.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// 512-byte sectors of each member in a volume: 32 MiB.
const MEMBER_SECTORS: u64 = 65_536;

/// A served array with one volume, called `v`.
pub struct Served {
    runtime: Option<Runtime>,
    pub(crate) server: Option<ApiServer>,
    pub(crate) shared: Arc<Shared>,
    #[cfg(test)]
    pub(crate) spares: Arc<Spares>,
    /// The log of its events.
    pub events: EventLog,
    stop_asked: Arc<AtomicBool>,
    hand_over: HandOver,
    pub(crate) folder: TempDir,
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

    /// Like [`Served::new`], but the engine starts no rebuild by itself: the test gives every order.
    pub fn by_hand(level: Level, members: usize) -> Served {
        let specs = (0..members).map(|at| format!("ram:64m,serial=M{at}"));
        let options = Options {
            auto_rebuild: false,
            ..Options::default()
        };
        Served::with(level, specs.collect(), options)
    }

    pub(crate) fn with(level: Level, specs: Vec<String>, engine: Options) -> Served {
        let mut drives = probe_all(&specs, Access::Exclusive).unwrap();
        create(level, &mut drives);
        let container = assemble(drives, StartOptions::default(), false).unwrap();
        Served::container(container, engine)
    }

    /// Serves `container` with these options of the engine.
    pub fn container(container: Container, engine: Options) -> Served {
        Served::for_readers(container, engine, None)
    }

    /// The same; the members of the group with the number `readers` may look.
    pub(crate) fn for_readers(
        container: Container,
        engine: Options,
        readers: Option<u32>,
    ) -> Served {
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
            scrub_every: ScrubEvery::default(),
        };
        let clients = Clients {
            kinds: Vec::new(),
            make_port: Arc::new(|_, _| Ok(())),
        };
        let runtime = Runtime::start(container, options, clients, move |event| log.add(event));
        let runtime = runtime.unwrap();
        let stop_asked = Arc::new(AtomicBool::new(false));
        let asked = stop_asked.clone();
        let hand_over = HandOver::new(true);
        let socket = ApiSocket::claim(&SocketPath {
            path: folder.path().join("api.sock"),
            is_default: false,
        });
        let socket = socket.unwrap();
        if let Some(group) = readers {
            socket.admit_group(group).unwrap();
        }
        let server = serve_api(ApiOptions {
            shared: runtime.handle(),
            events: events.clone(),
            spares: spares.clone(),
            socket,
            on_stop: Box::new(move || asked.store(true, Ordering::Release)),
            hand_over: hand_over.clone(),
            hook: Some(Arc::new(Hook::new("true", |_| ()).unwrap())),
            keeper: None,
            exports: Exports::default(),
        });
        let served = Served {
            shared: runtime.handle(),
            #[cfg(test)]
            spares,
            runtime: Some(runtime),
            server: Some(server.unwrap()),
            events,
            stop_asked,
            hand_over,
            folder,
        };
        // Whoever asks this early gets an answer, and no refusal.
        assert_eq!(served.status().version, 1);
        served
    }

    /// Whether it has been announced that another process follows this one.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.hand_over.is_due(Instant::now())
    }

    /// The socket of its API.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("api.sock")
    }

    /// A client of its API.
    pub fn client(&self) -> Client {
        Client::connect(Some(&self.socket())).unwrap()
    }

    /// The status that the API returns.
    pub fn status(&self) -> Status {
        self.client().get("/v1/status").unwrap()
    }

    /// The status of its volume that the API returns.
    pub fn volume(&self) -> VolumeStatus {
        self.status().volumes.remove(0)
    }

    /// Gives an order without a body.
    ///
    /// # Errors
    /// The order is refused.
    pub fn post(&self, path: &str) -> anyhow::Result<Done> {
        self.client().order(Method::POST, path)
    }

    /// Adds a spare.
    ///
    /// # Errors
    /// The order is refused.
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

    /// Polls the status until `wanted` holds for it.
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
    pub fn wait_for_event(&self, kind: &str) -> crate::api::schema::NumberedEvent {
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
pub fn create(level: Level, drives: &mut [Probed]) {
    create_of_family(0x5EED, level, drives);
}

/// The same; containers of different families have different UUIDs.
pub(crate) fn create_of_family(family_num: u32, level: Level, drives: &mut [Probed]) {
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
        family_num,
        creation_time: 1_700_000_000,
    };
    let mut mpb = Mpb::create(&new, &volume, identity).unwrap();
    mpb.bump_generation();
    write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
    drives
        .iter_mut()
        .for_each(|probed| probed.reread().unwrap());
}

/// An event with this text.
pub fn event(text: &str) -> Told {
    Told {
        time_s: 1_700_000_000,
        kind: "job-started".to_owned(),
        volume: Some("v".to_owned()),
        member: None,
        text: text.to_owned(),
        warning: false,
    }
}
