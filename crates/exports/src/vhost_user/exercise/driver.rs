//! The guest's driver in a history: it makes requests available, or scribbles, and looks at the answers.

use super::super::guest::{read, write};
use super::super::wire::*;
use super::{History, PLACE_BYTES, PLACES, ROOMS, RULES, SIZE};

/// Where the rooms of chains begin, and what they contain.
const ROOM_AT: u64 = 0x4000;
const ROOM_BYTES: u64 = 0x5000;
const STATUS_AT: u64 = 16;
const TABLE_AT: u64 = 0x40;
const DATA_AT: u64 = 0x100;

/// A request that was not answered yet.
pub(super) struct Asked {
    kind: u32,
    status: u8,
    /// What a read has to find, or a write to leave, at the beginning of its place.
    data: Vec<u8>,
}

impl History {
    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        write(&self.guest, at, bytes).expect("places of the test are in its memory");
    }

    fn room(room: u16) -> u64 {
        ROOM_AT + u64::from(room) * ROOM_BYTES
    }

    /// The guest makes a request available, if its room is free.
    pub(super) fn ask(&mut self, choice: u8, bytes: &mut impl Iterator<Item = u8>) {
        let room = u16::from(choice) % ROOMS;
        let mut next = || bytes.next().unwrap_or(0);
        let (what, length, seed) = (next(), next(), next());
        if self.asked[usize::from(room)].is_some() {
            return;
        }
        let sectors = 1 + u64::from(length % 32);
        let sector = u64::from(room) * PLACE_BYTES / SECTOR_BYTES;
        let (kind, mut status) = match what % 8 {
            0..3 => (REQUEST_READ, STATUS_OK),
            3..5 => (REQUEST_WRITE, STATUS_OK),
            5 => (REQUEST_FLUSH, STATUS_OK),
            6 => (REQUEST_ZEROES, STATUS_OK),
            _ => (REQUEST_IDENTITY, STATUS_OK),
        };
        let mut length_bytes = sectors * SECTOR_BYTES;
        if what > 240 && matches!(kind, REQUEST_READ | REQUEST_WRITE) {
            (length_bytes, status) = (length_bytes - 1, STATUS_ERROR);
        }
        let data = self.data(kind, room, length_bytes, seed);
        let range = [
            &sector.to_le_bytes()[..],
            &(sectors as u32).to_le_bytes(),
            &[0; 4],
        ];
        let sent = match kind {
            REQUEST_WRITE => data.clone(),
            REQUEST_ZEROES => range.concat(),
            _ => Vec::new(),
        };
        let wanted_bytes = match kind {
            REQUEST_READ => length_bytes as u32,
            REQUEST_IDENTITY => IDENTITY_BYTES as u32,
            _ => 0,
        };
        self.describe(room, (kind, sector), &sent, wanted_bytes, what & 64 != 0);
        self.publish(3 * room);
        self.asked[usize::from(room)] = Some(Asked { kind, status, data });
    }

    /// What the place of a room begins with when its request is answered.
    fn data(&self, kind: u32, room: u16, length_bytes: u64, seed: u8) -> Vec<u8> {
        let at = usize::from(room) * PLACE_BYTES as usize;
        let length = length_bytes as usize;
        match kind {
            REQUEST_READ => self.volume[at..at + length].to_vec(),
            REQUEST_WRITE => (0..length).map(|at| (at / 64) as u8 ^ seed).collect(),
            REQUEST_ZEROES => vec![0; length],
            _ => Vec::new(),
        }
    }

    /// Writes a request and its chain, in the queue's table or in one of its own.
    fn describe(
        &self,
        room: u16,
        (kind, sector): (u32, u64),
        sent: &[u8],
        wanted_bytes: u32,
        is_indirect: bool,
    ) {
        let at = Self::room(room);
        let head = [
            &kind.to_le_bytes()[..],
            &[0; 4],
            &sector.to_le_bytes(),
            &[0xee],
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
            false => (PLACES.table, 3 * room),
        };
        for (index, part) in (first..).zip(&parts) {
            self.describe_part(table, index, *part);
        }
        if is_indirect {
            let length_bytes = parts.len() as u32 * DESCRIPTOR_BYTES as u32;
            let part = (at + TABLE_AT, length_bytes, DESCRIPTOR_INDIRECT);
            self.describe_part(PLACES.table, 3 * room, part);
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

    pub(super) fn publish(&mut self, head: u16) {
        let is_awaited = self.is_awaited();
        let place = PLACES.available + 4 + 2 * u64::from(self.available % SIZE);
        self.put(place, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.put(PLACES.available + 2, &self.available.to_le_bytes());
        if self.is_served && (is_awaited || self.is_wild) {
            self.queues.kicked(0);
        }
    }

    /// Whether the queue has asked to be told of the next chain.
    pub(super) fn is_awaited(&self) -> bool {
        let mut event = [0; 2];
        let at = PLACES.used + 4 + 8 * u64::from(SIZE);
        read(&self.guest, at, &mut event).expect("the ring is in memory");
        u16::from_le_bytes(event) == self.available
    }

    /// A wild guest writes anything anywhere, most often where it hurts.
    pub(super) fn scribble(&mut self, bytes: &mut impl Iterator<Item = u8>) {
        let mut next = || u64::from(bytes.next().unwrap_or(0));
        let (area, offset) = (next(), next());
        let content: Vec<u8> = (0..1 + next() % 8).map(|_| next() as u8).collect();
        let at = match area % 6 {
            0 | 1 => PLACES.table + offset,
            2 => PLACES.available + offset % 40,
            3 => PLACES.used + offset % 140,
            4 => Self::room((offset % 4) as u16) + offset / 4,
            _ => return write(&self.area, offset, &content).expect("it is in the area"),
        };
        self.put(at, &content);
        if self.is_served {
            self.queues.kicked(0);
        }
    }

    /// Compares each new answer with what it has to be.
    pub(super) fn check_answers(&mut self) {
        let number = |at: u64| {
            let mut bytes = [0; 2];
            read(&self.guest, at, &mut bytes).expect("places of the test are in its memory");
            u16::from_le_bytes(bytes)
        };
        let until = number(PLACES.used + 2);
        while self.used != until {
            let place = PLACES.used + 4 + 8 * u64::from(self.used % SIZE);
            let room = number(place) / 3;
            self.used = self.used.wrapping_add(1);
            let asked = self.asked[usize::from(room)].take();
            self.check_answer(room, &asked.expect("a request is answered once"));
        }
    }

    fn check_answer(&self, room: u16, asked: &Asked) {
        let at = Self::room(room);
        let mut status = [0];
        read(&self.guest, at + STATUS_AT, &mut status).expect("a room is in memory");
        assert_eq!(
            status[0], asked.status,
            "of a request of type {}",
            asked.kind
        );
        if asked.status != STATUS_OK {
            return;
        }
        let place = usize::from(room) * PLACE_BYTES as usize;
        let on_volume = &self.volume[place..place + asked.data.len()];
        assert!(on_volume == asked.data, "the volume has something else");
        let mut in_guest = asked.data.clone();
        match asked.kind {
            REQUEST_READ => {
                read(&self.guest, at + DATA_AT, &mut in_guest).expect("a room is in memory");
                assert!(in_guest == asked.data, "the guest has read something else");
            }
            REQUEST_IDENTITY => {
                in_guest = vec![0; IDENTITY_BYTES];
                read(&self.guest, at + DATA_AT, &mut in_guest).expect("a room is in memory");
                assert_eq!(in_guest, RULES.identity);
            }
            _ => {}
        }
    }
}
