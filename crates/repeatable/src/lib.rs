//! Numbers that come out the same on every machine, in debug and in release builds.
//!
//! A seed must always give the same results: stored histories of faults, predictions and the digests of both are
//! compared between machines. So random numbers are a function of seed, name and counter alone ([`random`]), and
//! digests are computed by this crate ([`digest`]). The standard library leaves logarithms to the platform's
//! mathematical library, whose last bits differ between systems, so they are computed here from `+ - * /` alone
//! ([`logarithm`]). Those four and the square root are exact to the last bit by IEEE 754, and Rust never fuses
//! them.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod digest;
pub mod logarithm;
pub mod random;
