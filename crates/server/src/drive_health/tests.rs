//! A served array whose drives report what the test says.

use super::asking::{ASK_EVERY, Answer, Hope, NotKnown, Report, SILENT_AFTER};
use super::*;
use crate::events::Told;
use crate::status::{DriveHealth, MemberStatus};
use crate::testing::{PATIENCE, Served};
use drives::nvme::{HEALTH_BYTES, Health, Limits};
use engine::options::Options;
use engine::units::Nanos;
use metadata::imsm::Level;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

/// What drives report, by their serial; a drive that is not listed reports that it is well.
type Reports = Arc<Mutex<BTreeMap<String, Answer>>>;

/// An array on memory, its watch, and what the watch has told.
struct Bench {
    served: Served,
    watch: Watch,
    reports: Reports,
    told: Arc<Mutex<Vec<Told>>>,
    now: Instant,
}

fn report(critical_warning: u8) -> Answer {
    let mut health = Health::decode(&[0; HEALTH_BYTES]);
    health.critical_warning = critical_warning;
    (health.celsius, health.available_spare_percent) = (40, 100);
    Ok(Report {
        health,
        limits: Limits::default(),
    })
}

impl Bench {
    fn new(level: Level, members: usize) -> Bench {
        let reports = Reports::default();
        let asked = reports.clone();
        let ask = move |drive: &Drive, _: Option<Limits>| {
            let reports = asked.lock().unwrap();
            reports.get(drive.serial()).cloned().unwrap_or(report(0))
        };
        Bench::asking(level, members, Arc::new(ask), reports)
    }

    fn asking(level: Level, members: usize, ask: Ask, reports: Reports) -> Bench {
        Bench::on(Served::new(level, members), ask, reports)
    }

    fn on(served: Served, ask: Ask, reports: Reports) -> Bench {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tell = Arc::new(move |event| heard.lock().unwrap().push(event));
        Bench {
            watch: Watch::new(served.shared.clone(), tell, ask, true),
            served,
            reports,
            told,
            now: Instant::now(),
        }
    }

    /// From now on the drive sets these bits of its critical warning.
    fn warns(&self, serial: &str, bits: u8) {
        let mut reports = self.reports.lock().unwrap();
        reports.insert(serial.to_owned(), report(bits));
    }

    /// Lets a minute pass, and waits until `wanted` holds for the health of this drive.
    fn pass(&mut self, serial: &str, wanted: impl Fn(&DriveHealth) -> bool) {
        self.now += ASK_EVERY;
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.watch.look(self.now);
            let health = self.member(serial).health;
            if wanted(&health) && self.is_answered() {
                return;
            }
            assert!(Instant::now() < deadline, "{health:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether no question is open.
    fn is_answered(&self) -> bool {
        let drives = self.watch.drives.iter().flatten();
        drives.into_iter().all(|(asked, _)| !asked.is_open())
    }

    fn member(&self, serial: &str) -> MemberStatus {
        let status = self.served.shared.status();
        let mut members = status.members.iter();
        members.find(|one| one.serial == serial).unwrap().clone()
    }

    /// The kinds of events about health so far.
    fn told(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter().map(|told| told.kind.clone()).collect()
    }
}

fn is(state: &'static str) -> impl Fn(&DriveHealth) -> bool {
    move |health| health.state == state
}

#[test]
fn a_warning_is_told_once_and_again_when_it_is_gone() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.pass("M1", is("good"));
    assert_eq!(bench.told(), [""; 0]);
    bench.warns("M1", 0b10);
    bench.pass("M1", is("warning"));
    bench.pass("M1", is("warning"));
    assert_eq!(bench.told(), ["drive-hot"], "once");
    assert_eq!(bench.member("M1").health.warnings, ["hot"]);
    assert_eq!(bench.member("M0").health.state, "good");
    bench.warns("M1", 0);
    bench.pass("M1", is("good"));
    bench.pass("M1", is("good"));
    assert_eq!(bench.told(), ["drive-hot", "drive-warning-resolved"]);
    let log = bench.member("M1").health.log.unwrap();
    assert_eq!((log.celsius, log.available_spare_percent), (40, 100));
}

#[test]
fn a_drive_that_is_no_nvme_drive_is_not_known_and_asked_once() {
    let (asked, questions) = channel();
    let sender = Mutex::new(asked);
    let ask = move |drive: &Drive, limits| {
        sender.lock().unwrap().send(()).unwrap();
        asking::ask_nvme(drive, limits)
    };
    let mut bench = Bench::asking(Level::Raid1, 2, Arc::new(ask), Reports::default());
    for _ in 0..3 {
        bench.pass("M1", |health| health.not_known.is_some());
    }
    let health = bench.member("M1").health;
    assert_eq!(health.state, "not known");
    assert_eq!(health.not_known.as_deref(), Some("it is a file or memory"));
    assert!(!health.may_report);
    assert_eq!(questions.try_iter().count(), 2, "each drive once");
    assert_eq!(bench.told(), [""; 0]);
}

#[test]
fn a_drive_without_an_answer_holds_up_no_other_and_is_not_good() {
    let (release, hold) = channel::<()>();
    let hold = Mutex::new(hold);
    let ask = move |drive: &Drive, _| {
        if drive.serial() == "M1" {
            // Until the test lets go of it.
            let _ = hold.lock().unwrap().recv();
        }
        report(0)
    };
    let mut bench = Bench::asking(Level::Raid1, 2, Arc::new(ask), Reports::default());
    let look_until = |bench: &mut Bench, what: &dyn Fn(&Bench) -> bool| {
        let deadline = Instant::now() + PATIENCE;
        while !what(bench) {
            assert!(Instant::now() < deadline, "{:?}", bench.member("M1").health);
            bench.watch.look(bench.now);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    look_until(&mut bench, &|bench| {
        bench.member("M0").health.state == "good"
    });
    assert_eq!(bench.member("M1").health.state, "not known");
    bench.now += SILENT_AFTER;
    look_until(&mut bench, &|bench| {
        bench.member("M1").health.not_known.as_deref() == Some("it has not answered for 30s")
    });
    let let_go: Sender<()> = release;
    drop(let_go);
    look_until(&mut bench, &|bench| {
        bench.member("M1").health.state == "good"
    });
}

#[test]
fn a_question_that_fails_is_asked_again() {
    let mut bench = Bench::new(Level::Raid1, 2);
    let refusal = NotKnown {
        why: "the drive refused with NVMe status 0x0002".to_owned(),
        hope: Hope::AskAgain,
    };
    bench
        .reports
        .lock()
        .unwrap()
        .insert("M0".to_owned(), Err(refusal));
    bench.pass("M0", |health| health.not_known.is_some());
    bench.warns("M0", 0);
    bench.pass("M0", is("good"));
}

/// Waits, while the watch looks, until the array has no background work and is whole.
fn settle(bench: &mut Bench) {
    let is_settled = |bench: &Bench| {
        let volume = &bench.served.shared.status().volumes[0];
        volume.job.is_none() && volume.state == "optimal"
    };
    let deadline = Instant::now() + PATIENCE;
    while !is_settled(bench) {
        assert!(Instant::now() < deadline, "{:?}", bench.served.status());
        bench.watch.look(bench.now);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What is in the slots of the volume, by serial.
fn in_slots(bench: &Bench) -> Vec<String> {
    let status = bench.served.status();
    let slots = status.volumes[0].slots.iter();
    let serial = |id: Option<u8>| status.members[usize::from(id.unwrap())].serial.clone();
    slots.map(|slot| serial(slot.member)).collect()
}

#[test]
fn an_unreliable_drive_is_copied_to_a_spare_and_leaves_the_array() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.served.add_spare("ram:64m,serial=S1", false).unwrap();
    bench.pass("S1", is("good"));
    bench.warns("M1", 0b100);
    // It may have left the array already when all others have answered.
    bench.pass("M1", |_| true);
    settle(&mut bench);
    assert_eq!(bench.told(), ["drive-failing", "failing-drive-copied"]);
    assert_eq!(in_slots(&bench), ["M0", "S0", "M2"]);
    assert_eq!(bench.member("M1").state, "removed");
    let text = bench.told.lock().unwrap()[1].text.clone();
    assert!(
        text.contains("reports that it has become unreliable: it is being copied to the spare"),
        "{text}"
    );
    // The next one is copied after that, to the second spare; for a third there is none.
    bench.warns("M0", 0b1000);
    bench.pass("M0", |_| true);
    bench.pass("S0", is("good"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["S1", "S0", "M2"]);
    bench.warns("M2", 0b1);
    bench.pass("M2", is("failing"));
    bench.pass("M2", is("failing"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["S1", "S0", "M2"]);
    assert_eq!(bench.told().last().unwrap(), "drive-failing");
    assert_eq!(bench.told().len(), 5);
}

#[test]
fn a_hot_or_worn_drive_stays_where_it_is() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.warns("M1", 0b1_0010);
    bench.pass("M1", is("warning"));
    bench.pass("M1", is("warning"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "M1", "M2"]);
    assert_eq!(bench.told(), ["drive-hot", "drive-unprotected"]);
}

#[test]
fn a_copy_that_was_cancelled_is_not_begun_again() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    let slowly = crate::api::schema::RateRequest { bytes_per_s: 1 };
    let client = bench.served.client();
    let put = hyper::Method::PUT;
    let _: crate::api::schema::Done = client.send(put, "/v1/rate", &slowly).unwrap();
    bench.warns("M1", 0b100);
    bench.pass("M1", is("failing"));
    assert_eq!(bench.served.volume().job.unwrap().kind, "replace");
    let delete = hyper::Method::DELETE;
    let _: crate::api::schema::Done = client.order(delete, "/v1/volumes/v/job").unwrap();
    bench.pass("M1", is("failing"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "M1", "M2"]);
    assert_eq!(bench.told(), ["drive-failing", "failing-drive-copied"]);
}

/// Waits until a volume that has just lost a drive is whole again, while the watch looks.
fn rebuild(bench: &mut Bench, lost: &str) {
    bench
        .served
        .post(&format!("/v1/members/{lost}/fail"))
        .unwrap();
    bench.served.wait_for_event("spare-activated");
    settle(bench);
}

/// Both spares are equally large, so the engine would take the first.
#[test]
fn a_spare_that_is_about_to_fail_does_not_take_the_place_of_a_failed_drive() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.served.add_spare("ram:64m,serial=S1", false).unwrap();
    bench.warns("S0", 0b100);
    bench.pass("S0", is("failing"));
    rebuild(&mut bench, "M1");
    assert_eq!(in_slots(&bench), ["M0", "S1", "M2"]);
    assert_eq!(bench.member("S0").state, "spare");
    let event = bench.served.wait_for_event("spare-activated").event;
    assert!(!event.warning, "{}", event.text);
}

#[test]
fn a_spare_that_was_about_to_fail_and_is_well_again_is_like_any_other() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.served.add_spare("ram:64m,serial=S1", false).unwrap();
    bench.warns("S0", 0b1000);
    bench.pass("S0", is("failing"));
    bench.warns("S0", 0);
    bench.pass("S0", is("good"));
    rebuild(&mut bench, "M1");
    assert_eq!(in_slots(&bench), ["M0", "S0", "M2"]);
}

#[test]
fn without_another_spare_one_that_is_about_to_fail_is_taken_and_copied_to_the_next() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.warns("S0", 0b100);
    bench.pass("S0", is("failing"));
    rebuild(&mut bench, "M1");
    assert_eq!(in_slots(&bench), ["M0", "S0", "M2"]);
    let event = bench.served.wait_for_event("spare-activated").event;
    let said = "will be rebuilt, although it reports that it is about to fail, because no other spare fits";
    assert!(event.warning && event.text.contains(said), "{}", event.text);
    bench.served.add_spare("ram:64m,serial=S1", false).unwrap();
    bench.pass("S1", is("good"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "S1", "M2"]);
}

/// The array has lost a drive before anybody could ask its spares.
#[test]
fn a_rebuild_at_the_start_waits_until_the_spares_have_said_how_they_are() {
    let specs = (0..3).map(|at| format!("ram:64m,serial=M{at}")).collect();
    let options = Options {
        health_known_within: Nanos(600 * Nanos::SECOND.0),
        ..Options::default()
    };
    let served = Served::with(Level::Raid5, specs, options);
    served.add_spare("ram:64m,serial=S0", false).unwrap();
    served.add_spare("ram:64m,serial=S1", false).unwrap();
    served.post("/v1/members/M1/fail").unwrap();
    served.wait_for_event("failure-recorded");
    assert_eq!(served.volume().state, "degraded");
    let reports = Reports::default();
    let asked = reports.clone();
    let (release, hold) = channel::<()>();
    let hold = Mutex::new(hold);
    let ask = move |drive: &Drive, _: Option<Limits>| {
        if drive.serial() == "S1" {
            // Until the test lets go of it.
            let _ = hold.lock().unwrap().recv();
        }
        let reports = asked.lock().unwrap();
        reports.get(drive.serial()).cloned().unwrap_or(report(0))
    };
    let mut bench = Bench::on(served, Arc::new(ask), reports);
    bench.warns("S0", 0b100);
    let deadline = Instant::now() + PATIENCE;
    while bench.member("S0").health.state != "failing" {
        assert!(Instant::now() < deadline, "{:?}", bench.member("S0").health);
        bench.watch.look(bench.now);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(bench.served.volume().job.is_none(), "S1 has not answered");
    drop(release);
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "S1", "M2"]);
}

#[test]
fn a_spare_that_cannot_be_written_is_never_taken_and_the_event_says_why() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.warns("S0", 0b1000);
    bench.pass("S0", is("failing"));
    bench.served.post("/v1/members/M1/fail").unwrap();
    let event = bench.served.wait_for_event("spare-refused").event;
    let said = format!(
        "volume v: the spare {} does not take slot 1, because it reports that it cannot be written any more, and no other spare \
         fits; add one that is well: `fullstripe add-spare DRIVE`",
        bench.member("S0").name
    );
    assert_eq!(event.text, said);
    assert_eq!(bench.member("S0").state, "spare");
    let status = bench.served.status();
    assert!(
        status
            .health
            .text
            .contains("reports that it cannot be written any more"),
        "{}",
        status.health.text
    );
    bench.served.add_spare("ram:64m,serial=S1", false).unwrap();
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "S1", "M2"]);
}

#[test]
fn no_drive_is_copied_where_rebuilds_wait_for_an_order() {
    let mut bench = Bench::new(Level::Raid5, 3);
    bench.watch.prefail = None;
    bench.served.add_spare("ram:64m,serial=S0", false).unwrap();
    bench.warns("M1", 0b100);
    bench.pass("M1", is("failing"));
    bench.pass("M1", is("failing"));
    settle(&mut bench);
    assert_eq!(in_slots(&bench), ["M0", "M1", "M2"]);
    assert_eq!(bench.told(), ["drive-failing"]);
}
