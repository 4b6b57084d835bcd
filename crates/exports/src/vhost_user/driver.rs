//! A guest's end of a queue, for histories: its driver describes requests in the guest's memory, makes them available, and
//! finds the answers. Used by `exercise` and by the fault world, where guests outlive servers.
//!
//! Each request has a *room* in the guest's memory while it is not answered. Its chain begins at a descriptor that belongs
//! to the room.
//!
//! | bytes of the queue's memory | content |
//! |---|---|
//! | from 0 | descriptors, three for each room |
//! | from 0x1000 | available chains |
//! | from 0x2000 | used chains |
//! | from 0x4000 | rooms: head (16), status (1); from 0x40 an indirect table; from 0x100 data |

use super::guest::{Broken, Guest, read, write};
use super::in_flight::{InFlight, area_bytes};
use super::split_ring::{Places, SplitRing};
use super::wire::*;
use engine::request::Operation;
use std::sync::Arc;
use vm_memory::GuestAddress;

const AVAILABLE_AT: u64 = 0x1000;
const USED_AT: u64 = 0x2000;
const ROOMS_AT: u64 = 0x4000;
const STATUS_AT: u64 = 16;
const TABLE_AT: u64 = 0x40;
const DATA_AT: u64 = 0x100;
/// Descriptors of a room: for head, data and status.
const PARTS_MAX: u16 = 3;
/// What a status is before the device writes it.
const NO_STATUS: u8 = 0xee;

/// Memory of a guest, or of a front end, that begins at address 0.
///
/// # Panics
/// If the system has no memory.
#[must_use]
pub fn memory(length_bytes: u64) -> Arc<Guest> {
    let memory = Guest::from_ranges(&[(GuestAddress(0), length_bytes as usize)]);
    Arc::new(memory.expect("memory for a test"))
}

/// Where the memory of a queue lies, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The queue's memory in the guest.
    pub queue_at: u64,
    /// Its area of requests in flight in the front end's memory.
    pub area_at: u64,
    /// Requests that may be unanswered at a time.
    pub rooms: u16,
    /// The longest request.
    pub data_bytes_max: u64,
    /// Whether the sides tell each other by events, not by flags, when they want to be told.
    pub has_event_index: bool,
}

impl Shape {
    /// Descriptors of the queue.
    #[must_use]
    pub fn size(&self) -> u16 {
        (PARTS_MAX * self.rooms).next_power_of_two()
    }

    fn room_bytes(&self) -> u64 {
        (DATA_AT + self.data_bytes_max).next_multiple_of(0x1000)
    }

    /// The length of the queue's memory in the guest.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        ROOMS_AT + u64::from(self.rooms) * self.room_bytes()
    }

    /// The length of its area of requests in flight.
    #[must_use]
    pub fn area_bytes(&self) -> u64 {
        area_bytes(self.size())
    }

    /// Where its rings lie.
    #[must_use]
    pub fn places(&self) -> Places {
        Places {
            table: self.queue_at,
            available: self.queue_at + AVAILABLE_AT,
            used: self.queue_at + USED_AT,
        }
    }

    /// Where a room begins.
    pub(super) fn room(&self, room: u16) -> u64 {
        self.queue_at + ROOMS_AT + u64::from(room) * self.room_bytes()
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What to do.
    pub operation: Operation,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 for a flush.
    pub length_bytes: u32,
    /// What a write writes; otherwise empty.
    pub data: &'a [u8],
    /// Whether its chain has a table of its own.
    pub is_indirect: bool,
}

/// A chain that the device has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The room of its request; `None` if no request has such a chain.
    pub room: Option<u16>,
    /// How many bytes the device says that it has written.
    pub written_bytes: u32,
}

/// The driver of one queue. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Driver {
    guest: Arc<Guest>,
    area: Arc<Guest>,
    shape: Shape,
    /// The index behind the last chain that was made available.
    available: u16,
    /// The index behind the last answer that was found.
    used: u16,
}

impl Driver {
    /// An empty queue in new memory, whose indices begin at `first`. `area` is the front end's memory of requests in flight.
    ///
    /// # Panics
    /// If the queue's memory is not in `guest`.
    #[must_use]
    pub fn new(guest: Arc<Guest>, area: Arc<Guest>, shape: Shape, first: u16) -> Driver {
        let driver = Driver {
            guest,
            area,
            shape,
            available: first,
            used: first,
        };
        let places = shape.places();
        driver.put(places.available + 2, &first.to_le_bytes());
        driver.put(places.used + 2, &first.to_le_bytes());
        driver.await_answers();
        driver
    }

    /// The guest's memory.
    #[must_use]
    pub fn guest(&self) -> &Arc<Guest> {
        &self.guest
    }

    /// The front end's memory of requests in flight.
    #[must_use]
    pub fn area(&self) -> &Arc<Guest> {
        &self.area
    }

    /// The index behind the last chain that was made available.
    #[must_use]
    pub fn available(&self) -> u16 {
        self.available
    }

    /// What a new server needs: the ring, the area of requests in flight, and the chains that an earlier server has taken
    /// and not given back.
    ///
    /// # Errors
    /// [`Broken`] if the memory makes no sense.
    pub fn open(&self) -> Result<(SplitRing, InFlight, Vec<u16>), Broken> {
        let (shape, size) = (&self.shape, self.shape.size());
        let places = shape.places();
        let mut ring = SplitRing::new(&self.guest, places, size, shape.has_event_index, 0)?;
        let (area, again) = InFlight::take_over(&self.area, shape.area_at, size, &mut ring)?;
        Ok((ring, area, again))
    }

    /// Describes a request in a free room and makes it available. True if the device wants to be told.
    pub fn ask(&mut self, room: u16, wanted: &Wanted<'_>) -> bool {
        let sector = wanted.offset_bytes / SECTOR_BYTES;
        let sectors = wanted.length_bytes / SECTOR_BYTES as u32;
        let (kind, sent) = match wanted.operation {
            Operation::Read => (REQUEST_READ, Vec::new()),
            Operation::Write => (REQUEST_WRITE, wanted.data.to_vec()),
            Operation::Flush => (REQUEST_FLUSH, Vec::new()),
            Operation::Trim => (REQUEST_DISCARD, range(sector, sectors, 0)),
            Operation::WriteZeroes { keep_allocated, .. } => {
                let flags = if keep_allocated { 0 } else { RANGE_UNMAP };
                (REQUEST_ZEROES, range(sector, sectors, flags))
            }
        };
        let wanted_bytes = match wanted.operation {
            Operation::Read => wanted.length_bytes,
            _ => 0,
        };
        let request = (kind, sector);
        self.describe(room, request, &sent, wanted_bytes, wanted.is_indirect);
        self.publish(PARTS_MAX * room)
    }

    /// Writes a request and its chain, in the queue's table or in one of its own.
    pub(super) fn describe(
        &self,
        room: u16,
        (kind, sector): (u32, u64),
        sent: &[u8],
        wanted_bytes: u32,
        is_indirect: bool,
    ) {
        let at = self.shape.room(room);
        let head = [
            &kind.to_le_bytes()[..],
            &[0; 4],
            &sector.to_le_bytes(),
            &[NO_STATUS],
        ];
        self.put(at, &head.concat());
        self.put(at + DATA_AT, sent);
        let next = DESCRIPTOR_NEXT;
        let mut parts = vec![(at, HEADER_BYTES as u32, next)];
        if !sent.is_empty() {
            parts.push((at + DATA_AT, sent.len() as u32, next));
        }
        if wanted_bytes > 0 {
            parts.push((at + DATA_AT, wanted_bytes, next | DESCRIPTOR_WRITE));
        }
        parts.push((at + STATUS_AT, 1, DESCRIPTOR_WRITE));
        let (table, first) = match is_indirect {
            true => (at + TABLE_AT, 0),
            false => (self.shape.queue_at, PARTS_MAX * room),
        };
        for (index, part) in (first..).zip(&parts) {
            self.describe_part(table, index, *part);
        }
        if is_indirect {
            let length_bytes = parts.len() as u32 * DESCRIPTOR_BYTES as u32;
            let part = (at + TABLE_AT, length_bytes, DESCRIPTOR_INDIRECT);
            self.describe_part(self.shape.queue_at, PARTS_MAX * room, part);
        }
    }

    fn describe_part(&self, table: u64, index: u16, (address, length, flags): (u64, u32, u16)) {
        let bytes = [
            &address.to_le_bytes()[..],
            &length.to_le_bytes(),
            &flags.to_le_bytes(),
            &(index + 1).to_le_bytes(),
        ];
        self.put(table + u64::from(index) * DESCRIPTOR_BYTES, &bytes.concat());
    }

    /// Makes the chain that begins at a descriptor available. True if the device wants to be told.
    pub(super) fn publish(&mut self, head: u16) -> bool {
        let is_awaited = self.is_awaited();
        let available = self.shape.places().available;
        let place = available + 4 + 2 * u64::from(self.available % self.shape.size());
        self.put(place, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.put(available + 2, &self.available.to_le_bytes());
        is_awaited
    }

    /// Whether the device wants to be told of the next chain.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let event = self.shape.places().used + 4 + 8 * u64::from(self.shape.size());
        !self.shape.has_event_index || self.number(event) == self.available
    }

    /// The chains that were given back since the last call, in their order. From now on the driver wants to be told of the
    /// next one.
    ///
    /// # Panics
    /// As [`Driver::answers`].
    pub fn look(&mut self) -> Vec<Answer> {
        let answers = self.answers();
        self.used = self.used.wrapping_add(answers.len() as u16);
        self.await_answers();
        answers
    }

    /// What [`Driver::look`] would return.
    ///
    /// # Panics
    /// If the device claims more than the queue has room for.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        let used = self.shape.places().used;
        let until = self.number(used + 2);
        let count = until.wrapping_sub(self.used);
        assert!(
            count <= self.shape.size(),
            "{count} chains do not fit into the queue"
        );
        let answer = |number: u16| {
            let index = self.used.wrapping_add(number);
            let place = used + 4 + 8 * u64::from(index % self.shape.size());
            let (head, written) = (self.number(place), self.number(place + 4));
            let high = self.number(place + 6);
            let room = head / PARTS_MAX;
            let is_room = head.is_multiple_of(PARTS_MAX) && room < self.shape.rooms;
            Answer {
                room: is_room.then_some(room),
                written_bytes: u32::from(high) << 16 | u32::from(written),
            }
        };
        (0..count).map(answer).collect()
    }

    /// Says in the ring that the driver wants to be told of the next answer.
    fn await_answers(&self) {
        let event = self.shape.places().available + 4 + 2 * u64::from(self.shape.size());
        self.put(event, &self.used.to_le_bytes());
    }

    /// The status in a room.
    #[must_use]
    pub fn status(&self, room: u16) -> u8 {
        let mut status = [0];
        self.get(self.shape.room(room) + STATUS_AT, &mut status);
        status[0]
    }

    /// Reads the data in a room.
    pub fn data(&self, room: u16, into: &mut [u8]) {
        self.get(self.shape.room(room) + DATA_AT, into);
    }

    /// What only the device writes: the ring of used chains, and the area of requests in flight.
    #[must_use]
    pub fn written_by_device(&self) -> (Vec<u8>, Vec<u8>) {
        let mut ring = vec![0; 6 + 8 * usize::from(self.shape.size())];
        self.get(self.shape.places().used, &mut ring);
        let mut area = vec![0; self.shape.area_bytes() as usize];
        read(&self.area, self.shape.area_at, &mut area).expect("the area is in its memory");
        (ring, area)
    }

    /// Puts back what [`Driver::written_by_device`] has returned earlier, as if the device had done nothing since.
    pub fn undo(&self, (ring, area): &(Vec<u8>, Vec<u8>)) {
        self.put(self.shape.places().used, ring);
        write(&self.area, self.shape.area_at, area).expect("the area is in its memory");
    }

    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        write(&self.guest, at, bytes).expect("places of the test are in its memory");
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        read(&self.guest, at, into).expect("places of the test are in its memory");
    }

    fn number(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.get(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }
}

/// A range of a discard, or of zeroes.
pub(super) fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    let parts = [
        &sector.to_le_bytes()[..],
        &sectors.to_le_bytes(),
        &flags.to_le_bytes(),
    ];
    parts.concat()
}
