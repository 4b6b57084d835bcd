//! What the end-to-end tests share: drives in a folder of their own, the built binary as a guarded
//! process, and clients that remember what was acknowledged.
//!
//! - [`bed`]: files that serve as drives, and arrays made of them;
//! - [`process`]: programs that have a time limit and never outlive the test;
//! - [`serve`]: a running `fullstripe serve`, its events, its status and the commands sent to it;
//! - [`nbd`]: an NBD client that writes the protocol's bytes itself;
//! - [`ledger`]: random load that records every acknowledged write and checks every sector later;
//! - [`faulty`]: a drive whose faults the test switches on and off;
//! - [`guest`]: a virtual machine that uses a volume through vhost-user;
//! - [`checks`]: checks that many tests share;
//! - [`machine`]: loop devices and mounts, which need root;
//! - [`web`]: a web server that keeps what is posted to it.
//!
//! No test file uses all of this, hence the `allow`.
#![allow(dead_code, unused_imports)]

pub mod bed;
pub mod checks;
pub mod faulty;
pub mod guest;
pub mod ledger;
pub mod machine;
pub mod nbd;
pub mod process;
pub mod serve;
pub mod web;

pub use bed::Bed;
pub use faulty::FaultyDrive;
pub use ledger::{Ledger, Load, Mix};
pub use machine::{Loop, Mount, has_fuse, is_root};
pub use nbd::Client;
pub use process::{Said, run, tool};
pub use serve::{Server, Starting};
pub use web::WebServer;

/// 1 MiB.
pub const MIB: u64 = 1 << 20;
