//! Atomics that shards share, and what Shuttle puts in their place.
//!
//! `scripts/concurrency.sh shuttle` builds with `--cfg shuttle`. Then each access is a point at which Shuttle may
//! switch to another thread, and its tests (`interleavings`) try many orders of them. Shuttle knows one global order
//! of all accesses; what weaker orderings allow beyond that is left to Miri (`scripts/concurrency.sh miri`).

#[cfg(not(shuttle))]
pub(crate) use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
