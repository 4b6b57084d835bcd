//! Every byte is what was written, whatever else happens meanwhile.

use super::{quick, shapes};
use crate::memory::client::Client;
use crate::memory::{Array, MIB, Random, geometry, record};
use engine::control::message::Command;
use engine::control::record::SyncKind;
use engine::event::Event;
use engine::layout::Level;
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, Slot, VolumeId};

#[test]
fn healthy_volumes_of_every_level_keep_every_byte() {
    for (at, shape) in shapes().into_iter().enumerate() {
        for shards in 1..=4 {
            let mut array = Array::new(record(shape, 0, None), shards, 7 + at as u64, quick());
            let mut client = Client::new(shape.size_bytes, 1000 + at as u64);
            for _ in 0..400 {
                client.step(&mut array, 12);
            }
            client.verify(&mut array);
            if shape.redundant() {
                assert_eq!(array.scrub(false), 0, "{shape:?} {shards} shards");
            }
        }
    }
}

#[test]
fn initial_sync_runs_under_load_and_makes_parity_valid() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 3] {
            let seed = u64::from(shape.members) * 100 + u64::from(shards);
            let mut array = Array::new(
                record(shape, 0, Some(SyncKind::Initial)),
                shards,
                seed,
                quick(),
            );
            {
                // Drives come with whatever their last owner left.
                let mut shared = array.shared.borrow_mut();
                let mut random = Random(seed);
                for disk in &mut shared.disks {
                    disk.bytes
                        .iter_mut()
                        .for_each(|byte| *byte = random.next() as u8);
                }
            }
            let zeros = vec![0; MIB as usize / 2];
            let mut client = Client::new(shape.size_bytes, seed);
            let mut offset = 0;
            while offset < shape.size_bytes {
                let length = (shape.size_bytes - offset).min(zeros.len() as u64) as usize;
                array.write(0, offset, &zeros[..length]).unwrap();
                offset += length as u64;
            }
            for _ in 0..300 {
                client.step(&mut array, 12);
            }
            client.drain(&mut array);
            array.wait_for_job();
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

#[test]
fn unreadable_blocks_are_reconstructed_and_written_back() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 2] {
            let mut array = Array::new(record(shape, 0, None), shards, 5, quick());
            let mut client = Client::new(shape.size_bytes, 6);
            for _ in 0..200 {
                client.step(&mut array, 8);
            }
            client.drain(&mut array);
            {
                let mut shared = array.shared.borrow_mut();
                for (at, disk) in shared.disks.iter_mut().enumerate() {
                    // One bad block per drive, each in a row of its own.
                    let row = at as u64 % shape.rows();
                    let chunk = u64::from(shape.row_height_bytes(row));
                    let from = shape.member_offset_bytes(row, 0) + (at as u64 * 4096) % chunk;
                    disk.bad.push((from, from + 512));
                }
            }
            client.verify(&mut array);
            for _ in 0..200 {
                client.step(&mut array, 8);
            }
            client.verify(&mut array);
            // What no client read, the scrub finds.
            array.scrub(false);
            let shared = array.shared.borrow();
            assert!(
                shared.disks.iter().all(|disk| disk.bad.is_empty()),
                "{shape:?} {shards}"
            );
            assert!(
                !shared
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::MemberFailed { .. }))
            );
        }
    }
}

#[test]
fn scrub_finds_and_repairs_what_does_not_match() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        let mut array = Array::new(record(shape, 0, None), 2, 5, quick());
        let mut client = Client::new(shape.size_bytes, 6);
        for _ in 0..200 {
            client.step(&mut array, 8);
        }
        client.verify(&mut array);
        let row = shape.rows() / 2;
        let offset = shape.member_offset_bytes(row, 512) as usize;
        // Damage what holds no data of its own: parity, or the second half of a mirror.
        let slot = shape.parity_slot(row).unwrap_or(Slot(1));
        array.shared.borrow_mut().disks[slot.0 as usize].bytes[offset] ^= 0x40;
        assert_eq!(array.scrub(false), 1, "{shape:?}");
        assert_eq!(array.scrub(true), 1);
        assert_eq!(array.scrub(false), 0);
        client.verify(&mut array);
    }
}

#[test]
fn a_drive_is_replaced_while_it_serves() {
    for shape in shapes().into_iter().filter(|shape| shape.redundant()) {
        for shards in [1, 3] {
            let mut array = Array::new(record(shape, 1, None), shards, 5, quick());
            let mut client = Client::new(shape.size_bytes, 6);
            for _ in 0..100 {
                client.step(&mut array, 8);
            }
            let to = MemberId(shape.members);
            let order = Command::Replace {
                volume: VolumeId(0),
                slot: Slot(1),
                to,
            };
            assert_eq!(array.command(order), Ok(()));
            for _ in 0..300 {
                client.step(&mut array, 8);
            }
            client.drain(&mut array);
            array.wait_for_job();
            array.shared.borrow_mut().disks[1].bytes.fill(0xEE);
            client.verify(&mut array);
            assert_eq!(array.scrub(false), 0, "{shape:?}");
        }
    }
}

/// Clients that write sequentially, each to its own part of the volume, all with as many writes in flight.
#[test]
fn sequential_small_writes_become_full_stripes() {
    for clients in [1, 4] {
        let shape = geometry(Level::Raid5, 4, 16 << 10, 40);
        let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
        array.write(0, 0, &[0; 512]).unwrap();
        let before = *array.shards[0].engine.stats();
        let mut random = Random(3);
        let content: Vec<u8> = (0..shape.size_bytes).map(|_| random.next() as u8).collect();
        let part = shape.size_bytes / clients;
        let mut next: Vec<u64> = (0..clients).map(|client| client * part).collect();
        let mut flying: Vec<Vec<u64>> = vec![Vec::new(); clients as usize];
        let ends = |client: usize| (client as u64 + 1) * part;
        while flying.iter().any(|tags| !tags.is_empty()) || next[0] < part {
            for (client, tags) in flying.iter_mut().enumerate() {
                while tags.len() < 64 && next[client] < ends(client) {
                    let at = next[client];
                    let buffer = array.allocate(4096);
                    array.fill(buffer, &content[at as usize..at as usize + 4096]);
                    tags.push(array.submit(0, Operation::Write, at, 4096, buffer));
                    next[client] += 4096;
                }
            }
            array.turn();
            for tags in &mut flying {
                tags.retain(|&tag| array.take_completion(tag).is_none());
            }
        }
        let stats = *array.shards[0].engine.stats();
        let written = stats.member_write_bytes - before.member_write_bytes;
        let ratio = written as f64 / shape.size_bytes as f64;
        println!("{clients} clients: member bytes written per client byte: {ratio:.3}");
        assert!(ratio < 1.45, "{clients} clients: {ratio}");
        assert_eq!(array.read(0, 0, shape.size_bytes as u32).unwrap(), content);
    }
}
