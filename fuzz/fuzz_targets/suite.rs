//! Any bytes as the file of a suite.
//!
//! The checks live beside the simulator (`predict/exercise.rs`), where ordinary tests run them on a few seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use planner::predict::exercise::{File, fuzz_one};

fuzz_target!(|data: &[u8]| {
    fuzz_one(File::Suite, data);
});
