//! A spare says on the drive whose spare it is, and other drives do not.

use super::*;
use crate::gather::{Device, Here, Look, Part};
use crate::open::one_to_look;
use crate::spare_note::{container_noted, erase, write};
use metadata::imsm::Uuid;
use metadata::imsm::notes::Notes;

/// The array's record, and the path of the drive that is none of its members.
fn array(bench: &Bench) -> (Mpb, String) {
    let record = bench.open(1)[0].found.clone().unwrap().unwrap().mpb;
    let path = bench.folder.path().join(format!("d{}.img", bench.count));
    (record, path.display().to_string())
}

fn open(path: &str) -> Probed {
    probe_all(&[path.to_owned()], Access::Exclusive)
        .unwrap()
        .remove(0)
}

/// As `add-spare` does it.
pub(super) fn make_spare(path: &str, array: &Mpb) {
    let probed = open(path);
    write(&probed.drive, array).unwrap();
    let drive = NewDrive {
        serial: probed.serial,
        total_sectors: probed.placement.total_sectors(),
    };
    let record = Mpb::spare(&drive, probed.sector).unwrap();
    write_record(&record, &[&probed]).unwrap();
}

fn noted(path: &str) -> Option<Uuid> {
    container_noted(&one_to_look(path).unwrap())
}

#[test]
fn a_spare_says_whose_it_is_until_that_is_erased() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let (mpb, path) = array(&bench);
    let ours = Uuid::of_container(&mpb);
    assert_eq!(noted(&path), None);
    make_spare(&path, &mpb);
    assert_eq!(noted(&path), Some(ours));
    // It is found as the spare of its array when the array is gathered, and of no other.
    let part = |uuid: &str| {
        let here = Here {
            uuid: uuid.to_owned(),
            accepted: StartOptions::default(),
        };
        let (path, sequence) = (path.clone(), None);
        let answer = here.ask(&Device { path, sequence }).unwrap();
        answer.recv().unwrap().unwrap()
    };
    assert_eq!(part(&ours.to_string()), Part::Spare);
    assert_eq!(part("1:2:3:4"), Part::Stranger);
    erase(&open(&path).drive).unwrap();
    assert_eq!(noted(&path), None);
    assert_eq!(part(&ours.to_string()), Part::Stranger);
}

#[test]
fn a_note_without_the_record_of_a_spare_says_nothing() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let (mpb, path) = array(&bench);
    write(&open(&path).drive, &mpb).unwrap();
    assert_eq!(noted(&path), None);
    make_spare(&path, &mpb);
    let probed = open(&path);
    write_record(&mpb, &[&probed]).unwrap();
    drop(probed);
    assert_eq!(noted(&path), None, "it has become a member");
}

#[test]
fn a_note_on_a_copy_says_nothing() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let (mpb, path) = array(&bench);
    make_spare(&path, &mpb);
    let copy = bench.folder.path().join("copy.img");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(noted(&copy.display().to_string()), None);
}

#[test]
fn newer_notes_of_a_member_say_more_than_that_it_was_a_spare() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let (mpb, path) = array(&bench);
    make_spare(&path, &mpb);
    let put = |sequence, version: u8| {
        let notes = Notes {
            container_family: mpb.container_family(),
            sequence,
            text: b"[]".to_vec(),
        };
        let probed = open(&path);
        let mut bytes = notes.encode(probed.sector).unwrap();
        bytes[16] = version;
        let place = probed.placement.notes()[notes.copy()];
        probed.drive.write_at(place.offset_bytes, &bytes).unwrap();
    };
    put(1, 1);
    assert_eq!(noted(&path), None);
    // When it is added as a spare again, all of them are gone.
    make_spare(&path, &mpb);
    assert_eq!(noted(&path), Some(Uuid::of_container(&mpb)));
    put(7, 2);
    let error = write(&open(&path).drive, &mpb).unwrap_err().to_string();
    assert!(error.ends_with("holds notes of a newer version of fullstripe"));
    assert_eq!(noted(&path), None);
}

#[test]
fn a_drive_that_is_there_twice_is_why_an_array_does_not_start() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let folder = bench.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    let here = Here {
        uuid: Uuid::of_container(&array(&bench).0).to_string(),
        accepted: StartOptions::default(),
    };
    let mut drives: Vec<String> = (0..3).map(|at| path(&format!("d{at}.img"))).collect();
    assert!(here.starts(&drives, false).unwrap());
    assert!(!here.starts(&drives[..1], true).unwrap());
    std::fs::create_dir(folder.join("again")).unwrap();
    std::fs::hard_link(folder.join("d1.img"), folder.join("again/d1.img")).unwrap();
    drives.push(path("again/d1.img"));
    let error = here.starts(&drives, true).unwrap_err().to_string();
    assert!(
        error.contains("so they are two paths to one drive"),
        "{error}"
    );
}
