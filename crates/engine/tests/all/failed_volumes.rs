//! What a volume that has lost more members than it survives still writes: nothing if its level has redundancy, and
//! nothing before the record says that this session writes. The record is not updated for such a volume, and without
//! the update an old copy of a drive could not be recognised.

use crate::memory::marks::with_bitmap;
use crate::memory::{Array, geometry, record};
use engine::control::record::Record;
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::{Failure, Operation};
use engine::units::{Nanos, VolumeId};

const ENODEV: i32 = 19;
const CHUNK_BYTES: u32 = 16 << 10;
const REGION_BYTES: u64 = 64 << 10;

fn array(record: Record, clean_after_ms: u64) -> Array {
    let options = Options {
        clean_after: Nanos(clean_after_ms * Nanos::MILLISECOND.0),
        ..Options::default()
    };
    Array::new(record, 2, 5, options)
}

/// Makes the members of the volume's second chunk fail.
fn lose_the_second_chunk(array: &mut Array) {
    let members = match array.shape.level {
        Level::Raid10 => 2..4,
        _ => 1..2,
    };
    for member in members {
        let refuses_all = |_: StepKind| true;
        array.shared.borrow_mut().disks[member].refusal = Some((refuses_all, ENODEV, usize::MAX));
    }
    let answer = array.read(0, u64::from(CHUNK_BYTES), 4096);
    assert!(matches!(answer, Err(Failure::Unrecoverable { .. })));
    array.run_until(|array| array.has_event(|by| *by == Event::VolumeFailed(VolumeId(0))));
    array.wait_ms(1);
}

/// Everything on the drives of the first chunk.
fn first_chunk(array: &Array) -> Vec<u8> {
    array.shared.borrow().disks[0].bytes.clone()
}

/// Submits each kind of change, at an offset whose data are on the first chunk's drives.
fn change(array: &mut Array, offset_bytes: u64) -> Vec<Result<(), Failure>> {
    let all = [
        Operation::Write,
        Operation::WriteZeroes {
            keep_allocated: true,
            only_if_fast: false,
        },
        Operation::Trim,
    ];
    let ask = |operation| {
        let buffer = array.allocate(4096);
        array.fill(buffer, &[7; 4096]);
        let tag = array.submit(1, operation, offset_bytes, 4096, buffer);
        array.finish(tag)
    };
    all.map(ask).to_vec()
}

fn assert_refused(array: &mut Array, offset_bytes: u64) {
    let before = first_chunk(array);
    for answer in change(array, offset_bytes) {
        assert_eq!(answer, Err(Failure::Unrecoverable { offset_bytes }));
    }
    array.wait_ms(1000);
    assert!(first_chunk(array) == before, "something was written");
}

#[test]
fn a_failed_volume_is_not_written_to_before_the_record_says_that_this_session_writes() {
    for (level, members) in [(Level::Raid0, 3), (Level::Raid10, 4)] {
        let shape = geometry(level, members, CHUNK_BYTES, 24);
        let mut array = array(record(shape, 0, None), 100);
        lose_the_second_chunk(&mut array);
        assert_refused(&mut array, 0);
    }
}

#[test]
fn a_failed_volume_with_redundancy_is_not_written_to() {
    for bitmap in [false, true] {
        for waits_until_clean in [false, true] {
            let shape = geometry(Level::Raid10, 4, CHUNK_BYTES, 24);
            let mut record = record(shape, 0, None);
            if bitmap {
                record = with_bitmap(record, REGION_BYTES, &[0; 4]);
            }
            let mut array = array(record, if waits_until_clean { 20 } else { 10_000 });
            array.write(0, 0, &[1; 4096]).expect("a write");
            if waits_until_clean {
                let is_clean =
                    |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
                array.run_until(|array| array.has_event(is_clean));
            }
            lose_the_second_chunk(&mut array);
            assert_refused(&mut array, 8192);
            assert_refused(&mut array, REGION_BYTES);
        }
    }
}

#[test]
fn a_raid_0_that_has_been_written_to_goes_on_where_drives_are_left() {
    let mut array = array(
        record(geometry(Level::Raid0, 3, CHUNK_BYTES, 24), 0, None),
        100,
    );
    array.write(0, 0, &[1; 4096]).expect("a write");
    lose_the_second_chunk(&mut array);
    array.write(1, 8192, &[2; 4096]).expect("a write");
    assert_eq!(array.read(0, 8192, 4096), Ok(vec![2; 4096]));
}
