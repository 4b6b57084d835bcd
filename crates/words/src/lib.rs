//! How fullstripe writes sizes, times and the parts of its sentences, wherever they come from: commands, errors, events.

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod figures;
mod sentences;
mod sizes;
mod times;

pub use figures::number;
pub use sentences::{and, count, count_of, without_error_number};
pub use sizes::{check_range, did_you_mean, exact_size, size, typed_size};
pub use times::{date, duration, parse_duration};
