//! Models of NVMe drives and of the machine around them: for a command and a time, they compute when it completes.
//!
//! A [`profile`] describes a family of drives in numbers with sources, and the differences between its members. A
//! [`drive::Drive`] made from it completes commands in the time that its caller keeps: the virtual time of a plan, or
//! the real time of a member that stands in for hardware. The crate has no clock, no I/O and no data, and the same
//! commands at the same times get the same answers on every machine.
//!
//! # The path of a command
//!
//! | stage | file | what it is |
//! |---|---|---|
//! | controller | [`server`] | one server: time per command, and per 512 bytes |
//! | units | [`units`] | parallel flash units, each with its own queue; the place of data determines the unit |
//! | read-ahead | [`read_ahead`] | the one stream that the drive recognises is read in advance |
//! | drain | [`drain`] | power-safe buffer, programs, garbage collection, clean pool |
//! | in place | `in_place` | instead of the drain, where writes are done when the medium has them |
//! | data path and port | [`calendar`] | shared bandwidth, granted in the order in which data is ready |
//! | stalls | [`stalls`] | rare long delays |
//!
//! A [`platform`] models the links, memory and processors that drives share; a [`host`] the processor time of a
//! command; [`md`] and [`raid_driver`] that of other RAID software.
//!
//! A [`library`] holds the drives that come with the program and reads those of a user; [`document`] says in one
//! sentence what is wrong with a file. [`fit`] repeats how the constants of the P4510 were fitted.
//!
//! Every stage is a next-free time or a short list of busy intervals, so a command costs the same however long the run
//! is. `docs/model.md` has the formulas and constants, and says what is left out.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod calendar;
pub mod document;
pub mod drain;
pub mod drive;
pub mod export;
pub mod fit;
pub mod host;
mod in_place;
pub mod library;
pub mod md;
pub mod nearest;
pub mod platform;
pub mod port;
pub mod profile;
pub mod queue_map;
pub mod raid_driver;
pub mod read_ahead;
mod refresh;
pub mod server;
pub mod shared_line;
pub mod stalls;
pub mod tables;
pub mod units;
