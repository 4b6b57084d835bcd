//! libblkio's driver of vhost-user disks, which is not ours, uses a volume of the real program. What it wrote is read back
//! through other queues and by the next connection.
//!
//! `FULLSTRIPE` names the program. The results of single requests lie in memory that only unsafe code could read, so it is
//! counted how many have ended, and the data is compared.

use blkio::{Blkio, Blkioq, MemoryRegion, ReqFlags};
use std::fs::{File, OpenOptions};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const QUEUES: usize = 2;
const REQUESTS: usize = 64;
const BYTES: usize = 64 << 10;
/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

fn fullstripe() -> Command {
    let program = std::env::var("FULLSTRIPE").expect("FULLSTRIPE names the program");
    Command::new(program)
}

/// A server that is killed when the test ends.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes an array of three files and serves it.
fn serve(folder: &Path) -> Server {
    let drives = ["d0", "d1", "d2"].map(|name| folder.join(name));
    for drive in &drives {
        let file = File::create(drive).expect("a file");
        file.set_len(96 << 20).expect("room for a file");
    }
    let created = fullstripe()
        .args(["create", "vol0", "--level", "5"])
        .args(&drives)
        .status();
    assert!(created.expect("the program runs").success());
    let process = fullstripe()
        .args(["serve", "--shards", "2", "--memory", "64m"])
        .arg("--vhost-user")
        .arg(folder)
        .arg("--socket")
        .arg(folder.join("api"))
        .args(&drives)
        .stdout(Stdio::null())
        .spawn();
    let socket = folder.join("vol0.sock");
    let give_up = Instant::now() + PATIENCE;
    while !socket.exists() {
        assert!(Instant::now() < give_up, "the volume has no socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    Server {
        process: process.expect("the program runs"),
        socket,
    }
}

/// A connection, with memory for all requests.
struct Disk {
    queues: Vec<Blkioq>,
    region: MemoryRegion,
    memory: File,
    blkio: Blkio,
}

fn connect(socket: &Path) -> Disk {
    let mut blkio = Blkio::new("virtio-blk-vhost-user").expect("the driver");
    blkio
        .set_str("path", &socket.display().to_string())
        .expect("a path");
    blkio.connect().expect("a server");
    assert!(blkio.get_i32("max-queues").expect("queues") >= QUEUES as i32);
    assert_eq!(blkio.get_i32("request-alignment").expect("blocks"), 512);
    blkio
        .set_i32("num-queues", QUEUES as i32)
        .expect("several queues");
    let started = blkio.start().expect("the device starts");
    let region = blkio.alloc_mem_region(REQUESTS * BYTES).expect("memory");
    blkio.map_mem_region(&region).expect("the memory is mapped");
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", region.fd));
    Disk {
        queues: started.queues,
        region,
        memory: memory.expect("memory is a file"),
        blkio,
    }
}

impl Disk {
    /// Sends a request for each part of the memory, and waits for all.
    fn each(&mut self, queue: usize, mut send: impl FnMut(&mut Blkioq, usize, *mut u8)) {
        for number in 0..REQUESTS {
            let at = (self.region.addr + number * BYTES) as *mut u8;
            send(&mut self.queues[queue], number, at);
        }
        self.wait(queue, REQUESTS);
    }

    fn wait(&mut self, queue: usize, count: usize) {
        let mut ended = 0;
        let mut patience = PATIENCE;
        while ended < count {
            let mut completions = [const { MaybeUninit::uninit() }; REQUESTS];
            let more = self.queues[queue].do_io(
                &mut completions[..count - ended],
                1,
                Some(&mut patience),
                None,
            );
            ended += more.expect("requests end in time");
        }
    }

    fn write(&mut self, queue: usize, data: &[u8]) {
        self.memory.write_all_at(data, 0).expect("memory");
        self.each(queue, |blkioq, number, at| {
            let place = (number * BYTES) as u64;
            blkioq.write(place, at, BYTES, number, ReqFlags::empty());
        });
    }

    fn read(&mut self, queue: usize) -> Vec<u8> {
        let nothing = vec![0xee; REQUESTS * BYTES];
        self.memory.write_all_at(&nothing, 0).expect("memory");
        self.each(queue, |blkioq, number, at| {
            let place = (number * BYTES) as u64;
            blkioq.read(place, at, BYTES, number, ReqFlags::empty());
        });
        let mut data = vec![0; REQUESTS * BYTES];
        self.memory.read_exact_at(&mut data, 0).expect("memory");
        data
    }
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..REQUESTS * BYTES)
        .map(|at| (at / 512 * 7 + at + seed) as u8)
        .collect()
}

#[test]
fn libblkio_writes_reads_zeroes_and_discards() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(folder.path());
    let mut disk = connect(&server.socket);
    assert!(disk.blkio.get_u64("capacity").expect("a size") > 100 << 20);
    disk.write(0, &pattern(1));
    assert!(disk.read(1) == pattern(1));
    disk.queues[0].flush(0, ReqFlags::empty());
    disk.wait(0, 1);
    disk.queues[1].write_zeroes(0, BYTES as u64, 0, ReqFlags::empty());
    disk.wait(1, 1);
    let data = disk.read(0);
    assert!(data[..BYTES] == [0; BYTES] && data[BYTES..] == pattern(1)[BYTES..]);
    disk.queues[0].discard(BYTES as u64, BYTES as u64, 0, ReqFlags::empty());
    disk.wait(0, 1);
    disk.write(1, &pattern(2));
    drop(disk);
    // The next front end finds what the last one has left.
    let mut disk = connect(&server.socket);
    assert!(disk.read(0) == pattern(2));
}
