//! Traces that are replayed.

use super::*;
use crate::requests::read_traces;

#[test]
fn a_trace_is_replayed_at_its_times_and_shorter_requests_are_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    // A write of 512 bytes or a read of 16 KiB every millisecond.
    let lines: String = (0..2401)
        .map(|at| {
            let (kind, length) = [("Write", 512), ("Read", 16384)][at % 2];
            format!("{},usr,0,{kind},{},{length},1\n", at * 10_000, at * 16384)
        })
        .collect();
    std::fs::write(folder.path().join("usr.csv"), lines).expect("it is written");
    let text = "op = \"replay\"\ntrace = \"usr.csv\"\nthreads = 2\nqd = 8\nspeed_pct = 200";
    let mut session = session(&[("trace", text)], 2);
    session.traces = read_traces(&session.loads, folder.path()).expect("it is a trace");
    assert!(session.writes());
    assert_eq!(session.written_about(None), Some(2.0 * 1201.0 * 512.0));
    // 2.4 s at twice the speed and a millisecond more, twice.
    assert_eq!(session.time().as_millis(), 2402);
    let found = found("ram:64m,latency=1ms", &session);
    assert!(found.failure.is_none(), "{:?}", found.failure);
    let trace = measurement(&found, 0);
    // The last request or two may end after the window.
    let iops = value(&found, 0, Metric::Iops);
    assert!((1900.0..2001.0).contains(&iops), "{iops}");
    let of =
        |metrics: &Metrics| metrics[&Metric::BytesPerSecond].value / metrics[&Metric::Iops].value;
    assert_eq!((of(&trace.writes), of(&trace.reads)), (512.0, 16384.0));
    assert!(value(&found, 0, Metric::Response(Statistic::Mean)) >= 1000.0);
    assert_eq!(value(&found, 0, Metric::Backlog), 0.0);
    let notes = found.results.points[0].notes.join("\n");
    assert!(!notes.contains("keep up"), "{notes}");
    // On a smaller target, or one with larger sectors, nothing is run.
    for (target, said) in [
        ("ram:8m", "up to byte 39322112"),
        ("ram:64m,sector=4096", "512 bytes at byte 0"),
    ] {
        let target = Target::open(target, true, None).expect("it opens");
        let refused = session.check(&target).expect_err("it does not fit");
        assert!(format!("{refused:#}").contains(said), "{refused:#}");
    }
}

#[test]
fn parts_of_a_trace_that_are_not_there_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = "0,usr,0,Read,0,512,1\n30000000,usr,0,Read,0,512,1\n";
    std::fs::write(folder.path().join("usr.csv"), lines).expect("it is written");
    let ancient = "0,usr,0,Read,0,512,1\n128166372003061629,usr,0,Read,0,512,1\n";
    std::fs::write(folder.path().join("ancient.csv"), ancient).expect("it is written");
    let text = "op = \"replay\"\nthreads = 1\nqd = 1\n";
    let target = Target::open("ram:1m", false, None).expect("it opens");
    for (more, said) in [
        ("trace = \"usr.csv\"", None),
        ("trace = \"usr.csv\"\nskip_seconds = 2", None),
        (
            "trace = \"usr.csv\"\nskip_seconds = 3",
            Some("at least 4 s are skipped and measured"),
        ),
        (
            "trace = \"usr.csv\"\nseconds = 4",
            Some("lasts 3.000 s at this speed, and at least 4 s"),
        ),
        (
            "trace = \"usr.csv\"\nspeed_pct = 400",
            Some("lasts 0.750 s at this speed"),
        ),
        ("trace = \"ancient.csv\"", Some("more than 31 days")),
        (
            "trace = \"ancient.csv\"\nspeed_pct = 1",
            Some("more than 31 days"),
        ),
    ] {
        let mut session = session(&[("trace", &format!("{text}{more}"))], 1);
        session.traces = read_traces(&session.loads, folder.path()).expect("they are traces");
        let checked = session.check(&target).map_err(|why| format!("{why:#}"));
        match said {
            None => assert_eq!(checked, Ok(()), "{more}"),
            Some(said) => {
                let refused = checked.expect_err(more);
                assert!(refused.contains(said), "{refused}");
            }
        }
    }
    let missing = read_traces(
        &[(
            "trace".to_owned(),
            load(&format!("{text}trace = \"nowhere.csv\"")),
        )],
        folder.path(),
    );
    let missing = format!("{:#}", missing.expect_err("there is none"));
    assert!(missing.contains("nowhere.csv"), "{missing}");
}

#[test]
fn a_target_that_does_not_keep_up_with_a_trace_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..1100)
        .map(|at| format!("{},usr,0,Read,0,4096,1\n", at * 10_000))
        .collect();
    std::fs::write(folder.path().join("usr.csv"), lines).expect("it is written");
    let text = "op = \"replay\"\ntrace = \"usr.csv\"\nthreads = 1\nqd = 1";
    let mut session = session(&[("trace", text)], 1);
    session.traces = read_traces(&session.loads, folder.path()).expect("it is a trace");
    let found = found("ram:64m,read-iops=500", &session);
    let notes = found.results.points[0].notes.join("\n");
    assert!(
        notes.contains("had not been issued when a run ended"),
        "{notes}"
    );
}
