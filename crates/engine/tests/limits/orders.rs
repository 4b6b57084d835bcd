//! Operators who order far more than can be done.

use crate::memory::{Array, MIB, geometry, record};
use engine::control::message::{Command, Message, Refused};
use engine::control::record::{MemberState, SyncKind};
use engine::event::Event;
use engine::layout::Level;
use engine::limits::{CONTAINER_MEMBERS_MAX, UNSYNCED_BANDS_MAX};
use engine::options::Options;
use engine::policy::MemberKind;
use engine::units::{MemberId, Slot, VolumeId};
use std::collections::BTreeMap;

/// Gives all orders at once and returns the answers by ticket, of which there is one each.
fn give(array: &mut Array, orders: &[Command]) -> BTreeMap<u64, Result<(), Refused>> {
    const FIRST_TICKET: u64 = 1 << 32;
    {
        let mut shared = array.shared.borrow_mut();
        shared.events.clear();
        for (ticket, &command) in (FIRST_TICKET..).zip(orders) {
            shared.mail[0].push_back(Message::Command { ticket, command });
        }
    }
    let mut answers = BTreeMap::new();
    for _ in 0..100_000 {
        array.turn();
        for event in std::mem::take(&mut array.shared.borrow_mut().events) {
            if let Event::Answered { ticket, result } = event {
                let before = answers.insert(ticket - FIRST_TICKET, result);
                assert_eq!(before, None, "order {ticket} is answered twice");
            }
        }
        if answers.len() == orders.len() {
            return answers;
        }
    }
    panic!("{} of {} orders are answered", answers.len(), orders.len());
}

#[test]
fn ten_thousand_orders_at_once_are_each_answered() {
    let shape = geometry(Level::Raid5, 4, 16 << 10, 64);
    let mut array = Array::new(record(shape, 1, None), 2, 5, Options::default());
    let volume = VolumeId(0);
    let kinds = [
        Command::Scrub {
            volume,
            repair: false,
        },
        Command::Pause {
            volume,
            paused: true,
        },
        Command::Rate(1 << 20),
        Command::Replace {
            volume,
            slot: Slot(1),
            to: MemberId(4),
        },
        Command::Rebuild(volume),
        Command::Pause {
            volume,
            paused: false,
        },
        Command::Scrub {
            volume,
            repair: true,
        },
        Command::Fail(MemberId(9)),
        Command::Remove(MemberId(0)),
        Command::CancelJob(volume),
        Command::Rate(0),
        Command::Scrub {
            volume: VolumeId(3),
            repair: true,
        },
    ];
    let orders: Vec<Command> = kinds
        .into_iter()
        .cycle()
        .take(100 * kinds.len() * 9)
        .collect();
    let answers = give(&mut array, &orders);
    let refused = |kind: usize| {
        let of_kind = answers
            .iter()
            .filter(move |(at, _)| **at as usize % kinds.len() == kind);
        of_kind.map(|(_, result)| *result).collect::<Vec<_>>()
    };
    // While the scrub runs no other work may begin; it is cancelled at the end of each round.
    assert!(
        refused(0).iter().all(|result| *result == Ok(())),
        "{:?}",
        refused(0)
    );
    assert!(
        refused(3)
            .iter()
            .all(|result| *result == Err(Refused::Busy))
    );
    assert!(
        refused(4)
            .iter()
            .all(|result| *result == Err(Refused::NoSuch))
    );
    assert!(
        refused(6)
            .iter()
            .all(|result| *result == Err(Refused::Busy))
    );
    assert!(
        refused(8)
            .iter()
            .all(|result| *result == Err(Refused::WouldLoseData))
    );
    assert!(
        refused(11)
            .iter()
            .all(|result| *result == Err(Refused::NoSuch))
    );
    // Afterwards the array works like any other.
    array.write(0, 4096, &[7; 8192]).unwrap();
    assert_eq!(array.scrub(false), 0);
    assert_eq!(array.read(1, 4096, 8192), Ok(vec![7; 8192]));
}

#[test]
fn spares_beyond_what_a_container_holds_are_refused() {
    let shape = geometry(Level::Raid1, 2, 4 << 10, 256);
    let mut array = Array::new(record(shape, 0, None), 2, 5, Options::default());
    let size_bytes = shape.start_bytes + shape.component_bytes + 4 * MIB;
    let spare = |member: usize| Command::AddSpare {
        member: MemberId(member as u8),
        size_bytes,
        volatile_cache: true,
        kind: MemberKind::Device,
        discards: true,
        returns: None,
    };
    // Member numbers have a byte: those above the maximum come again and again.
    let numbers = (2..256).cycle().take(100 * CONTAINER_MEMBERS_MAX);
    let orders: Vec<Command> = numbers.map(spare).collect();
    {
        // As many drives as there can be.
        let mut shared = array.shared.borrow_mut();
        let more = CONTAINER_MEMBERS_MAX - shared.disks.len();
        shared
            .disks
            .extend((0..more).map(|_| crate::memory::Disk::empty(size_bytes)));
    }
    let answers = give(&mut array, &orders);
    let taken = answers.values().filter(|result| result.is_ok()).count();
    assert_eq!(taken, CONTAINER_MEMBERS_MAX - 2);
    let others = answers
        .values()
        .filter(|result| **result == Err(Refused::NoSuch));
    assert_eq!(others.count(), orders.len() - taken);
    array.wait_ms(2000);
    let shared = array.shared.borrow();
    let record = shared.disks[0].record.as_ref().unwrap();
    assert_eq!(record.members.len(), CONTAINER_MEMBERS_MAX);
    let spares = record
        .members
        .iter()
        .filter(|member| member.state == MemberState::Spare);
    assert_eq!(spares.count(), CONTAINER_MEMBERS_MAX - 2);
}

#[test]
fn a_resync_of_a_drive_that_cannot_be_read_is_given_up() {
    let bands = 100 * UNSYNCED_BANDS_MAX as u64;
    let shape = geometry(Level::Raid5, 3, 4 << 10, bands);
    let mut array = Array::new(
        record(shape, 0, Some(SyncKind::Resync)),
        1,
        5,
        Options::default(),
    );
    // Block by block, because a block that is written can be read again.
    array.shared.borrow_mut().disks[1].bad = (0..bands + 2)
        .map(|block| (block * 4096, (block + 1) * 4096))
        .collect();
    let ended = |event: &Event| {
        matches!(
            event,
            Event::JobEnded {
                complete: false,
                ..
            }
        )
    };
    array.run_until(|array| array.has_event(ended));
    let shared = array.shared.borrow();
    let reports = shared.events.iter();
    let reports = reports
        .filter(|event| matches!(event, Event::Unrecoverable { .. }))
        .count();
    // What was under way when the limit was reached is reported as well.
    let most = UNSYNCED_BANDS_MAX + 64;
    assert!(
        (UNSYNCED_BANDS_MAX..=most).contains(&reports),
        "{reports} reports"
    );
    assert!(
        shared.disks[1]
            .record
            .as_ref()
            .is_none_or(|record| record.volumes[0].sync.is_some())
    );
}
