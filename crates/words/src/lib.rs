//! How fullstripe writes sizes, times and the parts of its sentences in commands, errors and events.

// `println!` and `eprintln!` panic when the stream is closed, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod figures;
mod sentences;
mod sizes;
mod times;

pub use figures::{exact_number, number};
pub use sentences::{and, count, count_of, quoted_for_shell, without_error_number};
pub use sizes::{check_range, did_you_mean, exact_size, size, typed_size};
pub use times::{date, duration, parse_duration, typed_duration};
