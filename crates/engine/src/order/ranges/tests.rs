use super::*;
use crate::claims::Claims;
use crate::units::ShardId;

/// The table of a shard that is alone.
fn ranges() -> Ranges {
    Ranges::new(Claimer::of(Claims::new(), ShardId(0), 0))
}

fn part(ranges: &mut Ranges, band: u64, low: u32, high: u32) -> u32 {
    let part = ranges.parts.take().unwrap();
    ranges.parts[part].low = low;
    ranges.parts[part].high = high;
    ranges.enqueue(BandKey { volume: 0, band }, part);
    part
}

#[test]
fn locks_conflict_by_range_and_chunk() {
    let mut ranges = ranges();
    part(&mut ranges, 5, 0, 4096);
    let entry = ranges.next_ready().unwrap();
    let lock = ranges.lock(entry, 1, 4096, 8192);
    assert!(ranges.is_locked(entry, 1, 0, 4097));
    assert!(!ranges.is_locked(entry, 1, 0, 4096));
    assert!(!ranges.is_locked(entry, 0, 4096, 8192));
    assert!(ranges.is_locked(entry, ALL_CHUNKS, 4096, 8192));
    ranges.unlock(lock);
    assert!(!ranges.is_locked(entry, 1, 0, 8192));
}

#[test]
fn a_plan_gives_a_quiet_lock_back_and_wakes_what_came_meanwhile() {
    let mut ranges = ranges();
    let key = BandKey { volume: 0, band: 7 };
    let lock = ranges.lock_if_quiet(key, ALL_CHUNKS, 0, 4096).unwrap();
    assert_eq!(ranges.key_of_lock(lock), key);
    let waiting = part(&mut ranges, 7, 0, 512);
    let entry = ranges.next_ready().unwrap();
    assert!(ranges.is_locked(entry, 0, 0, 512));
    ranges.looked_at(entry);
    assert!(ranges.next_ready().is_none());
    assert_eq!(ranges.unlock(lock), key);
    assert_eq!(ranges.next_ready(), Some(entry));
    assert_eq!(ranges.first_waiting(entry), waiting);
    assert!(!ranges.is_locked(entry, 0, 0, 512));
    assert_eq!(ranges.locks_held(), 0);
}

#[test]
fn queue_keeps_order_and_band_disappears_when_empty() {
    let mut ranges = ranges();
    let (a, b, c) = (
        part(&mut ranges, 9, 0, 1),
        part(&mut ranges, 9, 0, 1),
        part(&mut ranges, 9, 0, 1),
    );
    let entry = ranges.next_ready().unwrap();
    assert!(ranges.next_ready().is_none(), "one band, looked at once");
    assert_eq!(ranges.first_waiting(entry), a);
    ranges.unlink(entry, a, b);
    ranges.unlink(entry, NONE, a);
    assert_eq!(ranges.first_waiting(entry), c);
    ranges.parts[a].next = b;
    ranges.requeue(BandKey { volume: 0, band: 9 }, a);
    let again = ranges.next_ready().unwrap();
    let mut order = Vec::new();
    let mut at = ranges.first_waiting(again);
    while at != NONE {
        order.push(at);
        at = ranges.parts[at].next;
    }
    assert_eq!(order, [a, b, c]);
    for part in order {
        ranges.unlink(again, NONE, part);
        ranges.parts.give(part);
    }
    assert_eq!(entry, again);
    ranges.looked_at(again);
    assert_eq!(ranges.bands(), 0);
}

#[test]
fn many_bands_share_buckets() {
    let mut ranges = ranges();
    let parts: Vec<u32> = (0..PARTS_MAX as u64)
        .map(|i| part(&mut ranges, i << 20, 0, 1))
        .collect();
    assert_eq!(ranges.bands(), PARTS_MAX);
    assert!(ranges.parts.take().is_none());
    while let Some(entry) = ranges.next_ready() {
        let part = ranges.first_waiting(entry);
        ranges.unlink(entry, NONE, part);
        ranges.looked_at(entry);
    }
    parts.into_iter().for_each(|part| ranges.parts.give(part));
    assert_eq!(ranges.bands(), 0);
}

const BAND: BandKey = BandKey { volume: 0, band: 5 };

#[test]
fn quiet_locks_keep_each_other_and_queues_off() {
    let mut ranges = ranges();
    let first = ranges.lock_if_quiet(BAND, 1, 0, 4096).unwrap();
    assert!(ranges.lock_if_quiet(BAND, 1, 0, 512).is_none());
    let second = ranges.lock_if_quiet(BAND, 1, 4096, 8192).unwrap();
    let third = ranges.lock_if_quiet(BAND, 0, 0, 4096).unwrap();
    assert_eq!(ranges.bands(), 0, "nothing waits, so there is no queue");

    let waiting = part(&mut ranges, 5, 0, 8192);
    let entry = ranges.next_ready().unwrap();
    assert!(ranges.is_locked(entry, 1, 0, 8192));
    assert!(!ranges.is_locked(entry, 1, 8192, 12288));
    ranges.looked_at(entry);
    assert!(
        ranges.lock_if_quiet(BAND, 1, 8192, 12288).is_none(),
        "not past waiting parts"
    );

    for lock in [second, first] {
        ranges.unlock_quiet(lock);
        assert_eq!(
            ranges.next_ready(),
            Some(entry),
            "the queue is looked at again"
        );
        ranges.looked_at(entry);
    }
    assert!(!ranges.is_locked(entry, 1, 0, 8192));
    assert!(ranges.is_locked(entry, ALL_CHUNKS, 0, 8192));
    ranges.unlink(entry, NONE, waiting);
    ranges.unlock_quiet(third);
    let entry = ranges.next_ready().unwrap();
    ranges.looked_at(entry);
    assert_eq!(ranges.bands(), 0);
}

#[test]
fn a_quiet_lock_becomes_an_ordinary_one() {
    let mut ranges = ranges();
    let (one, two) = (
        ranges.lock_if_quiet(BAND, 0, 0, 4096).unwrap(),
        ranges.lock_if_quiet(BAND, 0, 4096, 8192).unwrap(),
    );
    let lock = ranges.lock_in_band(one);
    assert_eq!(ranges.bands(), 1);
    assert!(ranges.lock_if_quiet(BAND, 0, 8192, 12288).is_none());
    ranges.unlock_quiet(two);
    let entry = ranges.next_ready().unwrap();
    assert!(ranges.is_locked(entry, 0, 0, 4096));
    assert!(!ranges.is_locked(entry, 0, 4096, 8192));
    ranges.looked_at(entry);
    assert_eq!(ranges.unlock(lock), BAND);
    assert_eq!(ranges.bands(), 0);
    assert!(ranges.lock_if_quiet(BAND, 0, 0, 4096).is_some());
}
