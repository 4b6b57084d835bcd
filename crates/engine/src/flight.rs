//! Work under way: requests that run without a plan, plans, their scratch memory, what they wait for, and what drives
//! that failed still have of them.

pub(crate) mod leftovers;
pub(crate) mod piecewise;
pub(crate) mod running;
pub(crate) mod scratch;
pub(crate) mod single;
pub(crate) mod states;

use crate::flight::leftovers::Leftovers;
use crate::flight::running::Running;
use crate::flight::scratch::Scratch;
use crate::flight::single::Single;
use crate::pool::Pool;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) running: Pool<Running>,
    /// Requests that run without a plan.
    pub(crate) singles: Pool<Single>,
    /// Those of them that may yet need one.
    pub(crate) unplanned: usize,
    pub(crate) scratch: Scratch,
    /// Plans that wait for scratch memory.
    pub(crate) waiting_scratch: VecDeque<u32>,
    /// Direct reads with failed steps that wait to be handed on.
    pub(crate) recovering: VecDeque<u32>,
    /// Finished plans that may not be acknowledged before a failed mark is durable.
    pub(crate) held: Vec<u32>,
    pub(crate) leftovers: Leftovers,
    /// Failed members may hold commands for too long.
    pub(crate) abandon_due: bool,
}
