//! Faults while an array is served: members that vanish, fill up, hang or have bad sectors, more failures than the
//! level survives, clients that misbehave. The rule: each fault is reported in one clear sentence, nothing
//! acknowledged is lost, and nothing panics.
// A list of bad ranges may contain exactly one range.
#![allow(clippy::single_range_in_vec_init)]

mod clients;
mod files;
mod hung;
mod recorded;
mod sectors;
mod standstill;
mod trims;
