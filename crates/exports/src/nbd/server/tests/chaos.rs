//! Many clients at random: reads, writes, half payloads, garbage, sudden ends. Afterwards all memory is free, no
//! connection is open, and what the one careful client wrote is there.

use std::io::Write;

use super::client::{Client, pattern, request};
use super::rig::{MIB, Rig};
use crate::nbd::wire::*;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// One short connection of a careless client, which uses the first half of the volume.
fn careless(rig: &Rig, random: &mut Random) {
    let mut client = if random.below(2) == 0 {
        Client::simple(rig.connect(), "vol0")
    } else {
        Client::structured(rig.connect(), "vol0")
    };
    // The client reads no replies, so its sends must not block.
    client.stream.set_nonblocking(true).unwrap();
    for cookie in 0..random.below(60) {
        let longest = 1 << random.below(11);
        let length = 512 * (1 + random.below(longest) as u32);
        let offset = 512 * random.below(32 * MIB / 512);
        let bytes = match random.below(12) {
            0..4 => request(CMD_READ, 0, cookie, offset, length),
            4..8 => {
                let mut bytes = request(CMD_WRITE, 0, cookie, offset, length);
                bytes.resize(28 + length as usize, 5);
                bytes
            }
            8 => request(CMD_FLUSH, 0, cookie, 0, 0),
            9 => request(CMD_WRITE_ZEROES, 0, cookie, offset, length),
            10 => request(CMD_READ, 0, cookie, offset + 1, length),
            _ if random.below(8) == 0 => pattern(cookie, 100),
            _ => request(CMD_TRIM, CMD_FLAG_FUA, cookie, offset, length),
        };
        // Bytes that do not fit into the socket are lost, and the stream cannot be parsed after that.
        if client.stream.write(&bytes).is_err() {
            break;
        }
    }
    if random.below(3) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(random.below(5)));
    }
}

#[test]
fn careless_clients_harm_nobody() {
    let rig = Rig::with(|plan| {
        plan.shards = 2;
        plan.pool_bytes = 32 << 20;
    });
    std::thread::scope(|scope| {
        for seed in 1..=3 {
            let rig = &rig;
            scope.spawn(move || {
                let mut random = Random(seed * 0x1234_5678_9ABC_DEF1);
                (0..80).for_each(|_| careless(rig, &mut random));
            });
        }
        let mut careful = Client::structured(rig.connect(), "vol0");
        let from = careful.size_bytes / 2;
        for round in 0..150 {
            let data = pattern(round, 512 << (round % 12));
            let offset = from + round * (128 << 10);
            careful.write(offset, &data, 0);
            let back = careful.read(offset, data.len() as u32);
            assert!(back == data, "round {round}");
        }
    });
    rig.wait_until_idle();
    let total = rig.stats(0).requests + rig.stats(1).requests;
    assert!(total > 2000, "{:?} {:?}", rig.stats(0), rig.stats(1));
}
