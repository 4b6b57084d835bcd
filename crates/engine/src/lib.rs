#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
//! fullstripe's RAID engine: a state machine without clock, threads or I/O.
//!
//! # The way of a request
//!
//! A [`request::Request`] comes in ([`shard::Engine::handle`]), is checked and admitted (`route`). If one
//! command per copy is all that it takes it runs without a plan (`single`); else it is cut at the borders
//! of chunks (`issue`). Pieces that need order wait under their band (`ranges`), are merged
//! and locked (`dispatch`, `hold`) and planned ([`plan`], by [`layout`]). A plan's steps go out stage by
//! stage and come back (`inflight`); errors are judged by one table ([`policy`]; `failing`, `recover`, `piecewise`,
//! `leftover`; `bad_blocks` for what is on record as unreadable);
//! at the end the request is answered (`settle`). Background work (`background`) takes the same way.
//! The controller ([`control`]), on the first shard, owns the metadata record and says what shards may
//! do. Everything outside is a [`world::World`]; the loop that connects the two is [`shard::Shard`].
//!
//! # The rule of use
//!
//! One mutation, then drain: after every [`shard::Engine::handle`] (or a batch of them) call
//! [`shard::Engine::poll`] until it returns nothing. Work is planned while outputs are polled.
//!
//! ```
//! use engine::claims::Claims;
//! use engine::control::record::{MemberRecord, MemberState, Record, SlotRecord, VolumeRecord};
//! use engine::layout::{Geometry, Level};
//! use engine::request::{Operation, Request};
//! use engine::shard::Engine;
//! use engine::options::Options;
//! use engine::output::Output;
//! use engine::setup::Setup;
//! use engine::units::{Buffer, MemberId, Nanos, ShardId, VolumeId};
//! use engine::world::Input;
//!
//! let geometry = Geometry::new(Geometry {
//!     level: Level::Raid0, members: 2, chunk_bytes: 64 << 10, start_bytes: 0,
//!     component_bytes: 1 << 20, size_bytes: 2 << 20, block_bytes: 512,
//! }).unwrap();
//! let drive = MemberRecord { state: MemberState::Active, size_bytes: 8 << 20, ..MemberRecord::ABSENT };
//! let slot = |member| SlotRecord { member: Some(MemberId(member)), current: true };
//! let volume = VolumeRecord {
//!     geometry, not_started: false, read_only: false, dirty: false, slots: vec![slot(0), slot(1)], sync: None,
//!     then_resync: false, log: None, bitmap: None,
//! };
//! let record = Record { generation: 1, members: vec![drive; 2], volumes: vec![volume], bad_blocks: Default::default() };
//! let setup = Setup {
//!     shard: ShardId(0), shards: 1, record, scratch: (Buffer(0), 16 << 20),
//!     zeros: Buffer(16 << 20), options: Options::default(), claims: Claims::new(),
//! };
//! let mut engine = Engine::new(setup, Nanos(0));
//! engine.handle(Input::Request(Request {
//!     tag: 7, volume: VolumeId(0), operation: Operation::Read, fua: false,
//!     offset_bytes: 64 << 10, length_bytes: 4096, buffer: Buffer(32 << 20),
//! }), Nanos(1));
//! let mut answered = None;
//! let mut outputs = Vec::new();
//! while engine.poll(&mut outputs) {
//!     for output in outputs.drain(..) {
//!         match output {
//!             // The second chunk lies at the beginning of the second member.
//!             Output::Io(io) => {
//!                 assert_eq!((io.member, io.offset_bytes, io.length_bytes), (MemberId(1), 0, 4096));
//!                 engine.handle(Input::Done { token: io.token, result: Ok(()) }, Nanos(2));
//!             }
//!             Output::Complete(completion) => answered = Some(completion),
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(answered.unwrap().tag, 7);
//! ```
extern crate alloc;

mod admission;
mod adopt;
mod background;
mod bad_blocks;
pub mod bitmap;
mod check;
pub mod claims;
pub mod control;
mod desk;
mod dispatch;
mod equal;
pub mod event;
mod exchanged;
mod expect;
mod failing;
mod flight;
mod hold;
mod hole_logs;
mod inflight;
mod inspect;
mod issue;
pub mod layout;
mod leftover;
pub mod levels;
pub mod limits;
pub mod log;
mod members;
pub mod options;
mod order;
pub mod output;
mod parity_given_up;
mod piecewise;
pub mod plan;
pub mod policy;
mod pool;
mod ranges;
mod recover;
pub mod request;
mod route;
mod scratch;
mod settle;
pub mod setup;
pub mod shard;
mod single;
mod standstill;
mod states;
pub mod stats;
pub mod token;
pub mod turn;
pub mod units;
mod volume;
mod volumes;
pub mod world;
pub mod xor;
