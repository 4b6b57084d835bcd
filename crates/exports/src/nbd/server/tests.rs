//! The server over real sockets, rings and engines. Each wait has a time limit.
//!
//! - `rig`: shards with an array in memory, each on a thread of its own.
//! - `client`: a client of raw bytes.
//! - `batches`: many requests and replies at once.
//! - `hanging`: drives that hang, and what clients notice of that.
//! - `service`: what well-behaved clients see. `hostile`: what other clients see and cause.
//! - `limits`: a hundred times more of everything than fits.
//! - `stopping`: the end. `handing_over`: another port goes on. `tools`: other projects' clients. `chaos`: random clients.

mod batches;
mod chaos;
pub mod client;
mod handing_over;
mod hanging;
mod hostile;
mod limits;
pub mod rig;
mod service;
mod stopping;
mod tools;
