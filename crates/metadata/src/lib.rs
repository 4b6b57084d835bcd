//! RAID metadata on the member drives: the byte formats and the rules for their content.
//!
//! This crate does no I/O. Callers pass bytes that they have read and get values; they change the
//! values with the operations given here and get bytes to write. So the format can be tested
//! against known records, fuzzed, and used by the fault simulator exactly as by the server.
//!
//! Two kinds of code live here:
//!
//! * the **codec** turns bytes into owned values and back, preserves what it does not
//!   interpret, and never panics, whatever the bytes are;
//! * the **rules** say where records are, how large volumes become, how a record changes when a
//!   member fails or is rebuilt, which copy is used when copies differ, and whether a volume
//!   may be started.
//!
//! The one format today is [`imsm`], the native one. Further formats become its siblings.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod crc32c;
pub mod imsm;
