//! The loop of one core, the same in every world: in each turn inputs go into the engine and its outputs are carried
//! out, and again for what was answered meanwhile.

#[cfg(test)]
mod tests;

use crate::limits::{PLANS_MAX, REAP_MAX};
use crate::output::Output;
use crate::shard::Engine;
use crate::token::Token;
use crate::units::Nanos;
use crate::world::{Input, World};
use alloc::vec::Vec;

/// How many inputs before a request the engine is told of it, to prefetch its claim: early enough that the line has
/// come from another core, and late enough that it is still in the cache.
const EXPECTED_AHEAD: usize = 4;

/// How often one turn goes on with answers that are there at once: after the reads of a small RAID 5 write, and after
/// its writes. There is a limit because clients, messages and commands for other drives wait meanwhile.
const ROUNDS_MAX: usize = 2;

/// The loop of one core: an engine in a world.
pub struct Shard<W: World> {
    /// The state machine.
    pub engine: Engine,
    /// Everything outside.
    pub world: W,
    inputs: Vec<Input>,
    /// What is being carried out.
    outputs: Vec<Output>,
}

impl<W: World> Shard<W> {
    /// Puts an engine into a world.
    pub fn new(engine: Engine, world: W) -> Shard<W> {
        Shard {
            engine,
            world,
            inputs: Vec::with_capacity(2 * REAP_MAX),
            outputs: Vec::with_capacity(2 * PLANS_MAX),
        }
    }

    /// One turn: reap, handle, poll, go on with what was answered meanwhile, submit. Returns whether there was anything
    /// to do.
    #[inline]
    pub fn turn(&mut self) -> bool {
        self.world.reap(&mut self.inputs);
        let now = self.world.now();
        let busy = !self.inputs.is_empty();
        self.hand_in(now);
        self.engine.tick(now, busy);
        let did_something = self.drain() || busy;
        self.go_on_with_answers(now);
        self.engine.count_turn(did_something);
        self.world.submit();
        did_something
    }

    #[inline]
    fn hand_in(&mut self, now: Nanos) {
        if self.engine.shards() == 1 {
            for input in self.inputs.drain(..) {
                self.engine.handle(input, now);
            }
        } else {
            self.handle_ahead(now);
        }
    }

    /// Goes on with I/O that was answered while it was started, as members in memory do. Otherwise each stage of a
    /// plan would take a turn of its own. Where work waits for plans it would get those that are freed here, and the
    /// requests that follow the answers would have to wait, too: then each turn takes its share of answers, as of
    /// requests.
    #[inline]
    fn go_on_with_answers(&mut self, now: Nanos) {
        for _ in 0..ROUNDS_MAX {
            if self.engine.is_out_of_plans() {
                return;
            }
            self.world.reap_answered(&mut self.inputs);
            if self.inputs.is_empty() {
                return;
            }
            self.hand_in(now);
            self.drain();
        }
    }

    /// Hands in the inputs where there are several shards, and announces requests to the engine a little ahead.
    #[inline(never)]
    fn handle_ahead(&mut self, now: Nanos) {
        self.engine.hear_of_failures();
        let mut inputs = self.inputs.drain(..);
        while let Some(input) = inputs.next() {
            if let Some(Input::Request(later)) = inputs.as_slice().get(EXPECTED_AHEAD) {
                self.engine.expect_single(later);
            }
            self.engine.handle(input, now);
        }
    }

    /// One turn; if there was nothing to do, waits for input, unless the shard is to end (`is_over`). A thread that
    /// ends a shard sets that first and wakes the shard then. It is read after the turn, because the turn may have
    /// taken in that wake-up, and no other would come.
    pub fn turn_or_wait(&mut self, is_over: impl FnOnce() -> bool) {
        if !self.turn() && !is_over() {
            let until = self.engine.next_wake();
            self.world.wait(until);
        }
    }

    fn drain(&mut self) -> bool {
        let mut acted = false;
        let Shard {
            engine,
            world,
            outputs,
            ..
        } = self;
        while engine.poll(outputs) {
            acted = true;
            for output in outputs.drain(..) {
                carry_out(engine, world, output);
            }
        }
        acted
    }
}

#[inline(always)]
fn carry_out<W: World>(engine: &mut Engine, world: &mut W, output: Output) {
    match output {
        Output::Io(io) => world.io(io, engine.memory(io.token)),
        Output::Log(io) => {
            let (unit, image) = engine.log_unit(io.token);
            let parities = engine.partial_parities(io.token);
            world.encode_log(unit, parities, image);
            world.io(io, engine.memory(io.token));
        }
        Output::Bitmap { volume, words } => {
            let (words, memory) = engine.bitmap_words(volume, words);
            world.fill(memory, words);
        }
        Output::Compute(token) => compute(engine, world, token),
        Output::Cancel(token) => world.cancel(token),
        Output::Complete(completion) => world.complete(completion),
        Output::Pin(buffer) => world.pin(buffer),
        Output::Release(buffer) => world.release(buffer),
        Output::Send(to, message) => {
            if to == engine.id() {
                let now = engine.now();
                engine.handle(Input::Message(message), now);
            } else {
                world.send(to, message);
            }
        }
        Output::Persist(member) => {
            let record = engine
                .record()
                .expect("only the controller's shard records");
            world.persist(member, record);
        }
        Output::Event(event) => world.event(event),
    }
}

fn compute<W: World>(engine: &mut Engine, world: &mut W, token: Token) {
    let step = engine.step(token);
    let length_bytes = step.length_bytes as u32;
    let differs = match step.kind {
        crate::plan::StepKind::Xor { target } => {
            world.xor(target, length_bytes, engine.memory(token));
            false
        }
        crate::plan::StepKind::Compare => !world.xor_is_zero(length_bytes, engine.memory(token)),
        kind => unreachable!("{kind:?} is no computation"),
    };
    engine.computed(token, differs);
}
