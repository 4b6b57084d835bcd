//! A member that answers when the model of a drive says ([`models::drive`]).
//!
//! Bytes really move; only the answer waits for the model. So an array of files or memory behaves in real time as the
//! same model does in the virtual time of a plan, as long as the real storage is faster than the drive.
//!
//! The loop looks only now and then, so it gives answers late. With a real drive only the interrupt is late, by a few
//! microseconds; here it is a whole sleep. To make up for that, each late answer moves one command back in time: a
//! command that arrives after the answer by no more than the answer was late counts as submitted that much earlier. So
//! a client that keeps a queue gets the drive's rate, however late the loop looks, and a command that arrives at any
//! other time waits for the drive's full latency.

use super::{Demand, LATENESS_MAX};
use crate::spec::Model;
use engine::plan::StepKind;
use engine::units::Nanos;
use models::drive::{Command, Drive, Operation, State};
use models::library;
use models::profile::Profile;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Seed of the random numbers of all modelled members; the drives of one process differ by their index.
const SEED: u64 = 1;

/// Late answers that are remembered; beyond that the oldest is forgotten.
const GRANTS_MAX: usize = 1024;

impl Model {
    /// The drive's profile, from those that come with the program or from the user's file.
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

/// See the module's documentation.
#[derive(Debug)]
pub struct Modelled {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    drive: Drive,
    /// When the drive's own time begins, which is at the first command.
    began: Option<Nanos>,
    grants: VecDeque<Grant>,
}

/// A late answer for which no command has counted as earlier yet.
#[derive(Clone, Copy, Debug)]
struct Grant {
    lateness: Nanos,
    /// A command that arrives later than this did not wait for the answer.
    until: Nanos,
}

impl Modelled {
    /// A drive of this profile and state; `index` is its number among the process's modelled drives.
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

    /// Submits a command at `now`; returns when the drive completes it.
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
    /// How much earlier than `now` a command that arrives at `now` counts as submitted.
    fn granted(&mut self, now: Nanos) -> Nanos {
        while let Some(grant) = self.grants.pop_front() {
            if now <= grant.until {
                return grant.lateness;
            }
        }
        Nanos(0)
    }
}

/// An I/O as a command to the drive. Zeroing moves no payload, like deallocating.
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
