//! Any bytes as the metadata of a drive.
//!
//! The checks live beside the codec (`exercise.rs`), where ordinary tests run them on a few seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| metadata::imsm::fuzz_one(data));
