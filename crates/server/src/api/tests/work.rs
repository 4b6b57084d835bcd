//! Background work: scrubs, their limits and pauses, and how they end.

use super::*;
use crate::api::schema::RateRequest;

fn limit(served: &Served, bytes_per_s: u64) {
    let request = RateRequest { bytes_per_s };
    let _: Done = served
        .client()
        .send(Method::PUT, "/v1/rate", &request)
        .unwrap();
}

#[test]
fn a_scrub_runs_to_its_end_and_finds_nothing() {
    let served = Served::new(Level::Raid5, 3);
    served.post("/v1/volumes/v/scrub").unwrap();
    let end = served.wait_for_event("job-ended");
    assert_eq!(end.event.text, "volume v: check finished");
    assert_eq!(end.event.volume.as_deref(), Some("v"));
    assert!(!end.event.warning);
    served.wait_until("the end", |status| status.volumes[0].job.is_none());
}

#[test]
fn background_work_is_limited_paused_resumed_and_given_up() {
    let served = Served::new(Level::Raid5, 3);
    let client = served.client();
    let (code, sentence, _) = refusal(served.post("/v1/volumes/v/pause"));
    assert_eq!(
        (code, sentence.as_str()),
        (409, "volume v has no background work")
    );
    limit(&served, 1 << 20);
    served.post("/v1/volumes/v/scrub").unwrap();
    assert_eq!(refusal(served.post("/v1/volumes/v/scrub")).0, 409);
    let job = served.volume().job.unwrap();
    assert_eq!((job.kind.as_str(), job.total_bytes), ("check", 32 << 20));
    served.post("/v1/volumes/v/pause").unwrap();
    let job = served.volume().job.unwrap();
    assert!(job.paused && !job.running);
    served.post("/v1/volumes/v/resume").unwrap();
    assert!(!served.volume().job.unwrap().paused);
    let done: Done = client.order(Method::DELETE, "/v1/volumes/v/job").unwrap();
    assert_eq!(done.text, "the check of v is cancelled");
    assert!(served.volume().job.is_none());
    let (code, sentence, _) = refusal(client.order::<Done>(Method::DELETE, "/v1/volumes/v/job"));
    assert_eq!(
        (code, sentence.as_str()),
        (409, "volume v has no background work")
    );
}

#[test]
fn a_rebuild_cannot_be_given_up_and_a_slow_one_can_be_watched() {
    let served = Served::new(Level::Raid1, 2);
    let client = served.client();
    limit(&served, 1 << 20);
    served.post("/v1/members/M1/fail").unwrap();
    let done = served.add_spare("ram:64m,serial=NEW", false).unwrap();
    assert!(
        done.text.ends_with("and volume v rebuilds slot 1 onto it"),
        "{}",
        done.text
    );
    let status = served.wait_until("progress", |status| {
        status.volumes[0]
            .job
            .as_ref()
            .is_some_and(|job| job.done_bytes > 0)
    });
    let job = status.volumes[0].job.as_ref().unwrap();
    assert_eq!(job.kind, "rebuild");
    assert!(job.running && job.done_bytes < job.total_bytes);
    assert_eq!(status.volumes[0].slots[1].state, "rebuilding");
    let (code, sentence, _) = refusal(client.order::<Done>(Method::DELETE, "/v1/volumes/v/job"));
    assert_eq!(code, 409);
    assert!(
        sentence.contains("cannot be cancelled; `pause` halts it"),
        "{sentence}"
    );
    limit(&served, 0);
    served.wait_until("redundancy", |status| status.volumes[0].state == "optimal");
}
