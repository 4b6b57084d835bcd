//! The states that a power cut can leave: any of the writes that were not safe, in any combination, and each of
//! them perhaps torn.

use super::tape::Write;
use crate::drive::Drive;
use crate::drive::store::{SECTOR_BYTES, Store};
use crate::machine::Machine;
use crate::oracle::pattern::fingerprint;
use crate::random::{Stream, mix};
use std::rc::Rc;

/// How many states are looked at, at each cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Up to so many writes that are not safe: every combination.
    pub every_up_to: u32,
    /// Above: so many combinations, drawn.
    pub drawn: u32,
    /// In addition, so many in which writes are torn at sector grain.
    pub torn: u32,
}

impl Limits {
    /// For everything: 4,096 states at each cut.
    pub const WHOLE: Limits = Limits {
        every_up_to: 12,
        drawn: 4096,
        torn: 64,
    };
    /// For every change.
    pub const QUICK: Limits = Limits {
        every_up_to: 4,
        drawn: 16,
        torn: 4,
    };
}

/// What is kept of a write that was not safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    Nothing,
    All,
    /// Any sectors, drawn by this key.
    Some(u64),
}

/// A write that may be on its drive.
struct Candidate {
    drive: usize,
    offset_bytes: u64,
    bytes: Rc<[u8]>,
    safe: bool,
    name: u64,
}

/// An instant, with all that the drives have been told by then. See the module's prose.
pub struct Cut {
    bases: Vec<Store>,
    writes: Vec<Candidate>,
}

/// A state to be looked at.
pub struct Image {
    /// What each drive holds.
    pub stores: Vec<Store>,
    /// The same for states that hold the same.
    pub name: u64,
}

impl Cut {
    /// The instant `until` by the tapes' clock, at which these writes were on their way too: bay, first byte and
    /// bytes.
    #[must_use]
    pub fn new(drives: &[Drive], until: u64, on_their_way: Vec<(usize, u64, Vec<u8>)>) -> Cut {
        let tapes = || drives.iter().filter_map(|drive| drive.tape.as_ref());
        let done = tapes().enumerate().flat_map(|(drive, tape)| {
            tape.writes(until).map(move |write: &Write| {
                let safe = write.safe_at.is_some_and(|at| at <= until);
                Candidate::new(drive, write.offset_bytes, write.bytes.clone(), safe)
            })
        });
        let begun = on_their_way.into_iter();
        let begun = begun.map(|(bay, at, bytes)| Candidate::new(bay, at, bytes.into(), false));
        Cut {
            bases: tapes().map(|tape| tape.base().clone()).collect(),
            writes: done.chain(begun).collect(),
        }
    }

    /// The present of a machine whose drives have tapes.
    #[must_use]
    pub fn now(machine: &Machine, until: u64) -> Cut {
        Cut::new(&machine.drives, until, machine.writes_on_their_way())
    }

    /// Writes that may or may not be there.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.writes.iter().filter(|write| !write.safe).count() as u32
    }

    /// Gives every state within `limits` to `look`, until it fails. Returns how many there were.
    ///
    /// # Errors
    /// What `look` says.
    pub fn images<E>(
        &self,
        limits: Limits,
        random: &mut Stream,
        mut look: impl FnMut(Image) -> Result<(), E>,
    ) -> Result<u64, E> {
        let open = self.open();
        let mut count = 0;
        if open <= limits.every_up_to {
            for chosen in 0..1_u64 << open {
                count += 1;
                look(self.image(|at| kept(chosen >> at & 1 == 1)))?;
            }
        } else {
            for number in 0..limits.drawn {
                count += 1;
                look(self.drawn(number, open, random))?;
            }
        }
        let torn = if open == 0 { 0 } else { limits.torn };
        for _ in 0..torn {
            count += 1;
            let key = random.draw();
            look(self.image(|at| match mix(key ^ u64::from(at)) % 4 {
                0 => Kept::Nothing,
                1 => Kept::All,
                _ => Kept::Some(mix(key ^ u64::from(at) << 32)),
            }))?;
        }
        Ok(count)
    }

    /// None, all, each one alone and each one missing come first; then any, from few to many.
    fn drawn(&self, number: u32, open: u32, random: &mut Stream) -> Image {
        match number {
            0 => self.image(|_| Kept::Nothing),
            1 => self.image(|_| Kept::All),
            _ if number < 2 + open => self.image(|at| kept(at == number - 2)),
            _ if number < 2 + 2 * open => self.image(|at| kept(at != number - 2 - open)),
            _ => {
                let key = random.draw();
                let of_8 = 1 + u64::from(number % 7);
                self.image(|at| kept(mix(key ^ u64::from(at)) % 8 < of_8))
            }
        }
    }

    fn image(&self, choice: impl Fn(u32) -> Kept) -> Image {
        let mut stores = self.bases.clone();
        // The sum knows no order: writes to the same place have the same one at every cut.
        let (mut name, mut at) = (0_u64, 0);
        for write in &self.writes {
            let kept = if write.safe {
                Kept::All
            } else {
                at += 1;
                choice(at - 1)
            };
            let store = &mut stores[write.drive];
            match kept {
                Kept::Nothing => continue,
                Kept::All => store.write(write.offset_bytes, &write.bytes),
                Kept::Some(key) => write.torn(key, store),
            }
            let how = if let Kept::Some(key) = kept { key } else { 0 };
            name = name.wrapping_add(mix(write.name ^ how));
        }
        Image { stores, name }
    }
}

fn kept(all: bool) -> Kept {
    if all { Kept::All } else { Kept::Nothing }
}

impl Candidate {
    fn new(drive: usize, offset_bytes: u64, bytes: Rc<[u8]>, safe: bool) -> Candidate {
        let name = mix(fingerprint(&bytes) ^ mix(offset_bytes ^ (drive as u64) << 56));
        Candidate {
            drive,
            offset_bytes,
            bytes,
            safe,
            name,
        }
    }

    fn torn(&self, key: u64, store: &mut Store) {
        for (at, sector) in self.bytes.chunks(SECTOR_BYTES as usize).enumerate() {
            if mix(key ^ at as u64) & 1 == 1 {
                store.write(self.offset_bytes + at as u64 * SECTOR_BYTES, sector);
            }
        }
    }
}
