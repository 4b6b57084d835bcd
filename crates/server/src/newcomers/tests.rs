//! Files play the devices that appear.

use super::*;
use crate::api::forgetting::{attached, forget};
use crate::testing::{PATIENCE, Served};
use metadata::imsm::{Level, Uuid};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;
use tempfile::TempDir;

mod in_same_bay;

/// An array on files, its watch, and what the watch has told.
struct Bench {
    served: Served,
    folder: TempDir,
    watch: Watch,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Bench {
    fn new(level: Level, count: usize) -> Bench {
        let folder = TempDir::new().unwrap();
        let paths = (0..count).map(|at| folder.path().join(format!("d{at}.img")));
        let paths: Vec<PathBuf> = paths.collect();
        for path in &paths {
            std::fs::File::create(path)
                .unwrap()
                .set_len(64 << 20)
                .unwrap();
        }
        let specs: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let served = Served::on(level, specs);
        served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
        let spares = served.spares.clone();
        let newcomers = Newcomers {
            uuid: Uuid::of_container(spares.record_at_start()).to_string(),
            seen: BTreeSet::new(),
            rebuild: true,
            adopts_empty: false,
            spares: Vec::new(),
            spares_come_within: PATIENCE,
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tell = Arc::new(move |event| heard.lock().unwrap().push(event));
        let mut watch = Watch::new(newcomers, served.shared.clone(), spares, tell);
        watch.answers_within = PATIENCE;
        Bench {
            served,
            folder,
            watch,
            told,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A device that has this file's content.
    fn device(&self, name: &str, sequence: u64) -> Device {
        Device {
            path: self.path(name).display().to_string(),
            sequence: Some(sequence),
        }
    }

    fn fail(&self, name: &str) {
        self.served
            .post(&format!("/v1/members/{name}/fail"))
            .unwrap();
        self.served
            .wait_until("the failure", |status| status.volumes[0].state != "optimal");
    }

    fn told(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter().map(|told| told.kind.clone()).collect()
    }

    fn is_whole(&self) {
        self.served
            .wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    }

    /// The drive's own record says so a moment after the status does; a drive that leaves before is one that was being rebuilt.
    fn records_that_it_is_whole(&self, name: &str) {
        let began = Instant::now();
        let path = self.path(name).display().to_string();
        let record = self.served.spares.record_at_start();
        while former(&one_to_look(&path).unwrap(), record).is_none() {
            assert!(began.elapsed() < PATIENCE, "{name} has no such record");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_member_that_was_plugged_in_again_is_taken_back_and_rebuilt() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.fail("d1.img");
    let device = bench.device("d1.img", 7);
    for _ in 0..bench.watch.tries_max {
        bench.watch.look(vec![device.clone()]);
    }
    assert_eq!(bench.told(), ["drive-taken"], "once");
    bench.is_whole();
    let status = bench.served.status();
    let states: Vec<&str> = status
        .members
        .iter()
        .map(|one| one.state.as_str())
        .collect();
    assert_eq!(states, ["active", "removed", "active", "active"]);
}

/// A drive whose array learns only at its deadline that it was pulled out is tried until after that.
#[test]
fn a_device_is_tried_for_longer_than_the_deadline() {
    for (deadline_s, tries) in [(0, 30), (30, 60), (600, 630)] {
        assert_eq!(tries_max(Duration::from_secs(deadline_s)), tries);
    }
    assert_eq!(tries_max(Duration::from_millis(1500)), 32);
    let longest = tries_max(Duration::MAX);
    assert_eq!(
        longest,
        u32::MAX,
        "it is tried for ever, and nothing overflows"
    );
}

#[test]
fn a_device_that_does_not_answer_keeps_no_other_waiting() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.watch.answers_within = Duration::from_millis(50);
    let (release, hangs) = channel::<()>();
    let (asked, hangs) = (Arc::new(Mutex::new(0)), Mutex::new(hangs));
    let count = asked.clone();
    bench.watch.ask = Arc::new(move |path| {
        if path.ends_with("a.img") {
            *count.lock().unwrap() += 1;
            let _ = hangs.lock().unwrap().recv_timeout(PATIENCE);
        }
        one_to_look(path)
    });
    bench.fail("d1.img");
    // The one that hangs is the first by name.
    let devices = vec![bench.device("a.img", 1), bench.device("d1.img", 7)];
    let began = Instant::now();
    while bench.told().is_empty() {
        bench.watch.look(devices.clone());
        assert!(
            began.elapsed() < PATIENCE / 2,
            "the other one was waited for"
        );
    }
    assert_eq!(bench.told(), ["drive-taken"]);
    assert_eq!(*asked.lock().unwrap(), 1, "it is asked once at a time");
    drop(release);
}

#[test]
fn a_drive_that_was_there_at_the_start_is_left_alone() {
    let mut bench = Bench::new(Level::Raid5, 3);
    let device = bench.device("d1.img", 1);
    bench.watch.newcomers.seen.insert(device.clone());
    bench.fail("d1.img");
    bench.watch.look(vec![device]);
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.served.status().members[1].state, "failed");
}

#[test]
fn a_drive_that_keeps_failing_is_left_to_an_operator() {
    let mut bench = Bench::new(Level::Raid5, 3);
    for sequence in 0..FAILURES_MAX as u64 {
        bench.fail("d1.img");
        let device = bench.device("d1.img", sequence);
        (0..bench.watch.tries_max).for_each(|_| bench.watch.look(vec![device.clone()]));
        if bench.told().last().unwrap() == "drive-taken" {
            bench.is_whole();
            bench.records_that_it_is_whole("d1.img");
        }
    }
    assert_eq!(
        bench.told(),
        ["drive-taken", "drive-taken", "drive-not-taken"]
    );
    assert_eq!(bench.served.volume().state, "degraded");
}

/// What the drive holds may be just what the volume needs.
#[test]
fn no_drive_of_a_failed_volume_is_overwritten() {
    let bench = Bench::new(Level::Raid5, 3);
    bench.fail("d1.img");
    bench.served.post("/v1/members/d0.img/fail").unwrap_err();
    let mut status = bench.served.status();
    assert_eq!(may_not_be_filled(&status, 1), None);
    status.volumes[0].state = "failed".to_owned();
    let why = may_not_be_filled(&status, 1);
    assert!(why.unwrap().starts_with("volume v is failed, and may need"));
}

#[test]
fn a_slot_that_has_a_drive_is_not_filled() {
    let bench = Bench::new(Level::Raid5, 3);
    let why = may_not_be_filled(&bench.served.status(), 1);
    assert_eq!(
        why.as_deref(),
        Some("another drive has its place, slot 1 of volume v")
    );
}

#[test]
fn a_drive_without_bitmap_is_rebuilt_only_if_the_array_may() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.watch.newcomers.rebuild = false;
    bench.fail("d1.img");
    bench.watch.look(vec![bench.device("d1.img", 7)]);
    assert_eq!(bench.told(), ["drive-not-taken"]);
    assert_eq!(bench.served.status().members[1].state, "failed");
}

#[test]
fn a_spare_whose_device_comes_late_is_added() {
    let mut bench = Bench::new(Level::Raid5, 3);
    let spare = bench.path("spare.img");
    bench
        .watch
        .newcomers
        .spares
        .push(spare.display().to_string());
    bench.watch.look(Vec::new());
    assert_eq!(bench.told(), [""; 0]);
    std::fs::File::create(&spare)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    bench.watch.look(Vec::new());
    assert_eq!(bench.told(), ["drive-taken"]);
    bench.watch.look(Vec::new());
    assert_eq!(bench.told().len(), 1, "once");
    assert_eq!(bench.served.status().members[3].state, "spare");
}

/// The file `name`, added as a spare by an order.
fn add_spare(bench: &Bench, name: &str) -> Device {
    let device = bench.device(name, 1);
    let file = std::fs::File::create(&device.path).unwrap();
    file.set_len(64 << 20).unwrap();
    bench.watch.add(&device.path).unwrap();
    device
}

fn state_of(bench: &Bench, name: &str) -> String {
    let path = bench.path(name).display().to_string();
    let status = bench.served.status();
    let mut members = status.members.iter().rev();
    let last = members.find(|one| one.name == path).unwrap();
    last.state.clone()
}

fn wait_for_state(bench: &Bench, name: &str, state: &str) {
    let deadline = Instant::now() + PATIENCE;
    while state_of(bench, name) != state {
        assert!(Instant::now() < deadline, "{}", state_of(bench, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_spare_that_was_plugged_in_again_is_taken_back() {
    let mut bench = Bench::new(Level::Raid5, 3);
    let device = add_spare(&bench, "spare.img");
    wait_for_state(&bench, "spare.img", "spare");
    bench.watch.look(vec![device.clone()]);
    assert_eq!(bench.told(), [""; 0], "the array has it");
    bench.served.post("/v1/members/spare.img/fail").unwrap();
    wait_for_state(&bench, "spare.img", "failed");
    let again = bench.device("spare.img", 2);
    (0..bench.watch.tries_max).for_each(|_| bench.watch.look(vec![again.clone()]));
    assert_eq!(bench.told(), ["drive-taken"], "once");
    wait_for_state(&bench, "spare.img", "spare");
}

/// The next server finds it by its note; here the spare was removed behind the array's back.
#[test]
fn a_spare_of_the_array_is_taken_at_its_start_unless_it_was_removed_by_an_order() {
    let mut bench = Bench::new(Level::Raid5, 3);
    let device = add_spare(&bench, "spare.img");
    wait_for_state(&bench, "spare.img", "spare");
    let last = bench.served.status().members.len() - 1;
    bench.watch.remove(MemberId(last as u8)).unwrap();
    let look = |bench: &mut Bench| {
        (0..bench.watch.tries_max).for_each(|_| bench.watch.look(vec![device.clone()]));
    };
    look(&mut bench);
    assert_eq!(bench.told(), ["drive-taken"]);
    wait_for_state(&bench, "spare.img", "spare");
    let done = bench.served.post("/v1/members/spare.img/remove").unwrap();
    assert!(done.text.ends_with("spare.img is removed"), "{}", done.text);
    bench.watch.newcomers.seen.clear();
    look(&mut bench);
    assert_eq!(bench.told(), ["drive-taken"], "no more");
    assert_eq!(state_of(&bench, "spare.img"), "removed");
}

/// The array lets go of a removed drive by itself, perhaps before the order that removed it goes on.
#[test]
fn a_removed_spare_says_no_more_whose_it_is_although_the_array_has_let_go_of_it() {
    let bench = Bench::new(Level::Raid5, 3);
    let device = add_spare(&bench, "spare.img");
    wait_for_state(&bench, "spare.img", "spare");
    let status = bench.served.status();
    let spare = status.members.last().unwrap();
    let before = attached(&bench.served.shared, spare);
    bench.watch.remove(MemberId(spare.id)).unwrap();
    assert!(attached(&bench.served.shared, spare).is_none());
    assert_eq!(forget(&status, spare, before), None);
    let probed = one_to_look(&device.path).unwrap();
    let part = part_of(&probed, &bench.watch.newcomers.uuid);
    assert_eq!(part, Part::Stranger);
}

#[test]
fn a_spare_with_new_content_is_not_taken_and_that_is_told_once() {
    let mut bench = Bench::new(Level::Raid5, 3);
    let device = add_spare(&bench, "spare.img");
    wait_for_state(&bench, "spare.img", "spare");
    let last = bench.served.status().members.len() - 1;
    bench.watch.remove(MemberId(last as u8)).unwrap();
    // What a file system of XFS begins with.
    let file = std::fs::OpenOptions::new().write(true).open(&device.path);
    std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), b"XFSB", 0).unwrap();
    (0..2 * bench.watch.tries_max).for_each(|_| bench.watch.look(vec![device.clone()]));
    assert_eq!(bench.told(), ["spare-refused"]);
    assert_eq!(state_of(&bench, "spare.img"), "removed");
}

#[test]
fn a_spare_that_has_no_note_gets_one() {
    let bench = Bench::new(Level::Raid5, 3);
    let device = add_spare(&bench, "spare.img");
    wait_for_state(&bench, "spare.img", "spare");
    let part = || {
        let probed = one_to_look(&device.path).unwrap();
        part_of(&probed, &bench.watch.newcomers.uuid)
    };
    let drives = bench.served.shared.drives();
    let spare = drives.last().cloned().flatten().unwrap();
    container::spare_note::erase(&spare).unwrap();
    assert_eq!(part(), Part::Stranger);
    noted::note_all(&bench.served.shared, bench.served.spares.record_at_start());
    assert_eq!(part(), Part::Spare);
    drop(drives);
}

/// Another drive may have taken the path since it was looked at.
#[test]
fn a_drive_that_is_no_former_member_is_not_taken_back() {
    let bench = Bench::new(Level::Raid5, 3);
    let other = Bench::new(Level::Raid5, 4);
    bench.fail("d1.img");
    other.fail("d3.img");
    let path = other.device("d3.img", 1).path;
    let refusal = || {
        let refused = bench.served.spares.take_back(&bench.served.shared, &path);
        refused.unwrap_err().sentence
    };
    let deadline = Instant::now() + PATIENCE;
    let mut sentence = refusal();
    // The other array lets go of its failed drive a moment later.
    while sentence.contains("in use") && Instant::now() < deadline {
        sentence = refusal();
    }
    let before = std::fs::read(&path).unwrap();
    let sentence = refusal();
    assert!(
        sentence.ends_with("is not just an older state of the array"),
        "{sentence}"
    );
    assert!(before == std::fs::read(&path).unwrap());
}

#[test]
fn a_drive_of_another_array_is_none_of_ours() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.fail("d1.img");
    let device = bench.device("other.img", 1);
    let file = std::fs::File::create(&device.path).unwrap();
    file.set_len(64 << 20).unwrap();
    in_same_bay::make_member_of_other_array(&device.path);
    bench.watch.look(vec![device]);
    assert_eq!(bench.told(), [""; 0]);
}
