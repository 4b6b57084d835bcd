//! `alert`: tries the alerts of the settings file ([`settings::AlertSettings`]), so that the operator need not wait for a drive
//! to fail.

use crate::terminal::print::{print_json, print_text};
use alerts::{Alert, Severity, Way, web};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use settings::{AlertSettings, PLACE, Settings};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use words::without_error_number;

/// Arguments of `alert`.
#[derive(Args, Debug)]
pub struct AlertArgs {
    #[command(subcommand)]
    command: AlertCommand,
}

#[derive(Subcommand, Debug)]
enum AlertCommand {
    /// Send a test alert by every way in the settings file, and say whether each arrived
    Test(TestArgs),
}

#[derive(Args, Debug)]
struct TestArgs {
    /// The array that the test alert names; it need not be served.
    #[arg(long, value_name = "NAME")]
    array: Option<String>,
    /// The settings file.
    #[arg(long, value_name = "FILE", default_value = PLACE)]
    settings: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `alert`. The exit code is 1 if an alert did not arrive.
///
/// # Errors
/// The settings cannot be read, have no such array, or name nobody to be told.
pub fn run(args: &AlertArgs) -> Result<ExitCode> {
    let AlertCommand::Test(args) = &args.command;
    let settings = Settings::read(&args.settings)?;
    if let Some(name) = &args.array {
        settings.array(name)?;
    }
    let results = try_all(&settings.alerts, args.array.as_deref().unwrap_or_default());
    if results.is_empty() {
        bail!(
            "{} names nobody to be told; add a block [alerts] with mail = [\"root\"], for example",
            args.settings.display()
        );
    }
    let is_fine = results.iter().all(|result| result.arrived);
    match args.json {
        true => print_json(&Tried {
            version: 1,
            ways: results,
        })?,
        false => print_text(&results.iter().map(Outcome::line).collect::<String>())?,
    }
    Ok(match is_fine {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What `alert test` found.
#[derive(Serialize)]
struct Tried {
    /// Version of this schema: 1.
    version: u32,
    ways: Vec<Outcome>,
}

/// What became of the test alert by one way.
#[derive(Serialize)]
struct Outcome {
    /// `mail`, `webhook`, `exec` or `ping`.
    way: String,
    /// The mail program has taken it, the server has answered with 2xx, the command has ended with 0.
    arrived: bool,
    /// Why it did not arrive.
    error: Option<String>,
}

impl Outcome {
    fn of(way: &str, result: Result<()>) -> Outcome {
        let error = result.err();
        Outcome {
            way: way.to_owned(),
            arrived: error.is_none(),
            error: error.map(|error| without_error_number(&format!("{error:#}"))),
        }
    }

    fn line(&self) -> String {
        let way = &self.way;
        match (&self.error, way.as_str()) {
            (Some(error), _) => format!("{way}: failed: {error}\n"),
            (None, "mail") => format!("{way}: the mail program has taken it\n"),
            (None, _) => format!("{way}: arrived\n"),
        }
    }
}

/// Tries every way, each once. One whose file cannot be used has failed.
fn try_all(settings: &AlertSettings, array: &str) -> Vec<Outcome> {
    let (ways, mistakes) = settings.ways();
    let alert = test_alert(array);
    let sent = ways.all().into_iter();
    let mut results: Vec<Outcome> = sent
        .map(|way| Outcome::of(&way.to_string(), ways.send(way, &alert)))
        .collect();
    // Only a webhook is in a file of its own.
    let unused = mistakes.into_iter();
    results.extend(unused.map(|mistake| Outcome::of(&Way::Webhook.to_string(), Err(mistake))));
    let ping = settings.ping_address().transpose();
    results.extend(ping.map(|url| {
        let asked = url.and_then(|url| web::get(&url, web::ANSWER_WITHIN));
        Outcome::of("ping", asked)
    }));
    results
}

fn test_alert(array: &str) -> Alert {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Alert {
        time_s: since.map_or(0, |since| since.as_secs()),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        array: array.to_owned(),
        kind: "test".to_owned(),
        severity: Severity::Warning,
        text: "this is a test, and nothing is wrong".to_owned(),
        next: "nothing: `fullstripe alert test` has sent this".to_owned(),
        count: 1,
        ..Alert::default()
    }
}
