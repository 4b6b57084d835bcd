//! Any history of a vhost-user queue: what a guest may write into its memory, answers, memory that drives keep, and servers
//! that die.
//!
//! The checks live beside the code (`exercise.rs`), where ordinary tests run them on random bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| exports::vhost_user::fuzz_one(data));
