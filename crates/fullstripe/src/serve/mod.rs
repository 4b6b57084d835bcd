//! The serving process: holds the members, runs the shards, offers volumes over NBD and itself over an
//! API.
//!
//! In the order of its life: sockets are made; drives are opened and the container assembled
//! ([`crate::container`]); the data threads start ([`runtime`]); the sockets are answered ([`nbd`],
//! [`crate::api`]); a signal or an operator ends it: clients first, then the volumes are flushed and, where nothing is in doubt, marked clean.

mod announcer;
mod ending;
pub mod events;
pub mod health;
mod memory;
pub mod nbd;
mod news;
mod published;
pub mod recorder;
mod remembering;
pub mod runtime;
mod scratch;
pub mod scrub;
mod snapshot;
mod sockets;
mod spares;
pub mod status;
mod watch;

use crate::api::event_log::fold;
use crate::api::{self, ApiOptions, ApiServer, EventLog, Hook, Spares};
use crate::commands::arguments::parse_level;
use crate::unix_socket::ClaimedSocket;
use container::Container;
use container::assemble::assemble;
use container::conflicts;
use container::refusal::refused;
use words::size;

use announcer::Announcer;
use anyhow::{Context, Result};
use clap::Args;
use drives::completion::CompletionMode;
use drives::spec::parse_size;
use ending::Signals;
use engine::layout::Level;
use engine::options::Options;
use events::{Told, tell_start_note};
use metadata::imsm::Uuid;
use metadata::imsm::start::StartOptions;
use nbd::{Address, Listening};
use remembering::{Remembering, Tell};
use runtime::{RunOptions, Runtime};
use sockets::Sockets;
use spares::{NamedSpares, add_spares, open_drives};
use status::Status;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a graceful end may take.
const STOP_WITHIN: Duration = Duration::from_secs(60);
/// How long the end waits for who reads what the process says, and for the disk that keeps events.
const PRINT_WITHIN: Duration = Duration::from_secs(2);

/// Serve an array until SIGTERM, SIGINT or `fullstripe stop`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The drives of one array, in any order: block devices, files, with options like `,serial=NAME`.
    #[arg(required = true, value_name = "DRIVE")]
    drives: Vec<String>,
    /// Make a new array of this level in memory, gone when serve ends; each DRIVE is ram:SIZE, or null:SIZE
    /// to measure without drives.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    scratch: Option<Level>,
    /// A drive to take a failed member's place; may be given several times, and again when it has. One that
    /// cannot be taken is reported, and the array is served without it.
    #[arg(long, value_name = "DRIVE")]
    spare: Vec<String>,
    /// Where NBD clients connect: unix:PATH or tcp:HOST[:PORT]; may be given several times.
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<Address>,
    /// Allow TCP addresses that other machines can reach; NBD has no authentication.
    #[arg(long)]
    listen: bool,
    /// Where the API listens.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Data threads, each with a core of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    shards: u8,
    /// Memory for payload.
    #[arg(long, default_value = "128m", value_name = "SIZE")]
    memory: String,
    /// How data threads learn of completed I/O: interrupt, polling (a core each), or hybrid:MICROSECONDS
    /// of polling before each sleep.
    #[arg(long, default_value = "interrupt", value_name = "MODE")]
    completion: CompletionMode,
    /// Start although members are missing that were never marked failed.
    #[arg(long)]
    degraded: bool,
    /// Start a degraded RAID 5 after a crash although the missing member's data may be outdated.
    #[arg(long)]
    accept_write_hole: bool,
    /// Start a degraded RAID 5 that was never synchronised, for reading.
    #[arg(long)]
    accept_unsynced: bool,
    /// Take back a drive that was marked failed and that a volume cannot go on without, such as one of a RAID 0
    /// beside a RAID 5. Trusted is that this is the drive as it was when it left, and that nothing was written to
    /// that volume meanwhile: fullstripe and Linux md do not while it is not started. For volumes that went on, what
    /// the drive holds is outdated: it is not read, and rebuilt.
    #[arg(long, conflicts_with = "read_only")]
    trust_returned_drive: bool,
    /// Write nothing at all to the drives.
    #[arg(long)]
    read_only: bool,
    /// Do not take spares by themselves when a member fails; `rebuild` takes them.
    #[arg(long)]
    no_auto_rebuild: bool,
    /// Limit of rebuild, resync and scrub on each member, per second; 0 is unlimited. Without it, what `fullstripe
    /// rate` set last counts, else nothing is limited.
    #[arg(long, value_name = "SIZE")]
    rate: Option<String>,
    /// Seconds until a member that does not answer is failed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
    /// Run this by `sh -c` for every event; the event is in FULLSTRIPE_* and as JSON on standard input.
    #[arg(long, value_name = "COMMAND")]
    on_event: Option<String>,
    /// Folder for the backup of what a drive held that `add-spare --force` takes.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print events and the ready line as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Serves until told to stop.
///
/// # Errors
/// One sentence: what could not be opened, assembled or ended.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let options = run_options(args)?;
    let rate_option = rate_option(args)?;
    let start = StartOptions {
        degraded: args.degraded,
        accept_write_hole: args.accept_write_hole,
        accept_unsynced: args.accept_unsynced,
        trust_returned_drive: args.trust_returned_drive,
    };
    let sockets = Sockets::claim(args)?;
    let (mut drives, spares) = open_drives(args)?;
    for refused in &spares.refused {
        // If the array does not start, a spare that has become a member may be why.
        let _ = writeln!(std::io::stderr(), "fullstripe: {}", refused.text);
    }
    conflicts::refuse(&drives)?;
    if let Some(level) = args.scratch {
        scratch::make(level, &mut drives)?;
    }
    let container =
        assemble(drives, start, args.read_only).map_err(|error| refused(format!("{error:#}")))?;
    for note in start_notes(&container) {
        // That nobody listens there must not end the array.
        let _ = writeln!(std::io::stderr(), "fullstripe: {note}");
    }
    serve(args, (options, rate_option), (container, spares), sockets)
}

/// What the user should know of the start: of the drives, then of the container.
fn start_notes(container: &Container) -> Vec<String> {
    let drives = container.members.iter();
    let of_drives = drives.flat_map(|probed| probed.drive.notes());
    of_drives.chain(&container.notes).cloned().collect()
}

fn parsed_size(what: &str, text: &str) -> Result<u64> {
    parse_size(text).with_context(|| format!("{what} cannot be \"{text}\"; give a size like 64m"))
}

/// The limit of background work that the command line gives.
fn rate_option(args: &ServeArgs) -> Result<Option<u64>> {
    match args.rate.as_deref() {
        None => Ok(None),
        Some("0") => Ok(Some(0)),
        Some(rate) => parsed_size("--rate", rate).map(Some),
    }
}

fn run_options(args: &ServeArgs) -> Result<RunOptions> {
    let payload_bytes = parsed_size("--memory", &args.memory)?;
    memory::refuse_less_than_is_needed(&args.memory, payload_bytes, args.shards)?;
    memory::refuse_more_than_there_is(&args.memory, payload_bytes, args.shards)?;
    let seconds = |count: u64| engine::units::Nanos(count * engine::units::Nanos::SECOND.0);
    Ok(RunOptions {
        shards: args.shards,
        payload_bytes: payload_bytes as usize,
        completion: args.completion,
        engine: Options {
            member_deadline: seconds(args.deadline),
            auto_rebuild: !args.no_auto_rebuild && !args.read_only,
            read_only: args.read_only,
            ..Options::default()
        },
    })
}

fn serve(
    args: &ServeArgs,
    (mut options, rate_option): (RunOptions, Option<u64>),
    (container, spares_named): (Container, NamedSpares),
    sockets: Sockets,
) -> Result<ExitCode> {
    let started = container.started();
    let share = options.payload_bytes as u64 / u64::from(options.shards);
    let exports = nbd::exports(&container.record, &started, share)?;
    let signals = Signals::catch()?;
    let Sockets {
        api: socket,
        nbd: listening,
    } = sockets;
    let uris = started
        .iter()
        .flat_map(|(_, name)| listening.iter().map(move |one| one.uri(name)))
        .collect();
    let volumes = started.iter().map(|(volume, _)| *volume).collect();
    let spares = Arc::new(Spares::of(&container, args.backup.clone()));
    let events = EventLog::new();
    let hook = args
        .on_event
        .as_deref()
        .map(Hook::new)
        .transpose()?
        .map(Arc::new);
    let announcer = Arc::new(Announcer::start(std::io::stdout(), std::io::stderr())?);
    let tell = tellers(args.json, &announcer, &hook, &events);
    let uuid = Uuid::of_container(container.persister.mpb()).to_string();
    let lasts = args.scratch.is_none();
    let mut remembering = Remembering::begin(lasts.then_some(&*uuid), &events, &tell.all);
    options.engine.rate_bytes_per_s = remembering.choose_rate(rate_option);
    tell_start(&tell, &mut remembering, spares_named.refused, &container);
    let hear = tell.all.clone();
    let shards = options.shards;
    let runtime = Runtime::start(
        container,
        options,
        nbd::ports(exports.clone(), volumes, shards, announcer.clone()),
        move |event| hear(event),
    )?;
    let shared = runtime.handle();
    shared.set_exports(uris);
    shared.set_remembered_rate(remembering.rate_bytes_per_s);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let api = ApiOptions {
        shared: shared.clone(),
        events,
        spares: spares.clone(),
        socket,
        on_stop: Box::new(move || {
            stop.send_replace(true);
        }),
        hook: hook.clone(),
        keeper: remembering.keeper.clone(),
    };
    let opened = nbd::keep_offer_true(shared.clone(), started, share, exports).and_then(|()| {
        open_to_users(
            args,
            api,
            (&spares_named.new, &*tell.all),
            listening,
            &announcer,
        )
    });
    if opened.is_ok() {
        signals.wait_for_end(stopped);
    }
    // Also where opening failed: the data threads hold the drives, and a spare may be being filled.
    announcer.say(&"stopping");
    if let Err(error) = nbd::stop_ports(&shared, options.shards as usize, STOP_WITHIN) {
        announcer.say(&format_args!("{error:#}"));
    }
    let result = runtime.stop(STOP_WITHIN);
    if let Some(sentence) = result.as_ref().ok().and_then(|ended| ended.left.sentence()) {
        announcer.say(&sentence);
    }
    if let Some(hook) = &hook {
        hook.finish(STOP_WITHIN);
    }
    if let Some(keeper) = &remembering.keeper {
        keeper.finish(PRINT_WITHIN);
    }
    let opened = opened.map(drop);
    if let (Err(_), Err(error)) = (&opened, &result) {
        // The process ends with the first error.
        announcer.say(&format_args!("{error:#}"));
    }
    announcer.finish(PRINT_WITHIN);
    opened?;
    result?.check().map(|()| ExitCode::SUCCESS)
}

/// Tells what the start was like. Of what was known before anything could go wrong, people have been told.
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

/// Opens the API, adds the spares, lets clients in and says that the array can be used. What is returned ends the
/// API and removes the sockets' files when it is dropped.
fn open_to_users(
    args: &ServeArgs,
    api: ApiOptions,
    (new_spares, tell): (&[String], &dyn Fn(Told)),
    listening: Vec<Listening>,
    announcer: &Announcer,
) -> Result<(ApiServer, Vec<ClaimedSocket>)> {
    let (shared, spares) = (api.shared.clone(), api.spares.clone());
    let api = api::serve_api(api)?;
    add_spares(args, (&shared, &spares), new_spares, tell);
    let sockets = nbd::start_listening(&shared, listening);
    ready(announcer, &shared, args.json)?;
    Ok((api, sockets))
}

/// The two ways to tell what has happened.
struct Tellers {
    /// To everybody.
    all: Tell,
    /// To programs alone, and to who asks later.
    programs: Tell,
}

fn tellers(
    json: bool,
    announcer: &Arc<Announcer>,
    hook: &Option<Arc<Hook>>,
    events: &EventLog,
) -> Tellers {
    let tell = |is_for_people: bool| -> Tell {
        let (announcer, hook, log) = (announcer.clone(), hook.clone(), events.clone());
        Arc::new(move |told| {
            if json || is_for_people {
                announce(&announcer, &told, json);
            }
            hook.iter().for_each(|hook| hook.tell(&told));
            log.add(told);
        })
    };
    Tellers {
        all: tell(true),
        programs: tell(false),
    }
}

/// Prints an event for people on standard error, for programs on standard output.
fn announce(announcer: &Announcer, event: &Told, json: bool) {
    if json {
        announcer.print(serde_json::to_string(event).unwrap_or_default() + "\n");
    } else if fold::is_report(event) {
        let (volume, member) = (&event.volume, &event.member);
        let about = format!("{} {volume:?} {member:?}", event.kind);
        announcer.report(about, &event.text);
    } else if event.warning || std::io::stderr().is_terminal() || event.kind != "dirty-mark" {
        announcer.say(&event.text);
    }
}

/// Says that the array can be used.
fn ready(announcer: &Announcer, shared: &runtime::Shared, json: bool) -> Result<()> {
    let mut status: Arc<Status> = shared.status();
    for _ in 0..500 {
        if !status.exports.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        status = shared.status();
    }
    let text = if json {
        format!("{}\n", serde_json::to_string(&*status)?)
    } else {
        in_words(&status)
    };
    announcer.print(text);
    Ok(())
}

fn in_words(status: &Status) -> String {
    let mut text = String::new();
    for volume in &status.volumes {
        if volume.not_started.is_some() {
            // Why was said before.
            text += &format!("not serving {}\n", volume.name);
            continue;
        }
        text += &format!(
            "serving {}: RAID {} of {} drives, {}, {}\n",
            volume.name,
            volume.level,
            volume.slots.len(),
            size(volume.size_bytes),
            volume.state
        );
    }
    for uri in &status.exports {
        text += &format!("  {uri}\n");
    }
    text
}
