//! The engine's own tests with members in memory, in one program, so that shared code is compiled and linked once. Two
//! are programs of their own: `limits`, because it takes longest, and `interleavings`, which needs `--cfg shuttle`.
//!
//! Run one module's tests with `cargo test -p engine --test all NAME::`.

mod any_bytes;
mod bad_blocks;
mod bitmap;
mod claims;
mod container;
mod counters;
mod errors;
mod exchanged;
mod exercise;
mod failed_volumes;
mod fences;
mod flushing;
mod fua;
mod hosts_errors;
mod hung;
mod inexpressible;
mod job_ends;
mod log;
mod log_losses;
mod log_next_unit;
mod losing_members;
mod memory;
mod mirrors;
mod opening;
mod parity_given_up;
mod plans_run_out;
mod recorded;
mod recorded_of_absent_drives;
mod replacing;
mod scrubbing;
mod standstill;
mod stopping;
mod trimming;
mod unequal;
mod volume;
