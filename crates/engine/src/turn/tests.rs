//! A shard waits when it has nothing to do, but not when it is to end.

use super::*;
use crate::claims::Claims;
use crate::control::message::Message;
use crate::control::record::Record;
use crate::event::Event;
use crate::log::unit::LogUnit;
use crate::options::Options;
use crate::plan::Segment;
use crate::request::Completion;
use crate::setup::Setup;
use crate::units::{Buffer, MemberId, ShardId};
use crate::world::Io;
use alloc::vec::Vec;

/// A world in which nothing happens.
#[derive(Default)]
struct Nothing {
    waited: u32,
}

impl World for Nothing {
    fn now(&mut self) -> Nanos {
        Nanos(1)
    }
    fn reap(&mut self, _: &mut Vec<Input>) {}
    fn reap_answered(&mut self, _: &mut Vec<Input>) {}
    fn io(&mut self, _: Io, _: impl Iterator<Item = Segment>) {}
    fn cancel(&mut self, _: Token) {}
    fn xor(&mut self, _: Buffer, _: u32, _: impl Iterator<Item = Segment>) {}
    fn xor_is_zero(&mut self, _: u32, _: impl Iterator<Item = Segment>) -> bool {
        true
    }
    fn encode_log(&mut self, _: &LogUnit, _: impl Iterator<Item = Segment>, _: Buffer) {}
    fn fill(&mut self, _: Buffer, _: &[u64]) {}
    fn complete(&mut self, _: Completion) {}
    fn pin(&mut self, _: Buffer) {}
    fn release(&mut self, _: Buffer) {}
    fn send(&mut self, _: ShardId, _: Message) {}
    fn persist(&mut self, _: MemberId, _: &Record) {}
    fn event(&mut self, _: Event) {}
    fn submit(&mut self) {}
    fn wait(&mut self, until: Option<Nanos>) {
        assert_eq!(until, None, "nothing is to be done at any time");
        self.waited += 1;
    }
}

#[test]
fn a_shard_whose_time_is_over_does_not_wait_for_a_wake_up_that_it_has_taken_in() {
    let setup = Setup {
        // Not the controller's shard, which always has something to look at.
        shard: ShardId(1),
        shards: 2,
        record: Record {
            generation: 1,
            members: Vec::new(),
            volumes: Vec::new(),
            bad_blocks: Default::default(),
        },
        scratch: (Buffer(0), 16 << 20),
        zeros: Buffer(16 << 20),
        options: Options::default(),
        claims: Claims::new(),
    };
    let mut shard = Shard::new(Engine::new(setup, Nanos(0)), Nothing::default());
    while shard.turn() {}
    shard.turn_or_wait(|| true);
    assert_eq!(shard.world.waited, 0);
    shard.turn_or_wait(|| false);
    assert_eq!(shard.world.waited, 1);
}
