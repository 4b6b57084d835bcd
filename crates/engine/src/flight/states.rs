//! Where the steps of a plan stand.
//!
//! Nearly every answer of a drive is about one of the first steps of a plan, and with thousands of plans under way
//! each cache line that an answer needs comes from far away. So the states of the first steps lie in the plan itself,
//! beside the few other fields that an answer changes; those of longer plans follow in memory of their own.

use crate::units::MemberId;
use alloc::vec::Vec;
use core::iter::Chain;
use core::ops::{Index, IndexMut};
use core::slice::{Iter, IterMut};

/// Where a step stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    Idle,
    Outstanding,
    /// Written over recorded bad blocks, and its member is being flushed.
    Flushing,
    /// Waits for the bad-block log to say what became of its range.
    Recording,
    Done,
    /// A read that failed, and whether the place on the medium is at fault.
    Failed {
        media: bool,
    },
    /// A write or flush that its member missed.
    Missed,
}

/// A step's state while its plan runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepState {
    pub(super) member: u8,
    pub(super) retries: u8,
    /// The world has been asked for an early answer.
    pub(super) cancelled: bool,
    pub(super) progress: Progress,
}

impl StepState {
    pub const IDLE: StepState = StepState {
        member: u8::MAX,
        retries: 0,
        cancelled: false,
        progress: Progress::Idle,
    };

    /// How far the step is.
    #[inline]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The drive that has its command, or had it. No drive has a computation, or a log entry: then this is none.
    #[inline]
    pub fn member(&self) -> MemberId {
        MemberId(self.member)
    }

    /// How often its command was sent again.
    pub fn retries(&self) -> u8 {
        self.retries
    }

    /// Whether the world has been asked for an early answer.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The step is done: its command or computation has been carried out. Code that has a step's number but not its state
    /// calls [`finish_step`](crate::flight::running::Running::finish_step).
    #[inline]
    pub fn finish(&mut self) {
        self.progress = Progress::Done;
    }

    /// Whether a drive holds its command. No drive holds a computation, or a log entry, which waits for its unit.
    pub fn is_with_drive(&self) -> bool {
        let waits = matches!(self.progress, Progress::Outstanding | Progress::Flushing);
        waits && self.member != u8::MAX
    }
}

impl Default for StepState {
    fn default() -> StepState {
        StepState::IDLE
    }
}

/// As many as fit into the first line of a plan: reads and writes of data and parity, and what is computed between.
const NEAR: usize = 6;

/// The states of a plan's steps, by number.
#[derive(Debug)]
pub(crate) struct StepStates {
    near: [StepState; NEAR],
    count: u16,
    far: Vec<StepState>,
}

impl StepStates {
    /// None, with room for those of so many steps.
    pub fn with_capacity(steps: usize) -> StepStates {
        StepStates {
            near: [StepState::IDLE; NEAR],
            count: 0,
            far: Vec::with_capacity(steps.saturating_sub(NEAR)),
        }
    }

    /// States for which there is memory.
    pub fn capacity(&self) -> usize {
        NEAR + self.far.capacity()
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub fn clear(&mut self) {
        self.make_idle(0);
    }

    /// Becomes the states of so many steps, none of which has begun.
    #[inline]
    pub fn make_idle(&mut self, steps: usize) {
        self.count = steps as u16;
        self.near = [StepState::IDLE; NEAR];
        self.far.clear();
        if steps > NEAR {
            self.far.resize(steps - NEAR, StepState::IDLE);
        }
    }

    pub fn push(&mut self, state: StepState) {
        let at = self.len();
        match self.near.get_mut(at) {
            Some(place) => *place = state,
            None => self.far.push(state),
        }
        self.count += 1;
    }

    #[inline]
    pub fn iter(&self) -> Chain<Iter<'_, StepState>, Iter<'_, StepState>> {
        self.near[..self.len().min(NEAR)].iter().chain(&self.far)
    }

    #[inline]
    pub fn iter_mut(&mut self) -> Chain<IterMut<'_, StepState>, IterMut<'_, StepState>> {
        let near = self.len().min(NEAR);
        self.near[..near].iter_mut().chain(&mut self.far)
    }
}

impl Index<usize> for StepStates {
    type Output = StepState;
    #[inline]
    fn index(&self, step: usize) -> &StepState {
        debug_assert!(step < self.len(), "the plan has no step {step}");
        match self.near.get(step) {
            Some(state) => state,
            None => &self.far[step - NEAR],
        }
    }
}

impl IndexMut<usize> for StepStates {
    #[inline]
    fn index_mut(&mut self, step: usize) -> &mut StepState {
        debug_assert!(step < self.len(), "the plan has no step {step}");
        match self.near.get_mut(step) {
            Some(state) => state,
            None => &mut self.far[step - NEAR],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_the_same_wherever_they_lie() {
        let mut states = StepStates::with_capacity(2 * NEAR);
        let room = states.capacity();
        for member in 0..2 * NEAR as u8 {
            states.push(StepState {
                member,
                ..StepState::IDLE
            });
        }
        assert_eq!(states.len(), 2 * NEAR);
        states[NEAR - 1].progress = Progress::Done;
        states[NEAR].progress = Progress::Missed;
        states.iter_mut().for_each(|state| state.retries += 1);
        for (at, state) in states.iter().enumerate() {
            assert_eq!(usize::from(state.member), at);
            assert_eq!(*state, states[at]);
            assert_eq!(state.retries, 1);
        }
        let is_idle = |state: &&StepState| state.progress == Progress::Idle;
        assert_eq!(states.iter().filter(is_idle).count(), 2 * NEAR - 2);

        states.make_idle(NEAR + 1);
        assert!(states.iter().all(|state| *state == StepState::IDLE));
        assert_eq!(states.iter().count(), NEAR + 1);
        states.clear();
        assert_eq!((states.len(), states.iter().count()), (0, 0));
        assert_eq!(states.capacity(), room, "nothing was allocated");
    }
}
