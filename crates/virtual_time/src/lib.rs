//! Virtual time, which the fault world and the planning world share.
//!
//! Both run the engine's own shards without a real clock: time advances from one event to the next ([`queue`]),
//! and the model of a drive says when a command will be complete ([`timing`]). The effects and faults of commands
//! are part of the fault world; the models of drives and processors are part of the planning world.

pub mod queue;
pub mod timing;
