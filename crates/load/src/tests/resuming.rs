//! Sessions that are interrupted, and what their journal holds.

use super::*;
use crate::journal::Journal;
use anyhow::Result;
use lab::schema::results::PointResult;
use std::path::Path;

/// What a session finds that keeps its runs in `path`.
fn journaled(session: &Session, target: &str, path: &Path, is_resumed: bool) -> Result<Found> {
    let mut journal = match is_resumed {
        true => Journal::resume(path)?,
        false => Journal::begin(path)?,
    };
    let mut target = Target::open(target, session.writes(), None).expect("it opens");
    let prepared = session.prepare(&mut target)?;
    prepared.run(Some(&mut journal), |_| ())
}

#[test]
fn an_interrupted_session_goes_on_and_its_figures_are_those_of_all_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result.json.part");
    let reads = "op = \"randread\"\nbs = \"4k\"\nthreads = 2\nqd = 2";
    let shares = format!("{reads}\ndemand_pct = 50");
    let session = session(&[("reads", reads), ("half", &shares)], 2);
    let target = "ram:64m,read-iops=4000";
    let whole = journaled(&session, target, &path, false).expect("it runs");
    assert!(whole.failure.is_none());
    let text = std::fs::read_to_string(&path).expect("it is kept");
    assert_eq!(
        text.lines().count(),
        1 + 1 + 4,
        "a head, a maximum, four runs"
    );
    let again = journaled(&session, target, &path, false).err();
    let again = again.expect("it is there already").to_string();
    assert!(again.contains("go on with it with --resume"), "{again}");
    // All runs are kept, so nothing is run again, and the figures are the same to the last bit.
    let resumed = journaled(&session, target, &path, true).expect("it goes on");
    for (one, other) in resumed.results.points.iter().zip(&whole.results.points) {
        assert_eq!(one.metrics, other.metrics);
        let runs = |point: &PointResult| point.measurement.as_ref().map(|one| one.runs.clone());
        assert_eq!(runs(one), runs(other));
    }
    let conditions = resumed
        .results
        .conditions
        .as_ref()
        .expect("it was measured");
    assert!(
        conditions
            .marks
            .iter()
            .any(|mark| mark.contains("was interrupted")),
        "{conditions:?}"
    );
    // The last run was cut off in the middle of its line.
    std::fs::write(&path, &text[..text.len() - 100]).expect("it is written");
    let resumed = journaled(&session, target, &path, true).expect("it goes on");
    assert_eq!(resumed.results.points[0].seeds, [1, 2]);
    assert_eq!(resumed.results.points[1].seeds, [1, 2]);
    let now = std::fs::read_to_string(&path).expect("it is kept");
    let without_last = |text: &str| text.lines().take(5).collect::<Vec<_>>().join("\n");
    assert_eq!(without_last(&now), without_last(&text));
    assert_eq!(now.lines().count(), 6);
}

#[test]
fn runs_of_another_session_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result.json.part");
    let reads = "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 1";
    let mut session = session(&[("reads", reads)], 1);
    let refused = |session: &Session, target: &str| {
        let refused = journaled(session, target, &path, true).err();
        format!("{:#}", refused.expect("it is refused"))
    };
    let missing = refused(&session, "ram:1m");
    assert!(missing.contains("nothing to go on with"), "{missing}");
    journaled(&session, "ram:1m", &path, false).expect("it runs");
    let other = refused(&session, "ram:2m");
    assert!(other.contains("of another target"), "{other}");
    session.seed = 2;
    let other = refused(&session, "ram:1m");
    assert!(other.contains("other loads or options"), "{other}");
    session.seed = 1;
    let text = std::fs::read_to_string(&path).expect("it is kept");
    for (damaged, said) in [
        (text.replace("\"own\"", "\"won\""), "line 2 is damaged"),
        (text.replacen("subject", "object", 1), "line 1 is damaged"),
        (
            text.replace("\"seed\":1,\"run\"", "\"seed\":5,\"run\""),
            "result.json.part: line 2: does not fit this session",
        ),
        (
            text.replace("\"repetition\":0", "\"repetition\":1"),
            "result.json.part: line 2: does not fit this session",
        ),
        (
            text.replace("\"own\":{\"load\":0", "\"own\":{\"load\":7"),
            "result.json.part: line 2: does not fit this session",
        ),
    ] {
        std::fs::write(&path, damaged).expect("it is written");
        let refused = refused(&session, "ram:1m");
        assert!(refused.contains(said), "{refused}");
    }
    let held = Journal::resume(&path).expect("it opens");
    let busy = refused(&session, "ram:1m");
    assert!(busy.contains("in use by another session"), "{busy}");
    drop(held);
}

#[test]
fn a_share_that_is_written_is_of_what_the_target_does_then() {
    let fill = "op = \"write\"\nbs = \"64k\"\nthreads = 1\nqd = 4";
    let share = "op = \"randwrite\"\nbs = \"4k\"\nthreads = 1\nqd = 4\ndemand_pct = 50";
    let session = session(&[("fill", fill), ("share", share)], 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.part");
    journaled(&session, "ram:64m,write-iops=2000", &path, false).expect("it runs");
    let text = std::fs::read_to_string(&path).expect("it is kept");
    let kinds: Vec<&str> = text.lines().skip(1).map(|line| &line[..6]).collect();
    assert_eq!(kinds, ["{\"own\"", "{\"maxi", "{\"own\""]);
}
