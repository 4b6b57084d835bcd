//! Virtual time for planning: a stack ([`stacks`]), above all the real engine with its loop and controller, runs
//! over models of the speed of drives and of the cost of processor time. No payload is stored, and nothing fails.
//!
//! # The way of a request
//!
//! | step | file | time that it takes |
//! |---|---|---|
//! | a client's thread issues it | [`clients`] | processor time of the client, then it waits for the stack |
//! | a core of the stack takes a turn | [`world`] | the cost of the turn's work by the [`prices`] and the [`host`] |
//! | each drive's counter of commands in flight is changed | [`drive_counters`] | until the core has the line |
//! | locks of drives' queues are taken that cores share | [`drive_queues`] | until the core has each lock |
//! | commands go to drives at the end of the turn | [`run`] | by the drive's [`virtual_time::timing::Timing`] |
//! | another core takes the drive's interrupt, if cores share its queue | [`drive_queues`] | until that core has handled it |
//! | answers wait for the next turn | [`world`] | until the core is free |
//! | the client's thread gets the answer | [`clients`] | until the end of the turn that answered |
//!
//! Each thread and each shard has a core of its own, which does one thing at a time. A stack that is part of the
//! kernel works on the threads' cores. Processor time is charged to one of three accounts in [`host::Books`]:
//! client, kernel, RAID.
//!
//! # Laws
//!
//! A run that breaks one of these fails instead of printing numbers ([`audit`]): the sum of all latencies equals
//! the integral of the requests outstanding over time (Little's law, in whole numbers); the bytes that drives
//! moved are those that the engine counted; every request is answered once.

pub mod array;
mod audit;
pub mod clients;
pub mod drive_counters;
pub mod drive_queues;
mod event;
pub mod host;
pub mod machine;
pub mod modelled;
pub mod prices;
pub mod run;
pub mod series;
pub mod stacks;
pub mod world;
