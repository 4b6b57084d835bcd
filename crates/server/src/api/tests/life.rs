//! A member's life, seen through the API.

use super::*;
use crate::api::schema::ReplaceRequest;

#[test]
fn a_failed_drive_is_removed_and_a_new_one_rebuilt() {
    let served = Served::new(Level::Raid5, 3);
    assert_eq!(served.volume().state, "optimal");
    let done = served.post("/v1/members/M1/fail").unwrap();
    assert!(done.text.ends_with("is failed"), "{}", done.text);
    // The next request already sees the effect of an order.
    let status = served.status();
    assert_eq!(status.volumes[0].state, "degraded");
    assert_eq!(status.volumes[0].slots[1].state, "failed");
    assert_eq!(status.members[1].state, "failed");
    served.post("/v1/members/1/remove").unwrap();
    assert_eq!(served.status().members[1].state, "removed");
    assert_eq!(served.volume().slots[1].state, "missing");
    let done = served.add_spare("ram:64m,serial=NEW", false).unwrap();
    assert_eq!(done.member, Some(3));
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    let status = served.status();
    assert_eq!(status.volumes[0].slots[1].member, Some(3));
    assert_eq!(status.members[3].state, "active");
    let kinds: Vec<String> = served
        .events
        .since(0, 1000)
        .events
        .into_iter()
        .map(|event| event.event.kind)
        .filter(|kind| kind != "dirty-mark")
        .collect();
    let wanted = [
        "member-failed",
        "failure-recorded",
        "spare-activated",
        "job-started",
        "job-ended",
    ];
    assert_eq!(kinds, wanted);
}

#[test]
fn a_spare_at_hand_is_taken_by_itself() {
    let served = Served::new(Level::Raid1, 2);
    let done = served.add_spare("ram:64m,serial=SPARE", false).unwrap();
    assert!(done.text.ends_with(" is a spare now"), "{}", done.text);
    assert_eq!(served.status().members[2].state, "spare");
    served.post("/v1/members/M0/fail").unwrap();
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    assert_eq!(served.volume().slots[0].member, Some(2));
}

#[test]
fn a_drive_in_service_is_replaced_by_one_added_for_it() {
    let served = Served::new(Level::Raid10, 4);
    let client = served.client();
    let request = ReplaceRequest {
        slot: 2,
        with: "ram:64m,serial=NEW".to_owned(),
        force: false,
    };
    let done: Done = client
        .send(Method::POST, "/v1/volumes/v/replace", &request)
        .unwrap();
    assert_eq!(done.member, Some(4));
    served.wait_until("the new drive", |status| {
        status.volumes[0].slots[2].member == Some(4)
    });
    let status = served.status();
    assert_eq!(status.volumes[0].state, "optimal");
    assert_eq!(status.members[2].state, "removed");
    // A spare that has joined before is named like any drive.
    served.add_spare("ram:64m,serial=OTHER", false).unwrap();
    let request = ReplaceRequest {
        slot: 0,
        with: "OTHER".to_owned(),
        force: false,
    };
    let _: Done = client
        .send(Method::POST, "/v1/volumes/v/replace", &request)
        .unwrap();
    served.wait_until("the spare", |status| {
        status.volumes[0].slots[0].member == Some(5)
    });
}

#[test]
fn a_drive_with_a_members_record_is_added_by_force_only() {
    let folder = TempDir::new().unwrap();
    let path = |at| {
        folder
            .path()
            .join(format!("d{at}.img"))
            .display()
            .to_string()
    };
    for at in 0..3 {
        std::fs::File::create(path(at))
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
    }
    let served = Served::on(Level::Raid5, (0..3).map(path).collect());
    served.post("/v1/members/d2.img/fail").unwrap();
    let (code, sentence, protects) = refusal(served.add_spare(&path(2), false));
    assert_eq!((code, protects), (409, true), "{sentence}");
    assert!(
        sentence.contains("is in this array already (v:2, failed); `fullstripe remove "),
        "{sentence}"
    );
    served.post("/v1/members/d2.img/remove").unwrap();
    let copy = folder.path().join("copy.img").display().to_string();
    std::fs::copy(path(2), &copy).unwrap();
    let (code, sentence, protects) = refusal(served.add_spare(&copy, false));
    assert_eq!((code, protects), (409, true), "{sentence}");
    let wanted = "(volume v); --force takes it all the same";
    assert!(sentence.ends_with(wanted), "{sentence}");
    served.add_spare(&copy, true).unwrap();
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
    assert_eq!(served.volume().slots[2].member, Some(3));
}
