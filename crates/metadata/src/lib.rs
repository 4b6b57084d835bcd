//! RAID metadata that lives on the member drives: the byte formats and the rules around them.
//!
//! This crate does no I/O. Callers hand over bytes they have read and get values; they change the
//! values with the operations given here and get bytes to write. That keeps the format testable
//! against known records, fuzzable, and usable by the fault simulator exactly as by the server.
//!
//! Two kinds of code live here:
//!
//! * the **codec** turns bytes into owned values and back, without losing what it does not
//!   interpret, and never panics whatever the bytes are;
//! * the **rules** say where records lie, how large volumes become, how a record changes when a
//!   member fails or is rebuilt, which copy is the truth when copies differ, and whether a volume
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
