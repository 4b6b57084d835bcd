use drives::arena::{Arena, ArenaOptions, Pool};

use super::*;
use crate::nbd::ExportList;
use crate::nbd::server::NbdLimits;

const NAME: ConnectionName = ConnectionName {
    index: 3,
    generation: 9,
};

pub(in crate::nbd::server) fn memory() -> Memory {
    let length_bytes = 2 << 20;
    let arena = Arena::new(ArenaOptions {
        length_bytes,
        prefault: false,
        lock: false,
    });
    let pool = Pool::new(arena.unwrap(), 0..length_bytes);
    Memory::new(pool, &NbdLimits::default(), &ExportList::default()).unwrap()
}

fn command(kind: CommandKind) -> Command {
    Command {
        cookie: 1,
        kind,
        offset_bytes: 512,
        length_bytes: 1024,
    }
}

#[test]
fn an_answer_to_an_earlier_user_of_a_slot_is_recognised() {
    let mut memory = memory();
    let mut requests = Requests::new();
    let ask = |requests: &mut Requests, memory: &mut Memory| {
        let slot = requests.take(command(CommandKind::Read), memory).unwrap();
        requests.submit(NAME, slot, VolumeId(0))
    };
    let first = ask(&mut requests, &mut memory);
    assert!(requests.complete(RequestTag(first.tag), Ok(())));
    assert!(
        !requests.complete(RequestTag(first.tag), Ok(())),
        "a second answer to the same request was accepted"
    );
    requests.release_answered(1, &mut memory);
    let second = ask(&mut requests, &mut memory);
    assert_eq!(first.tag >> 32, second.tag >> 32, "the same slot");
    assert_eq!(first.buffer, second.buffer);
    assert!(!requests.complete(RequestTag(first.tag), Ok(())));
    assert!(requests.complete(RequestTag(second.tag), Err(Failure::Stopping)));
    assert_eq!(
        requests.answered(0).unwrap().1,
        Answer::Error(ErrorCode::ShuttingDown)
    );
    assert!(!requests.complete(RequestTag(u64::MAX), Ok(())));
    assert_eq!(requests.in_engine(), 0);
}

#[test]
fn slots_are_bounded_and_all_memory_comes_back() {
    let mut memory = memory();
    let before = memory.available_bytes();
    let mut requests = Requests::new();
    let mut taken = 0;
    while let Some(slot) = requests.take(command(CommandKind::Write { fua: true }), &mut memory) {
        let request = requests.submit(NAME, slot, VolumeId(2));
        assert!(request.fua && request.operation == Operation::Write);
        assert!(requests.complete(RequestTag(request.tag), Err(Failure::ReadOnly)));
        taken += 1;
    }
    assert_eq!(taken, REQUESTS_MAX);
    assert!(
        requests
            .take(command(CommandKind::Flush), &mut memory)
            .is_none()
    );
    requests.release_answered(100, &mut memory);
    requests.release_all(&mut memory);
    assert_eq!(memory.available_bytes(), before);
    assert!(
        requests
            .take(command(CommandKind::Flush), &mut memory)
            .is_some()
    );
}

#[test]
fn failures_and_operations_are_translated() {
    let codes = [
        (Failure::Misuse, ErrorCode::Invalid),
        (Failure::ReadOnly, ErrorCode::NotPermitted),
        (
            Failure::Unrecoverable { offset_bytes: 4 },
            ErrorCode::InputOutput,
        ),
        (Failure::NotSupported, ErrorCode::NotSupported),
        (Failure::Stopping, ErrorCode::ShuttingDown),
    ];
    for (failure, code) in codes {
        assert_eq!(error_code(failure), code);
    }
    let zeroes = CommandKind::WriteZeroes {
        fua: true,
        no_hole: false,
        fast_only: true,
    };
    let expected = Operation::WriteZeroes {
        keep_allocated: false,
        only_if_fast: true,
    };
    assert_eq!(operation(zeroes), (expected, true));
    assert_eq!(
        operation(CommandKind::Trim { fua: true }),
        (Operation::Trim, true)
    );
    assert_eq!(operation(CommandKind::Flush), (Operation::Flush, false));
}
