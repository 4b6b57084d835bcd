//! The shared types of mailboxes, and Shuttle's replacements for them: see the engine's module of the same name.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, PoisonError, TryLockError,
    atomic::{AtomicBool, Ordering, fence},
};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, PoisonError, TryLockError,
    atomic::{AtomicBool, Ordering, fence},
};
