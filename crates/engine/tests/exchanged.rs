//! A drive takes the place of one that failed while writes waited for it: what they had for the old drive is
//! not for the new one.

mod memory;

use engine::control::record::LogArea;
use engine::event::{Event, JobName};
use engine::layout::Level;
use engine::request::Operation;
use engine::shard::Options;
use engine::units::Nanos;
use memory::{Array, MIB, geometry, record};

/// The first write's unit hangs with the drive that holds the row's parity; the others wait for the next one.
#[test]
fn what_waits_for_a_log_is_not_logged_on_the_next_drive() {
    for waiting in 1..6 {
        let shape = geometry(Level::Raid5, 3, 64 << 10, 24);
        let mut shelf = record(shape, 1, None);
        shelf.volumes[0].log = Some(LogArea {
            offset_bytes: shape.start_bytes + shape.component_bytes,
            length_bytes: MIB as u32,
        });
        let options = Options {
            auto_rebuild: true,
            member_deadline: Nanos(300 * Nanos::MILLISECOND.0),
            ..Options::default()
        };
        let mut array = Array::new(shelf, 1, 3, options);
        array.write(0, 0, &[1; 4096]).unwrap();
        let row = 1;
        let parity = shape.parity_slot(row).unwrap();
        array.hang(usize::from(parity.0));
        let tags: Vec<u64> = (0..=waiting)
            .map(|at| {
                let buffer = array.allocate(4096);
                array.fill(buffer, &[2 + at as u8; 4096]);
                let offset_bytes = row * shape.row_bytes() + at * 8192;
                let tag = array.submit(0, Operation::Write, offset_bytes, 4096, buffer);
                array.wait_ms(1);
                tag
            })
            .collect();
        let ended = |event: &Event| {
            matches!(
                event,
                Event::JobEnded {
                    job: JobName::Rebuild,
                    complete: true,
                    ..
                }
            )
        };
        array.run_until(|array| array.has_event(ended));
        for tag in tags {
            assert_eq!(array.finish(tag), Ok(()));
        }
        assert!(
            array.shared.borrow().last_logged(parity).is_empty(),
            "{waiting}: the new drive's log is about what it never was told"
        );
        for at in 0..=waiting {
            let found = array.read(0, row * shape.row_bytes() + at * 8192, 4096);
            assert_eq!(found.unwrap(), [2 + at as u8; 4096]);
        }
        assert_eq!(array.scrub(false), 0);
    }
}
