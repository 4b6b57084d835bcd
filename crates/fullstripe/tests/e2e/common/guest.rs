//! A virtual machine that uses a volume through vhost-user: the messages are those of crate `vhost`'s front end, and the
//! driver of the disk is written here. The guest's memory is a file that is read and written by plain calls.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures as Protocol};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const IDENTITY: u32 = 8;
pub const DISCARD: u32 = 11;
pub const ZEROES: u32 = 13;

/// virtio 1, flush, protocol features, event index.
pub const FEATURES: u64 = 1 << 32 | 1 << 9 | 1 << 30 | 1 << 29;
/// Descriptors of each queue: a third of them are chains.
pub const QUEUE_SIZE: u16 = 128;
/// The guest's memory, and where it begins for the front end, which is nowhere in this process.
const MEMORY_BYTES: u64 = 16 << 20;
const USER: u64 = 0x7000_0000_0000;
/// Each queue has a megabyte, with rings at its beginning.
const QUEUE_BYTES: u64 = 1 << 20;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// Each chain has room for its head, its status, and data.
const ROOMS: u64 = 0x4000;
pub const ROOM_BYTES: u64 = 16 << 10;
const DATA: u64 = 32;
/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a guest keeps while front end or server are replaced: its memory, and the area of requests in flight.
pub struct Guest {
    memory: File,
    kicks: Vec<EventFd>,
    /// By queue: chains that were made available, and the index of the next used one to look at.
    available: Vec<u16>,
    used: Vec<u16>,
    in_flight: Option<(VhostUserInflight, File)>,
}

/// A front end that is connected.
pub struct Connected {
    pub frontend: Frontend,
}

/// Reading it does not block.
const NONBLOCK: i32 = 0o4000;

fn event() -> EventFd {
    EventFd::new(NONBLOCK).expect("an eventfd")
}

impl Guest {
    /// A guest with memory for `queues` queues.
    pub fn new(queues: usize) -> Guest {
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&memory, MEMORY_BYTES).expect("memory");
        Guest {
            memory: memory.into(),
            kicks: (0..queues).map(|_| event()).collect(),
            available: vec![0; queues],
            used: vec![0; queues],
            in_flight: None,
        }
    }

    /// Connects, with these features. Queues go on where the used index is, or where the area of requests in flight says.
    pub fn connect(&mut self, socket: &Path, features: u64) -> Connected {
        let queues = self.kicks.len();
        let mut frontend = Frontend::connect(socket, queues as u64).expect("a server");
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_owner().expect("owner");
        let offered = frontend.get_features().expect("features");
        assert_eq!(features & !offered, 0, "{offered:#x} is offered");
        let protocol = frontend.get_protocol_features().expect("protocol features");
        let wanted =
            Protocol::MQ | Protocol::CONFIG | Protocol::INFLIGHT_SHMFD | Protocol::REPLY_ACK;
        assert!(protocol.contains(wanted));
        frontend
            .set_protocol_features(wanted)
            .expect("protocol features");
        frontend.set_features(features).expect("features");
        if self.in_flight.is_none() {
            let wanted = VhostUserInflight::new(0, 0, queues as u16, QUEUE_SIZE);
            self.in_flight = Some(frontend.get_inflight_fd(&wanted).expect("an area"));
        }
        if let Some((layout, file)) = &self.in_flight {
            let given = frontend.set_inflight_fd(layout, file.as_raw_fd());
            given.expect("the area is taken");
        }
        let mut connected = Connected { frontend };
        self.give_memory(&connected, MEMORY_BYTES).expect("memory");
        (0..queues).for_each(|queue| self.start(&mut connected, queue, QUEUE_SIZE));
        connected
    }

    /// Says that the guest has so much memory.
    pub fn give_memory(&self, connected: &Connected, length_bytes: u64) -> vhost::Result<()> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: length_bytes,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.memory.as_raw_fd(),
        };
        connected.frontend.set_mem_table(&[region]).map(drop)
    }

    /// Starts a queue.
    pub fn start(&self, connected: &mut Connected, queue: usize, size: u16) {
        let frontend = &mut connected.frontend;
        let at = USER + queue as u64 * QUEUE_BYTES;
        let places = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: size,
            flags: 0,
            desc_table_addr: at,
            used_ring_addr: at + USED,
            avail_ring_addr: at + AVAILABLE,
            log_addr: None,
        };
        let next = self.number(queue, USED + 2);
        frontend.set_vring_num(queue, size).expect("size");
        frontend.set_vring_addr(queue, &places).expect("places");
        frontend.set_vring_base(queue, next).expect("next");
        frontend.set_vring_call(queue, &event()).expect("call");
        frontend
            .set_vring_kick(queue, &self.kicks[queue])
            .expect("kick");
        frontend.set_vring_enable(queue, true).expect("enable");
    }

    fn number(&self, queue: usize, at: u64) -> u16 {
        let mut bytes = [0; 2];
        let at = queue as u64 * QUEUE_BYTES + at;
        self.memory.read_exact_at(&mut bytes, at).expect("memory");
        u16::from_le_bytes(bytes)
    }

    /// Writes into a queue's megabyte of memory.
    pub fn put(&self, queue: usize, at: u64, bytes: &[u8]) {
        let at = queue as u64 * QUEUE_BYTES + at;
        self.memory.write_all_at(bytes, at).expect("memory");
    }

    /// Describes one part of a chain.
    pub fn describe(&self, queue: usize, index: u16, part: (u64, u32), flags: u16) {
        let mut bytes = part.0.to_le_bytes().to_vec();
        bytes.extend(part.1.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend((index + 1).to_le_bytes());
        self.put(queue, u64::from(index) * 16, &bytes);
    }

    /// Makes a chain available, and kicks.
    pub fn publish(&mut self, queue: usize, head: u16) {
        let index = self.available[queue];
        let place = AVAILABLE + 4 + 2 * u64::from(index % QUEUE_SIZE);
        self.put(queue, place, &head.to_le_bytes());
        self.available[queue] = index.wrapping_add(1);
        self.put(queue, AVAILABLE + 2, &self.available[queue].to_le_bytes());
        self.kicks[queue].write(1).expect("a kick");
    }

    /// Sends a request in room `room`, which is used by no other: `data` is written, and `length` bytes are read.
    pub fn send(
        &mut self,
        queue: usize,
        room: u16,
        kind: u32,
        sector: u64,
        data: &[u8],
        length: u32,
    ) {
        let at = ROOMS + u64::from(room) * ROOM_BYTES;
        let in_guest = queue as u64 * QUEUE_BYTES + at;
        let mut head = kind.to_le_bytes().to_vec();
        head.extend([0; 4]);
        head.extend(sector.to_le_bytes());
        // The status of a request that is not answered.
        head.push(0xee);
        self.put(queue, at, &head);
        self.put(queue, at + DATA, data);
        let first = 3 * room;
        let (next, write) = (1, 2);
        self.describe(queue, first, (in_guest, 16), next);
        let mut last = first + 1;
        if !data.is_empty() {
            let part = (in_guest + DATA, data.len() as u32);
            self.describe(queue, last, part, next);
            last += 1;
        } else if length > 0 {
            self.describe(queue, last, (in_guest + DATA, length), next | write);
            last += 1;
        }
        self.describe(queue, last, (in_guest + 16, 1), write);
        self.publish(queue, first);
    }

    /// Waits for the next answer: its room, and its status.
    pub fn answer(&mut self, queue: usize) -> (u16, u8) {
        let give_up = Instant::now() + PATIENCE;
        while self.number(queue, USED + 2) == self.used[queue] {
            assert!(Instant::now() < give_up, "queue {queue} gives no answer");
            std::thread::sleep(Duration::from_millis(1));
        }
        let place = u64::from(self.used[queue] % QUEUE_SIZE);
        let room = self.number(queue, USED + 4 + 8 * place) / 3;
        self.used[queue] = self.used[queue].wrapping_add(1);
        let at = queue as u64 * QUEUE_BYTES + ROOMS + u64::from(room) * ROOM_BYTES;
        let mut status = [0];
        self.memory
            .read_exact_at(&mut status, at + 16)
            .expect("memory");
        (room, status[0])
    }

    /// How many answers have come that were not looked at.
    pub fn answers(&self, queue: usize) -> u16 {
        self.number(queue, USED + 2).wrapping_sub(self.used[queue])
    }

    /// Carries out one request in room 0, and returns its status.
    pub fn ask(&mut self, queue: usize, kind: u32, sector: u64, data: &[u8], length: u32) -> u8 {
        self.send(queue, 0, kind, sector, data, length);
        let (room, status) = self.answer(queue);
        assert_eq!(room, 0, "no other request was sent");
        status
    }

    /// The data in a room.
    pub fn data(&self, queue: usize, room: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let at = queue as u64 * QUEUE_BYTES + ROOMS + u64::from(room) * ROOM_BYTES + DATA;
        self.memory.read_exact_at(&mut bytes, at).expect("memory");
        bytes
    }

    /// Reads through a queue.
    pub fn read(&mut self, queue: usize, sector: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.ask(queue, READ, sector, &[], length), 0);
        self.data(queue, 0, length as usize)
    }

    /// How many requests of a queue the server has taken and not answered, as the area of requests in flight says.
    pub fn in_flight(&self, queue: usize) -> usize {
        let (_, area) = self.in_flight.as_ref().expect("an area");
        let length = (16 + 16 * usize::from(QUEUE_SIZE)).next_multiple_of(64);
        let mut bytes = vec![0; length];
        let at = (queue * length) as u64;
        area.read_exact_at(&mut bytes, at).expect("an area");
        bytes[16..].chunks(16).filter(|entry| entry[0] == 1).count()
    }

    /// The guest's device is new: its rings are empty.
    pub fn forget_rings(&mut self, queue: usize) {
        self.put(queue, 0, &vec![0; ROOMS as usize]);
        (self.available[queue], self.used[queue]) = (0, 0);
        self.in_flight = None;
    }
}

impl Connected {
    /// The device's configuration.
    pub fn configuration(&mut self, length: u32) -> Vec<u8> {
        let room = vec![0; length as usize];
        let told = self
            .frontend
            .get_config(0, length, VhostUserConfigFlags::empty(), &room);
        told.expect("a configuration").1
    }
}

/// What a discard or zeroes name as their range.
pub fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    let mut bytes = sector.to_le_bytes().to_vec();
    bytes.extend(sectors.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes
}
