//! Virtual time: what the fault world and the planning world have in common.
//!
//! Both run the engine's own shards without a clock: time goes on from one event to the next ([`queue`]), and a drive
//! says when it will have carried out a command ([`timing`]). What a command does, and what may go wrong with it, is
//! the fault world's alone; what drives and processors are made of is the planning world's.

pub mod queue;
pub mod timing;
