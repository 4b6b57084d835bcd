//! `fullstripe events`: past events, and with `--follow` new ones.

use super::Reach;
use crate::terminal::print::{print_note, print_text};
use anyhow::Result;
use clap::Args;
use server::api::schema::{Events, NumberedEvent};
use server::events::START_NOTE;
use std::io::Write;
use std::process::ExitCode;
use words::date;

/// Which events.
#[derive(Args, Debug)]
pub struct EventsArgs {
    /// Continue with new events as they happen
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
/// No array is being served.
pub fn run(args: &EventsArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let json = args.reach.json;
    if !args.follow {
        let events: Events = client.get(&format!("/v1/events?since={}", args.since))?;
        if events.forgotten > 0 && !json {
            print_note(&format!(
                "fullstripe: {} events before these are not remembered",
                events.forgotten
            ));
        }
        let text: String = match json {
            true => events
                .events
                .iter()
                .map(|event| line(event, true))
                .collect(),
            false => runs(&events.events)
                .iter()
                .map(|run| run_text(run))
                .collect(),
        };
        print_text(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    client.listen(
        &format!("/v1/events/stream?since={}", args.since),
        |kind, data| {
            if kind == "forgotten" {
                // In JSON the events' numbers show the gap.
                if !json {
                    print_note(&format!(
                        "fullstripe: {data} events before the next are not remembered"
                    ));
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

/// Groups consecutive events of the same kind about the same object: a failed volume has one for each read. Start notes
/// are not grouped, because each has a different text.
fn runs(events: &[NumberedEvent]) -> Vec<&[NumberedEvent]> {
    let subject = |one: &NumberedEvent| {
        let told = &one.event;
        (told.kind.clone(), told.volume.clone(), told.member.clone())
    };
    events
        .chunk_by(|one, next| subject(one) == subject(next) && one.event.kind != START_NOTE)
        .collect()
}

/// One line for a run of events; a run of two is printed as two lines.
fn run_text(run: &[NumberedEvent]) -> String {
    let count: u64 = run.iter().map(|event| event.span().count).sum();
    match run {
        [first, .., last] if count > 2 => run_line(first, last, count),
        _ => run.iter().map(|event| line(event, false)).collect(),
    }
}

/// One line for `count` events, from `first` to `last`.
fn run_line(first: &NumberedEvent, last: &NumberedEvent, count: u64) -> String {
    let only_first = NumberedEvent::new(first.span().first_number, first.event.clone());
    format!(
        "{}, and {} more like it up to number {} at {}\n",
        line(&only_first, false).trim_end(),
        count - 1,
        last.number,
        date(last.span().last_time_s)
    )
}

/// One line for one event.
pub fn line(event: &NumberedEvent, json: bool) -> String {
    if json {
        return serde_json::to_string(event).unwrap_or_default() + "\n";
    }
    if event.folded.is_some() {
        return run_line(event, event, event.span().count);
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

#[cfg(test)]
mod tests {
    use super::*;
    use server::api::schema::Folded;
    use server::testing::event;

    #[test]
    fn a_run_of_events_about_one_thing_is_one_line() {
        let of_volume = |number, volume: &str| {
            let mut event = event(&format!("volume {volume}: LBA {number} cannot be read"));
            event.volume = Some(volume.to_owned());
            NumberedEvent::new(number, event)
        };
        let events = [
            of_volume(1, "a"),
            of_volume(2, "b"),
            of_volume(3, "b"),
            of_volume(4, "a"),
            of_volume(5, "a"),
            of_volume(6, "a"),
        ];
        let text: String = runs(&events).iter().map(|run| run_text(run)).collect();
        insta::assert_snapshot!(text, @r"
           1  2023-11-14 22:13:20 UTC  volume a: LBA 1 cannot be read
           2  2023-11-14 22:13:20 UTC  volume b: LBA 2 cannot be read
           3  2023-11-14 22:13:20 UTC  volume b: LBA 3 cannot be read
           4  2023-11-14 22:13:20 UTC  volume a: LBA 4 cannot be read, and 2 more like it up to number 6 at 2023-11-14 22:13:20 UTC
        ");
    }

    #[test]
    fn notes_on_the_start_are_told_one_by_one() {
        let note = |number| {
            let mut event = event(&format!("note {number}"));
            event.kind = START_NOTE.to_owned();
            NumberedEvent::new(number, event)
        };
        let events = [note(1), note(2), note(3)];
        let text: String = runs(&events).iter().map(|run| run_text(run)).collect();
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn an_event_that_stands_for_others_says_so() {
        let mut one = NumberedEvent::new(344, event("LBA 6 cannot be read"));
        one.folded = Some(Folded {
            count: 339,
            first_number: 6,
            last_time_s: 1_700_000_060,
        });
        let single = NumberedEvent::new(345, event("LBA 900 cannot be read"));
        let text = [line(&one, false), run_text(&[one, single])].concat();
        insta::assert_snapshot!(text, @r"
           6  2023-11-14 22:13:20 UTC  LBA 6 cannot be read, and 338 more like it up to number 344 at 2023-11-14 22:14:20 UTC
           6  2023-11-14 22:13:20 UTC  LBA 6 cannot be read, and 339 more like it up to number 345 at 2023-11-14 22:13:20 UTC
        ");
    }
}
