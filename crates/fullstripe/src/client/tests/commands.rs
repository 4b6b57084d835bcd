//! Every command, from its command line to its effect on an array.

use crate::client::{ClientCommand, run};
use clap::Parser;
use container::refusal::Refused;
use metadata::imsm::Level;
use server::testing::Served;
use std::process::ExitCode;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: ClientCommand,
}

/// Runs `line` against `served`.
fn command(served: &Served, line: &str) -> anyhow::Result<ExitCode> {
    let socket = served.socket().display().to_string();
    let words = std::iter::once("fullstripe").chain(line.split_whitespace());
    let line = Line::try_parse_from(words.chain(["--socket", &socket]))?;
    run(&line.command)
}

fn succeeds(served: &Served, line: &str) {
    let code = command(served, line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
    assert_eq!(code, ExitCode::SUCCESS, "{line}");
}

fn fails(served: &Served, line: &str) -> String {
    command(served, line).expect_err(line).to_string()
}

#[test]
fn a_drive_is_failed_removed_and_replaced_by_hand() {
    let served = Served::new(Level::Raid5, 3);
    for line in [
        "status",
        "status --json",
        "events",
        "events --json",
        "rebuild v",
        "rebuild v --wait",
    ] {
        succeeds(&served, line);
    }
    succeeds(&served, "fail M1");
    assert_eq!(served.volume().state, "degraded");
    let refused = command(&served, "fail M2 --json").unwrap_err();
    assert!(refused.is::<Refused>(), "{refused:#}");
    let none = fails(&served, "rebuild v --wait");
    let wanted =
        "volume v is degraded, and there is no spare; `fullstripe add-spare DRIVE` adds one";
    assert_eq!(none, wanted);
    succeeds(&served, "remove v:1");
    succeeds(&served, "rate 8m");
    succeeds(&served, "add-spare ram:64m,serial=NEW --json");
    succeeds(&served, "pause v");
    assert!(served.volume().job.unwrap().paused);
    succeeds(&served, "rebuild v --json");
    assert!(!served.volume().job.unwrap().paused);
    succeeds(&served, "rate unlimited");
    succeeds(&served, "rebuild v --wait");
    assert_eq!(served.volume().state, "optimal");
    succeeds(&served, "replace v:0 --with ram:64m,serial=OTHER");
    succeeds(&served, "rebuild v --wait");
    assert_eq!(served.volume().slots[0].member, Some(4));
    assert!(fails(&served, "replace v:1 --with 9").starts_with("9 may mean nothing in this array"));
    assert!(fails(&served, "fail 1").starts_with("1 may mean slot 1 of v ("));
    assert!(fails(&served, "replace M0 --with M2").starts_with("there is no drive \"M0\""));
}

#[test]
fn the_end_of_a_volume_is_asked_about_and_then_said_first() {
    let served = Served::new(Level::Raid5, 3);
    let checked = |code: u8| {
        let answer = command(&served, "status --check").unwrap();
        assert_eq!(answer, ExitCode::from(code), "{:?}", served.status().health);
        command(&served, "status --check --json").unwrap();
    };
    checked(0);
    succeeds(&served, "fail M1");
    checked(3);
    let refused = command(&served, "fail v:2").unwrap_err();
    let sentence = refused.to_string();
    assert!(refused.is::<Refused>(), "{sentence}");
    assert!(
        sentence.contains("v (RAID 5) cannot do without slot 2"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("or fail it all the same with --yes"),
        "{sentence}"
    );
    checked(3);
    succeeds(&served, "fail v:2 --yes");
    checked(5);
    // The slot shows its present state, although the failure is not on record.
    let volume = served.volume();
    assert_eq!(
        (volume.state.as_str(), volume.slots[2].state.as_str()),
        ("failed", "failed")
    );
    let text = served.status().health.text.clone();
    let needed = served.status().members[2].name.clone();
    assert!(text.starts_with("v has failed: it has lost "), "{text}");
    assert!(text.contains("(an operator asked for it)"), "{text}");
    let remedy = format!("; bring {needed} back, then `fullstripe stop` and serve again");
    assert!(text.ends_with(&remedy), "{text}");
    assert!(
        fails(&served, "remove v:2").contains("a volume failed with it and needs what it holds")
    );
}

#[test]
fn a_rebuild_is_begun_by_hand_where_nothing_begins_by_itself() {
    let served = Served::by_hand(Level::Raid5, 3);
    succeeds(&served, "add-spare ram:96m,serial=LARGE");
    succeeds(&served, "add-spare ram:64m,serial=NEW");
    succeeds(&served, "fail M1");
    served.wait_for_event("failure-recorded");
    assert!(served.volume().job.is_none());
    succeeds(&served, "rebuild v --wait");
    let volume = served.volume();
    assert_eq!(
        (volume.state.as_str(), volume.slots[1].member),
        ("optimal", Some(4)),
        "the smallest spare that fits is taken"
    );
    // The rebuild is ordered at once after the failure.
    succeeds(&served, "fail M0");
    succeeds(&served, "rebuild v --wait --json");
    assert_eq!(served.volume().state, "optimal");
    succeeds(&served, "fail M2");
    assert_eq!(
        fails(&served, "rebuild v"),
        "volume v is degraded, and there is no spare; `fullstripe add-spare DRIVE` adds one"
    );
}

#[test]
fn scrubs_are_waited_for_and_given_up() {
    let served = Served::new(Level::Raid1, 2);
    succeeds(&served, "scrub v --wait");
    succeeds(&served, "scrub v --repair --wait --json");
    succeeds(&served, "rate 1m/s");
    succeeds(&served, "scrub v");
    succeeds(&served, "pause v");
    succeeds(&served, "resume v");
    succeeds(&served, "cancel v");
    assert!(served.volume().job.is_none());
    assert_eq!(
        fails(&served, "cancel v"),
        "volume v has no background work"
    );
    assert!(fails(&served, "scrub w").starts_with("there is no volume \"w\""));
    succeeds(&served, "stop");
    assert!(served.is_asked_to_stop());
}

#[test]
fn command_lines_that_make_no_sense_are_not_sent() {
    let served = Served::new(Level::Raid1, 2);
    for (line, wanted) in [
        ("rate fast", "fast is no rate; give bytes per second"),
        ("replace v 0 --with M1", "unexpected argument '0'"),
        ("replace v:0", "--with <DRIVE>"),
        (
            "replace v --with M1",
            "\"v\" is a volume; name one of its drives: ",
        ),
        (
            "status --interval 0",
            "0 is no interval; give 0.1 to 3600 seconds",
        ),
        ("add-spare d0,colour=red", "unknown key \"colour\""),
    ] {
        let message = fails(&served, line);
        assert!(message.contains(wanted), "{line}: {message}");
    }
}
