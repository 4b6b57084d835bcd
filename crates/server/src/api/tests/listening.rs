//! Events as they happen, metrics, and the end of the server.

use super::*;
use crate::api::schema::NumberedEvent;
use crate::events::Told;
use std::collections::BTreeMap;

#[test]
fn listeners_hear_what_was_and_what_comes() {
    let served = Served::new(Level::Raid5, 3);
    served.post("/v1/members/M0/fail").unwrap();
    served.wait_for_event("failure-recorded");
    let (served, client) = (&served, served.client());
    let mut heard: Vec<(String, u64)> = Vec::new();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        scope.spawn(move || {
            told.recv_timeout(PATIENCE).unwrap();
            served.post("/v1/members/M0/remove").unwrap();
            served.add_spare("ram:64m,serial=NEW", false).unwrap();
        });
        let listened = client.listen("/v1/events/stream?since=0", |kind, data| {
            let event: NumberedEvent = serde_json::from_str(data)?;
            assert_eq!(event.event.kind, kind);
            if kind == "failure-recorded" {
                tell.send(()).unwrap();
            }
            heard.push((kind.to_owned(), event.number));
            Ok(kind != "job-ended")
        });
        listened.unwrap();
    });
    let numbers: Vec<u64> = heard.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let (first, last) = (&heard[0].0, &heard[heard.len() - 1].0);
    assert_eq!(
        (first.as_str(), last.as_str()),
        ("member-failed", "job-ended")
    );
}

#[test]
fn a_listener_that_was_away_too_long_is_told_so() {
    let served = Served::new(Level::Raid0, 2);
    for number in 0..1500 {
        served.events.add(Told {
            time_s: 0,
            kind: "job-started".to_owned(),
            volume: None,
            member: None,
            text: format!("event {number}"),
            warning: false,
        });
    }
    let mut heard = Vec::new();
    served
        .client()
        .listen("/v1/events/stream?since=0", |kind, data| {
            heard.push((kind.to_owned(), data.to_owned()));
            Ok(heard.len() < 1001)
        })
        .unwrap();
    assert_eq!(heard[0], ("forgotten".to_owned(), "500".to_owned()));
    assert!(heard[1].1.contains("\"number\":501,"), "{}", heard[1].1);
    assert!(
        heard[1000].1.contains("\"number\":1500,"),
        "{}",
        heard[1000].1
    );
}

/// The samples: their names with labels, and their values.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(sample)
        .collect()
}

#[test]
fn metrics_are_the_status_in_numbers() {
    let served = Served::new(Level::Raid5, 3);
    served.post("/v1/members/M1/fail").unwrap();
    let text = served.client().text("/metrics").unwrap();
    assert!(text.ends_with("# EOF\n"));
    assert!(
        text.contains("# TYPE fullstripe_member_reads counter\n"),
        "{text}"
    );
    assert!(text.contains("# TYPE fullstripe_volume_state gauge\n"));
    let samples = samples(&text);
    let status = served.status();
    let value = |name: &str| {
        *samples
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    for name in status.counters.keys() {
        assert!(
            samples.contains_key(&format!("fullstripe_{name}_total")),
            "{name}"
        );
    }
    assert!(value("fullstripe_metadata_writes_total") > 0.0);
    assert_eq!(value("fullstripe_hook_calls_total"), 0.0);
    assert_eq!(
        value("fullstripe_volume_state{volume=\"v\",state=\"degraded\"}"),
        1.0
    );
    assert_eq!(
        value("fullstripe_volume_state{volume=\"v\",state=\"optimal\"}"),
        0.0
    );
    assert_eq!(
        value("fullstripe_slot_state{volume=\"v\",slot=\"1\",state=\"failed\"}"),
        1.0
    );
    let size = status.volumes[0].size_bytes as f64;
    assert_eq!(value("fullstripe_volume_size_bytes{volume=\"v\"}"), size);
    let drive = &status.members[1].name;
    let member = format!("member=\"1\",drive=\"{drive}\",serial=\"M1\"");
    assert_eq!(
        value(&format!(
            "fullstripe_member_state{{{member},state=\"failed\"}}"
        )),
        1.0
    );
    assert!(
        !text.contains("fullstripe_job_done_bytes{"),
        "no job runs, but there is a sample of one"
    );
}

#[test]
fn the_process_is_asked_to_stop_and_the_server_ends_with_listeners_on_it() {
    let mut served = Served::new(Level::Raid0, 2);
    let done = served.post("/v1/stop").unwrap();
    assert_eq!(done.text, "the array is being stopped");
    assert!(served.is_asked_to_stop());
    let client = served.client();
    let (listening, heard) = std::sync::mpsc::channel();
    let listener = std::thread::spawn(move || {
        client.listen("/v1/events/stream?since=0", |_, _| {
            Ok(listening.send(()).is_ok())
        })
    });
    served.events.add(crate::testing::event("hello"));
    heard.recv_timeout(PATIENCE).unwrap();
    // The listener receives an event that is added just before the end.
    served.events.add(crate::testing::event("the last"));
    let begin = Instant::now();
    drop(served.server.take().unwrap());
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    listener.join().unwrap().unwrap();
    heard.try_recv().unwrap();
    assert!(!served.socket().exists());
    let error = Client::connect(Some(&served.socket()))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("no array is being served at"), "{error}");
}
