//! Reads of what a lost drive held, while the rest of their row is written.

use super::quick;
use crate::memory::{Array, Random, geometry, record};
use engine::control::message::Command;
use engine::layout::Level;
use engine::request::Operation;
use engine::units::MemberId;

const BLOCK_BYTES: u32 = 4096;

/// A read of lost data is computed from the other chunks of its row and parity. A write that changed one of them
/// between the reads of both would make the result wrong, so it waits; the same the other way round.
#[test]
fn a_read_of_lost_data_and_a_write_of_its_row_wait_for_each_other() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 25);
    for (row, reads_first) in (0..6).flat_map(|row| [(row, false), (row, true)]) {
        let mut array = Array::new(record(shape, 0, None), 1, 11 + row, quick());
        let mut random = Random(row + 1);
        let mut content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
        array.write(0, 0, &content).unwrap();
        let slot_of = |index: u8| shape.data_slots(row, index).iter().next().unwrap();
        let (lost, kept) = (slot_of(0), slot_of(1));
        array.command(Command::Fail(MemberId(lost.0))).unwrap();
        let conflicts = |array: &Array| array.shards[0].engine.stats().conflicts;
        let (before, reconstructed) = (
            conflicts(&array),
            array.shards[0].engine.stats().plans_reconstruct,
        );

        // The other drives take commands and do not answer for a while.
        let others = (0..3).filter(|&slot| slot != usize::from(lost.0));
        others.clone().for_each(|drive| array.hang(drive));
        let at = row * shape.row_bytes();
        let change_at = (at + u64::from(shape.chunk_bytes)) as usize;
        let new = [0xa5; BLOCK_BYTES as usize];
        let (read, change) = (array.allocate(4096), array.allocate(4096));
        array.fill(change, &new);
        let mut ask = |operation| match operation {
            Operation::Read => array.submit(0, operation, at, BLOCK_BYTES, read),
            _ => array.submit(0, operation, change_at as u64, BLOCK_BYTES, change),
        };
        let (read_tag, write_tag) = if reads_first {
            let read_tag = ask(Operation::Read);
            (read_tag, ask(Operation::Write))
        } else {
            let write_tag = ask(Operation::Write);
            (ask(Operation::Read), write_tag)
        };
        for _ in 0..20 {
            array.turn();
        }
        let reads_in_flight = array.shards[0].engine.stats().plans_reconstruct - reconstructed;
        assert_eq!(reads_in_flight, u64::from(reads_first), "row {row}");
        assert!(conflicts(&array) > before, "row {row}: nothing waits");

        others.for_each(|drive| array.unhang(drive));
        array.finish(read_tag).unwrap();
        array.finish(write_tag).unwrap();
        let answer = array.answer_of(read_tag, read);
        let from = answer.0 as usize;
        let got = array.shared.borrow().memory[from..from + BLOCK_BYTES as usize].to_vec();
        assert_eq!(
            got,
            content[at as usize..][..BLOCK_BYTES as usize],
            "row {row}"
        );
        content[change_at..][..BLOCK_BYTES as usize].copy_from_slice(&new);
        let all = array.read(0, 0, shape.size_bytes as u32).unwrap();
        assert!(
            all == content,
            "row {row}: the volume holds something else (drive {})",
            kept.0
        );
    }
}
