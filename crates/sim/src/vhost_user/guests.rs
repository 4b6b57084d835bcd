//! The guests: memory, drivers, and which requests are not answered. They belong to the machine, and outlive processes.
//!
//! Each volume is the disk of one guest, and each client has a queue of it.

use super::{CONNECTIONS, Machines};
use crate::history::Ask;
use crate::process::REQUEST_BYTES_MAX;
use engine::request::Operation;
use exports::vhost_user::driver::{Answer, Driver, Shape, Wanted, memory};

/// A request, and its number.
pub type Numbered = (u32, Ask);

/// A request that was answered.
pub struct Answered {
    /// Its number, and what was asked for.
    pub request: Numbered,
    /// Its status.
    pub status: u8,
    /// What a read has returned; otherwise empty.
    pub data: Vec<u8>,
}

/// One queue of a guest.
struct Queue {
    driver: Driver,
    rooms: Vec<Room>,
}

/// What a room of a queue has.
#[derive(Clone, Copy, Debug)]
enum Room {
    Free,
    /// A request that is not answered.
    Waits(Numbered),
    /// A request whose answer can be seen, and of which the guest was not told.
    Unseen,
}

/// See the module's prose.
pub struct Guests {
    machines: Machines,
    /// By volume, then by client.
    queues: Vec<Vec<Queue>>,
}

impl Guests {
    /// Guests that have just been started, one for each volume.
    #[must_use]
    pub fn new(machines: Machines, volumes: usize) -> Guests {
        let guests = (0..volumes).map(|_| queues_of_a_guest(machines));
        Guests {
            machines,
            queues: guests.collect(),
        }
    }

    /// The power is back: the guests have new memory, and know nothing of earlier requests.
    pub fn start_again(&mut self) {
        *self = Guests::new(self.machines, self.queues.len());
    }

    /// How they are.
    #[must_use]
    pub fn machines(&self) -> Machines {
        self.machines
    }

    fn queue(&mut self, volume: u8, connection: u8) -> &mut Queue {
        &mut self.queues[usize::from(volume)][usize::from(connection)]
    }

    /// The driver of a queue.
    #[must_use]
    pub fn driver(&self, volume: u8, connection: u8) -> &Driver {
        &self.queues[usize::from(volume)][usize::from(connection)].driver
    }

    /// Whether a queue can have another request.
    #[must_use]
    pub fn has_room(&self, volume: u8, connection: u8) -> bool {
        let queue = &self.queues[usize::from(volume)][usize::from(connection)];
        queue.free_room().is_some()
    }

    /// What a guest can ask for: it knows neither FUA nor zeroes that are only wanted if they are fast.
    #[must_use]
    pub fn as_guests_ask(&self, ask: Ask) -> Ask {
        let (operation, is_change) = match ask.operation {
            Operation::WriteZeroes { keep_allocated, .. } => {
                let only_if_fast = false;
                let operation = Operation::WriteZeroes {
                    keep_allocated,
                    only_if_fast,
                };
                (operation, true)
            }
            Operation::Write => (ask.operation, true),
            other => (other, false),
        };
        Ask {
            operation,
            fua: is_change && self.machines.write_through,
            ..ask
        }
    }

    /// A guest sends a request; `data` is what a write writes. True if the queue wants to be told of it.
    ///
    /// # Panics
    /// If the queue has no room ([`Guests::has_room`]).
    pub fn send(&mut self, request: Numbered, data: &[u8]) -> bool {
        let (number, ask) = request;
        let queue = self.queue(ask.volume, ask.connection);
        let room = queue.free_room().expect("the caller has looked for room");
        queue.rooms[usize::from(room)] = Room::Waits(request);
        let wanted = Wanted {
            operation: ask.operation,
            offset_bytes: ask.offset_bytes,
            length_bytes: ask.length_bytes,
            data,
            is_indirect: number.is_multiple_of(3),
        };
        queue.driver.ask(room, &wanted)
    }

    /// A guest was told that a queue has answers, and looks for them.
    ///
    /// # Errors
    /// Something is answered that nobody waits for.
    pub fn look(&mut self, volume: u8, connection: u8) -> Result<Vec<Answered>, String> {
        let queue = self.queue(volume, connection);
        let answers = queue.driver.look();
        queue.take(&answers, Room::Free)
    }

    /// The process that has answered was killed before the guest was told: the answers count, and the rooms stay taken until
    /// the guest is told by the next process.
    ///
    /// # Errors
    /// As [`Guests::look`].
    pub fn leave_unseen(&mut self, volume: u8, connection: u8) -> Result<Vec<Answered>, String> {
        let queue = self.queue(volume, connection);
        let answers = queue.driver.answers();
        queue.take(&answers, Room::Unseen)
    }

    fn rooms(&self) -> impl Iterator<Item = Room> {
        let queues = self.queues.iter().flatten();
        queues.flat_map(|queue| queue.rooms.iter().copied())
    }

    /// Requests that are not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = Numbered> {
        self.rooms().filter_map(|room| match room {
            Room::Waits(request) => Some(request),
            Room::Free | Room::Unseen => None,
        })
    }

    /// Whether a queue has requests besides those whose answers can be seen.
    #[must_use]
    pub fn has_further(&self, volume: u8, connection: u8) -> bool {
        let queue = &self.queues[usize::from(volume)][usize::from(connection)];
        let waits = |room: &&Room| matches!(room, Room::Waits(_));
        queue.rooms.iter().filter(waits).count() > queue.driver.answers().len()
    }

    /// Whether a guest was not told of an answer.
    #[must_use]
    pub fn has_unseen(&self) -> bool {
        self.rooms().any(|room| matches!(room, Room::Unseen))
    }
}

impl Queue {
    fn free_room(&self) -> Option<u16> {
        let is_free = |room: &Room| matches!(room, Room::Free);
        let room = self.rooms.iter().position(is_free)?;
        u16::try_from(room).ok()
    }

    /// Takes requests that were answered out of their rooms, and leaves `after` there. Those that were answered earlier and not
    /// seen are not returned again.
    fn take(&mut self, answers: &[Answer], after: Room) -> Result<Vec<Answered>, String> {
        let mut answered = Vec::new();
        for answer in answers {
            let at = answer.room.filter(|_| answer.written_bytes > 0);
            let Some(at) = at else {
                return Err(format!("{answer:?} is the answer to no request"));
            };
            let room = &mut self.rooms[usize::from(at)];
            match std::mem::replace(room, after) {
                Room::Waits(request) => answered.push(self.answered(at, request)),
                Room::Unseen => {}
                Room::Free => return Err(format!("nobody waits for {answer:?}")),
            }
        }
        Ok(answered)
    }

    fn answered(&self, room: u16, request: Numbered) -> Answered {
        let length_bytes = match request.1.operation {
            Operation::Read => request.1.length_bytes as usize,
            _ => 0,
        };
        let mut data = vec![0; length_bytes];
        self.driver.data(room, &mut data);
        Answered {
            request,
            status: self.driver.status(room),
            data,
        }
    }
}

fn queues_of_a_guest(machines: Machines) -> Vec<Queue> {
    let shape = Shape {
        queue_at: 0,
        area_at: 0,
        rooms: machines.depth,
        data_bytes_max: u64::from(REQUEST_BYTES_MAX),
        has_event_index: machines.has_event_index,
    };
    let count = u64::from(CONNECTIONS);
    let guest = memory(count * shape.queue_bytes());
    let area = memory(count * shape.area_bytes());
    let queue = |number: u64| {
        let shape = Shape {
            queue_at: number * shape.queue_bytes(),
            area_at: number * shape.area_bytes(),
            ..shape
        };
        Queue {
            driver: Driver::new(guest.clone(), area.clone(), shape, machines.first_index),
            rooms: vec![Room::Free; usize::from(machines.depth)],
        }
    };
    (0..count).map(queue).collect()
}
