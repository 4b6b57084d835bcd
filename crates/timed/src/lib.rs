//! Virtual time for planning: a stack ([`stacks`]; above all the same engine, loop and controller) over
//! drives that are models of speed, and processors that are models of cost. No bytes are kept, and nothing fails.
//!
//! # The way of a request
//!
//! | step | file | what it takes |
//! |---|---|---|
//! | a client's thread issues it | [`clients`] | processor time of the client, then it waits for the stack |
//! | a core of the stack turns | [`world`] | what the turn's work costs by the [`prices`] and the [`host`] |
//! | each drive's counter of commands under way is changed | [`drive_counters`] | until the core has the line |
//! | commands go to drives at the end of the turn | [`run`] | what the drive's [`virtual_time::timing::Timing`] says |
//! | answers wait for the next turn | [`world`] | until the core is free |
//! | the client's thread is told | [`clients`] | at the end of the turn that answered |
//!
//! Each thread and each shard has a core of its own, which does one thing at a time; a stack that is part of the
//! kernel works on the threads' cores. Processor time is kept in
//! three [`host::Books`]: client, kernel, RAID.
//!
//! # Laws
//!
//! A run that breaks one of these fails instead of printing numbers ([`audit`]): the sum of all latencies is
//! the integral of the requests outstanding (Little's law, in whole numbers); what drives moved is what the
//! engine counted; every request is answered once.

pub mod array;
mod audit;
pub mod clients;
pub mod drive_counters;
mod event;
pub mod host;
pub mod machine;
pub mod modelled;
pub mod prices;
pub mod run;
pub mod series;
pub mod stacks;
pub mod world;
