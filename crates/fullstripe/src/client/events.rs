//! `fullstripe events`: what has happened, and what happens.

use super::Reach;
use crate::api::schema::{Events, NumberedEvent};
use crate::commands::words::{date, print_text};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;

/// Which events.
#[derive(Args, Debug)]
pub struct EventsArgs {
    /// Go on with events as they happen
    #[arg(long)]
    follow: bool,
    /// Only events with a greater number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: u64,
    #[command(flatten)]
    reach: Reach,
}

/// Shows the events that the serving process remembers.
///
/// # Errors
/// Nobody serves.
pub fn run(args: &EventsArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let json = args.reach.json;
    if !args.follow {
        let events: Events = client.get(&format!("/v1/events?since={}", args.since))?;
        if events.forgotten > 0 && !json {
            eprintln!(
                "fullstripe: {} events before these are not remembered",
                events.forgotten
            );
        }
        print_text(
            &events
                .events
                .iter()
                .map(|event| line(event, json))
                .collect::<String>(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    client.listen(
        &format!("/v1/events/stream?since={}", args.since),
        |kind, data| {
            if kind == "forgotten" {
                // In JSON the numbers say it.
                if !json {
                    eprintln!("fullstripe: {data} events before the next are not remembered");
                }
                return Ok(true);
            }
            let text = line(&serde_json::from_str(data)?, json);
            let mut out = std::io::stdout();
            Ok(out
                .write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .is_ok())
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// One line for one event.
pub fn line(event: &NumberedEvent, json: bool) -> String {
    if json {
        return serde_json::to_string(event).unwrap_or_default() + "\n";
    }
    let told = &event.event;
    let warning = if told.warning { "warning: " } else { "" };
    format!(
        "{:>4}  {}  {warning}{}\n",
        event.number,
        date(told.time_s),
        told.text
    )
}
