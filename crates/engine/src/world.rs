//! The border between the engine and the world it runs in.
//!
//! There are three worlds: real drives behind io_uring, virtual time over modelled drives, and injected
//! faults. All of them implement [`World`] and are driven by the same loop, [`crate::turn::Shard`], so
//! that batching and polling are the same everywhere. The engine itself has no clock, no threads and
//! makes no system call.

use crate::control::message::Message;
use crate::control::record::Record;
use crate::event::Event;
use crate::log::unit::LogUnit;
use crate::plan::{Segment, StepKind};
use crate::policy::MemberError;
use crate::request::{Completion, Request};
use crate::token::Token;
use crate::units::{Buffer, MemberId, Nanos, ShardId};
use alloc::vec::Vec;

/// What happened since the last turn.
#[derive(Clone, Debug)]
pub enum Input {
    /// A port hands in a request.
    Request(Request),
    /// A member I/O has been answered. Every I/O is answered exactly once, also a cancelled one.
    Done {
        /// The I/O.
        token: Token,
        /// All of its bytes moved, or an error.
        result: Result<(), MemberError>,
    },
    /// Another shard, the controller, or an operator sends a message.
    Message(Message),
    /// A metadata update of one member is durable, or failed.
    Persisted {
        /// The member.
        member: MemberId,
        /// Whether it is durable.
        result: Result<(), MemberError>,
    },
    /// The metadata's format cannot express the record that this member was to get: nothing was written.
    NotExpressible {
        /// The member.
        member: MemberId,
    },
}

/// A member I/O on its way to the world.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Comes back in [`Input::Done`].
    pub token: Token,
    /// The drive.
    pub member: MemberId,
    /// `Read`, `Write`, `Zero`, `Discard` or `Flush`.
    pub kind: StepKind,
    /// First byte on the drive.
    pub offset_bytes: u64,
    /// Number of bytes; zero for a flush.
    pub length_bytes: u64,
}

/// Everything outside the engine, for one shard.
pub trait World {
    /// The monotonic clock. After [`World::reap`] it may be the time at which that was called.
    fn now(&mut self) -> Nanos;

    /// Appends what has happened, at most about [`crate::limits::REAP_MAX`] inputs; does not block.
    fn reap(&mut self, inputs: &mut Vec<Input>);

    /// Appends answers to I/O that was answered while it was started, at most about [`crate::limits::REAP_MAX`].
    /// A world may give all its answers in [`World::reap`], and none here.
    fn reap_answered(&mut self, inputs: &mut Vec<Input>);

    /// Starts a member I/O. `memory` lists the payload in order; its lengths add up to
    /// `io.length_bytes` for reads and writes, and it means nothing otherwise. The memory stays valid until
    /// the I/O's [`Input::Done`] has been reaped, also where nobody waits for it any more ([`World::pin`]).
    /// After `Zero` and `Discard` the range reads as zeros, whatever the member can do by itself: where it cannot,
    /// the world writes zeros, and reports a member that cannot discard by [`Message::DiscardRefused`].
    /// May be held back until [`World::submit`].
    fn io(&mut self, io: Io, memory: impl Iterator<Item = Segment>);

    /// Asks for an early answer to an I/O that is overdue; it is still answered exactly once.
    fn cancel(&mut self, token: Token);

    /// Computes `target = xor of sources` now. Every source has `length_bytes`.
    fn xor(&mut self, target: Buffer, length_bytes: u32, sources: impl Iterator<Item = Segment>);

    /// Whether the xor of all sources is zero throughout.
    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool;

    /// Fills `image` with a unit of a write-hole log: a header of
    /// [`crate::limits::LOG_HEADER_BYTES`], then the partial parities in order.
    fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    );

    /// Fills memory with a part of a bitmap: its words, little-endian.
    fn fill(&mut self, memory: Buffer, words: &[u64]);

    /// Answers a request.
    fn complete(&mut self, completion: Completion);

    /// A drive that is not waited for any more may still use the payload memory that `buffer` lies in:
    /// read it, or write into it. Comes before the answer to the request that the memory belongs to. From
    /// then on that memory may neither be used for something else nor given back, before each of its pins
    /// has been released.
    fn pin(&mut self, buffer: Buffer);

    /// The drive has given the I/O back for which [`World::pin`] was called with this `buffer`.
    fn release(&mut self, buffer: Buffer);

    /// Delivers a message to another shard, or to this one; never blocks, never loses, keeps the order
    /// of messages between the same two shards.
    fn send(&mut self, to: ShardId, message: Message);

    /// Writes `record`, encoded for `member`, to that member's metadata area and makes it durable.
    /// Answered by [`Input::Persisted`]; by [`Input::NotExpressible`] when the format cannot express all of the
    /// record. A record is expressed for all members or for none, and never in part.
    fn persist(&mut self, member: MemberId, record: &Record);

    /// Something worth telling people happened.
    fn event(&mut self, event: Event);

    /// Hands all I/O started since the last call to the drives.
    fn submit(&mut self);

    /// Nothing to do: returns when an input may be there, or at `until`, whichever is first.
    fn wait(&mut self, until: Option<Nanos>);
}
