use super::*;
use crate::arena::{Arena, ArenaOptions};
use crate::mailbox::Mailbox;
use crate::ring::{Completed, RingOptions};
use engine::token::Token;
use std::os::fd::AsFd;
use std::sync::Arc;

const WRITE: StepKind = StepKind::Write { fua: false };
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

/// A ring, a file of 1 MiB, and transfers.
struct Bench {
    ring: Ring,
    transfers: Transfers,
    file: std::fs::File,
    slot: FileSlot,
    arena: Arc<Arena>,
    mailbox: Mailbox,
}

fn bench() -> Bench {
    let arena = |length_bytes| {
        Arena::new(ArenaOptions {
            length_bytes,
            prefault: false,
            lock: false,
        })
        .unwrap()
    };
    let payload = arena(2 << 20);
    let internal = arena(2 << 20);
    let zeros = (internal.start(), 64 << 10);
    let mut ring = Ring::new(RingOptions::default(), payload.clone(), internal).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let slot = ring.open_file(file.as_fd());
    let mailbox = Mailbox::new().unwrap();
    Bench {
        ring,
        transfers: Transfers::new(4, zeros, mailbox.sender()),
        mailbox,
        file,
        slot,
        arena: payload,
    }
}

impl Bench {
    fn transfer(&self, kind: StepKind, payload: Payload, left_bytes: u64) -> Transfer {
        Transfer {
            answer: Answer::Done(Token(1)),
            attachment: 0,
            way: Way::Ring(self.slot),
            sector_bytes: 512,
            kind,
            payload,
            offset_bytes: 8192,
            left_bytes,
            finish: Nanos(0),
            memory: None,
        }
    }

    /// Waits for `count` transfers to end.
    fn finish(&mut self, count: usize) -> Vec<(Transfer, i32)> {
        let mut completed: Vec<Completed> = Vec::new();
        let mut done = Vec::new();
        for _ in 0..2000 {
            self.ring.wait(Some(Nanos(10_000_000)));
            self.ring.reap(&mut completed, 100);
            for Completed {
                user_data, result, ..
            } in completed.drain(..)
            {
                done.extend(self.transfers.answered(
                    &mut self.ring,
                    None,
                    user_data as u32,
                    result,
                ));
            }
            if done.len() == count {
                return done;
            }
        }
        panic!("only {} of {count} transfers ended", done.len());
    }
}

#[test]
fn the_rest_of_a_short_answer_is_asked_for() {
    let mut bench = bench();
    let start = bench.arena.start();
    let list = bench.ring.vectors().take();
    for offset in [0, 65_536] {
        let address = (start.0 + offset) as *mut u8;
        assert!(bench.ring.vectors().push(list, address, 4096));
    }
    for (payload, wanted) in [
        (Payload::Piece(start), Payload::Piece(start.at(5120))),
        (Payload::List(list), Payload::List(list)),
    ] {
        let mut transfer = bench.transfer(StepKind::Read, payload, 8192);
        assert_eq!(transfer.moved(&mut bench.ring, 5120), None);
        assert_eq!(
            (transfer.offset_bytes, transfer.left_bytes),
            (8192 + 5120, 3072)
        );
        assert_eq!(transfer.payload, wanted);
        assert_eq!(transfer.moved(&mut bench.ring, 3072), Some(0));
    }
    assert_eq!(bench.ring.vectors().pieces::<u8>(list), {
        let (address, _) = bench.ring.vectors().pieces::<u8>(list);
        (address, 1)
    });
}

/// A list that is not given back is missing for a later request, which would then allocate memory.
#[test]
fn lists_are_given_back_whichever_way() {
    let mut bench = bench();
    let start = bench.arena.start();
    let file = bench.file.try_clone().unwrap();
    for inline in [false, true] {
        let list = bench.ring.vectors().take();
        let address = start.0 as *mut u8;
        assert!(bench.ring.vectors().push(list, address, 4096));
        let mut transfer = bench.transfer(WRITE, Payload::List(list), 4096);
        if inline {
            let done = bench
                .transfers
                .carry_out(&mut bench.ring, file.as_fd(), &mut transfer);
            assert_eq!(done, 0);
        } else {
            bench.transfers.start(&mut bench.ring, None, transfer);
            assert_eq!(bench.finish(1)[0].1, 0);
        }
        assert_eq!(
            bench.ring.vectors().take(),
            list,
            "the list was not given back"
        );
        bench.ring.vectors().give_back(list);
    }
}

#[test]
fn ends_and_torn_sectors_are_errors() {
    let mut bench = bench();
    let piece = Payload::Piece(bench.arena.start());
    for (kind, errno) in [(StepKind::Read, ENXIO), (WRITE, EIO)] {
        for count in [0, 100, 9000, 9216] {
            let mut transfer = bench.transfer(kind, piece, 8192);
            assert_eq!(
                transfer.moved(&mut bench.ring, count),
                Some(errno),
                "{kind:?} {count}"
            );
        }
    }
}

#[test]
fn zeros_are_written_where_the_file_system_cannot_zero_or_discard() {
    zeros_are_written(StepKind::Zero {
        keep_allocated: true,
    });
    zeros_are_written(StepKind::Discard);
}

fn zeros_are_written(kind: StepKind) {
    let mut bench = bench();
    let bytes = vec![7u8; 1 << 20];
    std::os::unix::fs::FileExt::write_all_at(&bench.file, &bytes, 0).unwrap();
    let mut transfer = bench.transfer(kind, Payload::Nothing, 300_032);
    assert_eq!(transfer.failed(EIO), Some(EIO));
    assert_eq!(transfer.failed(EOPNOTSUPP), None);
    assert_eq!(transfer.payload, Payload::Zeros);
    assert_eq!(transfer.was_refused_discard(), kind == StepKind::Discard);
    // The range is longer than the block of zeros, so it takes several writes.
    bench.transfers.start(&mut bench.ring, None, transfer);
    assert_eq!(bench.finish(1)[0].1, 0);
    let mut back = vec![1u8; 1 << 20];
    std::os::unix::fs::FileExt::read_exact_at(&bench.file, &mut back, 0).unwrap();
    let inside = 8192..8192 + 300_032;
    let right = |(at, &byte): (usize, &u8)| byte == if inside.contains(&at) { 0 } else { 7 };
    assert!(back.iter().enumerate().all(right));
    // A second refusal is final.
    transfer.payload = Payload::Zeros;
    assert_eq!(transfer.failed(EOPNOTSUPP), Some(EOPNOTSUPP));
}

#[test]
fn slots_are_reused_and_grow() {
    let mut bench = bench();
    let piece = Payload::Piece(bench.arena.start());
    for _ in 0..10 {
        for n in 0..9 {
            let answer = Answer::Done(Token(n));
            let transfer = Transfer {
                answer,
                ..bench.transfer(StepKind::Read, piece, 4096)
            };
            bench.transfers.start(&mut bench.ring, None, transfer);
            assert!(bench.transfers.find(answer).is_some());
        }
        assert!(bench.finish(9).iter().all(|(_, errno)| *errno == 0));
    }
    assert!(bench.transfers.slots.len() <= 9);
    assert!(!bench.mailbox.has_mail(), "the ring answers by itself");
    assert!(bench.transfers.find(Answer::Done(Token(3))).is_none());
}

/// The fields of an entry that say what the kernel is to do, named as in `struct io_uring_sqe`.
#[derive(PartialEq, Eq, Debug)]
struct Asked {
    opcode: u8,
    offset_bytes: u64,
    address: u64,
    length: u32,
    flags: u32,
}

fn asked(transfer: &Transfer, bench: &mut Bench) -> Asked {
    let entry = transfer.entry(&mut bench.ring, bench.slot, bench.transfers.zeros);
    // SAFETY: an entry is 64 bytes, all of which have been written, and any bytes are bytes.
    let bytes = unsafe { std::mem::transmute::<squeue::Entry, [u8; 64]>(entry) };
    let short = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    Asked {
        opcode: bytes[0],
        offset_bytes: long(8),
        address: long(16),
        length: short(24),
        flags: short(28),
    }
}

// From include/uapi/linux/io_uring.h and fs.h.
const WRITEV: u8 = 2;
const FSYNC: u8 = 3;
const WRITE_FIXED: u8 = 5;
const FALLOCATE: u8 = 17;
const WRITE_PLAIN: u8 = 23;
const DATASYNC: u32 = 1;
const DSYNC: u32 = 2;

#[test]
fn each_write_with_fua_is_to_be_durable_and_so_is_the_rest_of_it() {
    let mut bench = bench();
    let registered = bench.arena.start();
    let own = bench.ring.internal_arena().start();
    let is_registered = bench.ring.report().registered_memory.is_ok();
    let fixed = [WRITE_PLAIN, WRITE_FIXED][usize::from(is_registered)];
    for (fua, flags) in [(true, DSYNC), (false, 0)] {
        let kind = StepKind::Write { fua };
        let list = bench.ring.vectors().take();
        for offset in [0, 65_536] {
            let address = (registered.0 + offset) as *mut u8;
            assert!(bench.ring.vectors().push(list, address, 4096));
        }
        for (payload, opcode, length, rest) in [
            (Payload::Piece(registered), fixed, 8192, 3072),
            (Payload::Piece(own), WRITE_PLAIN, 8192, 3072),
            (Payload::List(list), WRITEV, 2, 1),
        ] {
            let mut transfer = bench.transfer(kind, payload, 8192);
            let whole = asked(&transfer, &mut bench);
            assert_eq!((whole.opcode, whole.flags), (opcode, flags), "{payload:?}");
            assert_eq!((whole.offset_bytes, whole.length), (8192, length));
            assert_eq!(transfer.settled(&mut bench.ring, 5120), None);
            let after = asked(&transfer, &mut bench);
            assert_eq!((after.opcode, after.flags), (opcode, flags), "{payload:?}");
            assert_eq!((after.offset_bytes, after.length), (8192 + 5120, rest));
            if let Payload::Piece(start) = payload {
                assert_eq!(after.address, start.0 + 5120);
            }
            let call = transfer.call();
            let range = (call.offset_bytes, call.length_bytes);
            assert_eq!((call.kind, range), (kind, (8192 + 5120, 3072)));
        }
    }
}

#[test]
fn what_goes_on_after_a_short_answer_is_the_rest_of_the_same() {
    let mut bench = bench();
    let start = bench.arena.start();
    let whole = bench.transfer(StepKind::Write { fua: true }, Payload::Piece(start), 8192);
    bench.transfers.start(&mut bench.ring, None, whole);
    let index = bench.transfers.find(whole.answer).unwrap();
    let goes_on = bench.transfers.answered(&mut bench.ring, None, index, 5120);
    assert!(goes_on.is_none());
    let rest = Transfer {
        payload: Payload::Piece(start.at(5120)),
        offset_bytes: 8192 + 5120,
        left_bytes: 3072,
        ..whole
    };
    let kept = bench.transfers.slots[index as usize].unwrap();
    assert_eq!(format!("{kept:?}"), format!("{rest:?}"));
}

#[test]
fn what_has_no_payload_is_asked_for_by_its_own_name() {
    const KEEP_SIZE: u32 = 1;
    let mut bench = bench();
    let zero = |keep_allocated| StepKind::Zero { keep_allocated };
    for (kind, mode) in [
        (zero(true), KEEP_SIZE | 16),
        (zero(false), KEEP_SIZE | 2),
        (StepKind::Discard, KEEP_SIZE | 2),
    ] {
        let transfer = bench.transfer(kind, Payload::Nothing, 4096);
        let asked = asked(&transfer, &mut bench);
        // For fallocate, the kernel takes the range's length in the field of the address.
        assert_eq!((asked.opcode, asked.length), (FALLOCATE, mode), "{kind:?}");
        assert_eq!((asked.offset_bytes, asked.address), (8192, 4096));
    }
    let flush = bench.transfer(StepKind::Flush, Payload::Nothing, 0);
    let asked = asked(&flush, &mut bench);
    assert_eq!((asked.opcode, asked.flags), (FSYNC, DATASYNC));
    // A flush covers the whole file.
    assert_eq!((asked.offset_bytes, asked.address, asked.length), (0, 0, 0));
}

#[test]
fn an_error_is_an_error_whatever_it_was_about() {
    let mut bench = bench();
    let piece = Payload::Piece(bench.arena.start());
    for (kind, payload) in [
        (StepKind::Read, piece),
        (WRITE, piece),
        (StepKind::Write { fua: true }, piece),
        (StepKind::Flush, Payload::Nothing),
        (StepKind::Discard, Payload::Zeros),
    ] {
        for errno in [1, EINTR, EIO, EAGAIN, ENOSYS, EOPNOTSUPP] {
            let mut transfer = bench.transfer(kind, payload, 8192);
            assert_eq!(transfer.settled(&mut bench.ring, -errno), Some(errno));
            assert_eq!(
                transfer.payload, payload,
                "{kind:?} falls back to another call"
            );
        }
    }
    for errno in [ENOSYS, EOPNOTSUPP] {
        let mut transfer = bench.transfer(StepKind::Discard, Payload::Nothing, 8192);
        assert_eq!(transfer.settled(&mut bench.ring, -errno), None);
        assert_eq!(
            transfer.payload,
            Payload::Zeros,
            "a discard that the kernel lacks writes zeros"
        );
    }
    // No byte has moved: a file that ends too early, or a refusal without a reason.
    for (kind, payload, errno) in [
        (StepKind::Read, piece, ENXIO),
        (WRITE, piece, EIO),
        (StepKind::Discard, Payload::Zeros, EIO),
        (StepKind::Flush, Payload::Nothing, 0),
        (StepKind::Discard, Payload::Nothing, 0),
    ] {
        let mut transfer = bench.transfer(kind, payload, 8192);
        assert_eq!(
            transfer.settled(&mut bench.ring, 0),
            Some(errno),
            "{kind:?}"
        );
    }
}
