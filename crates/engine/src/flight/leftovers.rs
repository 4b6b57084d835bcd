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
pub(crate) struct Leftover {
    /// How many have not come back.
    pub commands: u16,
    pub members: MemberSet,
    pub scratch: Option<ScratchBlock>,
    /// First of a chain of pins.
    pub pins: u32,
}

/// Memory of a client that such commands may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    pub buffer: Buffer,
    /// The shard whose client it is.
    pub home: ShardId,
    pub next: u32,
}

/// All of them. See the module's prose.
#[derive(Debug)]
pub(crate) struct Leftovers {
    pub list: Pool<Leftover>,
    /// Owner and place in the list of those that there are.
    pub owners: Vec<(u64, u32)>,
    pub pins: Pool<Pin>,
    /// What plans will need that have given up commands and still run.
    pub promised: Room,
}

/// Entries that a plan needs when it goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Room {
    pub leftovers: usize,
    pub pins: usize,
}

impl Leftovers {
    pub fn new() -> Leftovers {
        let leftover = || Leftover {
            commands: 0,
            members: MemberSet::default(),
            scratch: None,
            pins: NONE,
        };
        let pin = Pin {
            buffer: Buffer(0),
            home: ShardId(0),
            next: NONE,
        };
        Leftovers {
            list: Pool::new(LEFTOVERS_MAX, leftover),
            owners: Vec::with_capacity(LEFTOVERS_MAX),
            pins: Pool::new(PINS_MAX, || pin),
            promised: Room::default(),
        }
    }

    /// Commands that have not come back, and who has them.
    pub(crate) fn count(&self) -> (usize, MemberSet) {
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

    pub(crate) fn position(&self, owner: u64) -> Option<usize> {
        self.owners.iter().position(|&(other, _)| other == owner)
    }

    /// Adds an entry, for which room was promised.
    pub(crate) fn add(&mut self, owner: u64, leftover: Leftover) {
        assert!(leftover.commands > 0, "nothing is left behind");
        assert!(
            self.position(owner).is_none(),
            "two plans have left commands of one name behind"
        );
        let at = self.list.take().expect("room for it was promised");
        self.list[at] = leftover;
        self.owners.push((owner, at));
    }

    /// Adds a command that has no memory to keep; false if too much is out already.
    pub fn add_command(&mut self, name: Token, member: MemberId) -> bool {
        let owner = name.owner();
        if let Some(position) = self.position(owner) {
            let leftover = &mut self.list[self.owners[position].1];
            leftover.commands += 1;
            leftover.members.insert(member);
            return true;
        }
        let has_room = self.promised.leftovers < self.list.available();
        if has_room {
            let leftover = Leftover {
                commands: 1,
                members: [member].into_iter().collect(),
                scratch: None,
                pins: NONE,
            };
            self.add(owner, leftover);
        }
        has_room
    }

    /// The generation itself if no command still bears its `name`, else the next such one.
    pub fn free_generation(&self, generation: u16, name: impl Fn(u16) -> Token) -> u16 {
        if self.position(name(generation).owner()).is_none() {
            return generation;
        }
        self.next_generation(generation, name)
    }

    /// A generation whose `name` no command still bears. There are more generations than entries.
    pub(crate) fn next_generation(&self, generation: u16, name: impl Fn(u16) -> Token) -> u16 {
        let mut next = generation;
        loop {
            next = (next + 1) % GENERATIONS;
            if self.position(name(next).owner()).is_none() {
                return next;
            }
        }
    }

    pub(crate) fn promise(&mut self, room: Room) -> bool {
        let leftovers = self.promised.leftovers + room.leftovers;
        let pins = self.promised.pins + room.pins;
        let fits = leftovers <= self.list.available() && pins <= self.pins.available();
        if fits {
            self.promised = Room { leftovers, pins };
        }
        fits
    }

    pub(crate) fn take_back_promise(&mut self, room: Room) {
        self.promised.leftovers -= room.leftovers;
        self.promised.pins -= room.pins;
    }
}
