//! `serve --array NAME`: an array of the settings file, as systemd starts it at boot.
//!
//! Its drives are found by the records on them, as they appear ([`container::gather`]). While members are missing, systemd is
//! told that the start is over, so that one array whose drives do not come holds up nothing else. What is to be mounted from
//! the array still waits, for its block device.

use super::notify::Notifier;
use super::sockets;
use anyhow::{Context, Result, bail};
use container::gather::{Device, Gathering, Here, LOOK_EVERY, Step};
use container::probe::parse_spec;
use drives::spec::Target;
use exports::export::Bind;
use exports::inherited::Inherited;
use exports::nbd::service::{NbdExport, TcpClients};
use exports::ublk::service::{AtStart, UblkExport};
use exports::vhost_user::service::VhostUserExport;
use metadata::imsm::start::StartOptions;
use server::api::socket_path::SocketPath;
use server::nvmet::NvmetRequest;
use server::status::DeviceKind;
use server::{AlertOptions, Hearer, Newcomers, NotStarted, Ping, ScrubEvery, ServeOptions, Server};
use settings::sound::{Concerns, Mistake, Sound};
use settings::{AlertSettings, ArraySettings, Attach, SCRUB_EVERY_S, SameBay, ScrubPeriod};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an array that cannot start stays so, beyond the time that its members are waited for, until that is told. Enclosures
/// and drivers that are slow take less than a minute.
const TOLD_AFTER: Duration = Duration::from_secs(60);
/// Before a spare counts as missing it has at least so long to come: one that is there is taken a second or two after the start, also
/// where `degraded_after_s` is 0.
const SPARES_COME_WITHIN: Duration = Duration::from_secs(5);

/// An array of the settings file.
pub(super) struct Array {
    /// The settings file.
    place: PathBuf,
    name: String,
    settings: ArraySettings,
    alerts: AlertSettings,
    /// What is wrong in the file, and does not concern the array's own block.
    mistakes: Vec<Mistake>,
}

/// How many kinds of clients a server of an array with these settings divides its memory among: NBD, ublk and virtual machines.
pub fn kinds_of_clients(settings: &ArraySettings) -> usize {
    2 + usize::from(settings.vhost_user.is_some())
}

/// What the command line says about its start.
pub(super) struct Start {
    /// Where the API listens, if not at the array's usual place.
    pub socket: Option<PathBuf>,
    /// What is accepted. Members that are missing are accepted after a while, even if this does not say so.
    pub accepted: StartOptions,
    /// Nothing is written to the drives.
    pub read_only: bool,
    /// What the server before has left.
    pub inherited: Inherited,
}

/// What was found when the wait was over.
struct Gathered {
    drives: Vec<String>,
    /// Members are missing that nobody marked failed.
    degraded: bool,
    /// All devices that were looked at.
    seen: BTreeSet<Device>,
}

impl Array {
    /// Reads the settings of the array called `name` from the file `place`. What is wrong elsewhere in the file does not matter
    /// to the array: see [`Array::mistakes`].
    ///
    /// # Errors
    /// The file is not TOML, or has no such array, or the block of the array has a mistake.
    pub fn read(place: &Path, name: &str) -> Result<Array> {
        let mut found = Sound::read(place)?;
        found.check_array(name)?;
        Ok(Array {
            settings: found.settings.array(name)?.clone(),
            alerts: found.settings.alerts,
            mistakes: found.mistakes,
            place: place.to_owned(),
            name: name.to_owned(),
        })
    }

    /// What is wrong elsewhere in the settings file, and what follows from it for this array, a sentence each.
    pub fn mistakes(&self) -> Vec<String> {
        let mistakes = self.mistakes.iter();
        mistakes
            .map(|mistake| format!("{mistake}; {}", self.follows(mistake)))
            .collect()
    }

    fn follows(&self, mistake: &Mistake) -> String {
        match mistake.concerns {
            Concerns::Alerts if self.alerts.tells_nobody() => {
                "until this is corrected and read anew (systemctl reload), the array sends no alerts"
                    .to_owned()
            }
            Concerns::Alerts => "this key is not used, the other keys of [alerts] are".to_owned(),
            Concerns::Array(_) | Concerns::File => {
                format!("array {} is served all the same", self.name)
            }
        }
    }

    /// Waits until the array can be started, and returns how.
    ///
    /// # Errors
    /// The machine's devices cannot be listed; the socket's folder cannot be made; the array is not in the settings any more.
    pub fn wait(
        &self,
        start: Start,
        notifier: &Notifier,
        hearer: &dyn Hearer,
        not_started: &mut NotStarted,
    ) -> Result<ServeOptions> {
        let gathered = self.gather(start.accepted, notifier, hearer, not_started)?;
        let Gathered {
            drives,
            degraded,
            seen,
        } = gathered;
        // It may have been released to md while its drives were waited for.
        if !self.is_in_file()? {
            bail!(
                "{} has no array \"{}\" any more",
                self.place.display(),
                self.name
            );
        }
        let settings = &self.settings;
        let deadline = Duration::from_secs(settings.deadline_s);
        Ok(ServeOptions {
            spares: without(&settings.spares, &drives),
            drives,
            scratch: None,
            exports: self.exports(deadline, start.inherited)?,
            socket: Some(match start.socket {
                Some(path) => path,
                None => self.socket()?,
            }),
            shards: settings.shards,
            payload_bytes: settings.memory_bytes,
            completion: settings.completion,
            start: StartOptions {
                degraded,
                ..start.accepted
            },
            read_only: start.read_only,
            auto_rebuild: settings.auto_rebuild,
            rate_bytes_per_s: settings.rate_bytes_per_s,
            scrub_every: scrub_every(settings),
            member_deadline: deadline,
            on_event: settings.on_event.clone(),
            newcomers: (!start.read_only).then(|| self.newcomers(seen)),
            alerts: Some(self.alerts(hearer)),
            sockets_are_kept: sockets::are_kept(),
            backup: None,
        })
    }

    /// Whether the file still has a block for the array.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_in_file(&self) -> Result<bool> {
        Ok(Sound::read(&self.place)?
            .names()
            .contains(&self.name.as_str()))
    }

    /// Tells whom the settings name that the array does not start.
    pub fn not_started(&self, hearer: Arc<dyn Hearer>) -> NotStarted {
        // What cannot be used of the settings is said when they are used for the array that is served.
        let (options, _) = alert_options(&self.name, &self.alerts);
        NotStarted::new(options, &self.settings.uuid, hearer)
    }

    /// Makes all volumes block devices, and exports these to other machines, as the settings say. Returns a sentence for each
    /// volume of which one of the two cannot be done.
    pub fn attach(&self, server: &Server) -> Vec<anyhow::Error> {
        let kind = match self.settings.attach {
            Attach::Off => return Vec::new(),
            Attach::Auto => None,
            Attach::Ublk => Some(DeviceKind::Ublk),
            Attach::Nbd => Some(DeviceKind::Nbd),
        };
        let mut errors = server.attach_all(kind);
        if let Some(address) = self.settings.nvmet {
            errors.extend(server.export_all(NvmetRequest {
                address: address.to_string(),
                hosts: self.settings.nvmet_hosts.clone(),
                any_host: self.settings.nvmet_insecure,
            }));
        }
        errors
    }

    /// Whom to tell. An array is served although one of the ways cannot be used, and a sentence says so.
    fn alerts(&self, hearer: &dyn Hearer) -> AlertOptions {
        let (options, mistakes) = alert_options(&self.name, &self.alerts);
        for mistake in mistakes {
            hearer.say(&format_args!("{mistake:#}"));
        }
        options
    }

    /// Reads `[alerts]` anew for an array that is being served. Where there is a mistake, nothing changes.
    pub fn reload(&self, server: &Server, hearer: &dyn Hearer) {
        match self.read_alerts_anew() {
            Err(error) => hearer.say(&format_args!("alerts are sent as before: {error:#}")),
            Ok((options, is_more_changed)) => {
                let more = match is_more_changed {
                    true => "; what has changed in [array] counts from its next start on",
                    false => "",
                };
                match server.change_alerts(options) {
                    Err(error) => hearer.say(&format_args!("no ping is sent: {error:#}")),
                    Ok(()) => {
                        hearer.say(&format_args!(
                            "alerts are sent as the settings say now{more}"
                        ));
                    }
                }
            }
        }
    }

    /// What the file says about alerts now, and whether it says something else about the array than at the start. A mistake in the
    /// block of an array does not matter to alerts.
    fn read_alerts_anew(&self) -> Result<(AlertOptions, bool)> {
        let found = Sound::read(&self.place)?;
        let in_alerts = |mistake: &Mistake| mistake.concerns == Concerns::Alerts;
        if let Some(mistake) = found.mistakes.into_iter().find(in_alerts) {
            return Err(mistake.error);
        }
        let settings = found.settings;
        let (options, mistakes) = alert_options(&self.name, &settings.alerts);
        match mistakes.into_iter().next() {
            Some(mistake) => Err(mistake),
            None => Ok((
                options,
                settings.arrays.get(&self.name) != Some(&self.settings),
            )),
        }
    }

    fn exports(&self, deadline: Duration, inherited: Inherited) -> Result<Vec<Bind>> {
        let settings = &self.settings;
        let clients = TcpClients::chosen(settings.tls.clone(), settings.insecure);
        let nbd = NbdExport::bind(settings.nbd.clone(), clients, deadline, inherited);
        let mut binds = vec![nbd, UblkExport::bind(AtStart::LeftOver)];
        if let Some(folder) = &settings.vhost_user {
            // It may be in /run, which is empty after a boot.
            make_folder(folder)?;
            binds.push(VhostUserExport::bind(folder.clone()));
        }
        assert_eq!(
            binds.len(),
            kinds_of_clients(settings),
            "an upgrade counts as many"
        );
        Ok(binds)
    }

    /// The array's own socket.
    fn socket(&self) -> Result<PathBuf> {
        let path = SocketPath::of_array(&self.name).path;
        let folder = path.parent().expect("the socket is in a folder");
        make_folder(folder)?;
        Ok(path)
    }

    /// What is done with drives that appear later.
    fn newcomers(&self, seen: BTreeSet<Device>) -> Newcomers {
        let settings = &self.settings;
        let is_missing = |spec: &&String| match parse_spec(spec).map(|spec| spec.target) {
            Ok(Target::Path(path)) => !path.exists(),
            _ => false,
        };
        Newcomers {
            uuid: settings.uuid.clone(),
            seen,
            rebuild: settings.auto_rebuild,
            adopts_empty: settings.same_bay == SameBay::Adopt,
            spares: settings.spares.iter().filter(is_missing).cloned().collect(),
            spares_come_within: SPARES_COME_WITHIN
                .max(Duration::from_secs(settings.degraded_after_s)),
        }
    }

    /// Waits for the drives.
    fn gather(
        &self,
        accepted: StartOptions,
        notifier: &Notifier,
        hearer: &dyn Hearer,
        not_started: &mut NotStarted,
    ) -> Result<Gathered> {
        let patience = match accepted.degraded {
            true => Duration::ZERO,
            false => Duration::from_secs(self.settings.degraded_after_s),
        };
        let here = Here {
            uuid: self.settings.uuid.clone(),
            accepted: StartOptions {
                degraded: false,
                ..accepted
            },
        };
        let mut gathering = Gathering::new(patience);
        let mut said = None;
        let mut since = Instant::now();
        loop {
            match gathering.step(&here, Instant::now())? {
                Step::Start { drives, degraded } => {
                    return Ok(Gathered {
                        drives,
                        degraded,
                        seen: gathering.seen(),
                    });
                }
                Step::Wait {
                    count,
                    too_few,
                    why,
                } => {
                    let waits = waits(&self.name, count, too_few.then_some(why), patience);
                    if said.as_ref() != Some(&waits) {
                        since = Instant::now();
                        hearer.say(&waits);
                        notifier.waits(&waits);
                        said = Some(waits.clone());
                    }
                    if since.elapsed() >= patience + TOLD_AFTER {
                        not_started.tell(&format!("not started: {waits}"));
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

/// What `settings` say for this array, without what cannot be used, and why it cannot.
fn alert_options(array: &str, settings: &AlertSettings) -> (AlertOptions, Vec<anyhow::Error>) {
    let (ways, mut mistakes) = settings.ways();
    let ping = settings.ping_address().unwrap_or_else(|mistake| {
        mistakes.push(mistake);
        None
    });
    let options = AlertOptions {
        array: array.to_owned(),
        ways,
        minimum: settings.minimum,
        ping: ping.map(|url| Ping {
            url,
            every: Duration::from_secs(settings.ping_every_s),
        }),
    };
    (options, mistakes)
}

/// How often the array is scrubbed without an order.
fn scrub_every(settings: &ArraySettings) -> ScrubEvery {
    match settings.scrub_every {
        None => ScrubEvery::OrderedElse(SCRUB_EVERY_S),
        Some(ScrubPeriod::Off) => ScrubEvery::Set(None),
        Some(ScrubPeriod::Seconds(every_s)) => ScrubEvery::Set(Some(every_s)),
    }
}

/// Makes a folder for sockets, and those above it, if they are missing.
fn make_folder(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// The spares that are not among the drives: one that has taken a failed member's place is found by its record too.
fn without(spares: &[String], drives: &[String]) -> Vec<String> {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let drives: Vec<PathBuf> = drives.iter().map(|drive| whole(Path::new(drive))).collect();
    let is_member = |spec: &String| match parse_spec(spec).map(|spec| spec.target) {
        Ok(Target::Path(path)) => drives.contains(&whole(&path)),
        _ => false,
    };
    let spares = spares.iter().filter(|spec| !is_member(spec));
    spares.cloned().collect()
}

/// What is waited for, in words. `stuck` if no volume can start although the drives were waited for long enough, with the reason if
/// it is not that members are missing.
fn waits(name: &str, count: usize, stuck: Option<Option<String>>, patience: Duration) -> String {
    let there = match count {
        0 => return format!("array {name} waits for its drives: none is there"),
        1 => "one is there".to_owned(),
        _ => format!("{count} are there"),
    };
    let then = match stuck {
        Some(Some(why)) => return format!("array {name} cannot start: {there}, but {why}"),
        Some(None) => {
            "no volume can start with these; `fullstripe list` shows what is missing".to_owned()
        }
        None => format!(
            "when no other has come for {} s, it starts without them if it can",
            patience.as_secs()
        ),
    };
    format!("array {name} waits for its other drives: {there}; {then}")
}

#[cfg(test)]
mod tests;
