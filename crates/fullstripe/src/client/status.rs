//! `fullstripe status`: once, or again and again.

use super::Reach;
use super::changes::changes;
use super::connection::Client;
use super::panel::panel;
use crate::commands::exit_codes::{DEGRADED, FAILED_VOLUME};
use crate::commands::words::{print_json, print_text};
use crate::serve::health::{AT_RISK, FAILED, Health, WELL};
use crate::serve::status::Status;
use anyhow::{Result, bail};
use clap::Args;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// What to show, and how often.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Say in one line how the array is, for scripts: exit code 0 if every volume has the redundancy of its level
    /// (scrubs change nothing), 3 if one has not, 5 if one has failed or does not take writes, 1 if it cannot be told
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// Keep showing: redrawn in place on a terminal, otherwise a line for each change
    #[arg(long)]
    watch: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    #[command(flatten)]
    reach: Reach,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text} is no interval; give 0.1 to 3600 seconds"))
}

/// Shows the status.
///
/// # Errors
/// Nobody serves, or does not any more.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    if !args.watch {
        let status: Status = client.get("/v1/status")?;
        if args.check {
            return check(&args.reach, &status.health);
        }
        if args.reach.json {
            print_json(&status)?;
        } else {
            print_text(&panel(&status))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let show: fn(Option<&Status>, &Status) -> String = match args.reach.json {
        true => json_line,
        false if std::io::stdout().is_terminal() => redrawn,
        false => |before, now| {
            changes(before, now)
                .iter()
                .map(|line| format!("{line}\n"))
                .collect()
        },
    };
    watch(&client, args.interval, show)
}

/// `--check`.
fn check(reach: &Reach, health: &Health) -> Result<ExitCode> {
    let code = match health.state.as_str() {
        WELL => 0,
        AT_RISK => DEGRADED,
        FAILED => FAILED_VOLUME,
        _ => bail!("the serving process does not say how the array is; it is of an older version"),
    };
    if reach.json {
        print_json(health)?;
    } else {
        print_text(&format!("{}\n", health.text))?;
    }
    Ok(ExitCode::from(code))
}

/// Shows until the serving process ends or nobody reads any more.
fn watch(
    client: &Client,
    interval: Duration,
    show: fn(Option<&Status>, &Status) -> String,
) -> Result<ExitCode> {
    let mut before: Option<Status> = None;
    loop {
        let now: Status = client.get("/v1/status")?;
        let text = show(before.as_ref(), &now);
        let mut out = std::io::stdout();
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(now);
        std::thread::sleep(interval);
    }
}

/// One line of JSON whenever anything has changed.
fn json_line(before: Option<&Status>, now: &Status) -> String {
    let json = |status: &Status| serde_json::to_string(status).unwrap_or_default();
    let line = json(now);
    if before.map(json).as_ref() == Some(&line) {
        String::new()
    } else {
        line + "\n"
    }
}

/// The panel, drawn over the one before. Lines are cut at the terminal's edge, because a wrapped
/// line would make the old panel taller than its count of lines.
fn redrawn(before: Option<&Status>, now: &Status) -> String {
    let up = before.map_or(String::new(), |before| {
        format!("\x1b[{}A\r", panel(before).lines().count())
    });
    format!("{up}\x1b[J\x1b[?7l{}\x1b[?7h", panel(now))
}
