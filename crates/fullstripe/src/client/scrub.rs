//! `scrub`: starts a scrub and can wait for its end; or shows the report of the last one, sets the schedule, or
//! explains a stripe.

use super::jobs::wait_for_end;
use super::panel::{ago, stripes};
use super::{Reach, volume_name};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::rows::folded;
use crate::terminal::table::plain_table;
use anyhow::{Result, bail};
use clap::Args;
use hyper::Method;
use server::api::schema::{Done, Events, ScheduleRequest, ScrubRequest};
use server::client::{Client, encode};
use server::scrub::explain::{Comparison, Explanation, Held};
use server::scrub::report::{LbaRange, PlaceReport, ScrubReport};
use std::process::ExitCode;
use words::{count_of, duration, parse_duration};

/// Which volume, and what to do about mismatches.
#[derive(Args, Debug)]
pub struct ScrubArgs {
    /// Name of the volume; may be left out where there is only one
    volume: Option<String>,
    /// Correct redundancy that does not match the data
    #[arg(long)]
    repair: bool,
    /// Wait until the scrub has ended; exit code 1 if anything did not match
    #[arg(long)]
    wait: bool,
    /// Start no scrub now, but one this long after each has ended, like 7d or 36h, or `off`; stored on the drives
    #[arg(long, value_name = "PERIOD", value_parser = parse_period, conflicts_with = "wait")]
    every: Option<Period>,
    /// Start no scrub, but show what the running or the last one found
    #[arg(long, conflicts_with_all = ["repair", "wait", "every"])]
    report: bool,
    /// Start no scrub, but read the stripe with this 512-byte sector of the volume from all drives and compare
    #[arg(long, value_name = "LBA", conflicts_with_all = ["repair", "wait", "every", "report"])]
    explain: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

/// Seconds, or none for `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period(Option<u64>);

fn parse_period(text: &str) -> Result<Period, String> {
    if text == "off" {
        return Ok(Period(None));
    }
    let every_s = parse_duration(text);
    every_s
        .map(|every_s| Period(Some(every_s)))
        .ok_or_else(|| format!("\"{text}\" is no period; give one like 7d or 36h, or off"))
}

/// Runs `scrub`.
///
/// # Errors
/// The order is refused, or with `--wait` something did not match or the scrub ended early.
pub fn run(args: &ScrubArgs) -> Result<ExitCode> {
    let client = args.reach.connect()?;
    let volume = volume_name(&client, args.volume.as_deref())?;
    let path = format!("/v1/volumes/{}", encode(&volume));
    if args.report {
        let report: ScrubReport = client.get(&format!("{path}/scrub"))?;
        show(args, &report, |report| report_text(report, Paper::output()))?;
        let found = report.mismatches + report.unrecoverable;
        return Ok(ExitCode::from(u8::from(found > 0)));
    }
    if let Some(lba) = args.explain {
        let explanation: Explanation = client.get_read(&format!("{path}/stripes/{lba}"))?;
        show(args, &explanation, explanation_text)?;
        let agree = explanation.comparisons.iter().all(|one| one.agree);
        return Ok(ExitCode::from(u8::from(!agree)));
    }
    if let Some(Period(every_s)) = args.every {
        let request = ScheduleRequest {
            every_s,
            repair: args.repair,
        };
        let done: Done = client.send(Method::PUT, &format!("{path}/scrub/schedule"), &request)?;
        args.reach.print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    begin(args, &client, &volume)
}

fn show<T: serde::Serialize>(
    args: &ScrubArgs,
    value: &T,
    text: impl Fn(&T) -> String,
) -> Result<()> {
    if args.reach.json {
        print_json(value)
    } else {
        print_text(&text(value))
    }
}

fn begin(args: &ScrubArgs, client: &Client, volume: &str) -> Result<ExitCode> {
    let events: Events = client.get(&format!("/v1/events?since={}", u64::MAX))?;
    let request = ScrubRequest {
        repair: args.repair,
    };
    let path = format!("/v1/volumes/{}/scrub", encode(volume));
    let done: Done = client.send(Method::POST, &path, &request)?;
    if !args.wait {
        args.reach.print(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(end) = wait_for_end(client, volume, events.newest)? else {
        bail!("the scrub of {volume} has ended, and its result is not known any more");
    };
    if args.reach.json {
        print_json(&end)?;
    } else {
        args.reach.print(&Done {
            text: end.event.text.clone(),
            member: None,
        })?;
    }
    Ok(ExitCode::from(u8::from(end.event.warning)))
}

fn range(range: &LbaRange) -> String {
    format!("{}-{}", range.first, range.last)
}

fn report_text(report: &ScrubReport, paper: Paper) -> String {
    let now_s = server::scrub::now_s();
    let how = match (report.ended_s, report.complete) {
        (None, _) => "unfinished".to_owned(),
        (Some(ended_s), true) => format!("finished {}", ago(ended_s, now_s)),
        (Some(ended_s), false) => format!("ended early {}", ago(ended_s, now_s)),
    };
    let mut text = format!(
        "{} of volume {}, begun {}, {how}\n",
        report.kind,
        report.volume,
        ago(report.started_s, now_s)
    );
    if let Some(ended_s) = report.ended_s {
        let took_s = ended_s.saturating_sub(report.started_s);
        text += &format!("it took {}", duration(took_s));
        if report.continued > 0 {
            text += &format!(", and was taken up again {} times", report.continued);
        }
        text.push('\n');
    }
    text += &format!(
        "{} did not match, {} rewritten, {} lost\n",
        stripes(report.mismatches),
        count_of(report.rewritten, "block"),
        count_of(report.unrecoverable, "place")
    );
    if !report.findings.is_empty() {
        let head = ["STRIPE", "VOLUME LBA", "DRIVES (LBA)", "WHAT"]
            .map(str::to_owned)
            .to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(head)
            .chain(report.findings.iter().map(place_row))
            .collect();
        // Rows may be broken before the drives or before the findings.
        text += &folded(0, &rows, &[2, 3], paper.columns);
    }
    if report.left_out > 0 {
        text += &format!("{} more are not listed\n", report.left_out);
    }
    text
}

fn place_row(place: &PlaceReport) -> Vec<String> {
    let lbas: Vec<String> = place.lbas.iter().map(range).collect();
    let drives: Vec<&str> = place.members.iter().map(|one| one.name.as_str()).collect();
    let member_lba = place.members.first().map_or(0, |one| one.member_lba);
    vec![
        place.stripe.to_string(),
        lbas.join(", "),
        format!("{} ({member_lba})", drives.join(", ")),
        place.outcome.words().to_owned(),
    ]
}

fn explanation_text(found: &Explanation) -> String {
    let mut text = format!(
        "stripe {} of volume {}, with LBA {}: {} bytes of each drive were read and compared\n",
        found.stripe, found.volume, found.lba, found.length_bytes
    );
    let head = [
        "SLOT",
        "DRIVE",
        "HOLDS",
        "VOLUME LBA",
        "DRIVE LBA",
        "CRC-32C",
    ]
    .map(str::to_owned)
    .to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(found.members.iter().map(held_row))
        .collect();
    text += &plain_table(0, &rows);
    for one in &found.comparisons {
        text += &comparison_text(one);
    }
    text + &found.verdict + "\n"
}

fn held_row(held: &Held) -> Vec<String> {
    vec![
        held.slot.to_string(),
        held.name.clone(),
        held.holds.clone(),
        held.lbas.as_ref().map_or("-".to_owned(), range),
        held.member_lba.to_string(),
        format!("{:08x}", held.crc32c),
    ]
}

fn comparison_text(one: &Comparison) -> String {
    let slots: Vec<String> = one.slots.iter().map(u8::to_string).collect();
    let slots = slots.join(", ");
    let Some(first) = one.differing.first() else {
        return format!("slots {slots} agree\n");
    };
    let ranges: Vec<String> = one
        .differing
        .iter()
        .map(|range| format!("{}-{}", range.first, range.last))
        .collect();
    let more = match one.left_out {
        0 => String::new(),
        count => format!(" and {count} ranges more"),
    };
    format!(
        "slots {slots} do not agree: {} bytes differ, the first at offset {}; bytes {}{more}\n",
        one.differing_bytes,
        first.first,
        ranges.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_a_duration_or_off() {
        assert_eq!(parse_period("7d"), Ok(Period(Some(604_800))));
        assert_eq!(parse_period("off"), Ok(Period(None)));
        for text in ["", "7", "0s", "never"] {
            let refused = parse_period(text).unwrap_err();
            assert!(refused.contains("like 7d"), "{refused}");
        }
    }
}
