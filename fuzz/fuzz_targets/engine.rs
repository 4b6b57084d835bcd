//! Any bytes as what clients, drives, operators and time do to an array.
//!
//! The checks lie beside the engine's tests (`exercise/mod.rs`), which run them on a few seeds (`any_bytes.rs`).

#![no_main]

#[path = "../../crates/engine/tests/all/exercise/mod.rs"]
mod exercise;
#[path = "../../crates/engine/tests/all/memory/mod.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    exercise::fuzz_one(data);
});
