//! Turns the engine's record into bytes, on the controller's data thread alone.
//!
//! The persister belongs to that thread, so that no other thread can make it wait. Drives that join are announced to
//! it by message ([`Recorder::mail`]), by the thread that adds them. If the metadata cannot express a record, that is
//! news, like everything else that a data thread has to report.

use super::news::{News, NewsSender};
use container::log;
use container::persist::{Identity, Inexpressible, Persister};
use drives::world::{Encode, Encoder, LogEncoder, NotExpressible, Parts};
use engine::control::record::Record;
use engine::units::MemberId;
use metadata::imsm::SectorSize;
use std::any::Any;

/// The encoders that the data threads use.
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

    /// The encoder of the record, for the first caller, which must be the controller's thread. Other threads get one
    /// that is never called.
    pub fn take(&mut self) -> Encoder {
        match self.recorder.take() {
            Some(recorder) => Box::new(recorder),
            None => Box::new(|_, _: &Record| -> Result<Parts, NotExpressible> {
                unreachable!("only the controller's shard writes the record")
            }),
        }
    }

    /// The encoder of write-hole logs.
    pub fn of_logs(&self) -> LogEncoder {
        Box::new(log::encoder(self.container_family, self.sector))
    }
}

/// See the module's documentation.
struct Recorder {
    persister: Persister,
    events: NewsSender,
    /// What could not be expressed and was reported last, and the generation of that record.
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
            // Encoding fails in the same way for every member, so it is reported once.
            let of = (record.generation, error);
            if self.told.as_ref() != Some(&of) {
                self.events.send(News::NotExpressible(of.1.clone()));
                self.told = Some(of);
            }
            NotExpressible
        })
    }

    /// The drive with the next number has joined: the message is its [`Identity`].
    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let drive: Box<Identity> = message
            .downcast()
            .expect("the only message is a joined drive's identity");
        self.persister.add_drive(*drive);
    }
}
