//! The write-hole logs at work: plans enter and leave them, and units are written, answered, and retired.

mod answers;
mod check;
mod exchanged;
mod plans;
mod units;
pub(super) mod unrecorded;
