//! Sends alerts to a command of the test.

use super::*;
use crate::event_kinds::Kind;
use std::path::Path;

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn options(folder: &Path) -> AlertOptions {
    let command = format!(
        "[ ! -e {0}/no ] && echo $FULLSTRIPE_ARRAY $FULLSTRIPE_EVENT >> {0}/out",
        folder.display()
    );
    AlertOptions {
        array: "fast".to_owned(),
        ways: Ways {
            exec: Some(command),
            ..Ways::default()
        },
        ..AlertOptions::default()
    }
}

/// Begins to send, with what was left in `state`; the array is well if there is no file `bad`.
pub(super) fn started(folder: &Path, state: &Path) -> Alerter {
    let alerter = Alerter::new(options(folder), Commands::default(), |_| ());
    let bad = folder.join("bad");
    let condition = move || {
        Some(Condition {
            is_well: !bad.exists(),
            is_degraded: bad.exists(),
            text: "words".to_owned(),
            ..Condition::default()
        })
    };
    let begun = alerter.begin(Some(state.to_owned()), Box::new(condition));
    begun.unwrap();
    alerter
}

pub(super) fn wait_for(folder: &Path, wanted: &str) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let out = std::fs::read_to_string(folder.join("out")).unwrap_or_default();
        if out == wanted {
            return;
        }
        assert!(Instant::now() < give_up, "{out}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn failed(warning: bool) -> Told {
    Told::of_process(Kind::MemberFailed, "d1 is failed".to_owned(), warning)
}

#[test]
fn a_failure_is_sent_once_and_its_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let alerter = started(folder.path(), folder.path());
    std::fs::write(folder.path().join("bad"), "").unwrap();
    // Less grave than what is sent.
    alerter.tell(&failed(false));
    alerter.tell(&failed(true));
    alerter.tell(&failed(true));
    wait_for(folder.path(), "fast member-failed\n");
    std::fs::remove_file(folder.path().join("bad")).unwrap();
    wait_for(folder.path(), "fast member-failed\nfast resolved\n");
    alerter.finish(PATIENCE);
}

#[test]
fn what_has_not_arrived_is_kept_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let no = folder.path().join("no");
    std::fs::write(&no, "").unwrap();
    let alerter = started(folder.path(), folder.path());
    alerter.tell(&failed(true));
    alerter.finish(PATIENCE);
    let path = folder.path().join(NAME);
    let mut book = read(&path).unwrap();
    assert_ne!(book, Book::default());
    std::fs::remove_file(no).unwrap();
    // As if its pause were over.
    let due_s = now_s() + 20;
    let attempt = book.take_due(due_s).unwrap();
    assert!(!attempt.is_first());
    assert!(book.again(attempt, 0));
    std::fs::write(&path, serde_json::to_vec(&book).unwrap()).unwrap();
    let alerter = started(folder.path(), folder.path());
    wait_for(folder.path(), "fast member-failed\n");
    alerter.finish(PATIENCE);
    let left = read(&path).unwrap().take_due(u64::MAX / 2);
    assert_eq!(left, None);
}

#[test]
fn a_damaged_file_is_told_and_alerts_go_on() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(NAME), "{").unwrap();
    let error = read(&folder.path().join(NAME)).unwrap_err();
    assert!(
        error.to_string().ends_with("alerts.json is damaged"),
        "{error}"
    );
    let alerter = started(folder.path(), folder.path());
    alerter.tell(&failed(true));
    wait_for(folder.path(), "fast member-failed\n");
    alerter.finish(PATIENCE);
}

/// The first alert is on its way for as long as the test takes, and the end does not wait for that.
#[test]
fn an_end_that_does_not_wait_keeps_every_alert() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let slow = AlertOptions {
        ways: Ways {
            exec: Some(format!("touch {}; sleep 20", begun.display())),
            ..Ways::default()
        },
        ..options(folder.path())
    };
    let alerter = Alerter::new(slow, Commands::default(), |_| ());
    let state = Some(folder.path().to_owned());
    alerter
        .begin(state, Box::new(|| Some(Condition::default())))
        .unwrap();
    alerter.tell(&failed(true));
    let give_up = Instant::now() + PATIENCE;
    while !begun.exists() {
        assert!(Instant::now() < give_up, "no alert is sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    let late = Told::of_process(Kind::WritesStopped, "late".to_owned(), true);
    alerter.tell(&late);
    let begin = Instant::now();
    alerter.finish(Duration::ZERO);
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
    let alerter = started(folder.path(), folder.path());
    wait_for(
        folder.path(),
        "fast member-failed\nfast writes-stopped\nfast resolved\n",
    );
    alerter.finish(PATIENCE);
}
