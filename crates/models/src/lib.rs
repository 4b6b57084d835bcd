//! Models of NVMe drives and of the machine around them: given a command and the time, when does it end?
//!
//! A [`profile`] says in numbers with sources what a family of drives is like, and what distinguishes its
//! members. A [`drive::Drive`] made from it answers commands in any time that its caller keeps: virtual time
//! of a plan, or real time of a member that stands in for hardware. There is no clock, no I/O and no data in
//! here, and the same commands at the same times get the same answers on every machine.
//!
//! # The way of a command
//!
//! | stage | file | what it is |
//! |---|---|---|
//! | controller | [`server`] | one server: time per command, and per 512 bytes |
//! | units | [`units`] | parallel flash units, each with its own queue; where data lie decides the unit |
//! | read-ahead | [`read_ahead`] | the one stream that the drive recognises is read before it is asked for |
//! | drain | [`drain`] | power-safe buffer, programs, garbage collection, clean pool |
//! | data path and port | [`calendar`] | shared bandwidth, granted by the time at which data are ready |
//! | stalls | [`stalls`] | rare long waits |
//!
//! Around drives, a [`platform`] has the links that they share, memory and processors; a [`host`] what a
//! command costs these; [`md`] has the same of another RAID.
//!
//! A [`library`] knows the drives that come with the program and reads those of a user's; [`document`] says in one
//! sentence what is wrong with a file.
//! How constants of the P4510 were fitted, for everybody to repeat, is in [`fit`].
//!
//! Every stage is a next-free time or a short list of them, so a command costs the same however long the run.
//! Formulas, constants and what is left out: `docs/model.md`.

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
pub mod library;
pub mod md;
pub mod nearest;
pub mod platform;
pub mod port;
pub mod profile;
pub mod read_ahead;
pub mod server;
pub mod shared_line;
pub mod stalls;
pub mod tables;
pub mod units;
