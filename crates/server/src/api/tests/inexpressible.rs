//! What an operator sees when the metadata cannot express an update.

use super::*;
use container::persist::Persister;

/// A mirror whose record does not list the drive that serves as its second member.
fn with_a_stranger() -> Served {
    let specs = |serials: [&str; 2]| serials.map(|serial| format!("ram:64m,serial={serial}"));
    let mut drives = probe_all(&specs(["M0", "M1"]), Access::Exclusive).unwrap();
    create(Level::Raid1, &mut drives);
    let mut container = assemble(drives, StartOptions::default(), false).unwrap();
    let strangers = probe_all(&specs(["M0", "X1"]), Access::Exclusive).unwrap();
    let (mpb, sector) = (
        container.persister.mpb().clone(),
        container.persister.sector(),
    );
    container.persister = Persister::new(mpb, sector, &strangers, &container.record);
    Served::container(container, Options::default())
}

#[test]
fn writes_that_are_stopped_are_told_of_and_shown_with_the_cause() {
    let served = with_a_stranger();
    let before = served.volume();
    assert_eq!((before.state.as_str(), before.cause), ("optimal", None));
    served.post("/v1/members/M1/fail").unwrap();
    let cause = "the metadata cannot express that a member has failed: \
                 drive number 1 is not in its table of disks";
    let told = served.wait_for_event("not-expressible").event;
    let unchanged = format!("{cause}; what is on the drives stays as it is");
    assert_eq!((told.text, told.warning), (unchanged, true));
    let told = served.wait_for_event("writes-stopped").event;
    assert_eq!((told.volume.as_deref(), told.warning), (Some("v"), true));
    assert!(
        told.text
            .starts_with("volume v: refuses writes from now on, "),
        "{}",
        told.text
    );
    let status = served.wait_until("the state", |status| {
        status.volumes[0].state == "writes stopped"
    });
    let volume = &status.volumes[0];
    assert_eq!(volume.cause.as_deref(), Some(cause));
    assert!(volume.read_only);
    let events: Events = served.client().get("/v1/events").unwrap();
    let count = |kind: &str| {
        let events = events.events.iter();
        events.filter(|event| event.event.kind == kind).count()
    };
    assert_eq!((count("not-expressible"), count("writes-stopped")), (1, 1));
    assert_eq!(count("failure-recorded"), 0);
}
