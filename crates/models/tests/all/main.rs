//! The models' tests from outside, in one program, so that shared code is compiled and linked once.
//!
//! Run one module's tests with `cargo test -p models --test all NAME::`.

mod behaviour;
mod burst;
mod in_place;
mod map_units;
mod oracles;
mod platform;
mod profile;
mod support;
