//! Any history of a ublk queue: requests as the kernel could describe them, answers, and memory that drives keep.
//!
//! The checks live beside the code (`exercise.rs`), where ordinary tests run them on random bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| exports::ublk::fuzz_one(data));
