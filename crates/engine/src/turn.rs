//! The loop of one core, the same in every world: what has happened goes into the engine, what it wants done
//! goes out, once per turn.

use crate::limits::REAP_MAX;
use crate::shard::{Engine, Output};
use crate::units::Nanos;
use crate::world::{Input, Token, World};
use alloc::vec::Vec;

/// How many inputs before a request its needs are made known: several times what a line from another core
/// takes, little enough that it is still there.
const EXPECTED_AHEAD: usize = 4;

/// The loop of one core: an engine in a world.
pub struct Shard<W: World> {
    /// The state machine.
    pub engine: Engine,
    /// Everything outside.
    pub world: W,
    inputs: Vec<Input>,
}

impl<W: World> Shard<W> {
    /// Puts an engine into a world.
    pub fn new(engine: Engine, world: W) -> Shard<W> {
        Shard {
            engine,
            world,
            inputs: Vec::with_capacity(2 * REAP_MAX),
        }
    }

    /// One turn: reap, handle, poll, submit. Returns whether there was anything to do.
    #[inline]
    pub fn turn(&mut self) -> bool {
        self.world.reap(&mut self.inputs);
        let now = self.world.now();
        let busy = !self.inputs.is_empty();
        if self.engine.shards == 1 {
            for input in self.inputs.drain(..) {
                self.engine.handle(input, now);
            }
        } else {
            self.handle_ahead(now);
        }
        self.engine.tick(now);
        let did_something = self.drain() || busy;
        self.engine.stats.turns += u64::from(did_something);
        self.world.submit();
        did_something
    }

    /// Hands in the inputs, and tells of requests a little before they come.
    #[inline(never)]
    fn handle_ahead(&mut self, now: Nanos) {
        let mut inputs = self.inputs.drain(..);
        while let Some(input) = inputs.next() {
            if let Some(Input::Request(later)) = inputs.as_slice().get(EXPECTED_AHEAD) {
                self.engine.expect_single(later);
            }
            self.engine.handle(input, now);
        }
    }

    /// Turns until there is nothing to do, then waits for something.
    pub fn turn_or_wait(&mut self) {
        if !self.turn() {
            let until = self.engine.next_wake();
            self.world.wait(until);
        }
    }

    fn drain(&mut self) -> bool {
        let mut acted = false;
        while let Some(output) = self.engine.poll() {
            acted = true;
            match output {
                Output::Io(io) => self.world.io(io, self.engine.memory(io.token)),
                Output::Log(io) => {
                    let (unit, image) = self.engine.log_unit(io.token);
                    let parities = self.engine.partial_parities(io.token);
                    self.world.encode_log(unit, parities, image);
                    self.world.io(io, self.engine.memory(io.token));
                }
                Output::Bitmap { volume, words } => {
                    let (words, memory) = self.engine.bitmap_words(volume, words);
                    self.world.fill(memory, words);
                }
                Output::Compute(token) => self.compute(token),
                Output::Cancel(token) => self.world.cancel(token),
                Output::Complete(completion) => self.world.complete(completion),
                Output::Pin(buffer) => self.world.pin(buffer),
                Output::Release(buffer) => self.world.release(buffer),
                Output::Send(to, message) => {
                    if to == self.engine.id {
                        let now = self.engine.now;
                        self.engine.handle(Input::Message(message), now);
                    } else {
                        self.world.send(to, message);
                    }
                }
                Output::Persist(member) => {
                    if let Some(record) = self.engine.record() {
                        self.world.persist(member, record);
                    }
                }
                Output::Event(event) => self.world.event(event),
            }
        }
        acted
    }

    fn compute(&mut self, token: Token) {
        let step = self.engine.step(token);
        let length_bytes = step.length_bytes as u32;
        let differs = match step.kind {
            crate::plan::StepKind::Xor { target } => {
                self.world
                    .xor(target, length_bytes, self.engine.memory(token));
                false
            }
            _ => !self
                .world
                .xor_is_zero(length_bytes, self.engine.memory(token)),
        };
        self.engine.computed(token, differs);
    }
}
