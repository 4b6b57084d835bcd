//! Members that answer later than what they are made of would: as limits say, or as the model of a drive does.
//!
//! [`Pace::admit`] says when an I/O that arrives now may be answered; the world moves the bytes at once and holds
//! the answer back until then. [`throttle`] keeps to rates that the user gives, [`modelled`] to a drive's
//! profile. One pace belongs to one member and is shared by all shards. Nothing here reads a clock, so all of it
//! is tested in virtual time.

pub mod modelled;
pub mod throttle;

use engine::plan::StepKind;
use engine::units::Nanos;
use engine::world::Io;
use modelled::Modelled;
use throttle::Throttle;

/// A loop that is later than this does lose time, as it would with hardware.
const LATENESS_MAX: Nanos = Nanos(20 * Nanos::MILLISECOND.0);

/// What holds a member's answers back.
#[derive(Debug)]
pub enum Pace {
    /// Rates and a latency.
    Limited(Throttle),
    /// The model of a drive.
    Modelled(Box<Modelled>),
}

/// An I/O, as far as its duration depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// What it is.
    pub kind: StepKind,
    /// Where on the member it begins.
    pub offset_bytes: u64,
    /// How much it moves.
    pub length_bytes: u64,
}

impl From<&Io> for Demand {
    fn from(io: &Io) -> Demand {
        Demand {
            kind: io.kind,
            offset_bytes: io.offset_bytes,
            length_bytes: io.length_bytes,
        }
    }
}

impl Pace {
    /// Takes an I/O that arrives at `now`, and returns when it may be answered.
    #[must_use]
    pub fn admit(&self, now: Nanos, demand: Demand) -> Nanos {
        match self {
            Pace::Limited(throttle) => throttle.admit(now, demand.kind, demand.length_bytes),
            Pace::Modelled(modelled) => modelled.admit(now, demand),
        }
    }

    /// Notes that an I/O which was to be answered at `finish` was at `now`.
    pub fn delivered(&self, now: Nanos, finish: Nanos) {
        match self {
            Pace::Limited(throttle) => throttle.delivered(now, finish),
            Pace::Modelled(modelled) => modelled.delivered(now, finish),
        }
    }
}
