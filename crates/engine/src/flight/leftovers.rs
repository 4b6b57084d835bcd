//! Commands that failed drives have not given back although their plans are gone, and the memory that such a command
//! may still use: see [`crate::shard::plans::abandon`].

mod check;

use crate::flight::scratch::ScratchBlock;
use crate::limits::{LEFTOVERS_MAX, PINS_MAX};
use crate::order::ranges::NONE;
use crate::pool::Pool;
use crate::token::{GENERATIONS, Token};
use crate::units::{Buffer, MemberId, MemberSet, ShardId};
use alloc::vec::Vec;

/// Commands that one plan left behind.
#[derive(Debug)]
struct Leftover {
    /// How many have not come back.
    commands: u16,
    members: MemberSet,
    scratch: Option<ScratchBlock>,
    pins: Pins,
}

/// Memory of a client that such commands may use.
#[derive(Clone, Copy, Debug)]
struct Pin {
    buffer: Buffer,
    /// The shard whose client it is.
    home: ShardId,
    next: Pins,
}

/// A chain of pieces of memory of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pins(u32);

impl Pins {
    /// No memory.
    pub const NONE: Pins = Pins(NONE);
}

/// What is still out when a command has come back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StillOut {
    /// Others of the same name.
    Others,
    /// Nothing: this memory is free again.
    Nothing {
        scratch: Option<ScratchBlock>,
        pins: Pins,
    },
}

/// All commands left behind. See the module's prose.
#[derive(Debug)]
pub(crate) struct Leftovers {
    list: Pool<Leftover>,
    /// For each entry in use: the owner part of the commands' names, and the entry's place in the list.
    owners: Vec<(u64, u32)>,
    pins: Pool<Pin>,
    /// Room that is kept for plans that have given up commands and still run.
    promised: Room,
}

/// Entries that a plan needs when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Room {
    leftovers: usize,
    pins: usize,
}

impl Room {
    /// What a plan needs at most: an entry for its own commands, and one for those of the single request that it was,
    /// each with so many `pieces` of clients' memory.
    pub fn of_plan(pieces: usize) -> Room {
        Room {
            leftovers: 2,
            pins: 2 * pieces,
        }
    }

    /// Room for both.
    pub fn and(self, other: Room) -> Room {
        Room {
            leftovers: self.leftovers + other.leftovers,
            pins: self.pins + other.pins,
        }
    }
}

impl Leftovers {
    /// Nothing is left behind.
    pub fn new() -> Leftovers {
        let leftover = || Leftover {
            commands: 0,
            members: MemberSet::default(),
            scratch: None,
            pins: Pins::NONE,
        };
        let pin = Pin {
            buffer: Buffer(0),
            home: ShardId(0),
            next: Pins::NONE,
        };
        Leftovers {
            list: Pool::new(LEFTOVERS_MAX, leftover),
            owners: Vec::with_capacity(LEFTOVERS_MAX),
            pins: Pool::new(PINS_MAX, || pin),
            promised: Room::default(),
        }
    }

    /// How many commands have not come back, and the members that hold them.
    pub fn count(&self) -> (usize, MemberSet) {
        let mut found = (0, MemberSet::default());
        for &(_, at) in &self.owners {
            found.0 += usize::from(self.list[at].commands);
            found.1.0 |= self.list[at].members.0;
        }
        found
    }

    /// The scratch memory that such commands may use.
    pub fn scratch(&self) -> impl Iterator<Item = ScratchBlock> {
        let blocks = self.owners.iter().map(|&(_, at)| self.list[at].scratch);
        blocks.flatten()
    }

    fn position(&self, name: Token) -> Option<usize> {
        let owner = name.owner();
        self.owners.iter().position(|&(other, _)| other == owner)
    }

    /// Whether a command that was left behind has the same owner as this one.
    pub fn has_name(&self, name: Token) -> bool {
        self.position(name).is_some()
    }

    /// Adds the commands that a plan leaves behind, with the memory that they may use. Room for it was promised.
    pub fn add(
        &mut self,
        name: Token,
        (commands, members): (u16, MemberSet),
        scratch: Option<ScratchBlock>,
        pins: Pins,
    ) {
        assert!(commands > 0, "{name:?} leaves no commands behind");
        assert!(
            !self.has_name(name),
            "two plans have left commands behind under {name:?}"
        );
        let at = self.list.take().expect("room for it was promised");
        self.list[at] = Leftover {
            commands,
            members,
            scratch,
            pins,
        };
        self.owners.push((name.owner(), at));
    }

    /// Adds a command that has no memory to keep; false if too much has been left behind already.
    pub fn add_command(&mut self, name: Token, member: MemberId) -> bool {
        if let Some(position) = self.position(name) {
            let leftover = &mut self.list[self.owners[position].1];
            leftover.commands += 1;
            leftover.members.insert(member);
            return true;
        }
        let has_room = self.promised.leftovers < self.list.available();
        if has_room {
            let members = [member].into_iter().collect();
            self.add(name, (1, members), None, Pins::NONE);
        }
        has_room
    }

    /// Puts a piece of memory, of a client of shard `home`, at the head of a chain.
    pub fn pin(&mut self, buffer: Buffer, home: ShardId, next: Pins) -> Pins {
        let at = self.pins.take().expect("room for the pins was promised");
        self.pins[at] = Pin { buffer, home, next };
        Pins(at)
    }

    /// Takes the first piece off a chain: the memory, and the shard whose client owns it.
    pub fn unpin(&mut self, chain: &mut Pins) -> Option<(Buffer, ShardId)> {
        let Pins(at) = *chain;
        if at == NONE {
            return None;
        }
        let Pin { buffer, home, next } = self.pins[at];
        self.pins.give(at);
        *chain = next;
        Some((buffer, home))
    }

    /// A command that was left behind has come back.
    pub fn came_back(&mut self, name: Token) -> StillOut {
        let position = self.position(name);
        let position =
            position.unwrap_or_else(|| panic!("{name:?} was answered, and was not left behind"));
        let at = self.owners[position].1;
        let leftover = &mut self.list[at];
        leftover.commands -= 1;
        if leftover.commands > 0 {
            return StillOut::Others;
        }
        let (scratch, pins) = (leftover.scratch.take(), leftover.pins);
        self.owners.swap_remove(position);
        self.list.give(at);
        StillOut::Nothing { scratch, pins }
    }

    /// `generation` itself if no leftover command bears its `name`, else the next one for which that is so.
    pub fn free_generation(&self, generation: u16, name: impl Fn(u16) -> Token) -> u16 {
        if self.has_name(name(generation)) {
            return self.next_generation(generation, name);
        }
        generation
    }

    /// The next generation whose `name` no leftover command bears. There is one: there are more generations than
    /// entries.
    pub fn next_generation(&self, generation: u16, name: impl Fn(u16) -> Token) -> u16 {
        let mut next = generation;
        loop {
            next = (next + 1) % GENERATIONS;
            if !self.has_name(name(next)) {
                return next;
            }
        }
    }

    /// Keeps room for what a plan may leave behind; false if there is not enough.
    pub fn promise(&mut self, room: Room) -> bool {
        let all = self.promised.and(room);
        let fits = all.leftovers <= self.list.available() && all.pins <= self.pins.available();
        if fits {
            self.promised = all;
        }
        fits
    }

    /// The plan needs that room no more, or is about to use it.
    pub fn take_back_promise(&mut self, room: Room) {
        self.promised.leftovers -= room.leftovers;
        self.promised.pins -= room.pins;
    }
}
