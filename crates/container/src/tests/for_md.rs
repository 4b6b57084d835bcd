//! What md could not read or would damage is not given to it.

use super::logs::COMPONENT;
use super::*;
use crate::for_md::check;
use crate::refusal::Refused;
use metadata::imsm::WriteHolePolicy;

fn refusal(bench: &Bench, count: usize, mdadm: Option<(u32, u32)>) -> String {
    let error = check(&bench.open(count), mdadm).unwrap_err();
    error.downcast::<Refused>().expect("a refusal").0
}

#[test]
fn whole_arrays_and_replayable_logs_are_given() {
    for (level, members, volumes) in [
        (Level::Raid5, 3, 1),
        (Level::Raid1, 2, 2),
        (Level::Raid0, 2, 1),
    ] {
        let bench = Bench::new(level, members, volumes);
        assert_eq!(check(&bench.open(members), None).unwrap(), [""; 0]);
    }
    let bench = Bench::crashed(WriteHolePolicy::Log);
    assert_eq!(check(&bench.open(3), None).unwrap(), [""; 0]);
    // A drive that is not here, whether marked failed or not, is no reason.
    let bench = Bench::new(Level::Raid5, 3, 1);
    assert_eq!(check(&bench.open(2), None).unwrap(), [""; 0]);
}

#[test]
fn an_interrupted_log_is_refused() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.put(1, COMPONENT, &[0; 4096]);
    let found = refusal(&bench, 3, None);
    assert!(
        found.contains("log of volume one was being emptied"),
        "{found}"
    );
    assert!(
        found.ends_with("serve it once with fullstripe and stop it, then release it"),
        "{found}"
    );
}

#[test]
fn a_bitmap_that_md_misreads_is_refused() {
    let bench = Bench::with_bitmap(false, [0; 3]);
    let found = refusal(&bench, 3, None);
    assert!(
        found.contains("bitmap of volume one for 64 MiB, but they have 64 KiB"),
        "{found}"
    );
}

#[test]
fn an_interrupted_update_is_refused() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let drives = bench.open(3);
    let mut mpb = bench.mpb(&drives);
    mpb.bump_generation();
    write_record(&mpb, &[&drives[0]]).unwrap();
    drop(drives);
    let found = refusal(&bench, 3, None);
    assert!(
        found.contains("the last update of the metadata of one was interrupted"),
        "{found}"
    );
}

#[test]
fn what_fullstripe_does_not_start_is_refused() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let found = refusal(&bench, 1, None);
    assert!(
        found.starts_with("volume one cannot be given to md"),
        "{found}"
    );
}

#[test]
fn a_large_raid_10_needs_an_mdadm_that_reads_it() {
    let bench = Bench::new(Level::Raid10, 6, 1);
    let found = refusal(&bench, 6, Some((4, 2)));
    assert!(
        found.contains("mdadm here is 4.2; install mdadm 4.4 or newer"),
        "{found}"
    );
    let found = refusal(&bench, 6, None);
    assert!(
        found.contains("is not installed, or does not say its version"),
        "{found}"
    );
    assert_eq!(check(&bench.open(6), Some((4, 4))).unwrap(), [""; 0]);
}
