//! The event file by itself: what it keeps, how long it gets, and how it treats lines of other programs.

use super::*;
use crate::testing::event as told;
use tempfile::TempDir;

/// A limit that is soon reached.
const SMALL_BYTES: u64 = 16 << 10;

fn one(number: u64, kind: &str) -> NumberedEvent {
    let mut told = told(&format!("{kind} number {number}"));
    told.kind = kind.to_owned();
    NumberedEvent::new(number, told)
}

fn numbers(earlier: &Earlier) -> Vec<u64> {
    earlier.events.iter().map(|event| event.number).collect()
}

fn content(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join(NAME)).unwrap()
}

fn write(folder: &TempDir, content: &[u8]) {
    std::fs::write(folder.path().join(NAME), content).unwrap();
}

#[test]
fn events_come_back_with_their_numbers_and_the_next_goes_on() {
    let folder = TempDir::new().unwrap();
    let (mut file, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!((earlier.newest, earlier.is_cut_short), (0, false));
    file.append(&[one(1, "member-failed"), one(2, "stopped")], true)
        .unwrap();
    drop(file);
    let (mut file, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!((numbers(&earlier), earlier.newest), (vec![1, 2], 2));
    assert!(!earlier.is_cut_short);
    assert_eq!(earlier.events[0].event.text, "member-failed number 1");
    file.append(&[one(3, "member-failed")], false).unwrap();
    drop(file);
    // A client may have seen an event just before a crash, so its number may be in use without being on file.
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    assert!(earlier.is_cut_short);
    assert_eq!(earlier.newest, 3 + NUMBERS_IN_DOUBT);
}

#[test]
fn a_torn_last_line_is_ended_and_costs_no_other() {
    let folder = TempDir::new().unwrap();
    let whole = line(&one(7, "job-started")).unwrap();
    write(
        &folder,
        &[&whole[..], b"{\"number\":8,\"time_s\":17000"].concat(),
    );
    let (mut file, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(numbers(&earlier), [7]);
    file.append(&[one(1008, "job-ended")], false).unwrap();
    file.append(&[one(1009, "stopped")], false).unwrap();
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(numbers(&earlier), [7, 1008, 1009]);
    // After a power cut, a file may have its new length but zeros in place of the last bytes.
    write(&folder, &[&whole[..], &[0; 300]].concat());
    let (mut file, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(numbers(&earlier), [7]);
    file.append(&[one(1008, "job-ended")], false).unwrap();
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(numbers(&earlier), [7, 1008]);
}

#[test]
fn a_file_that_gets_too_long_keeps_the_newest() {
    let folder = TempDir::new().unwrap();
    let (mut file, _) = EventFile::with_limit(folder.path(), SMALL_BYTES).unwrap();
    let mut turned = 0;
    let mut before = 0;
    for number in 1..=1000 {
        file.append(&[one(number, "job-started")], false).unwrap();
        let size_bytes = content(&folder).len() as u64;
        assert!(size_bytes <= SMALL_BYTES, "{size_bytes}");
        assert_eq!(size_bytes, file.size_bytes);
        turned += u32::from(size_bytes < before);
        before = size_bytes;
    }
    assert!((5..100).contains(&turned), "{turned}");
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    let first = earlier.events[0].number;
    assert_eq!(numbers(&earlier), (first..=1000).collect::<Vec<_>>());
    assert!(earlier.events.len() > 40, "{first}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_a_newer_program_wrote_is_kept_as_it_is_when_the_file_turns_over() {
    const FOREIGN: [&str; 4] = [
        r#"{"number":2,"sort":"another","what":[1,2]}"#,
        "not JSON at all",
        // Like our lines except for one field, and of a kind that is folded.
        r#"{"number":3,"time_s":5,"kind":"unrecoverable","volume":"v","member":null,"text":"new","warning":false,"place":"rack 7"}"#,
        r#"{"number":4,"time_s":5,"kind":"drive-feels-warm","volume":null,"member":"d1","text":"d1 feels warm","warning":false,"celsius":61}"#,
    ];
    let folder = TempDir::new().unwrap();
    let first = line(&one(1, "job-started")).unwrap();
    write(
        &folder,
        &[&first, (FOREIGN.join("\n") + "\n").as_bytes()].concat(),
    );
    let (mut file, earlier) = EventFile::with_limit(folder.path(), SMALL_BYTES).unwrap();
    assert_eq!(numbers(&earlier), [1, 3, 4]);
    assert_eq!(earlier.events[2].event.text, "d1 feels warm");
    for number in 1005..=2000 {
        file.append(&[one(number, "job-started")], false).unwrap();
    }
    let content = content(&folder);
    let begins = FOREIGN.join("\n");
    assert!(content.starts_with(&begins), "{}", &content[..600]);
    assert!(
        !content.contains("number 1\""),
        "the oldest of our own events is still there"
    );
}

#[test]
fn lines_that_nobody_understands_do_not_fill_the_file() {
    let folder = TempDir::new().unwrap();
    let garbage: String = (0..2000).map(|at| format!("garbage {at}\n")).collect();
    write(&folder, garbage.as_bytes());
    let (mut file, _) = EventFile::with_limit(folder.path(), SMALL_BYTES).unwrap();
    file.append(&[one(1, "job-started")], false).unwrap();
    let content = content(&folder);
    assert!(content.len() as u64 <= SMALL_BYTES / 2, "{}", content.len());
    assert!(
        content.contains("garbage 1999\n"),
        "the newest line was dropped"
    );
}

#[test]
fn a_cause_stays_while_what_it_causes_is_folded() {
    let folder = TempDir::new().unwrap();
    let (mut file, _) = EventFile::open(folder.path()).unwrap();
    let mut all = vec![one(1, "member-failed")];
    all.extend((2..20_000).map(|number| one(number, "unrecoverable")));
    for some in all.chunks(100) {
        file.append(some, false).unwrap();
    }
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(earlier.events[0].event.kind, "member-failed");
    let told: u64 = earlier.events.iter().map(|one| one.span().count).sum();
    assert_eq!(told, 19_999);
}

#[test]
fn numbers_that_make_no_sense_are_not_taken_over() {
    let folder = TempDir::new().unwrap();
    let with = |number: &str, folded: &str| {
        format!(
            r#"{{"number":{number},"folded":{folded},"time_s":1,"kind":"k","volume":null,"member":null,"text":"t","warning":false}}"#
        )
    };
    let run = |count: &str, first: &str| {
        format!(r#"{{"count":{count},"first_number":{first},"last_time_s":1}}"#)
    };
    let lines = [
        with("18446744073709551615", "null"),
        with("0", "null"),
        with("9", &run("3", "0")),
        with("8", &run("0", "8")),
        with("7", &run("3", "9")),
        with("6", &run("3", "2")),
        with("5", "null"),
        with("5", "null"),
    ];
    write(&folder, lines.join("\n").as_bytes());
    let (_, earlier) = EventFile::open(folder.path()).unwrap();
    assert_eq!(numbers(&earlier), [5, 6]);
    assert_eq!(earlier.newest, 9 + NUMBERS_IN_DOUBT);
}

#[test]
fn what_is_no_file_of_ours_is_left_alone() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join(NAME)).unwrap();
    let error = EventFile::open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "it is not a file");
    let folder = TempDir::new().unwrap();
    let huge = File::create(folder.path().join(NAME)).unwrap();
    huge.set_len(READ_BYTES_MAX + 1).unwrap();
    let error = EventFile::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("move it away"), "{error}");
}
