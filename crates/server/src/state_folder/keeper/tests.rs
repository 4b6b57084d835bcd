//! The keeper's thread on a real folder: what is there after a restart, how fast it writes, and what a bad disk causes.

use super::*;
use crate::state_folder::event_file::Earlier;
use crate::testing::event;
use std::sync::atomic::AtomicUsize;
use tempfile::TempDir;

const UUID: &str = "0:1:2:3";
const PATIENCE: Duration = Duration::from_secs(20);

struct Begun {
    log: EventLog,
    keeper: Keeper,
    remembered: Remembered,
    warnings: Arc<AtomicUsize>,
}

fn begin(folder: &TempDir) -> Result<Begun> {
    let log = EventLog::new();
    let warnings = Arc::new(AtomicUsize::new(0));
    let heard = warnings.clone();
    let warn = move |_| {
        heard.fetch_add(1, Ordering::SeqCst);
    };
    let (keeper, remembered) = Keeper::start(folder.path(), UUID, &log, warn)?;
    Ok(Begun {
        log,
        keeper,
        remembered,
        warnings,
    })
}

fn of_kind(kind: &str, text: &str) -> Told {
    let mut told = event(text);
    told.kind = kind.to_owned();
    told
}

fn on_file(folder: &TempDir) -> Earlier {
    EventFile::open(&of_array(folder.path(), UUID)).unwrap().1
}

#[test]
fn events_and_rate_are_there_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let first = begin(&folder).unwrap();
    assert_eq!(first.remembered.rate_bytes_per_s, None);
    assert!(!first.remembered.is_cut_short);
    first.log.add(of_kind("member-failed", "d1 is failed"));
    first.keeper.keep_rate(5).unwrap();
    first.log.add(of_kind("stopped", "no more"));
    first.keeper.finish(PATIENCE);
    let second = begin(&folder).unwrap();
    assert_eq!(second.remembered.rate_bytes_per_s, Some(5));
    assert!(!second.remembered.is_cut_short);
    second.log.add(of_kind("server-started", "again"));
    let all = second.log.since(0, KEPT_MAX);
    let texts: Vec<(u64, &str)> = all
        .events
        .iter()
        .map(|event| (event.number, event.event.text.as_str()))
        .collect();
    let wanted = [(1, "d1 is failed"), (2, "no more"), (3, "again")];
    assert_eq!((texts.as_slice(), all.forgotten), (wanted.as_slice(), 0));
    assert_eq!(second.log.since(2, KEPT_MAX).events.len(), 1);
    drop(second);
    assert!(begin(&folder).unwrap().remembered.is_cut_short);
}

#[test]
fn the_first_event_after_a_pause_is_on_file_before_the_end() {
    let folder = TempDir::new().unwrap();
    let begun = begin(&folder).unwrap();
    begun.log.add(event("now"));
    let deadline = Instant::now() + PATIENCE;
    while on_file(&folder).events.is_empty() {
        assert!(
            Instant::now() < deadline,
            "the event does not reach the file"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_storm_is_written_in_few_lines_and_what_is_left_out_is_counted() {
    const STORM: u64 = 50 * KEPT_MAX as u64;
    let folder = TempDir::new().unwrap();
    let begun = begin(&folder).unwrap();
    let since = Instant::now();
    for number in 0..STORM {
        begun.log.add(event(&format!("unlike any other {number}")));
    }
    let seconds = since.elapsed().as_secs() as usize;
    // Counted before the end, which writes whatever is still in the log.
    let before_end = on_file(&folder).events.len();
    assert!(
        before_end <= (seconds + 2) * (LINES_MAX + 1),
        "{before_end}"
    );
    begun.keeper.finish(PATIENCE);
    let earlier = on_file(&folder);
    let mut next = 1;
    for entry in &earlier.events {
        if entry.event.kind == "events-not-kept" {
            let words = format!("{} events were not kept here", entry.number + 1 - next);
            assert!(entry.event.text.starts_with(&words), "{}", entry.event.text);
        } else {
            assert_eq!(entry.number, next);
        }
        next = entry.number + 1;
    }
    assert_eq!(next, STORM + 1);
    assert!(earlier.events.len() < (seconds + 2) * (LINES_MAX + 1) + KEPT_MAX);
}

#[test]
fn a_run_about_one_thing_is_one_line_a_second() {
    let folder = TempDir::new().unwrap();
    let begun = begin(&folder).unwrap();
    begun.log.add(of_kind("member-failed", "d1 is failed"));
    for number in 0..339 {
        let text = format!("LBA {number} can be neither read nor reconstructed");
        begun.log.add(of_kind("unrecoverable", &text));
    }
    begun.keeper.finish(PATIENCE);
    let earlier = on_file(&folder);
    assert_eq!(earlier.events[0].event.kind, "member-failed");
    assert!(earlier.events.len() < 10, "{}", earlier.events.len());
    let told: u64 = earlier.events.iter().map(|one| one.span().count).sum();
    assert_eq!(told, 340);
}

#[test]
fn a_file_that_cannot_be_written_is_one_warning_and_nothing_waits() {
    let folder = TempDir::new().unwrap();
    let array = of_array(folder.path(), UUID);
    std::fs::create_dir_all(&array).unwrap();
    // Each write to the file fails as on a full disk.
    let log = EventLog::new();
    let warnings = Arc::new(AtomicUsize::new(0));
    let heard = warnings.clone();
    let warn = move |text: String| {
        assert!(text.contains("No space left on device"), "{text}");
        heard.fetch_add(1, Ordering::SeqCst);
    };
    let mut writing = Writing::new(
        (EventFile::of_full_disk(), 0),
        log.clone(),
        Settings::within(&array),
        Box::new(warn),
    );
    log.add(event("one"));
    assert!(!writing.write_some());
    log.add(event("two"));
    assert!(!writing.write_some());
    assert_eq!(warnings.load(Ordering::SeqCst), 1);
    // Once there is room again, all events that are still in the log are written.
    writing.file = EventFile::open(&array).unwrap().0;
    assert!(writing.write_some());
    assert_eq!(on_file(&folder).events.len(), 2);
}

#[test]
fn a_folder_that_cannot_be_had_is_an_error_and_a_bad_rate_is_not() {
    let folder = TempDir::new().unwrap();
    let begun = begin(&folder).unwrap();
    let error = format!("{:#}", begin(&folder).err().unwrap());
    assert!(
        error.contains("another process serves this array"),
        "{error}"
    );
    drop(begun);
    std::fs::write(of_array(folder.path(), UUID).join("settings.json"), "{").unwrap();
    let begun = begin(&folder).unwrap();
    let unread = &begun.remembered.unread;
    assert_eq!(unread.len(), 1, "the file is one, whatever it is asked for");
    let unread = unread.first().unwrap();
    assert!(
        unread.contains("settings.json is no JSON object"),
        "{unread}"
    );
    begun.keeper.keep_rate(7).unwrap_err();
    assert_eq!(begun.warnings.load(Ordering::SeqCst), 0);
    let file = TempDir::new().unwrap();
    std::fs::write(file.path().join("arrays"), "").unwrap();
    let error = format!("{:#}", begin(&file).err().unwrap());
    assert!(error.contains("arrays/0:1:2:3 cannot be used: "), "{error}");
}
