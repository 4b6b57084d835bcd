//! Virtual time's tests from outside, in one program, so that shared code is compiled and linked once.
//!
//! Run one module's tests with `cargo test -p timed --test all NAME::`.

mod laws;
mod machine;
mod md_2018;
mod queues;
mod raid_driver;
