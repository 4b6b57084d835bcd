//! Every errno as the answer to every command: what a member has not done is never taken for done. After each, as many
//! other members are failed as the level survives, and acknowledged data must be readable.

use crate::memory::{Array, geometry, record};
use engine::control::bad_blocks::BadRange;
use engine::control::message::Command;
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::plan::StepKind;
use engine::request::{Failure, Operation};
use engine::units::{MemberId, VolumeId};

/// The last errno that asm-generic/errno.h names, EHWPOISON.
const ERRNO_LAST: i32 = 133;
const OLD: u8 = 0x11;
const NEW: u8 = 0x22;
const LENGTH: usize = 16 << 10;

/// What a client does while a member refuses the commands of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Read,
    Write,
    WriteFua,
    Flush,
    Zero,
}

impl Deed {
    const ALL: [Deed; 5] = [
        Deed::Read,
        Deed::Write,
        Deed::WriteFua,
        Deed::Flush,
        Deed::Zero,
    ];

    /// Which commands the member refuses meanwhile.
    fn refused(self) -> fn(StepKind) -> bool {
        match self {
            Deed::Read => |kind| kind == StepKind::Read,
            Deed::Write | Deed::WriteFua => |kind| matches!(kind, StepKind::Write { .. }),
            Deed::Flush => |kind| kind == StepKind::Flush,
            Deed::Zero => |kind| matches!(kind, StepKind::Zero { .. } | StepKind::Discard),
        }
    }

    /// Whether the command itself promises that something is durable.
    fn is_durable(self) -> bool {
        matches!(self, Deed::WriteFua | Deed::Flush)
    }

    /// What the volume holds afterwards.
    fn leaves(self) -> u8 {
        match self {
            Deed::Read => OLD,
            Deed::Write | Deed::WriteFua | Deed::Flush => NEW,
            Deed::Zero => 0,
        }
    }

    fn carry_out(self, array: &mut Array) -> Result<(), Failure> {
        let length = LENGTH as u32;
        let buffer = array.allocate(u64::from(length));
        array.fill(buffer, &[NEW; LENGTH]);
        let mut ask = |operation, length, fua| {
            let tag = array.submit_to(0, VolumeId(0), operation, 0, length, buffer, fua);
            array.finish(tag)
        };
        match self {
            Deed::Read => ask(Operation::Read, length, false),
            Deed::Write => ask(Operation::Write, length, false),
            Deed::WriteFua => ask(Operation::Write, length, true),
            Deed::Flush => {
                ask(Operation::Write, length, false)?;
                ask(Operation::Flush, 0, false)
            }
            Deed::Zero => {
                let operation = Operation::WriteZeroes {
                    keep_allocated: false,
                    only_if_fast: false,
                };
                ask(operation, length, false)
            }
        }
    }
}

fn has_failed(array: &Array, member: u8) -> bool {
    let is_it = |event: &Event| matches!(event, Event::MemberFailed { member: failed, .. } if failed.0 == member);
    array.has_event(is_it)
}

/// One member of a new array refuses the next `count` commands of the deed; which member, and whether it
/// has been failed.
fn refuse(level: Level, members: u8, deed: Deed, errno: i32, count: usize) -> (Array, bool) {
    let shape = geometry(level, members, 4 << 10, 16);
    let mut array = Array::new(record(shape, 0, None), 1, 7, Options::default());
    array.write(0, 0, &[OLD; LENGTH]).expect("a write");
    array.shared.borrow_mut().disks[0].refusal = Some((deed.refused(), errno, count));
    let result = deed.carry_out(&mut array);
    let what = format!("{level}, {deed:?}, errno {errno}, {count} times");
    assert_eq!(result, Ok(()), "{what}: one refusing member is survived");
    let left = array.shared.borrow().disks[0].refusal.unwrap().2;
    assert!(left < count, "{what}: no such command came");
    array.shared.borrow_mut().disks[0].refusal = None;
    let failed = has_failed(&array, 0);
    // A member that has not been failed must hold all that was acknowledged: the other one is failed.
    if !failed {
        array
            .command(Command::Fail(MemberId(1)))
            .expect("one failure is survived");
    }
    let found = array.read(0, 0, LENGTH as u32).expect("a read");
    assert!(
        found.iter().all(|&byte| byte == deed.leaves()),
        "{what}: {:#x} where {:#x} was acknowledged; failed: {failed}",
        found[0],
        deed.leaves()
    );
    (array, failed)
}

#[test]
fn whatever_a_member_answers_the_acknowledged_bytes_are_there() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for deed in Deed::ALL {
            for errno in 1..=ERRNO_LAST {
                refuse(level, members, deed, errno, usize::MAX);
            }
        }
    }
}

#[test]
fn what_was_to_be_durable_and_failed_once_costs_the_member_whatever_the_errno() {
    for deed in Deed::ALL {
        for errno in 1..=ERRNO_LAST {
            let (_, failed) = refuse(Level::Raid1, 2, deed, errno, 1);
            assert!(failed || !deed.is_durable(), "{deed:?}, errno {errno}");
        }
    }
}

#[test]
fn a_level_without_redundancy_answers_errors() {
    for deed in Deed::ALL {
        for errno in 1..=ERRNO_LAST {
            let shape = geometry(Level::Raid0, 2, 4 << 10, 16);
            let mut array = Array::new(record(shape, 0, None), 1, 7, Options::default());
            array.write(0, 0, &[OLD; LENGTH]).expect("a write");
            array.shared.borrow_mut().disks[0].refusal = Some((deed.refused(), errno, usize::MAX));
            let result = deed.carry_out(&mut array);
            assert!(result.is_err(), "{deed:?}, errno {errno}");
        }
    }
}

/// A write over a block that is recorded as lost is flushed before the block leaves the record. If that flush fails,
/// neither it nor the write is repeated: nobody knows what the drive has lost.
#[test]
fn the_flush_after_a_rewrite_that_failed_once_costs_the_member_whatever_the_errno() {
    for level in [Level::Raid0, Level::Raid1] {
        for errno in 1..=ERRNO_LAST {
            let shape = geometry(level, 2, 4 << 10, 16);
            let mut record = record(shape, 0, None);
            let bad = BadRange {
                member: MemberId(0),
                offset_bytes: shape.member_offset_bytes(0, 0),
                length_bytes: 512,
            };
            record.bad_blocks.add(bad).unwrap();
            let mut array = Array::new(record, 1, 7, Options::default());
            let refusal = (Deed::Flush.refused(), errno, 1);
            array.shared.borrow_mut().disks[0].refusal = Some(refusal);
            let written = array.write(0, 0, &[NEW; 512]);
            let what = format!("{level}, errno {errno}");
            assert_eq!(written.is_ok(), level == Level::Raid1, "{what}");
            assert!(has_failed(&array, 0), "{what}: it still serves");
            assert_eq!(array.shared.borrow().early_clears, 0, "{what}");
        }
    }
}
