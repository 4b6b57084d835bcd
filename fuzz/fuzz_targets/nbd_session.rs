//! Any bytes from an NBD client, in two deliveries that must agree.
//!
//! The checks live beside the codec (`exercise.rs`), where ordinary tests run them on a few seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| exports::nbd::fuzz_one(data));
