//! Empty and other drives that appear where a drive of the array was. A file is in the bay that the last character of its
//! stem names: `new1.img` in that of `d1.img`.

use super::*;
use crate::newcomers::same_bay::Bays;
use crate::testing::create_of_family;
use container::probe::{parse_spec, probe, probe_all};
use container::write::write_record;
use drives::drive::Access;
use metadata::imsm::Mpb;
use metadata::imsm::build::NewDrive;
use std::os::unix::fs::FileExt;
use std::path::Path;

impl Bench {
    /// An array of three whose drives are in known bays.
    fn in_bays(adopts_empty: bool) -> Bench {
        let mut bench = Bench::new(Level::Raid5, 3);
        bench.watch.newcomers.adopts_empty = adopts_empty;
        bench.watch.bays = Bays::new(Box::new(|path| {
            let stem = Path::new(path).file_stem()?.to_str()?;
            Some(format!("bay {}", stem.chars().next_back()?))
        }));
        bench.watch.look(Vec::new());
        bench
    }

    /// A new file of this length, filled with zeros, as the device that appears.
    fn plugged_in(&self, name: &str, length_bytes: u64) -> Device {
        let file = std::fs::File::create(self.path(name)).unwrap();
        file.set_len(length_bytes).unwrap();
        self.device(name, 7)
    }

    /// Looks so often that a device is given up.
    fn look_until_given_up(&mut self, device: &Device) {
        for _ in 0..self.watch.tries_max {
            self.watch.look(vec![device.clone()]);
        }
    }

    fn text(&self) -> String {
        self.told.lock().unwrap().last().unwrap().text.clone()
    }
}

const LENGTH_BYTES: u64 = 64 << 20;

#[test]
fn an_empty_drive_waits_for_an_order_and_an_event_says_which() {
    let mut bench = Bench::in_bays(false);
    bench.fail("d1.img");
    let device = bench.plugged_in("new1.img", LENGTH_BYTES);
    bench.look_until_given_up(&device);
    assert_eq!(bench.told(), ["empty-drive-appeared"], "once");
    let wanted = format!(
        "{} has appeared, empty, in the bay of the drive with the serial number d1.img, which has failed: \
         `fullstripe add-spare {}` gives it to the array",
        device.path, device.path
    );
    assert_eq!(bench.text(), wanted);
    assert_eq!(bench.served.status().members.len(), 3);
    let content = std::fs::read(&device.path).unwrap();
    assert!(content.iter().all(|&byte| byte == 0), "it was written to");
    // What the event says works.
    bench.served.add_spare(&device.path, false).unwrap();
    bench.is_whole();
}

#[test]
fn an_empty_drive_is_adopted_if_the_settings_say_so() {
    let mut bench = Bench::in_bays(true);
    bench.fail("d1.img");
    let device = bench.plugged_in("new1.img", LENGTH_BYTES);
    bench.look_until_given_up(&device);
    assert_eq!(bench.told(), ["drive-taken"], "once");
    assert!(
        bench.text().contains("volume v rebuilds slot 1 onto it"),
        "{}",
        bench.text()
    );
    bench.is_whole();
    let status = bench.served.status();
    let members = status.members.iter();
    let members: Vec<(&str, &str)> = members.map(|one| (&*one.serial, &*one.state)).collect();
    let wanted = [
        ("d0.img", "active"),
        ("d1.img", "removed"),
        ("d2.img", "active"),
        ("new1.img", "active"),
    ];
    assert_eq!(members, wanted);
    // It has the bay now, and when it fails, the next one takes its place.
    bench.fail("new1.img");
    let next = bench.plugged_in("newer1.img", LENGTH_BYTES);
    bench.look_until_given_up(&next);
    assert_eq!(bench.told(), ["drive-taken", "drive-taken"]);
    bench.is_whole();
}

#[test]
fn a_drive_is_taken_only_when_the_array_has_noticed_that_the_one_before_is_gone() {
    let mut bench = Bench::in_bays(true);
    let device = bench.plugged_in("new1.img", LENGTH_BYTES);
    for _ in 0..3 {
        bench.watch.look(vec![device.clone()]);
    }
    assert_eq!(bench.told(), [""; 0]);
    bench.fail("d1.img");
    bench.look_until_given_up(&device);
    assert_eq!(bench.told(), ["drive-taken"]);
    bench.is_whole();
}

#[test]
fn an_empty_drive_in_another_bay_is_none_of_ours() {
    let mut bench = Bench::in_bays(true);
    bench.fail("d1.img");
    let device = bench.plugged_in("new9.img", LENGTH_BYTES);
    bench.look_until_given_up(&device);
    assert_eq!(bench.told(), [""; 0]);
    assert_eq!(bench.served.status().members.len(), 3);
}

/// Writes the record of a spare, as `create --spare` of any container does.
fn make_spare(path: &str) {
    let probed = probe(parse_spec(path).unwrap(), Access::Exclusive).unwrap();
    let drive = NewDrive {
        serial: probed.serial,
        total_sectors: probed.placement.total_sectors(),
    };
    let record = Mpb::spare(&drive, probed.sector).unwrap();
    write_record(&record, &[&probed]).unwrap();
}

/// Writes the record of an array that is not the one of the tests.
pub fn make_member_of_other_array(path: &str) {
    let twin = format!("{path}.twin");
    std::fs::copy(path, &twin).unwrap();
    let specs = [path.to_owned(), twin];
    let mut drives = probe_all(&specs, Access::Exclusive).unwrap();
    create_of_family(0xF00D, Level::Raid1, &mut drives);
}

/// Writes bytes to a file, at these offsets.
fn scribble(path: &str, pieces: &[(u64, &[u8])]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for (offset, bytes) in pieces {
        file.write_all_at(bytes, *offset).unwrap();
    }
}

/// Writes what a drive is to hold to the file with this path.
type Fill<'a> = &'a dyn Fn(&str);

/// The array takes no drive from which something could be lost, whatever it is.
#[test]
fn a_drive_with_any_content_is_left_alone_and_an_event_says_what_it_holds() {
    let partition = [0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0];
    let partitions = |path: &str| scribble(path, &[(446, &partition), (510, &[0x55, 0xAA])]);
    let ext2 = |path: &str| scribble(path, &[(1024, &[1]), (1024 + 56, &[0x53, 0xEF])]);
    let lvm = |path: &str| scribble(path, &[(512, b"LABELONE"), (512 + 24, b"LVM2 001")]);
    let kinds: [(Fill<'_>, &str); 5] = [
        (&make_member_of_other_array, "the record of"),
        (&make_spare, "the IMSM record of a spare drive"),
        (&partitions, "partition"),
        (&ext2, "an ext2 file system"),
        (&lvm, "LVM"),
    ];
    for (fill, held) in kinds {
        let mut bench = Bench::in_bays(true);
        bench.fail("d1.img");
        let device = bench.plugged_in("new1.img", LENGTH_BYTES);
        fill(&device.path);
        let before = std::fs::read(&device.path).unwrap();
        bench.watch.look(vec![device.clone()]);
        assert_eq!(bench.told(), ["drive-not-taken"], "{held}");
        let text = bench.text();
        assert!(
            text.contains("it is not taken: it holds") && text.contains(held),
            "{text}"
        );
        // The same holds for what has got there since the drive was looked at.
        let refused = bench
            .served
            .spares
            .add_empty(&bench.served.shared, &device.path);
        let sentence = refused.unwrap_err().sentence;
        assert!(
            sentence.starts_with("it holds") && sentence.contains(held),
            "{sentence}"
        );
        assert!(before == std::fs::read(&device.path).unwrap(), "{held}");
        assert_eq!(bench.served.status().members.len(), 3);
    }
}

#[test]
fn a_drive_that_is_too_small_is_not_taken() {
    let mut bench = Bench::in_bays(true);
    bench.fail("d1.img");
    let device = bench.plugged_in("new1.img", 16 << 20);
    bench.watch.look(vec![device]);
    assert_eq!(bench.told(), ["drive-not-taken"]);
    assert!(
        bench.text().contains("and a drive of this array needs"),
        "{}",
        bench.text()
    );
}

#[test]
fn the_failed_drive_itself_is_not_taken_although_it_was_erased() {
    let mut bench = Bench::in_bays(true);
    bench.fail("d1.img");
    let device = bench.plugged_in("d1.img", LENGTH_BYTES);
    bench.look_until_given_up(&device);
    assert_eq!(bench.told(), ["drive-not-taken"]);
    assert!(
        bench.text().contains("the array had this drive before"),
        "{}",
        bench.text()
    );
    assert_eq!(bench.served.status().members[1].state, "failed");
}
