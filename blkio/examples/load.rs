//! Requests to a vhost-user disk for a while, by libblkio: `load SOCKET SECONDS DEPTH read|write`.
//!
//! For benchmarks/vhost_user.py, because fio's engine for libblkio is not in Debian. One queue, 4 KiB requests at
//! random places of the disk, as many in flight as DEPTH says. Prints the number of requests that have ended and the seconds that they took, as
//! JSON. The results of single requests lie in memory that only unsafe code could read; whether they have succeeded is
//! asked of the server.

use blkio::{Blkio, Blkioq, ReqFlags};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
const MOST_IN_FLIGHT: usize = 128;
/// The longest wait for one request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request's place: numbers that look random, by Knuth's linear congruential generator (MMIX).
fn next_place(state: &mut u64, blocks: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 16) % blocks * BLOCK_BYTES as u64
}

struct Load {
    queue: Blkioq,
    memory: usize,
    blocks: u64,
    is_write: bool,
    state: u64,
}

impl Load {
    /// Sends a request. Requests share buffers, because nobody looks at their contents.
    fn send(&mut self, number: usize) {
        let at = (self.memory + number % MOST_IN_FLIGHT * BLOCK_BYTES) as *mut u8;
        let place = next_place(&mut self.state, self.blocks);
        let flags = ReqFlags::empty();
        if self.is_write {
            self.queue.write(place, at, BLOCK_BYTES, number, flags);
        } else {
            self.queue.read(place, at, BLOCK_BYTES, number, flags);
        }
    }

    /// Waits until at least `least` requests have ended, and returns how many have.
    fn wait(&mut self, least: usize) -> usize {
        let mut completions = [const { MaybeUninit::uninit() }; MOST_IN_FLIGHT];
        let mut patience = PATIENCE;
        let ended = self
            .queue
            .do_io(&mut completions, least, Some(&mut patience), None);
        ended.expect("requests end in time")
    }

    /// Keeps `depth` requests in flight for this time. Returns how many have ended.
    fn run(&mut self, depth: usize, time: Duration) -> usize {
        let begun = Instant::now();
        let (mut sent, mut ended) = (0, 0);
        while begun.elapsed() < time {
            while sent - ended < depth {
                self.send(sent);
                sent += 1;
            }
            ended += self.wait(1);
        }
        while ended < sent {
            ended += self.wait(1);
        }
        ended
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, seconds, depth, kind] = &words[..] else {
        panic!("usage: load SOCKET SECONDS DEPTH read|write");
    };
    let is_write = match kind.as_str() {
        "read" => false,
        "write" => true,
        other => panic!("'{other}' is neither read nor write"),
    };
    let depth: usize = depth.parse().expect("a depth");
    assert!(
        (1..=MOST_IN_FLIGHT).contains(&depth),
        "a depth from 1 to {MOST_IN_FLIGHT}"
    );
    let time = Duration::from_secs_f64(seconds.parse().expect("seconds"));

    let mut disk = Blkio::new("virtio-blk-vhost-user").expect("the driver");
    disk.set_str("path", socket).expect("a path");
    disk.connect().expect("a server");
    let mut started = disk.start().expect("the device starts");
    let region = disk
        .alloc_mem_region(MOST_IN_FLIGHT * BLOCK_BYTES)
        .expect("memory");
    disk.map_mem_region(&region).expect("the memory is mapped");
    let mut load = Load {
        queue: started.queues.remove(0),
        memory: region.addr,
        blocks: disk.get_u64("capacity").expect("a size") / BLOCK_BYTES as u64,
        is_write,
        state: 1,
    };
    let begun = Instant::now();
    let ended = load.run(depth, time);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{{\"requests\": {ended}, \"seconds\": {seconds}}}");
}
