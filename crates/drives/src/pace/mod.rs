//! Delays the answers of members: by limits, or as the model of a drive does.
//!
//! [`Pace::admit`] says when an I/O that arrives now may be answered. The world moves the bytes at once and holds the
//! answer back until then. [`throttle`] keeps to rates that the user gives, [`modelled`] to a drive's profile. One pace
//! belongs to one member and is shared by all shards. Nothing here reads a clock, so all of it is tested in virtual
//! time.

pub mod modelled;
pub mod throttle;

use engine::plan::StepKind;
use engine::units::Nanos;
use engine::world::Io;
use modelled::Modelled;
use throttle::Throttle;

/// A loop that is later than this loses throughput, as it would with hardware.
const LATENESS_MAX: Nanos = Nanos(20 * Nanos::MILLISECOND.0);

/// What decides when a member answers.
#[derive(Debug)]
pub enum Pace {
    /// Rates and a latency.
    Limited(Throttle),
    /// The model of a drive.
    Modelled(Box<Modelled>),
}

/// The properties of an I/O on which its duration depends.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The kind of I/O.
    pub kind: StepKind,
    /// The first byte on the member.
    pub offset_bytes: u64,
    /// The number of bytes.
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

    /// Notes that an I/O was answered at `now`, although it was due at `finish`.
    pub fn delivered(&self, now: Nanos, finish: Nanos) {
        match self {
            Pace::Limited(throttle) => throttle.delivered(now, finish),
            Pace::Modelled(modelled) => modelled.delivered(now, finish),
        }
    }
}
