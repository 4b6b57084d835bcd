//! `fullstripe status`: once, or repeatedly.

use super::Reach;
use super::changes::{changes, reached_lines};
use super::panel::panel;
use crate::commands::bar::Pace;
use crate::commands::exit_codes::{DEGRADED, FAILED_VOLUME};
use crate::terminal::print::{print_json, print_text};
use crate::terminal::redraw::over_lines;
use crate::terminal::{Paper, Tone, can_move};
use anyhow::{Result, bail};
use clap::Args;
use server::client::Client;
use server::health::{AT_RISK, FAILED, Health, WELL};
use server::scrub::now_s;
use server::status::Status;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use words::date;

/// What to show, and how often.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Print the array's health in one line, for scripts: exit code 0 if every volume has the redundancy of its level
    /// (even during a scrub), 3 if one lacks it or is about to lose it, 5 if one has failed, is not started or
    /// refuses writes, 1 if unknown
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// Keep showing the status: redrawn in place on a terminal; otherwise a dated line for each change, and a line
    /// each minute about running background work
    #[arg(long)]
    watch: bool,
    /// Seconds between two updates
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
/// No array is being served, or the serving process has ended.
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
            print_text(&panel(&status, Paper::output()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut show: Box<dyn FnMut(Status) -> String> = if args.reach.json {
        json_lines()
    } else if can_move(std::io::stdout().is_terminal()) {
        panels()
    } else {
        dated_lines()
    };
    watch(&client, args.interval, &mut show)
}

/// `--check`.
fn check(reach: &Reach, health: &Health) -> Result<ExitCode> {
    let code = match health.state.as_str() {
        WELL => 0,
        AT_RISK => DEGRADED,
        FAILED => FAILED_VOLUME,
        _ => bail!(
            "the serving process is of an older version and does not report the array's health; stop it, and \
             serve again"
        ),
    };
    if reach.json {
        print_json(health)?;
    } else {
        let paper = Paper::output();
        let text = paper.paint(Tone::of_state(&health.state), &health.text);
        print_text(&format!("{text}\n"))?;
    }
    Ok(ExitCode::from(code))
}

/// Shows the status until the serving process ends or the reader closes the output.
fn watch(
    client: &Client,
    interval: Duration,
    show: &mut dyn FnMut(Status) -> String,
) -> Result<ExitCode> {
    loop {
        let text = show(client.get("/v1/status")?);
        let mut out = std::io::stdout();
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(interval);
    }
}

/// One line of JSON whenever anything has changed.
fn json_lines() -> Box<dyn FnMut(Status) -> String> {
    let mut before = String::new();
    Box::new(move |now| {
        let line = serde_json::to_string(&now).unwrap_or_default() + "\n";
        let is_news = line != before;
        before.clone_from(&line);
        if is_news { line } else { String::new() }
    })
}

/// A dated line for each change, and now and then one for running work.
fn dated_lines() -> Box<dyn FnMut(Status) -> String> {
    let mut before: Option<Status> = None;
    let mut pace = Pace::new(Instant::now());
    Box::new(move |now| {
        let mut lines = changes(before.as_ref(), &now);
        let reached = reached_lines(&now);
        if reached.is_empty() {
            pace = Pace::new(Instant::now());
        } else if pace.is_due(Instant::now()) {
            lines.extend(reached);
        }
        before = Some(now);
        let date = date(now_s());
        lines
            .iter()
            .map(|line| format!("{date}  {line}\n"))
            .collect()
    })
}

/// The panel, redrawn in place.
fn panels() -> Box<dyn FnMut(Status) -> String> {
    let mut lines_before = 0;
    Box::new(move |now| {
        let size = console::Term::stdout().size_checked();
        let (rows, columns) = size.map_or((usize::MAX, usize::MAX), |(rows, columns)| {
            (usize::from(rows), usize::from(columns))
        });
        let text = on_screen(&panel(&now, Paper::output()), rows, columns);
        let drawn = over_lines(lines_before, &text);
        lines_before = text.lines().count();
        drawn
    })
}

/// `text` cut to the terminal: words wider than a row are split, and lines beyond its rows are left out, because lines
/// that have scrolled away cannot be redrawn.
fn on_screen(text: &str, rows: usize, columns: usize) -> String {
    let torn = text.lines().flat_map(|line| {
        if console::measure_text_width(line) <= columns {
            return vec![line.to_owned()];
        }
        // Colour codes must not be split.
        let letters: Vec<char> = console::strip_ansi_codes(line).chars().collect();
        let parts = letters.chunks(columns.max(1));
        parts.map(|part| part.iter().collect()).collect()
    });
    let mut lines: Vec<String> = torn.collect();
    // The cursor stands below the last line.
    let room = rows.saturating_sub(2).max(1);
    if lines.len() > room + 1 {
        let more = lines.len() - room;
        lines.truncate(room);
        lines.push(format!(
            "... {more} lines more do not fit; `fullstripe status` shows all"
        ));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_over_fits_the_screen() {
        let text = "one\ntwo\nabcdefghij\nfour\n";
        assert_eq!(on_screen(text, 24, 80), text);
        assert_eq!(on_screen(text, 24, 4), "one\ntwo\nabcd\nefgh\nij\nfour\n");
        assert_eq!(
            on_screen(text, 4, 80),
            "one\ntwo\n... 2 lines more do not fit; `fullstripe status` shows all\n"
        );
        assert_eq!(on_screen(text, 5, 80), text);
    }
}
