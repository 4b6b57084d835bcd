//! Predicts what an array will do before anybody has bought it.
//!
//! [`predict`] turns a configuration into figures, by running the engine in virtual time over models of drives and
//! machines ([`timed`]). [`provenance`] says where the numbers of these models come from, and [`slots`] which slots of a machine take several drives. [`work`] does so for many configurations at once, and first looks up what is `remembered`. The
//! questions come from a file of points ([`points`]), from a user who plans an array ([`plan`]), or from what others
//! have published ([`claims`]). [`sizing`] computes what an array holds, costs and risks, and [`search`] looks for the cheapest that does what is asked.

// `println!` and `eprintln!` panic if the output is closed, and a library has no business printing.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod advice;
pub mod claims;
pub mod discovered;
pub mod files;
pub mod plan;
pub mod points;
pub mod predict;
pub mod provenance;
mod remembered;
pub mod search;
pub mod sizing;
pub mod slots;
pub mod work;
