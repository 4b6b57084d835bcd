//! What the API refuses, and the reasons that it gives.

use super::*;
use crate::api::schema::{RateRequest, ReplaceRequest};
use std::os::unix::fs::FileExt;

#[test]
fn names_that_nothing_has_are_answered_with_what_there_is() {
    let served = Served::new(Level::Raid1, 2);
    let (code, sentence, _) = refusal(served.post("/v1/members/nvme9/fail"));
    assert_eq!(code, 404);
    assert!(
        sentence.starts_with("there is no drive \"nvme9\" in this array; there are RAM"),
        "{sentence}"
    );
    let (code, sentence, _) = refusal(served.post("/v1/volumes/w%2F1/scrub"));
    assert_eq!(code, 404);
    assert_eq!(
        sentence,
        "there is no volume \"w/1\" in this array; there is v"
    );
    let (code, sentence, _) = refusal(served.post("/v1/nothing"));
    assert_eq!(code, 404);
    assert_eq!(
        sentence,
        "there is no /v1/nothing; /v1/openapi.json lists what there is"
    );
    let (code, sentence, _) = refusal(served.post("/v1/status"));
    assert_eq!(code, 405);
    assert_eq!(
        sentence,
        "/v1/status does not take POST; see /v1/openapi.json"
    );
}

#[test]
fn the_last_copy_of_data_is_not_given_up() {
    let served = Served::new(Level::Raid1, 2);
    let (code, sentence, protects) = refusal(served.post("/v1/members/M0/remove"));
    assert_eq!((code, protects), (409, true));
    assert!(
        sentence.ends_with("is in use; `replace` it, or `fail` it first"),
        "{sentence}"
    );
    served.post("/v1/members/M0/fail").unwrap();
    let (code, sentence, _) = refusal(served.post("/v1/members/M0/fail"));
    assert_eq!(code, 409);
    assert!(sentence.ends_with("is failed already"), "{sentence}");
    let (code, sentence, protects) = refusal(served.post("/v1/members/M1/fail"));
    assert_eq!((code, protects), (409, true));
    assert!(
        sentence.contains(" is active and stays so: v (RAID 1, degraded) cannot do without it; "),
        "{sentence}"
    );
    let (code, sentence, _) = refusal(served.post("/v1/volumes/v/scrub"));
    assert_eq!(code, 409);
    assert!(
        sentence
            .starts_with("volume v is not checked: its slot 0 is failed; `fullstripe rebuild v"),
        "{sentence}"
    );
    assert_eq!(served.volume().state, "degraded");
}

#[test]
fn drives_that_cannot_be_spares_are_refused_and_left_alone() {
    let served = Served::new(Level::Raid5, 3);
    let refused = |drive: &str| refusal(served.add_spare(drive, false));
    for (drive, wanted) in [
        ("", "names no drive"),
        ("ram:64m,colour=red", "unknown key \"colour\""),
        ("/nonexistent/d9.img", "/nonexistent/d9.img does not exist"),
        ("/dev", "/dev is a folder"),
    ] {
        let (code, sentence, _) = refused(drive);
        assert_eq!(code, 400, "{drive}: {sentence}");
        assert!(sentence.contains(wanted), "{drive}: {sentence}");
    }
    for (drive, wanted) in [
        (
            "ram:16m,serial=SMALL",
            "has 16 MiB, and a drive of this array needs 34",
        ),
        (
            "ram:64m,serial=LARGE,sector=4096",
            "has sectors of 4096 bytes and the array's drives of 512",
        ),
        (
            "ram:64m,serial=M1",
            "have the same serial number M1; give RAM",
        ),
    ] {
        let (code, sentence, _) = refused(drive);
        assert_eq!(code, 409, "{drive}: {sentence}");
        assert!(sentence.contains(wanted), "{drive}: {sentence}");
    }
    assert_eq!(served.status().members.len(), 3);
}

#[test]
fn a_drive_that_holds_a_file_system_is_refused_without_force() {
    let served = Served::new(Level::Raid5, 3);
    let path = served.folder.path().join("other.img");
    let file = std::fs::File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"XFSB", 0).unwrap();
    // A Linux md superblock near the end, in a place that metadata of a spare would not overwrite.
    let (md_at, md) = ((64 << 20) - 8192, [0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]);
    file.write_all_at(&md, md_at).unwrap();
    let before = std::fs::read(&path).unwrap();
    let drive = path.display().to_string();
    let (code, sentence, protects) = refusal(served.add_spare(&drive, false));
    assert_eq!((code, protects), (409, true), "{sentence}");
    let held = "an XFS file system and a Linux md superblock (version 1.0)";
    let wanted = format!(" holds {held}; --force takes it all the same");
    assert!(sentence.ends_with(&wanted), "{sentence}");
    assert!(
        std::fs::read(&path).unwrap() == before,
        "the refused drive was written to"
    );

    let done = served.add_spare(&drive, true).unwrap();
    let said = format!("; it held {held}, of which a backup is in ");
    let (_, backup) = done.text.split_once(&said).expect(&done.text);
    let backup = std::fs::read(backup).unwrap();
    let holds = |bytes: &[u8], mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
    assert!(holds(&backup, b"XFSB") && holds(&backup, &md));
    let mut left = [1; 4];
    file.read_exact_at(&mut left, md_at).unwrap();
    assert_eq!(
        left, [0; 4],
        "another program would still take the drive for its own"
    );
}

#[test]
fn replacements_that_make_no_sense_are_refused_before_a_drive_is_added() {
    let served = Served::new(Level::Raid5, 3);
    let replace = |slot, with: &str| {
        let request = ReplaceRequest {
            slot,
            with: with.to_owned(),
            force: false,
        };
        let result: anyhow::Result<Done> =
            served
                .client()
                .send(Method::POST, "/v1/volumes/v/replace", &request);
        refusal(result)
    };
    let unknown = replace(3, "ram:64m,serial=NEW");
    assert_eq!(
        unknown,
        (
            404,
            "volume v has no slot 3; it has 0 to 2".to_owned(),
            false
        )
    );
    let (code, sentence, _) = replace(0, "M1");
    assert_eq!(code, 409);
    assert!(
        sentence.ends_with("is active, and only a spare can take a slot"),
        "{sentence}"
    );
    assert_eq!(replace(0, "77").0, 404);
    served.post("/v1/members/M2/fail").unwrap();
    let (code, sentence, _) = replace(2, "ram:64m,serial=NEW");
    assert_eq!(code, 409);
    assert!(
        sentence.starts_with("slot 2 of v is failed; there is nothing to copy"),
        "{sentence}"
    );
    let (code, sentence, _) = replace(0, "ram:64m,serial=NEW");
    assert_eq!(code, 409);
    assert_eq!(
        sentence,
        "volume v is degraded; a drive can be replaced after that is repaired"
    );
    assert_eq!(served.status().members.len(), 3);
}

#[test]
fn bodies_and_parameters_that_are_not_understood_are_bad_input() {
    let served = Served::new(Level::Raid0, 2);
    let client = served.client();
    let put =
        |body: &serde_json::Value| refusal(client.send::<Done>(Method::PUT, "/v1/rate", body));
    for body in [
        serde_json::json!({"bytes_per_s": -1}),
        serde_json::json!({"bytes_per_s": 1, "unit": "MB"}),
        serde_json::json!({}),
        serde_json::json!("x".repeat(100_000)),
    ] {
        let (code, sentence, _) = put(&body);
        assert!(code == 400 || code == 413, "{code} {sentence}");
    }
    assert_eq!(refusal(client.get::<Events>("/v1/events?since=x")).0, 400);
    assert_eq!(refusal(client.get::<Events>("/v1/events?begin=1")).0, 400);
    let request = RateRequest {
        bytes_per_s: 1 << 20,
    };
    let _: Done = client.send(Method::PUT, "/v1/rate", &request).unwrap();
    assert_eq!(served.status().rate_bytes_per_s, 1 << 20);
    let (code, sentence, _) = refusal(served.post("/v1/volumes/v/scrub"));
    assert_eq!(code, 409);
    assert!(sentence.contains("RAID 0 has no redundancy"), "{sentence}");
}

#[test]
fn a_rebuild_of_nothing_or_onto_nothing_is_refused() {
    let rebuild = |served: &Served| refusal(served.post("/v1/volumes/v/rebuild"));
    let served = Served::new(Level::Raid1, 2);
    let sentence = "volume v is optimal, and there is nothing to rebuild".to_owned();
    assert_eq!(rebuild(&served), (409, sentence, false));
    served.post("/v1/members/M0/fail").unwrap();
    served.wait_until("degraded", |status| status.volumes[0].state == "degraded");
    let (code, sentence, _) = rebuild(&served);
    assert_eq!(code, 409);
    assert!(sentence.contains("there is no spare"), "{sentence}");
    let served = Served::new(Level::Raid0, 2);
    let (code, sentence, _) = rebuild(&served);
    assert_eq!(code, 409);
    assert!(sentence.contains("RAID 0 has no redundancy"), "{sentence}");
}

/// The rebuild that begins by itself with a spare may end while the order to rebuild comes.
#[test]
fn a_rebuild_that_ends_at_that_moment_is_no_error() {
    let served = Served::new(Level::Raid1, 2);
    for round in 0..4 {
        let failing = served.volume().slots[0].member.expect("a member");
        let path = format!("/v1/members/{failing}/fail");
        served.post(&path).unwrap();
        let spare = format!("ram:64m,serial=NEW{round}");
        served.add_spare(&spare, false).unwrap();
        loop {
            let Err(error) = served.post("/v1/volumes/v/rebuild") else {
                continue;
            };
            let (code, sentence, _) = refusal::<Done>(Err(error));
            assert_eq!(code, 409);
            assert_eq!(
                sentence,
                "volume v is optimal, and there is nothing to rebuild"
            );
            break;
        }
    }
}

#[test]
fn an_array_that_is_being_stopped_takes_no_spares() {
    let served = Served::new(Level::Raid1, 2);
    let path = served.folder.path().join("new.img");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    let before = std::fs::read(&path).unwrap();
    let stop = engine::control::message::Command::Stop;
    served.shared.command(stop).unwrap();
    let (code, sentence, _) = refusal(served.add_spare(&path.display().to_string(), false));
    assert_eq!(code, 409);
    assert!(
        sentence.ends_with("is not added: the array is being stopped"),
        "{sentence}"
    );
    assert!(
        std::fs::read(&path).unwrap() == before,
        "the refused drive was written to"
    );
}
