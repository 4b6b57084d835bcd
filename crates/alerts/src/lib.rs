//! Alerts: what the operator of an array is told when something is wrong, and the ways in which it gets there.
//!
//! An [`Alert`] is made of an event. It goes out as a mail ([`mail`]), as an HTTP request ([`web`]) and to a command of the
//! operator ([`Ways::send`] chooses). Each call here is one attempt and blocks for at most [`SEND_WITHIN`]; when an alert is
//! due, and what becomes of one that did not arrive, is decided by the caller.
//!
//! Addresses of web servers may contain passwords. So no error and no text that is made here contains more of them than
//! the host ([`web::shown`]).

// `println!` and `eprintln!` panic when nobody reads the output, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod alert;
pub mod call;
pub mod mail;
mod ways;
pub mod web;

pub use alert::{Alert, Severity};
pub use ways::{Way, Ways};

use std::time::Duration;

/// The longest time that one attempt takes. A mail program or a web server that works answers within a few seconds.
pub const SEND_WITHIN: Duration = Duration::from_secs(30);
