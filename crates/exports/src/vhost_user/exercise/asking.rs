//! What the guest of a history asks for, or scribbles, and what its answers have to be.

use super::super::driver::range;
use super::super::guest::write;
use super::super::wire::*;
use super::{History, PLACE_BYTES, ROOMS, RULES, SHAPE};

/// A request that was not answered yet.
pub(super) struct Asked {
    kind: u32,
    status: u8,
    /// What a read has to find, or a write to leave, at the beginning of its place.
    data: Vec<u8>,
}

impl History {
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
        let sent = match kind {
            REQUEST_WRITE => data.clone(),
            REQUEST_ZEROES => range(sector, sectors as u32, 0),
            _ => Vec::new(),
        };
        let wanted_bytes = match kind {
            REQUEST_READ => length_bytes as u32,
            REQUEST_IDENTITY => IDENTITY_BYTES as u32,
            _ => 0,
        };
        let (request, is_indirect) = ((kind, sector), what & 64 != 0);
        self.driver
            .describe(room, request, &sent, wanted_bytes, is_indirect);
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

    /// Makes the chain that begins at a descriptor available, and tells the server where it wants that. A wild guest tells
    /// always.
    pub(super) fn publish(&mut self, head: u16) {
        let is_awaited = self.driver.publish(head);
        if self.is_served && (is_awaited || self.is_wild) {
            self.queues.kicked(0);
        }
    }

    /// A wild guest writes anything anywhere, most often where it hurts.
    pub(super) fn scribble(&mut self, bytes: &mut impl Iterator<Item = u8>) {
        let mut next = || u64::from(bytes.next().unwrap_or(0));
        let (area, offset) = (next(), next());
        let content: Vec<u8> = (0..1 + next() % 8).map(|_| next() as u8).collect();
        let places = SHAPE.places();
        let at = match area % 6 {
            0 | 1 => places.table + offset,
            2 => places.available + offset % 40,
            3 => places.used + offset % 140,
            4 => SHAPE.room((offset % 4) as u16) + offset / 4,
            _ => return write(self.driver.area(), offset, &content).expect("it is in the area"),
        };
        self.driver.put(at, &content);
        if self.is_served {
            self.queues.kicked(0);
        }
    }

    /// Compares each new answer with what it has to be.
    pub(super) fn check_answers(&mut self) {
        for answer in self.driver.look() {
            let room = answer.room.expect("what is given back was asked for");
            let asked = self.asked[usize::from(room)].take();
            self.check_answer(room, &asked.expect("a request is answered once"));
        }
    }

    fn check_answer(&self, room: u16, asked: &Asked) {
        let status = self.driver.status(room);
        assert_eq!(status, asked.status, "of a request of type {}", asked.kind);
        if asked.status != STATUS_OK {
            return;
        }
        let place = usize::from(room) * PLACE_BYTES as usize;
        let on_volume = &self.volume[place..place + asked.data.len()];
        assert!(on_volume == asked.data, "the volume has something else");
        let mut in_guest = asked.data.clone();
        match asked.kind {
            REQUEST_READ => {
                self.driver.data(room, &mut in_guest);
                assert!(in_guest == asked.data, "the guest has read something else");
            }
            REQUEST_IDENTITY => {
                in_guest = vec![0; IDENTITY_BYTES];
                self.driver.data(room, &mut in_guest);
                assert_eq!(in_guest, RULES.identity);
            }
            _ => {}
        }
    }
}
