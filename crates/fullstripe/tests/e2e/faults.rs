//! Everything that goes wrong while an array is served: members that vanish, fill up, hang or have bad
//! sectors, more failures than the level survives, clients that misbehave. The rule: one clear sentence,
//! nothing lost, no panic.
// One bad range in a list of bad ranges is what is meant.
#![allow(clippy::single_range_in_vec_init)]

mod clients;
mod files;
mod hung;
mod recorded;
mod sectors;
mod standstill;
mod trims;
