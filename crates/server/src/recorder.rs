//! Who turns the engine's record into bytes: the controller's data thread, and nobody else.
//!
//! What writes the record belongs to that thread, so that nobody can hold it up there. Drives that join come by
//! message ([`Recorder::mail`]), from whoever brings them. What the metadata cannot express is news like everything
//! else that a data thread has to say.

use super::news::{News, NewsSender};
use container::log;
use container::persist::{Identity, Inexpressible, Persister};
use drives::world::{Encode, Encoder, LogEncoder, NotExpressible, Parts};
use engine::control::record::Record;
use engine::units::MemberId;
use metadata::imsm::SectorSize;
use std::any::Any;

/// What the data threads encode with.
pub(super) struct Encoders {
    recorder: Option<Recorder>,
    container_family: u32,
    sector: SectorSize,
}

impl Encoders {
    pub fn new(persister: Persister, events: &NewsSender) -> Encoders {
        Encoders {
            container_family: persister.mpb().container_family(),
            sector: persister.sector(),
            recorder: Some(Recorder::new(persister, events.clone())),
        }
    }

    /// For the record: the first who asks, which must be the controller's thread. The others are never asked to
    /// write it.
    pub fn take(&mut self) -> Encoder {
        match self.recorder.take() {
            Some(recorder) => Box::new(recorder),
            None => Box::new(|_, _: &Record| -> Result<Parts, NotExpressible> {
                unreachable!("only the controller's shard writes the record")
            }),
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
    events: NewsSender,
    /// What was told last, and of which record.
    told: Option<(u64, Inexpressible)>,
}

impl Recorder {
    fn new(persister: Persister, events: NewsSender) -> Recorder {
        Recorder {
            persister,
            events,
            told: None,
        }
    }
}

impl Encode for Recorder {
    /// `record` for `member`: see [`Persister::encode`].
    fn encode(&mut self, member: MemberId, record: &Record) -> Result<Parts, NotExpressible> {
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

    /// The drive with the next number has joined: its [`Identity`].
    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let drive: Box<Identity> = message.downcast().expect("nobody writes of anything else");
        self.persister.add_drive(*drive);
    }
}
