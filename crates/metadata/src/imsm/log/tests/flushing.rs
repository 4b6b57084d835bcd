//! The order in which things become durable. Parity that a replay has written is durable before the log from which it
//! came is emptied, and each step of emptying is durable before the next. If a member cannot flush, both fail.

use super::super::*;
use super::world::{Failed, Random, World, Write};
use crate::imsm::SectorSize;
use alloc::vec;
use core::ops::Range;

/// A command to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Act {
    Write(usize, Range<u64>),
    Flush(usize),
}

/// A world that keeps a journal of its commands.
struct Journal {
    world: World,
    acts: Vec<Act>,
    /// The member that fails flushes, if any.
    stuck: Option<usize>,
}

impl Members for Journal {
    type Error = Failed;

    fn read(&mut self, slot: usize, sector: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        self.world.read(slot, sector, bytes)
    }

    fn write(&mut self, slot: usize, sector: u64, bytes: &[u8]) -> Result<(), Failed> {
        let sectors = sector..sector + bytes.len() as u64 / 512;
        self.acts.push(Act::Write(slot, sectors));
        self.world.write(slot, sector, bytes)
    }

    fn flush(&mut self, slot: usize) -> Result<(), Failed> {
        self.acts.push(Act::Flush(slot));
        if self.stuck == Some(slot) {
            return Err(Failed);
        }
        self.world.flush(slot)
    }
}

/// Arrays with a row for each parity slot.
fn journals() -> Vec<Journal> {
    let worlds = (1..40).map(|seed| World::new(&mut Random(seed * 77), SectorSize::Bytes512));
    let has_all = |world: &World| world.rows() >= world.volume.members as u64;
    let journal = |world| Journal {
        world,
        acts: Vec::new(),
        stuck: None,
    };
    let journals: Vec<Journal> = worlds.filter(has_all).map(journal).collect();
    assert!(journals.len() > 5, "{} arrays", journals.len());
    journals
}

/// Interrupts a write of the first two data chunks of a row. Its log unit is durable, and the rest of the write has at
/// most reached the members' caches. Returns the slot of the parity.
fn interrupt(journal: &mut Journal, row: u64) -> usize {
    let world = &mut journal.world;
    let slot = world.volume.parity_slot(row);
    let write = Write {
        row,
        chunks: 0..2,
        part: 0..16,
    };
    let entry = world.entry(&write);
    world.put_unit(slot, 0, 1, &[entry]);
    world.apply(&mut Random(9), &write, &|random| random.chance());
    world.unflushed.fill(true);
    slot
}

/// Requires that every member is flushed after the last write to any member.
fn assert_flushed_last(journal: &Journal, what: &str) {
    let is_write = |act: &Act| matches!(act, Act::Write(..));
    let last_write = journal
        .acts
        .iter()
        .rposition(is_write)
        .expect("something is written");
    let after = &journal.acts[last_write + 1..];
    for slot in journal.world.slots() {
        assert!(after.contains(&Act::Flush(slot)), "{what}: slot {slot}");
    }
    assert!(!journal.world.unflushed.contains(&true), "{what}");
}

/// This holds whichever member has the parity. The data from which parity was computed are flushed as well: a process
/// that was killed may have left them in caches. Once the log is empty, a row must not lose either data or parity.
#[test]
fn every_member_is_flushed_after_the_last_write_of_a_replay() {
    for mut journal in journals() {
        let (volume, slots) = (journal.world.volume, journal.world.slots());
        for row in 0..volume.members as u64 {
            journal.acts.clear();
            let slot = interrupt(&mut journal, row);
            let report = replay(&volume, &slots, &mut journal).unwrap();
            assert!(report.is_conclusive() && report.entries_replayed > 0);
            assert_flushed_last(&journal, &alloc::format!("parity in slot {slot}"));
        }
    }
}

/// One block of the data cannot be read, so only the other block's parity is written.
#[test]
fn what_a_replay_could_write_in_part_is_flushed() {
    for mut journal in journals() {
        let (volume, slots) = (journal.world.volume, journal.world.slots());
        interrupt(&mut journal, 0);
        let bad = (journal.world.slot_of(0, 1), volume.start_sector + 3);
        journal.world.unreadable = Some(bad);
        let report = replay(&volume, &slots, &mut journal).unwrap();
        assert_eq!(report.blocks_unreadable, 1, "{report}");
        assert_flushed_last(&journal, "in part");
    }
}

#[test]
fn a_replay_fails_if_a_member_cannot_flush() {
    for mut journal in journals() {
        let (volume, slots) = (journal.world.volume, journal.world.slots());
        for stuck in slots.clone() {
            interrupt(&mut journal, 0);
            journal.stuck = Some(stuck);
            let replayed = replay(&volume, &slots, &mut journal);
            assert_eq!(replayed, Err(Failed), "slot {stuck}");
        }
    }
}

/// Logs are emptied in three steps: the header is erased, then the units, then an empty header is written. Each step is
/// durable on all members before the next begins.
#[test]
fn each_step_of_emptying_logs_is_durable_on_all_members_before_the_next() {
    for mut journal in journals() {
        let (volume, slots) = (journal.world.volume, journal.world.slots());
        initialise(&volume, &slots, &mut journal).unwrap();
        let header = volume.log_sector()..volume.log_sector() + HEADER_BYTES as u64 / 512;
        let is_header = |act: &Act| matches!(act, Act::Write(_, sectors) if *sectors == header);
        let is_flush = |act: &Act| matches!(act, Act::Flush(_));
        let mut steps = journal.acts.chunk_by(|a, b| is_flush(a) == is_flush(b));
        let flushes: Vec<Act> = slots.iter().map(|&slot| Act::Flush(slot)).collect();
        for headers in [true, false, true] {
            let writes = steps.next().expect("another step");
            assert!(
                writes.iter().all(|act| is_header(act) == headers),
                "{writes:?}"
            );
            for slot in &slots {
                let on_it = |act: &Act| matches!(act, Act::Write(at, _) if at == slot);
                assert!(writes.iter().any(on_it), "slot {slot}");
            }
            assert_eq!(steps.next(), Some(&flushes[..]));
        }
        assert_eq!(steps.next(), None);
    }
}

#[test]
fn emptying_logs_fails_if_a_member_cannot_flush() {
    for mut journal in journals() {
        let (volume, slots) = (journal.world.volume, journal.world.slots());
        for stuck in slots.clone() {
            journal.stuck = Some(stuck);
            journal.acts = vec![];
            let emptied = initialise(&volume, &slots, &mut journal);
            assert_eq!(emptied, Err(Failed), "slot {stuck}");
            let written = journal
                .acts
                .iter()
                .filter(|act| matches!(act, Act::Write(..)));
            assert_eq!(
                written.count(),
                slots.len(),
                "only the first step is written"
            );
        }
    }
}
