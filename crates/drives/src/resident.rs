//! Keeps the program itself in memory, so that a server can go on when memory runs out.
//!
//! A server below a file system of this machine is needed for memory to become free: the kernel writes file data out to the
//! server's volume. The kernel also evicts the code of programs, because it can read that again. The server would then wait
//! for the disk that it was started from, and read its code with memory that there is not, for as long as memory is short.
//! So everything that the program maps is locked: the code as a whole, before anything else is mapped, and what comes later
//! as soon as it is used. Payload memory is locked by its own arena ([`crate::arena`]), whether this succeeded or not.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Locks the whole program in memory, and whatever it maps from now on. To be called before memory is allocated for
/// payload.
///
/// Without the right to lock as much as it takes (CAP_SYS_RESOURCE, or a RLIMIT_MEMLOCK that is unlimited), nothing is
/// locked: a program that reaches the limit later gets no memory at all.
///
/// # Errors
/// The right is missing, or there is too little memory.
pub fn keep_in_memory() -> Result<(), Errno> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Memlock, unlimited)?;
    mlockall(MlockAllFlags::CURRENT)?;
    // Stacks are far larger than what is used of them, so their pages are locked one by one.
    mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}
