//! Everything that goes wrong while an array is served: members that vanish, fill up, hang or have bad
//! sectors, more failures than the level survives, clients that misbehave. The rule: one clear sentence,
//! nothing lost, no panic.
// One bad range in a list of bad ranges is what is meant.
#![allow(clippy::single_range_in_vec_init)]

mod common;

#[path = "e2e_faults/clients.rs"]
mod clients;
#[path = "e2e_faults/files.rs"]
mod files;
#[path = "e2e_faults/hung.rs"]
mod hung;
#[path = "e2e_faults/recorded.rs"]
mod recorded;
#[path = "e2e_faults/sectors.rs"]
mod sectors;
#[path = "e2e_faults/standstill.rs"]
mod standstill;
#[path = "e2e_faults/trims.rs"]
mod trims;
