//! What an array will do, before anybody has bought it.
//!
//! [`predict`] leads from a configuration to its figures, by running the engine in virtual time over models of drives and
//! machines ([`timed`]); [`work`] does so for many at once, and asks first what is `remembered`. What is asked comes from
//! a file of points ([`points`]), from whoever plans an array ([`plan`]), or from what others have published ([`claims`]).

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod claims;
mod files;
pub mod plan;
pub mod points;
pub mod predict;
mod remembered;
pub mod work;
