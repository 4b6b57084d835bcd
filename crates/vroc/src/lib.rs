//! What publications say that Intel VROC takes: which key an array would need, which shapes are refused, and what its firmware
//! would boot from.
//!
//! fullstripe itself needs no key and obeys none of this. Whoever writes an array that Intel's firmware or driver is to read
//! later, or compares with such an array, wants to know what these would say. Their rules are data
//! (`profiles/policies/vroc.toml`, form in [`policy`]): no key, level or drive is named in the code. Publications contradict each
//! other, so each answer is that of one row of one publication, and one of three: it accepts, it refuses, or it does not say.
//!
//! [`array`] is the question; [`answer`] is the whole answer, from [`keys`] and [`shapes`].

// A library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod answer;
pub mod array;
pub mod keys;
pub mod policy;
pub mod shapes;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use array::{Array, Member, Place, Purpose};
pub use policy::Policy;
