//! Volumes are found in the containers that can be assembled; the refusal of one that cannot is handed back.

use super::*;
use crate::named::find;
use metadata::imsm::choose::Refusal;

/// Lets each drive of a mirror go on alone, so that the two records contradict each other.
fn diverge(drives: &[Probed]) {
    for (at, other) in [(0, 1), (1, 0)] {
        let mut mpb = drives[at].found.as_ref().unwrap().clone().unwrap().mpb;
        mpb.mark_failed(other).unwrap();
        mpb.generation += 3;
        write_record(&mpb, &[&drives[at]]).unwrap();
    }
}

#[test]
fn a_volume_is_found_by_its_name() {
    let bench = Bench::new(Level::Raid5, 3, 2);
    let drives = bench.open(3);
    for (name, number) in [("one", 0), ("two", 1)] {
        let (assembly, at) = find(name, &drives).unwrap();
        assert_eq!(at, number);
        assert_eq!(assembly.mpb.volumes[at].name.to_string(), name);
    }
    assert_eq!(find("three", &drives).unwrap_err(), None);
    assert_eq!(find("one", &[]).unwrap_err(), None);
}

#[test]
fn a_container_that_cannot_be_assembled_says_why() {
    let bench = Bench::new(Level::Raid1, 2, 1);
    diverge(&bench.open(2));
    for name in ["one", "three"] {
        let refusal = find(name, &bench.open(2)).unwrap_err();
        assert!(matches!(refusal, Some(Refusal::SplitHalves { .. })));
    }
    // Each half alone is a container.
    assert_eq!(find("one", &bench.open(1)).unwrap().1, 0);
}
