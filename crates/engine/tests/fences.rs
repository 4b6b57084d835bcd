//! Clean is written behind a fence; what meets the fence must neither be lost nor hold it up for ever.

mod memory;

use engine::control::message::Message;
use engine::event::Event;
use engine::layout::Level;
use engine::request::Operation;
use engine::shard::Options;
use engine::units::Nanos;
use memory::{Array, geometry, record};

/// A shard that does not know of the fence yet has taken a write and sends a piece of it to one that does.
/// The fence waits for the write to drain, so the write must not wait for the fence.
#[test]
fn a_piece_sent_on_before_its_shard_knew_of_the_fence_takes_the_fence_down() {
    let options = Options {
        clean_after: Nanos(20 * Nanos::MILLISECOND.0),
        ..Options::default()
    };
    let shape = geometry(Level::Raid10, 4, 16 << 10, 24);
    let mut array = Array::new(record(shape, 0, None), 2, 3, options);
    array.write(0, 0, &[1; 4096]).unwrap();
    let fenced = |array: &Array| {
        let shared = array.shared.borrow();
        shared.mail[1].iter().any(
            |message| matches!(message, Message::View(view) if !view.volumes[0].writes_allowed),
        )
    };
    while !fenced(&array) {
        array.shards[1].turn();
        array.shards[0].turn();
        array.shared.borrow_mut().now += 10_000;
    }
    // Row 0 belongs to shard 0.
    let buffer = array.allocate(4096);
    array.fill(buffer, &[2; 4096]);
    let tag = array.submit(1, Operation::Write, 0, 4096, buffer);
    assert_eq!(array.finish(tag), Ok(()));
    assert_eq!(array.read(0, 0, 4096).unwrap(), [2; 4096]);
    let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
    array.run_until(|array| array.has_event(is_clean));
}
