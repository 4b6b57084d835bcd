use super::*;
use crate::api::EventLog;
use crate::state_folder::settings::Settings;
use crate::testing::samples::member;
use container::state_folder::of_array;
use std::sync::Mutex;
use tempfile::TempDir;

const UUID: &str = "1:2:3:4";

fn serials(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn members(states: &[(&str, &str)]) -> Vec<MemberStatus> {
    let named = |(id, (serial, state)): (u8, &(&str, &str))| MemberStatus {
        serial: (*serial).to_owned(),
        ..member(id, state)
    };
    (0..).zip(states).map(named).collect()
}

/// A server's look after the spares of the one before it, in a state folder of its own.
struct Bench {
    folder: TempDir,
    missed: Missed,
    began: Instant,
    told: Mutex<Vec<Told>>,
}

impl Bench {
    /// The server before had these spares.
    fn after(spares: &[&str]) -> Bench {
        let folder = TempDir::new().unwrap();
        let own = of_array(folder.path(), UUID);
        std::fs::create_dir_all(&own).unwrap();
        Settings::within(&own)
            .keep_spares(&serials(spares))
            .unwrap();
        let (keeper, remembered) =
            Keeper::start(folder.path(), UUID, &EventLog::new(), |_| {}).unwrap();
        assert_eq!(remembered.spares, serials(spares));
        Bench {
            folder,
            missed: Missed::new(remembered.spares, Some(Arc::new(keeper)))
                .coming_within(Duration::from_secs(60)),
            began: Instant::now(),
            told: Mutex::default(),
        }
    }

    /// Looks so long after the start; returns what was told.
    fn look(&mut self, seconds: u64, states: &[(&str, &str)]) -> Vec<String> {
        let now = self.began + Duration::from_secs(seconds);
        let tell = |event| self.told.lock().unwrap().push(event);
        self.missed.look(&members(states), now, &tell);
        let told = self.told.lock().unwrap().drain(..).collect::<Vec<Told>>();
        assert!(told.iter().all(|one| one.warning), "{told:?}");
        told.into_iter().map(|one| one.text).collect()
    }

    /// What the next server will know.
    fn kept(&self) -> BTreeSet<String> {
        let own = of_array(self.folder.path(), UUID);
        Settings::within(&own).spares().unwrap()
    }
}

#[test]
fn a_spare_that_does_not_come_is_told_of_once() {
    let mut bench = Bench::after(&["S1", "S2"]);
    let there = [("A", "active"), ("S2", "spare")];
    for seconds in [0, 59] {
        assert!(bench.look(seconds, &there).is_empty());
        assert_eq!(bench.kept(), serials(&["S1", "S2"]), "it may still come");
    }
    insta::assert_snapshot!(bench.look(60, &there).join("\n"), @"the spare with the serial number S1 is missing: the array had it when it was served last, and it has not come within 60 s; the array has 1 other spare");
    assert_eq!(bench.kept(), serials(&["S2"]));
    assert!(bench.look(61, &there).is_empty());
}

#[test]
fn a_spare_that_comes_in_time_is_missed_by_nobody() {
    let mut bench = Bench::after(&["S1", "S2"]);
    assert!(bench.look(0, &[]).is_empty(), "no status was published yet");
    assert_eq!(bench.kept(), serials(&["S1", "S2"]));
    // One is a spare again, and the other has taken a member's place.
    let there = [("S1", "spare"), ("S2", "active")];
    for seconds in [30, 90] {
        assert!(bench.look(seconds, &there).is_empty());
        assert_eq!(bench.kept(), serials(&["S1"]));
    }
}

#[test]
fn the_next_server_awaits_the_spares_that_the_array_has_now() {
    let mut bench = Bench::after(&[]);
    bench.look(0, &[("A", "active")]);
    assert_eq!(bench.kept(), serials(&[]));
    bench.look(1, &[("A", "active"), ("S1", "spare"), ("S2", "spare")]);
    assert_eq!(bench.kept(), serials(&["S1", "S2"]));
    bench.look(2, &[("A", "failed"), ("S1", "active"), ("S2", "failed")]);
    assert_eq!(bench.kept(), serials(&[]));
    assert!(bench.look(90, &[("A", "failed")]).is_empty());
}

#[test]
fn spares_that_are_named_are_not_awaited() {
    let bench = Bench::after(&["S1"]);
    let own = of_array(bench.folder.path(), UUID);
    bench.missed.give_up(&|told| panic!("{told:?}"));
    assert_eq!(Settings::within(&own).spares().unwrap(), serials(&[]));
}

#[test]
fn spares_that_cannot_be_kept_are_a_warning() {
    let mut bench = Bench::after(&[]);
    let own = of_array(bench.folder.path(), UUID);
    std::fs::write(own.join("settings.json"), "no JSON").unwrap();
    let told = bench.look(0, &[("S1", "spare")]);
    assert_eq!(told.len(), 1, "{told:?}");
    let expected = "if a spare is gone at the next start, nobody will miss it: ";
    assert!(told[0].starts_with(expected), "{told:?}");
    assert!(bench.look(1, &[("S1", "spare")]).is_empty(), "once");
}
