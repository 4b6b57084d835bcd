//! The states that a power cut can leave: any of the writes that were not safe, in any combination, and each of
//! them perhaps torn.

use super::tape::{Write, name};
use crate::drive::Drive;
use crate::drive::store::{SECTOR_BYTES, Store};
use crate::machine::Machine;
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
    /// Where a start is looked at: so many instants at which the process before it was cut off.
    pub starts: u64,
}

impl Limits {
    /// For everything: 4,096 states at each cut.
    pub const WHOLE: Limits = Limits {
        every_up_to: 12,
        drawn: 4096,
        torn: 64,
        starts: 8,
    };
    /// For every change.
    pub const QUICK: Limits = Limits {
        every_up_to: 4,
        drawn: 10,
        torn: 3,
        starts: 1,
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
    /// Names what is in the bases.
    name: u64,
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
                Candidate {
                    drive,
                    offset_bytes: write.offset_bytes,
                    bytes: write.bytes.clone(),
                    safe,
                    name: on_drive(write.name, drive),
                }
            })
        });
        let begun = on_their_way.into_iter();
        let begun = begun.map(|(drive, offset_bytes, bytes)| Candidate {
            drive,
            offset_bytes,
            name: on_drive(name(offset_bytes, &bytes), drive),
            bytes: bytes.into(),
            safe: false,
        });
        let bases: Vec<Store> = tapes().map(|tape| tape.base().clone()).collect();
        let mut writes: Vec<Candidate> = done.chain(begun).collect();
        leave_out_idle(&mut writes, &bases);
        let names = tapes().enumerate();
        let names = names.map(|(drive, tape)| on_drive(tape.base_name(), drive));
        Cut {
            name: names.fold(0, u64::wrapping_add),
            bases,
            writes,
        }
    }

    /// The present of a machine whose drives have tapes.
    #[must_use]
    pub fn now(machine: &Machine, until: u64) -> Cut {
        Cut::new(&machine.drives, until, machine.writes_on_their_way())
    }

    /// Writes that may or may not be there, and make a difference.
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
        // The sum knows no order: writes to the same place have the same one at every cut. It is the same whether a
        // write is in a base by now or not.
        let (mut name, mut at) = (self.name, 0);
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
            name = name.wrapping_add(match kept {
                Kept::Some(key) => mix(write.name ^ key),
                Kept::Nothing | Kept::All => write.name,
            });
        }
        Image { stores, name }
    }
}

fn kept(all: bool) -> Kept {
    if all { Kept::All } else { Kept::Nothing }
}

/// Leaves out the writes that make no difference, whatever becomes of the others: zeros where zeros are, mostly.
fn leave_out_idle(writes: &mut Vec<Candidate>, bases: &[Store]) {
    let holds = |write: &Candidate| bases[write.drive].holds(write.offset_bytes, &write.bytes);
    let changing: Vec<(usize, u64, u64)> = writes
        .iter()
        .filter(|write| !holds(write))
        .map(|write| (write.drive, write.offset_bytes, write.end_bytes()))
        .collect();
    writes.retain(|write| {
        changing.iter().any(|&(drive, from, to)| {
            drive == write.drive && from < write.end_bytes() && write.offset_bytes < to
        })
    });
}

/// The name of writes on a drive: a factor keeps sums.
fn on_drive(name: u64, drive: usize) -> u64 {
    name.wrapping_mul(mix(drive as u64) | 1)
}

impl Candidate {
    fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.bytes.len() as u64
    }

    fn torn(&self, key: u64, store: &mut Store) {
        for (at, sector) in self.bytes.chunks(SECTOR_BYTES as usize).enumerate() {
            if mix(key ^ at as u64) & 1 == 1 {
                store.write(self.offset_bytes + at as u64 * SECTOR_BYTES, sector);
            }
        }
    }
}
