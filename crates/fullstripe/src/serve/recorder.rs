//! Who turns the engine's record into bytes: the controller's data thread, and nobody else.
//!
//! What writes the record belongs to that thread, so that nobody can hold it up there. Drives that join are left
//! with [`Joined`] by whoever brings them. What the metadata cannot express is news like everything else that a
//! data thread has to say.

use super::news::{News, NewsSender};
use super::runtime::lock;
use crate::container::log;
use crate::container::persist::{Identity, Inexpressible, Persister};
use drives::world::{Encoder, LogEncoder, NotExpressible, Parts};
use engine::control::record::Record;
use engine::limits::CONTAINER_MEMBERS_MAX;
use engine::units::MemberId;
use metadata::imsm::SectorSize;
use std::sync::{Arc, Mutex};

/// Drives that have joined and that the recorder has not heard of, in the order of their numbers.
#[derive(Debug)]
pub struct Joined(Mutex<Vec<Identity>>);

impl Joined {
    /// Nobody, and room for all that there can be: nothing is allocated while it is locked.
    pub fn new() -> Joined {
        Joined(Mutex::new(Vec::with_capacity(CONTAINER_MEMBERS_MAX)))
    }

    /// The drive with the next number.
    pub fn add(&self, drive: Identity) {
        lock(&self.0).push(drive);
    }
}

/// What the data threads encode with.
pub(super) struct Encoders {
    recorder: Option<Recorder>,
    container_family: u32,
    sector: SectorSize,
}

impl Encoders {
    pub fn new(persister: Persister, joined: Arc<Joined>, events: &NewsSender) -> Encoders {
        Encoders {
            container_family: persister.mpb().container_family(),
            sector: persister.sector(),
            recorder: Some(Recorder::new(persister, joined, events.clone())),
        }
    }

    /// For the record: the first who asks, which must be the controller's thread. The others are never asked to
    /// write it.
    pub fn take(&mut self) -> Encoder {
        match self.recorder.take() {
            Some(mut recorder) => Box::new(move |member, record| recorder.encode(member, record)),
            None => Box::new(|_, _| Err(NotExpressible)),
        }
    }

    /// For write-hole logs.
    pub fn of_logs(&self) -> LogEncoder {
        Box::new(log::encoder(self.container_family, self.sector))
    }
}

/// See the module's prose.
struct Recorder {
    persister: Persister,
    joined: Arc<Joined>,
    events: NewsSender,
    /// What was told last, and of which record.
    told: Option<(u64, Inexpressible)>,
}

impl Recorder {
    fn new(persister: Persister, joined: Arc<Joined>, events: NewsSender) -> Recorder {
        Recorder {
            persister,
            joined,
            events,
            told: None,
        }
    }

    /// `record` for `member`: see [`Persister::encode`].
    fn encode(&mut self, member: MemberId, record: &Record) -> Result<Parts, NotExpressible> {
        for drive in lock(&self.joined.0).drain(..) {
            self.persister.add_drive(drive);
        }
        self.persister.encode(member, record).map_err(|error| {
            // The same is asked for every member.
            let of = (record.generation, error);
            if self.told.as_ref() != Some(&of) {
                self.events.send(News::NotExpressible(of.1.clone()));
                self.told = Some(of);
            }
            NotExpressible
        })
    }
}
