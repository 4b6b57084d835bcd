//! Any history of a vhost-user queue (what a guest may write into its memory, answers, memory that drives keep, and servers
//! that die) or of a control socket. The first byte chooses.
//!
//! The checks live beside the code (`exercise.rs`, `session_exercise.rs`), where ordinary tests run them on random bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| match data.split_first() {
    Some((0..128, history)) => exports::vhost_user::fuzz_one(history),
    Some((_, history)) => exports::vhost_user::fuzz_messages(history),
    None => {}
});
