#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
//! fullstripe's RAID engine: a state machine without clock, threads or I/O.
extern crate alloc;

mod adopt;
mod background;
pub mod control;
mod dispatch;
pub mod event;
mod failing;
mod hold;
mod inflight;
mod issue;
pub mod layout;
pub mod limits;
pub mod plan;
pub mod policy;
mod pool;
mod ranges;
mod recover;
pub mod request;
mod route;
mod scratch;
mod settle;
pub mod shard;
pub mod stats;
pub mod units;
mod volume;
pub mod world;
pub mod xor;
