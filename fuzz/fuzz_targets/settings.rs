//! Any bytes as the settings file of a machine.
//!
//! The checks live beside the reader (`crates/settings/src/exercise.rs`), where an ordinary test runs them on many seeds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    settings::exercise::fuzz_one(data);
});
