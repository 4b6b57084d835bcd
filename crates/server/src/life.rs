//! The life of a server: prepared, serving, stopped.

use super::alerting::{AlertOptions, Alerter};
use super::commands::Commands;
use super::drive_health;
use super::ending::Ended;
use super::events::{Told, tell_start_note};
use super::exporting::{Exports, Started};
use super::handing_over::HandOver;
use super::hearer::{Audience, Hearer};
use super::last_words::LastWords;
use super::memory;
use super::newcomers::Missed;
use super::nvmet::NvmetRequest;
use super::options::ServeOptions;
use super::pulse::Pulse;
use super::remembering::{Remembering, Tell};
use super::runtime::{RunOptions, Runtime, Shared};
use super::scratch;
use super::spares::{NamedSpares, add_spares, open_drives};
use super::status::{DeviceKind, Status};
use super::swap_watch;
use crate::api::access::READERS;
use crate::api::socket_path::SocketPath;
use crate::api::{self, ApiOptions, ApiServer, ApiSocket, EventLog, Hook, Spares};
use crate::state_folder::keeper::Keeper;
use anyhow::Result;
use container::assemble::assemble;
use container::refusal::refused;
use container::{Container, conflicts};
use engine::options::Options;
use engine::units::Nanos;
use metadata::imsm::Uuid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long an array that starts without a member waits, at most, until its drives have said how they are, before a spare
/// takes the place. Drives that are well answer within milliseconds.
const HEALTH_KNOWN_WITHIN: Duration = Duration::from_secs(10);
/// Maximum duration of an orderly end.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// The sockets, the opened drives, and the array assembled from them, before it is served.
pub struct Prepared {
    options: ServeOptions,
    hearer: Arc<dyn Hearer>,
    api: ApiSocket,
    commands: Commands,
    exports: Exports,
    container: Container,
    spares: NamedSpares,
}

impl Prepared {
    /// Makes the sockets, opens the drives and assembles the array; `hearer` receives all reports from now on.
    ///
    /// # Errors
    /// One sentence: what could not be made, opened or assembled.
    pub fn new(mut options: ServeOptions, hearer: Arc<dyn Hearer>) -> Result<Prepared> {
        memory::refuse_more_than_there_is(options.payload_bytes, options.shards)?;
        // Before anything is done to drives: a socket that cannot be made must not stop an array that has just
        // been started. A client that connects early waits until the array is served.
        let path = SocketPath::choose(options.socket.as_deref());
        let api = ApiSocket::claim(&path)?;
        if let Err(error) = api.admit_readers() {
            // Data is served all the same, and root can still look.
            hearer.say(&format_args!(
                "the members of group {READERS} cannot look at this array: {error:#}"
            ));
        }
        let binds = std::mem::take(&mut options.exports);
        let exports = Exports::bind(binds, &path.path, &hearer)?;
        memory::refuse_less_than_is_needed(options.payload_bytes, options.shards, exports.count())?;
        let (mut drives, spares) = open_drives(&options)?;
        for refused in &spares.refused {
            // If the array does not start, the reason may be one of these spares: it may have become a member before.
            hearer.say(&refused.text);
        }
        conflicts::refuse(&drives)?;
        if let Some(level) = options.scratch {
            scratch::make(level, &mut drives)?;
        }
        let container = assemble(drives, options.start, options.read_only)
            .map_err(|error| refused(format!("{error:#}")))?;
        for note in start_notes(&container) {
            hearer.say(&note);
        }
        Ok(Prepared {
            options,
            hearer,
            api,
            commands: Commands::for_server_at(&path),
            exports,
            container,
            spares,
        })
    }

    /// Starts the data threads, opens the API, accepts clients and adds the spares.
    ///
    /// # Errors
    /// One sentence: what could not be started. Everything that was started has been stopped again.
    pub fn serve(self) -> Result<Server> {
        let (server, opening) = self.start()?;
        match opening.open(&server) {
            Ok(open) => Ok(Server {
                open: Some(open),
                ..server
            }),
            Err(error) => {
                // The data threads hold the drives, and a spare may be being rebuilt.
                let hearer = server.hearer.clone();
                hearer.say(&"stopping");
                if let Err(other) = server.stop() {
                    hearer.say(&format_args!("{other:#}"));
                }
                Err(error)
            }
        }
    }

    /// Starts the data threads.
    fn start(self) -> Result<(Server, Opening)> {
        let Prepared {
            options,
            hearer,
            api,
            commands,
            exports,
            container,
            spares: spares_named,
        } = self;
        let started = Started::all_of(&container);
        let share = options.payload_bytes / u64::from(options.shards);
        exports.prepare(&container.record, started, share)?;
        let spares = Arc::new(Spares::of(&container, options.backup.clone()));
        let events = EventLog::new();
        let hook = hook(&options, &hearer)?;
        let alerter = alerter(&options, &commands, &hearer);
        let tellers = Tellers::new(&commands, &hearer, (&hook, &alerter), &events);
        let uuid = Uuid::of_container(container.persister.mpb()).to_string();
        let lasts = options.scratch.is_none();
        let mut remembering = Remembering::begin(lasts.then_some(&*uuid), &events, &tellers.all);
        let mut run = run_options(&options);
        run.engine.rate_bytes_per_s = remembering.choose_rate(options.rate_bytes_per_s);
        tell_start(&tellers, &mut remembering, spares_named.refused, &container);
        let hear = tellers.all.clone();
        let runtime = Runtime::start(
            container,
            run,
            exports.clients(options.shards),
            move |event| hear(event),
        );
        let last_words = || LastWords::of_start(&hook, &remembering.keeper);
        let runtime = runtime.inspect_err(|_| last_words().finish(STOP_WITHIN))?;
        let shared = runtime.handle();
        exports.publish(&shared);
        shared.set_remembered_rate(remembering.rate_bytes_per_s);
        shared.set_commands(commands);
        let (stop, stop_asked) = watch::channel(false);
        let hand_over = HandOver::new(options.sockets_are_kept);
        let api = ApiOptions {
            shared: shared.clone(),
            events,
            spares,
            socket: api,
            on_stop: Box::new(move || {
                stop.send_replace(true);
            }),
            hand_over: hand_over.clone(),
            hook: hook.clone(),
            keeper: remembering.keeper.clone(),
            exports: exports.clone(),
        };
        let opening = Opening {
            api,
            spares: spares_named.new,
            tell: tellers.all,
            alerts_folder: remembering.folder.take(),
            missed: Missed::new(
                std::mem::take(&mut remembering.spares),
                remembering.keeper.clone(),
            ),
            options,
        };
        let server = Server {
            runtime,
            exports,
            hearer,
            hook,
            alerter,
            keeper: remembering.keeper,
            stop_asked,
            hand_over,
            open: None,
        };
        Ok((server, opening))
    }
}

/// What is left to do once the data threads run.
struct Opening {
    api: ApiOptions,
    spares: Vec<String>,
    tell: Tell,
    /// Where alerts that have not arrived are kept.
    alerts_folder: Option<PathBuf>,
    /// The spares that are to come.
    missed: Missed,
    options: ServeOptions,
}

impl Opening {
    /// Opens the API, accepts clients and adds the spares. The API ends when the returned [`ApiServer`] is dropped.
    fn open(self, server: &Server) -> Result<ApiServer> {
        let shared = server.runtime.handle();
        if let Some(alerter) = &server.alerter {
            alerter.start(self.alerts_folder, shared.clone())?;
        }
        server.exports.keep_true(shared.clone())?;
        swap_watch::start(server.exports.clone(), shared.clone(), self.tell.clone())?;
        let spares = self.api.spares.clone();
        let api = api::serve_api(self.api)?;
        // Clients first: those of the process before wait, and everything below asks drives.
        server.exports.open(&shared, &*server.hearer)?;
        let (options, tell) = (&self.options, &*self.tell);
        add_spares(options, (&shared, &spares), &self.spares, tell);
        let copies = options.auto_rebuild && !options.read_only;
        drive_health::start(shared.clone(), self.tell.clone(), copies)?;
        let (tell, deadline) = (self.tell.clone(), options.member_deadline);
        match &options.newcomers {
            Some(known) => known.start(shared.clone(), spares, tell, deadline, self.missed)?,
            None => self.missed.give_up(&*tell),
        }
        wait_for_status(&shared);
        if let Some(alerter) = &server.alerter {
            alerter.array_is_served();
        }
        Ok(api)
    }
}

/// Waits for the first status, which is published soon after the start.
fn wait_for_status(shared: &Shared) {
    for _ in 0..500 {
        if shared.updates() > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An array that is being served, until [`Server::stop`]. Without that call the data threads keep running and keep the
/// drives open.
#[must_use = "only `stop` ends it"]
pub struct Server {
    runtime: Runtime,
    exports: Exports,
    hearer: Arc<dyn Hearer>,
    hook: Option<Arc<Hook>>,
    alerter: Option<Arc<Alerter>>,
    keeper: Option<Arc<Keeper>>,
    stop_asked: watch::Receiver<bool>,
    hand_over: HandOver,
    /// `None` while the server is being opened.
    open: Option<ApiServer>,
}

impl Server {
    /// The status of the array.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        self.runtime.handle().status()
    }

    /// Makes every volume a block device that is none yet, in the way of this `kind` or in the best way that this machine has.
    /// Returns an error for each volume that cannot be one.
    #[must_use]
    pub fn attach_all(&self, kind: Option<DeviceKind>) -> Vec<anyhow::Error> {
        self.exports.attach_all(&self.runtime.handle(), kind)
    }

    /// Exports every volume that is a block device to other machines. What cannot be exported now is tried again. Returns an
    /// error for each volume that is not exported yet.
    #[must_use]
    pub fn export_all(&self, request: NvmetRequest) -> Vec<anyhow::Error> {
        self.exports.export_all(&self.runtime.handle(), request)
    }

    /// Sends alerts as `options` say from now on, if the server was started with any.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn change_alerts(&self, options: AlertOptions) -> Result<()> {
        let alerter = self.alerter.as_ref();
        alerter.map_or(Ok(()), |alerter| alerter.change(options))
    }

    /// Shows whether the data threads work.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse::of(self.runtime.handle())
    }

    /// Becomes true when a client of the API asks that the server stop; the owner of the server then has to stop it.
    #[must_use]
    pub fn stop_asked(&self) -> watch::Receiver<bool> {
        self.stop_asked.clone()
    }

    /// Whether somebody has announced that another process follows, so that [`Server::hand_over`] is the way to end.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.hand_over.is_due(Instant::now())
    }

    /// From now on events are neither written to files nor told to programs or people. Files of the state folder are closed.
    pub fn keep_no_more(&self) {
        self.last_words().finish(STOP_WITHIN);
    }

    /// Disconnects clients first, then flushes the volumes and, where nothing is in doubt, marks them clean.
    ///
    /// # Errors
    /// The array could not be stopped in order.
    pub fn stop(self) -> Result<Ended> {
        self.end(false)
    }

    /// As [`Server::stop`], for a process that another one follows at once: clients are kept for it as far as that is possible
    /// ([`Ended::handed_over`]). If the array could not be stopped in order, all are disconnected.
    ///
    /// # Errors
    /// The array could not be stopped in order.
    pub fn hand_over(self) -> Result<Ended> {
        self.end(true)
    }

    fn last_words(&self) -> LastWords {
        LastWords {
            hook: self.hook.clone(),
            alerter: self.alerter.clone(),
            keeper: self.keeper.clone(),
        }
    }

    fn end(self, hands_over: bool) -> Result<Ended> {
        let hearer = &self.hearer;
        let shared = self.runtime.handle();
        let devices = device_links(&shared.status());
        let last_words = self.last_words();
        if let Err(error) = self.exports.stop(&shared, STOP_WITHIN, hands_over) {
            hearer.say(&format_args!("{error:#}"));
        }
        let mut result = self.runtime.stop(STOP_WITHIN);
        if let Some(sentence) = result.as_ref().ok().and_then(|ended| ended.left.sentence()) {
            hearer.say(&sentence);
        }
        if let Ok(ended) = &mut result
            && hands_over
            && ended.failed.is_empty()
        {
            match self.exports.handed_over() {
                Ok(sockets) => ended.handed_over = sockets,
                Err(error) => hearer.say(&format_args!("clients have to connect again: {error:#}")),
            }
        }
        // What is mounted waits for the next process.
        let is_awaited = hands_over || devices.iter().any(|link| link.is_symlink());
        match is_awaited {
            true => last_words.finish_soon(&**hearer),
            false => last_words.finish(STOP_WITHIN),
        }
        drop(self.open);
        self.exports.release();
        result
    }
}

/// The lasting names of all block devices. A device that stays when its server is stopped keeps its name.
fn device_links(status: &Status) -> Vec<PathBuf> {
    let devices = status.volumes.iter().filter_map(|one| one.device.as_ref());
    devices.map(|device| PathBuf::from(&device.path)).collect()
}

fn run_options(options: &ServeOptions) -> RunOptions {
    RunOptions {
        shards: options.shards,
        payload_bytes: options.payload_bytes as usize,
        completion: options.completion,
        scrub_every: options.scrub_every,
        engine: Options {
            member_deadline: Nanos(options.member_deadline.as_nanos() as u64),
            auto_rebuild: options.auto_rebuild && !options.read_only,
            health_known_within: Nanos(HEALTH_KNOWN_WITHIN.as_nanos() as u64),
            read_only: options.read_only,
            ..Options::default()
        },
    }
}

fn hook(options: &ServeOptions, hearer: &Arc<dyn Hearer>) -> Result<Option<Arc<Hook>>> {
    let Some(command) = &options.on_event else {
        return Ok(None);
    };
    let hearer = hearer.clone();
    let hook = Hook::new(command, move |problem| hearer.say(problem))?;
    Ok(Some(Arc::new(hook)))
}

fn alerter(
    options: &ServeOptions,
    commands: &Commands,
    hearer: &Arc<dyn Hearer>,
) -> Option<Arc<Alerter>> {
    let hearer = hearer.clone();
    let alerts = options.alerts.clone()?;
    let say = move |problem: &dyn std::fmt::Display| hearer.say(problem);
    Some(Arc::new(Alerter::new(alerts, commands.clone(), say)))
}

/// What the user should know about the start: notes on the drives, then on the container.
fn start_notes(container: &Container) -> Vec<String> {
    let drives = container.members.iter();
    let of_drives = drives.flat_map(|probed| probed.drive.notes());
    of_drives.chain(&container.notes).cloned().collect()
}

/// Reports the start. People have already seen what was known before anything could go wrong, so that part goes to
/// programs only.
fn tell_start(
    tell: &Tellers,
    remembering: &mut Remembering,
    refused_spares: Vec<Told>,
    container: &Container,
) {
    let beginning = remembering.beginning.take().into_iter();
    let notes = start_notes(container);
    let notes = notes.iter().map(|note| tell_start_note(note));
    let told_before = beginning.chain(refused_spares).chain(notes);
    told_before.for_each(&*tell.programs);
    remembering.notes.drain(..).for_each(&*tell.all);
}

/// The two ways to report an event.
struct Tellers {
    /// To people and programs.
    all: Tell,
    /// To programs alone, and to readers of the log.
    programs: Tell,
}

impl Tellers {
    /// The sentences of events get the socket of `commands`.
    fn new(
        commands: &Commands,
        hearer: &Arc<dyn Hearer>,
        (hook, alerter): (&Option<Arc<Hook>>, &Option<Arc<Alerter>>),
        events: &EventLog,
    ) -> Tellers {
        let tell = |audience: Audience| -> Tell {
            let (hearer, hook, log) = (hearer.clone(), hook.clone(), events.clone());
            let (commands, alerter) = (commands.clone(), alerter.clone());
            Arc::new(move |mut told| {
                told.text = commands.in_text(&told.text);
                hearer.event(&told, audience);
                hook.iter().for_each(|hook| hook.tell(&told));
                alerter.iter().for_each(|alerter| alerter.tell(&told));
                log.add(told);
            })
        };
        Tellers {
            all: tell(Audience::All),
            programs: tell(Audience::Programs),
        }
    }
}

#[cfg(test)]
mod tests;
