//! A member that answers when the model of a drive does ([`models::drive`]).
//!
//! Bytes really move; only the answer waits for the model. So an array of files or of memory behaves in real time
//! as the same model does in the virtual time of a plan, as long as what lies below is faster than the drive.
//!
//! The loop looks only now and then, and what it notices late the client hears late. With a drive, such lateness
//! would be the interrupt's and a few microseconds; here it is that of a sleep. So a command that comes back
//! sooner after an answer than that was late counts as handed over as much earlier, one command for each answer:
//! whoever keeps a queue gets the drive's rate, however late the loop looks, and one who comes at any other time
//! waits for all of the drive's latency.

use super::{Demand, LATENESS_MAX};
use crate::spec::Model;
use engine::plan::StepKind;
use engine::units::Nanos;
use models::drive::{Command, Drive, Operation, State};
use models::library;
use models::profile::Profile;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Chooses the random numbers of all modelled members; drives of one process differ by their index.
const SEED: u64 = 1;

/// Late answers that are remembered; of more the first are forgotten.
const GRANTS_MAX: usize = 1024;

impl Model {
    /// The drive's profile, of those that come with the program or from the user's file.
    ///
    /// # Errors
    ///
    /// Why there is none, without a full stop.
    pub fn profile(&self) -> Result<Profile, String> {
        let name = self.drive.as_str();
        let found = if library::is_file(name) {
            let (path, _) = library::path_and_id(name);
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read the profile {path}: {error}"))?;
            library::in_file(name, &text)
        } else {
            library::with_id(name)
        };
        found.map_err(|refusal| refusal.sentence())
    }
}

/// See the module's prose.
#[derive(Debug)]
pub struct Modelled {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    drive: Drive,
    /// When the drive's own time begins: with the first command.
    began: Option<Nanos>,
    grants: VecDeque<Grant>,
}

/// An answer was late, and a command has not yet come back for it.
#[derive(Clone, Copy, Debug)]
struct Grant {
    lateness: Nanos,
    /// What comes later than this was not waiting for the answer.
    until: Nanos,
}

impl Modelled {
    /// A drive of this profile and state, the process's modelled drive with this number.
    #[must_use]
    pub fn new(profile: &Profile, state: State, index: u64) -> Modelled {
        let drive = Drive::new(profile, state, profile.port, SEED, index);
        Modelled {
            inner: Mutex::new(Inner {
                drive,
                began: None,
                grants: VecDeque::with_capacity(GRANTS_MAX),
            }),
        }
    }

    /// Hands over a command at `now`; returns when the drive is done.
    #[must_use]
    pub fn admit(&self, now: Nanos, demand: Demand) -> Nanos {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        let began = *inner.began.get_or_insert(now);
        let arrival_ns = now.since(inner.granted(now)).since(began).0;
        let completion = inner.drive.submit(command(demand), arrival_ns);
        began.after(Nanos(completion.done_ns))
    }

    /// See [`super::Pace::delivered`].
    pub fn delivered(&self, now: Nanos, finish: Nanos) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let lateness = Nanos(now.since(finish).0.min(LATENESS_MAX.0));
        if inner.grants.len() == GRANTS_MAX {
            inner.grants.pop_front();
        }
        inner.grants.push_back(Grant {
            lateness,
            until: now.after(lateness),
        });
    }
}

impl Inner {
    /// How much earlier a command that arrives at `now` counts as handed over.
    fn granted(&mut self, now: Nanos) -> Nanos {
        while let Some(grant) = self.grants.pop_front() {
            if now <= grant.until {
                return grant.lateness;
            }
        }
        Nanos(0)
    }
}

/// An I/O as the drive gets it. Zeroing moves no payload, like deallocating.
fn command(demand: Demand) -> Command {
    let operation = match demand.kind {
        StepKind::Read => Operation::Read,
        StepKind::Zero { .. } | StepKind::Discard => Operation::Deallocate,
        StepKind::Flush => Operation::Flush,
        _ => Operation::Write,
    };
    Command {
        operation,
        offset_bytes: demand.offset_bytes,
        length_bytes: demand.length_bytes,
    }
}

#[cfg(test)]
mod tests;
