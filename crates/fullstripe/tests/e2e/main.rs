//! End to end: the built binary as a user runs it, with real clients and file systems. One program, so that what its modules
//! share is compiled and linked once.
//!
//! Run one module's tests with `cargo test -p fullstripe --test e2e NAME::`.

mod alerts;
mod bitmap;
mod bundle;
mod common;
mod counting;
mod drive;
mod faults;
mod filesystems;
mod handing_over;
mod lab;
mod limits;
mod metadata;
mod pipes;
mod plan;
mod platform;
mod predict;
mod readme;
mod real_cuts;
mod releases;
mod scrub;
mod serve;
mod shadow;
mod sim;
mod troubleshooting;
mod vhost_user;
mod watching;
mod year;
