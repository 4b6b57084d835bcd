//! `serve`: serves an array until it is stopped. The crate [`server`] does the work; this module has the command line,
//! the signals, and what is printed.

mod announcer;
mod array;
mod going_down;
mod notify;
mod signals;
mod sockets;

use super::arguments::parse_level;
use super::exit_codes;
use alerts::Severity;
use announcer::Announcer;
use anyhow::{Context, Result};
pub use array::kinds_of_clients;
use array::{Array, Start};
use clap::Args;
use drives::completion::CompletionMode;
use drives::spec::parse_size;
use engine::layout::Level;
use exports::export::Bind;
use exports::inherited::Inherited;
use exports::nbd::service::{Address, NbdExport, TcpClients};
use exports::ublk::service::{AtStart, UblkExport};
use exports::vhost_user::service::VhostUserExport;
use metadata::imsm::start::StartOptions;
use notify::Notifier;
use serde::Serialize;
use server::api::event_log::fold;
use server::event_kinds::severity;
use server::events::Told;
use server::status::Status;
use server::{Audience, Hearer, NotStarted, Prepared, ScrubEvery, ServeOptions, Server};
use signals::Signals;
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use words::{size, without_error_number};

/// How long the process waits at its end for its last messages to be read.
const PRINT_WITHIN: Duration = Duration::from_secs(2);
/// How long the process of an array that does not start waits until this is told. What has not arrived, the next process sends.
const TELL_WITHIN: Duration = Duration::from_secs(10);
/// How long a start waits for an alert that is being sent.
const TELL_SOON_WITHIN: Duration = Duration::from_secs(1);
/// How much longer than a drive may take to answer the end of a server may take: clients have 60 s to go, and so have flushes and the
/// last records, and removing exports by NVMe over TCP takes 165 s at most, with the wait for one that is being made.
const END_MARGIN: Duration = Duration::from_secs(315);

/// Serve an array until SIGTERM, SIGINT or `fullstripe stop`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The drives of one array, in any order: block devices, files, with options like `,serial=NAME`.
    #[arg(required_unless_present = "array", value_name = "DRIVE")]
    drives: Vec<String>,
    /// Serve this array of the settings file instead, with the options that the file gives it. Its drives are found by what
    /// is on them, and waited for. systemd starts arrays so at boot.
    #[arg(long, value_name = "NAME", conflicts_with_all = [
        "drives", "scratch", "spare", "nbd", "tls", "insecure", "ublk", "vhost_user", "shards", "memory", "completion",
        "no_auto_rebuild", "rate", "deadline", "on_event", "backup",
    ])]
    array: Option<String>,
    /// The settings file.
    #[arg(long, value_name = "FILE", requires = "array", default_value = settings::PLACE)]
    settings: PathBuf,
    /// Make a new array of this level in memory, gone when serve ends; each DRIVE is ram:SIZE, or null:SIZE
    /// to measure without drives.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    scratch: Option<Level>,
    /// A spare drive; may be given several times, and may stay in the command after it has become a member. One that
    /// cannot be used is reported, and the array is served without it.
    #[arg(long, value_name = "DRIVE")]
    spare: Vec<String>,
    /// Where NBD clients connect: unix:PATH or tcp:HOST[:PORT]; may be given several times.
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<Address>,
    /// Clients of TCP addresses need TLS and a certificate. FOLDER has ca-cert.pem (the authority that their certificates
    /// must come from), server-cert.pem and server-key.pem (with mode 0600).
    #[arg(long, value_name = "FOLDER", conflicts_with = "insecure")]
    tls: Option<PathBuf>,
    /// Let everybody who can reach a TCP address read and write, without TLS; NBD itself has no passwords.
    #[arg(long, alias = "listen")]
    insecure: bool,
    /// Attach each volume at once, as `fullstripe attach` does later: it becomes the block device /dev/fullstripe/NAME.
    /// Needs root and the kernel's module ublk_drv. When serve ends, devices that are in use stay, and their requests
    /// wait for the next serve, which takes them over with or without this option.
    #[arg(long)]
    ublk: bool,
    /// Let virtual machines use each volume as a virtio disk: QEMU, Cloud Hypervisor, Firecracker and others connect to the
    /// vhost-user socket FOLDER/VOLUME.sock. Whoever may open this socket is trusted as the guest's hypervisor is.
    #[arg(long, value_name = "FOLDER")]
    vhost_user: Option<PathBuf>,
    /// Socket on which the API listens.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Data threads, each with a core of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    shards: u8,
    /// Memory for the data of requests. It is divided equally among NBD, ublk's devices where this process can use ublk,
    /// and virtual machines with --vhost-user.
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
    /// Start a degraded RAID 5 whose initial sync has not finished, read-only.
    #[arg(long)]
    accept_unsynced: bool,
    /// Take back a drive that was marked failed and without which a volume cannot start, such as a RAID 0 beside a
    /// RAID 5. This trusts that the drive is unchanged since it left, and that nothing was written to that volume
    /// meanwhile (fullstripe and Linux md write nothing to a volume that is not started). Volumes that ran without the
    /// drive do not read its outdated data; they rebuild it.
    #[arg(long, conflicts_with = "read_only")]
    trust_returned_drive: bool,
    /// Write nothing at all to the drives.
    #[arg(long)]
    read_only: bool,
    /// Do not start a rebuild onto a spare when a member fails; `fullstripe rebuild` starts one.
    #[arg(long)]
    no_auto_rebuild: bool,
    /// Limit of rebuild, resync and scrub, in bytes of each member per second; 0 is unlimited. Unless given, the last
    /// limit set by `fullstripe rate` applies; without one, nothing is limited.
    #[arg(long, value_name = "SIZE")]
    rate: Option<String>,
    /// Seconds until a member that does not answer is failed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
    /// Run this by `sh -c` for every event; the event is in FULLSTRIPE_* and as JSON on standard input.
    #[arg(long, value_name = "COMMAND")]
    on_event: Option<String>,
    /// Folder for the backup of what `add-spare --force` overwrites on a drive.
    #[arg(long, value_name = "FOLDER")]
    backup: Option<PathBuf>,
    /// Print events and the ready line as JSON, one object a line.
    #[arg(long)]
    json: bool,
}

impl ServeArgs {
    fn exports(&self, inherited: Inherited) -> Vec<Bind> {
        let clients = TcpClients::chosen(self.tls.clone(), self.insecure);
        let nbd = NbdExport::bind(self.nbd.clone(), clients, self.member_deadline(), inherited);
        let ublk = UblkExport::bind(match self.ublk {
            true => AtStart::All,
            false => AtStart::LeftOver,
        });
        let vhost_user = self.vhost_user.clone().map(VhostUserExport::bind);
        [nbd, ublk].into_iter().chain(vhost_user).collect()
    }

    fn accepted(&self) -> StartOptions {
        StartOptions {
            degraded: self.degraded,
            accept_write_hole: self.accept_write_hole,
            accept_unsynced: self.accept_unsynced,
            trust_returned_drive: self.trust_returned_drive,
        }
    }

    fn member_deadline(&self) -> Duration {
        Duration::from_secs(self.deadline)
    }

    fn start(&self, inherited: Inherited) -> Start {
        Start {
            socket: self.socket.clone(),
            accepted: self.accepted(),
            read_only: self.read_only,
            inherited,
        }
    }

    fn options(&self, inherited: Inherited) -> Result<ServeOptions> {
        Ok(ServeOptions {
            drives: self.drives.clone(),
            scratch: self.scratch,
            spares: self.spare.clone(),
            exports: self.exports(inherited),
            socket: self.socket.clone(),
            shards: self.shards,
            payload_bytes: parsed_size("--memory", &self.memory)?,
            completion: self.completion,
            start: self.accepted(),
            read_only: self.read_only,
            auto_rebuild: !self.no_auto_rebuild,
            rate_bytes_per_s: self.rate.as_deref().map(parsed_rate).transpose()?,
            scrub_every: ScrubEvery::Ordered,
            member_deadline: self.member_deadline(),
            on_event: self.on_event.clone(),
            newcomers: None,
            alerts: None,
            sockets_are_kept: sockets::are_kept(),
            backup: self.backup.clone(),
        })
    }
}

fn parsed_rate(text: &str) -> Result<u64> {
    match text {
        "0" => Ok(0),
        rate => parsed_size("--rate", rate),
    }
}

fn parsed_size(what: &str, text: &str) -> Result<u64> {
    parse_size(text).with_context(|| format!("{what} cannot be \"{text}\"; give a size like 64m"))
}

/// Serves until a signal or `fullstripe stop`.
///
/// # Errors
/// One sentence: what could not be opened, assembled or ended.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let inherited = sockets::inherited();
    let array = args.array.as_deref();
    let array = array.map(|name| Array::read(&args.settings, name));
    let array = match array.transpose() {
        Ok(array) => array,
        // systemd need not try again.
        Err(error) => return Ok(exit_codes::report_settings(&error, args.json)),
    };
    let announcer = Announcer::start(std::io::stdout(), std::io::stderr())?;
    let printer = Arc::new(Printer {
        announcer,
        json: args.json,
    });
    let served = serve(args, array, inherited, &printer);
    printer.announcer.finish(PRINT_WITHIN);
    served.map(|()| ExitCode::SUCCESS)
}

fn serve(
    args: &ServeArgs,
    array: Option<Array>,
    inherited: Inherited,
    printer: &Arc<Printer>,
) -> Result<()> {
    let notifier = Notifier::start()?;
    keep_in_memory(args, printer);
    let mut signals = Signals::new(array.is_some())?;
    for mistake in array.iter().flat_map(Array::mistakes) {
        printer.announcer.say_so_grave(Severity::Warning, &mistake);
    }
    let (server, end_within) = match &array {
        None => start(args.options(inherited)?, &mut signals, printer)?,
        Some(array) => {
            let mut not_started = array.not_started(printer.clone());
            let told = &mut not_started;
            array
                .wait(args.start(inherited), &notifier, &**printer, told)
                .and_then(|options| {
                    // The server has the state folder from now on.
                    told.end(TELL_SOON_WITHIN);
                    start(options, &mut signals, printer)
                })
                .inspect_err(|error| tell_failure(array, &mut not_started, error))?
        }
    };
    // Clients and the other volumes are served nevertheless.
    for error in array.iter().flat_map(|array| array.attach(&server)) {
        printer.say(&format_args!("{error:#}"));
    }
    notifier.serves(server.pulse());
    printer.ready(&server.status());
    let reload = || {
        if let Some(array) = &array {
            array.reload(&server, &**printer);
        }
    };
    signals.wait_for_end(server.stop_asked(), reload);
    if array.is_some() {
        going_down::wait_until_released(&server, |sentence| printer.say(&sentence));
        going_down::end_within(end_within)?;
    }
    notifier.stops(end_within);
    printer.say(&"stopping");
    if !server.hands_over() {
        return server.stop()?.check();
    }
    let ended = server.hand_over()?;
    if let Err(error) = sockets::keep(&ended.handed_over) {
        printer.say(&format_args!("{error:#}"));
    }
    ended.check()
}

/// Serves the array. Returns how long its end may take, too.
fn start(
    options: ServeOptions,
    signals: &mut Signals,
    printer: &Arc<Printer>,
) -> Result<(Server, Duration)> {
    let end_within = options.member_deadline + END_MARGIN;
    let prepared = Prepared::new(options, printer.clone())?;
    signals.catch_end()?;
    Ok((prepared.serve()?, end_within))
}

/// Tells that the array is not served because of `error`, unless it has been taken out of the settings meanwhile.
fn tell_failure(array: &Array, not_started: &mut NotStarted, error: &anyhow::Error) {
    if array.is_in_file().unwrap_or(true) {
        let error = without_error_number(&format!("{error:#}"));
        not_started.tell(&format!("not started: {error}"));
        not_started.end(TELL_WITHIN);
    }
}

/// Keeps this program in memory. Where that is refused, those are told who make block devices of this machine.
fn keep_in_memory(args: &ServeArgs, printer: &Printer) {
    let refused = drives::resident::keep_in_memory().err();
    if let Some(error) = refused.filter(|_| args.ublk || args.array.is_some()) {
        printer.say(&format_args!(
            "this program cannot be locked in memory: {error}; when memory runs out, its volumes may stall. Run it as root"
        ));
    }
}

/// Prints the server's messages and events: for people on standard error, for programs on standard output.
struct Printer {
    announcer: Announcer,
    json: bool,
}

impl Hearer for Printer {
    fn say(&self, sentence: &dyn Display) {
        self.announcer.say(sentence);
    }

    fn event(&self, event: &Told, audience: Audience) {
        if self.json {
            self.announcer.print(json_line(event));
        } else if audience == Audience::Programs {
            // People have been told this by another message.
        } else if fold::is_report(event) {
            let (volume, member) = (&event.volume, &event.member);
            let about = format!("{} {volume:?} {member:?}", event.kind);
            self.announcer.report(about, &event.text);
        } else if event.warning || std::io::stderr().is_terminal() || event.kind != "dirty-mark" {
            self.announcer.say_so_grave(severity(event), &event.text);
        }
    }
}

impl Printer {
    /// Prints that the array is ready.
    fn ready(&self, status: &Status) {
        self.announcer.print(if self.json {
            json_line(status)
        } else {
            in_words(status)
        });
    }
}

fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value);
    json.expect("events and states are made of what JSON has") + "\n"
}

fn in_words(status: &Status) -> String {
    let mut text = String::new();
    for volume in &status.volumes {
        if volume.not_started.is_some() {
            // The reason was printed before.
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
