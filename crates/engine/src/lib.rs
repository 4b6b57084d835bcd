#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
//! fullstripe's RAID engine: a state machine without clock, threads or I/O.
extern crate alloc;

mod adopt;
mod background;
pub mod control;
mod dispatch;
pub mod event;
mod inflight;
pub mod layout;
pub mod limits;
pub mod plan;
pub mod policy;
mod pool;
mod ranges;
pub mod request;
mod route;
mod scratch;
pub mod shard;
pub mod stats;
pub mod units;
mod volume;
pub mod world;
pub mod xor;
