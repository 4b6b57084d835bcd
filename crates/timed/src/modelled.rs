//! The model of a real drive ([`models::drive`]) as the timing of a run's drive.

use engine::plan::StepKind;
use models::drive::{Command, Drive, Operation};
use virtual_time::timing::{Place, Timing};

/// Converts the engine's command to the model's. Zeroing moves no payload, so it counts as deallocating.
#[must_use]
pub fn command(kind: StepKind, place: Place) -> Command {
    let operation = match kind {
        StepKind::Read => Operation::Read,
        StepKind::Zero { .. } | StepKind::Discard => Operation::Deallocate,
        StepKind::Flush => Operation::Flush,
        _ => Operation::Write,
    };
    Command {
        operation,
        offset_bytes: place.offset_bytes,
        length_bytes: place.length_bytes,
    }
}

/// A modelled drive that implements [`Timing`].
#[derive(Clone, Debug)]
pub struct Modelled(pub Drive);

impl Timing for Modelled {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        self.0.submit(command(kind, place), now_ns).done_ns
    }

    fn energy_nj(&mut self, until_ns: u64) -> u64 {
        self.0.energy_nj(until_ns)
    }

    fn pool_bytes(&self) -> Option<u64> {
        Some(self.0.drain().pool_bytes())
    }
}
