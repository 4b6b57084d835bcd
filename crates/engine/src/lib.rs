#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
//! fullstripe's RAID engine: a state machine without clock, threads or I/O.
//!
//! # The way of a request
//!
//! A [`request::Request`] comes in ([`shard::Engine::handle`]), is checked and admitted (`shard/requests/admit`). If one
//! command per copy is all that it takes it runs without a plan (`single`); else it is cut at the borders
//! of chunks (`issue`). Pieces that need order wait under their band (`order/ranges`), are merged
//! and locked (`shard/plans/dispatch`, `hold`) and planned ([`plan`], by [`layout`]). A plan's steps go out stage by
//! stage and come back (`run`); errors are judged by one table ([`policy`]; `failing`, and `shard/repair`);
//! at the end the request is answered (`settle`). Background work (`shard/jobs`) takes the same way.
//! The controller ([`control`]), on the first shard, owns the metadata record and says what shards may
//! do. Everything outside is a [`world::World`]; the loop that connects the two is [`turn::Shard`].
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
mod atomic;
pub mod bitmap;
pub mod claims;
pub mod control;
mod desk;
pub mod event;
mod flight;
mod inspection;
pub mod layout;
pub mod limits;
pub mod log;
mod members;
pub mod occupancy;
pub mod options;
mod order;
pub mod output;
pub mod plan;
pub mod policy;
mod pool;
pub mod request;
pub mod setup;
pub mod shard;
pub mod stats;
mod sweeps;
pub mod token;
pub mod turn;
pub mod units;
mod volumes;
pub mod world;
pub mod xor;
