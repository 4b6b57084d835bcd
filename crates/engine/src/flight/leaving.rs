//! Plans leave commands behind that failed drives have not given back: see [`crate::shard::plans::abandon`].

use crate::flight::Flight;
use crate::flight::leftovers::{Leftovers, Pins, Room, StillOut};
use crate::flight::scratch::ScratchBlock;
use crate::token::Token;
use crate::units::{Buffer, MemberId, MemberSet, ShardId};

impl Flight {
    /// What was left behind.
    #[inline]
    pub fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// Commands that failed members have not given back and that nobody waits for, and those members.
    pub fn left_behind(&self) -> (usize, MemberSet) {
        let mut found = self.leftovers.count();
        for index in self.plan_numbers() {
            let running = &self.running[index];
            found.0 += usize::from(running.left());
            found.1.0 |= running.left_with().0;
        }
        found
    }

    /// Keeps room for what a plan may leave behind when it goes; false if there is not enough.
    pub fn promise(&mut self, index: u32, room: Room) -> bool {
        self.running[index].promise(room);
        self.leftovers.promise(room)
    }

    /// A command that a plan does not wait for any more has come back while the plan is still there.
    pub fn came_back_early(&mut self, index: u32) {
        let running = &mut self.running[index];
        if running.one_came_back() {
            self.leftovers.take_back_promise(running.promised());
        }
    }

    /// A plan is about to leave commands behind: the room that it was promised is there for them, and its scratch
    /// memory stays out of use. Returns that memory.
    pub fn begin_to_leave(&mut self, index: u32) -> Option<ScratchBlock> {
        let running = &mut self.running[index];
        self.leftovers.take_back_promise(running.promised());
        let scratch = running.give_up_scratch();
        if let Some(block) = scratch {
            self.scratch.pin(block);
        }
        scratch
    }

    /// Keeps so many of the commands that a plan leaves behind, which bear this name, with the memory that they may
    /// use.
    pub fn keep_commands(
        &mut self,
        index: u32,
        name: Token,
        commands: u16,
        (scratch, pins): (Option<ScratchBlock>, Pins),
    ) {
        let members = self.running[index].left_with();
        self.leftovers.add(name, (commands, members), scratch, pins);
    }

    /// Leaves a command behind that has no memory to keep; false if too much has been left behind already.
    pub fn leave_command(&mut self, name: Token, member: MemberId) -> bool {
        self.leftovers.add_command(name, member)
    }

    /// Commands that bear the plan's present name are left behind: it gets another one.
    pub fn rename_plan(&mut self, index: u32) {
        let generation = self.running[index].generation();
        let name = |generation| Token::new(index, generation, 0);
        let next = self.leftovers.next_generation(generation, name);
        self.running[index].rename(next);
    }

    /// Commands that bear the single request's present name are left behind: its place gets another one.
    pub fn rename_single(&mut self, index: u32) {
        let generation = self.singles[index].generation();
        let name = |generation| Token::of_single(index, generation, 0);
        let next = self.leftovers.next_generation(generation, name);
        self.singles[index].set_generation(next);
    }

    /// Puts a piece of memory, of a client of shard `home`, at the head of a chain.
    pub fn pin(&mut self, buffer: Buffer, home: ShardId, next: Pins) -> Pins {
        self.leftovers.pin(buffer, home, next)
    }

    /// Takes the first piece off a chain: the memory, and the shard whose client owns it.
    pub fn unpin(&mut self, chain: &mut Pins) -> Option<(Buffer, ShardId)> {
        self.leftovers.unpin(chain)
    }

    /// A command has come back whose plan is gone. If it was the last of its name, takes the scratch memory back and
    /// returns the memory of clients that is free again.
    pub fn came_back_late(&mut self, name: Token) -> Option<Pins> {
        let StillOut::Nothing { scratch, pins } = self.leftovers.came_back(name) else {
            return None;
        };
        if let Some(block) = scratch {
            self.scratch.unpin(block);
        }
        Some(pins)
    }
}
