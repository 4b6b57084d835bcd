//! `upgrade`: switches arrays that systemd serves to this program, while what uses their block devices waits.
//!
//! A new package leaves the servers that run alone, because a restart that goes wrong leaves a file system waiting. So this
//! command first finds out, for every array, whether this program can serve what the running one serves ([`judge`]): whether it
//! reads the settings and the records on the drives, and would start the same volumes. Only then the first array's service is
//! restarted ([`unit`]). The old server carries out the requests that it has received, marks its volumes clean, and leaves the
//! block devices that are in use and the connections of NBD clients to the new one. The array is switched when every volume and every device that was there before
//! is there again. The first array with which this fails ends the command, so that the others go on as they are.

mod judge;
mod unit;

use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use clap::Args;
use container::refusal::refused;
use hyper::Method;
use serde::Serialize;
use server::api::schema::Done;
use server::api::socket_path::SocketPath;
use server::client::{Client, ClientError};
use server::status::Status;
use settings::{ArraySettings, PLACE, Settings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use unit::{Program, Unit};

/// How long a restarted array may take to come back before the command ends. The new server goes on trying.
const BACK_WITHIN: Duration = Duration::from_secs(120);
/// How often it is asked whether it is back.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often systemd is asked whether it has failed. That takes a process, and systemd's time, both of which the new server needs.
const ASK_SYSTEMD_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `upgrade`.
#[derive(Args, Debug)]
pub struct UpgradeArgs {
    /// Arrays of the settings file; all of them if none is named.
    #[arg(value_name = "NAME")]
    arrays: Vec<String>,
    /// Only say which arrays another program serves, and whether this one can serve them.
    #[arg(long)]
    check: bool,
    /// The settings file.
    #[arg(long, value_name = "FILE", default_value = PLACE)]
    settings: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What became of the arrays.
#[derive(Serialize)]
struct Report {
    /// Version of this schema: 1.
    version: u32,
    arrays: Vec<ArrayReport>,
}

/// What became of an array.
#[derive(Serialize)]
struct ArrayReport {
    array: String,
    state: State,
    /// What used its devices waited no longer than this; if it was switched.
    waited_max_ms: Option<u64>,
    /// Why NBD clients were not handed over to this program; if it was switched and they were not.
    clients_disconnected: Option<String>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// systemd does not serve it.
    NotServed,
    /// It was served by this program before.
    Current,
    /// It is served by another program, and this one can serve it.
    Switchable,
    /// It is served by this program now.
    Switched,
}

/// An array that another program serves.
struct Other {
    unit: Unit,
    /// What it serves.
    status: Status,
}

/// Runs `upgrade`.
///
/// # Errors
/// This program cannot serve one of the arrays; then nothing is restarted. Or an array does not come back in time.
pub fn run(args: &UpgradeArgs) -> Result<ExitCode> {
    let settings = Settings::read(&args.settings)?;
    let names = match &args.arrays[..] {
        [] => settings.arrays.keys().cloned().collect(),
        named => named.to_vec(),
    };
    for name in &names {
        settings.array(name)?;
    }
    let this = Program::this()?;
    let mut reports = Vec::new();
    let mut others = Vec::new();
    for name in names {
        let (state, other) = look(&name, &this, settings.array(&name)?)?;
        others.extend(other.map(|other| (reports.len(), other)));
        reports.push(ArrayReport {
            array: name,
            state,
            waited_max_ms: None,
            clients_disconnected: None,
        });
    }
    for (at, other) in others.into_iter().filter(|_| !args.check) {
        let socket = SocketPath::of_array(other.unit.array()).path;
        reports[at].clients_disconnected = announce(&socket)?;
        let waited = switch(&other)?;
        reports[at].state = State::Switched;
        reports[at].waited_max_ms = Some(waited.as_millis() as u64);
    }
    match args.json {
        true => print_json(&Report {
            version: 1,
            arrays: reports,
        })?,
        false => print_text(&reports.iter().map(in_words).collect::<String>())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How an array is served, and what another program serves. Nothing is changed.
///
/// # Errors
/// This program cannot serve what the other one serves, or not with these settings, or it cannot be found out.
fn look(name: &str, this: &Program, settings: &ArraySettings) -> Result<(State, Option<Other>)> {
    let unit = Unit::of_array(name);
    let Some(pid) = unit.serving()? else {
        return Ok((State::NotServed, None));
    };
    if Program::of_process(pid)? == *this {
        return Ok((State::Current, None));
    }
    unit.check_starts(this)?;
    let status = status(name)?;
    let shortened = judge::shortened(&status, name, settings.deadline_s)?;
    let does_not_fit = match shortened {
        None => judge::too_little_memory(&status, name, settings)?,
        shortened => shortened,
    };
    if let Some(does_not_fit) = does_not_fit {
        return Err(refused(format!("{does_not_fit}; no array was restarted")));
    }
    match judge::difference(&status)? {
        None => Ok((State::Switchable, Some(Other { unit, status }))),
        Some(difference) => Err(refused(format!(
            "this program cannot serve array {name} as it is served now: {difference}; no array was restarted"
        ))),
    }
}

fn status(name: &str) -> Result<Status> {
    Client::connect(Some(&SocketPath::of_array(name).path))?.get("/v1/status")
}

/// Has the server at `socket` hand its NBD clients over when it is ended. Returns why it does not.
///
/// # Errors
/// It does not answer.
fn announce(socket: &Path) -> Result<Option<String>> {
    let client = Client::connect(Some(socket))?;
    let announced: Result<Done> = client.order(Method::POST, "/v1/hand-over");
    let Err(error) = announced else {
        return Ok(None);
    };
    match error.downcast::<ClientError>()? {
        ClientError::Answered { code: 404, .. } => {
            Ok(Some("the program before could not do that".to_owned()))
        }
        ClientError::Answered { body, .. } => Ok(Some(body.error)),
        error => Err(error.into()),
    }
}

/// Has systemd restart an array whose server at `socket` has been told so. If systemd does not take the order, that is taken
/// back: whoever ends the server later may not start another one.
///
/// # Errors
/// systemd does not take the order.
fn restart(unit: &Unit, socket: &Path) -> Result<()> {
    let Err(refused) = unit.restart() else {
        return Ok(());
    };
    let client = Client::connect(Some(socket));
    let withdrawn: Result<Done> =
        client.and_then(|client| client.order(Method::DELETE, "/v1/hand-over"));
    match withdrawn {
        Ok(_) => Err(refused),
        Err(error) => bail!(
            "{refused:#}; and the server could not be told that it is not restarted ({error:#}): if array {} is stopped within 30 s, \
             its NBD clients wait for the next server instead of being disconnected",
            unit.array()
        ),
    }
}

/// Restarts an array, and returns how long that took at most for what uses its devices.
///
/// # Errors
/// It is not back in time.
fn switch(other: &Other) -> Result<Duration> {
    let (unit, before) = (&other.unit, &other.status);
    let started = Instant::now();
    restart(unit, &SocketPath::of_array(unit.array()).path)?;
    let mut asked = started;
    loop {
        let missing = match status(unit.array()) {
            Ok(now) if now.pid == before.pid => "the program before still runs".to_owned(),
            Ok(now) => match judge::missing(before, &now) {
                None => return Ok(started.elapsed()),
                Some(missing) => missing,
            },
            Err(error) => format!("{error:#}"),
        };
        let waited = started.elapsed();
        let is_due = asked.elapsed() >= ASK_SYSTEMD_EVERY;
        if is_due {
            asked = Instant::now();
        }
        if waited > BACK_WITHIN || is_due && unit.has_failed()? {
            bail!(
                "array {} is not as before {} s after the restart of {unit}: {missing}. What uses its devices waits, and goes on \
                 as soon as a program serves the array: `journalctl -u {unit}` says what is wrong; the package from before, \
                 installed again, serves it after `systemctl restart {unit}`. Other arrays were not restarted",
                unit.array(),
                waited.as_secs(),
            );
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn in_words(report: &ArrayReport) -> String {
    let array = &report.array;
    match (report.state, report.waited_max_ms) {
        (State::NotServed, _) => format!("{array}: systemd does not serve it.\n"),
        (State::Current, _) => format!("{array}: this program serves it.\n"),
        (State::Switchable, _) => {
            format!("{array}: another program serves it; this one can.\n")
        }
        (State::Switched, waited) => {
            let switched = format!(
                "{array}: this program serves it now; what uses its devices waited for {:.1} s at most.\n",
                waited.unwrap_or_default() as f64 / 1000.0
            );
            let disconnected = report.clients_disconnected.iter();
            let disconnected = disconnected.map(|why| {
                format!("{array}: its NBD clients had to connect again, because {why}.\n")
            });
            switched + &disconnected.collect::<String>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::imsm::Level;
    use server::testing::Served;

    #[test]
    fn a_restart_that_is_refused_is_announced_no_more() {
        let served = Served::new(Level::Raid1, 2);
        let unit = Unit::with_systemctl("fast", "/bin/false");
        assert_eq!(announce(&served.socket()).unwrap(), None);
        assert!(served.hands_over());
        let error = restart(&unit, &served.socket()).unwrap_err().to_string();
        assert!(
            error.starts_with("systemctl restart --no-block fullstripe@fast.service failed"),
            "{error}"
        );
        assert!(!served.hands_over(), "it would hand its clients over");
        let error = restart(&unit, Path::new("/nonexistent"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("; and the server could not be told"),
            "{error}"
        );
        let unit = Unit::with_systemctl("fast", "/bin/true");
        assert_eq!(announce(&served.socket()).unwrap(), None);
        restart(&unit, &served.socket()).unwrap();
        assert!(served.hands_over());
    }
}
