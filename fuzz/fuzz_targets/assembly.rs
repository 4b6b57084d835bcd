//! Any bytes as what has happened to an array's records and logs before it is assembled.
//!
//! The checks live beside the assembly (`exercise.rs`), where ordinary tests run them on a few seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    assembly::fuzz_one(data);
});
