//! The states that a power cut can leave: any combination of the writes that were not safe, and each of them
//! perhaps torn.

use super::tape::{Write, name};
use crate::drive::Drive;
use crate::drive::store::{SECTOR_BYTES, Store};
use crate::machine::Machine;
use crate::random::{Stream, mix};
use std::rc::Rc;

/// How many states are examined at each cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// With up to this many writes that are not safe, every combination is examined.
    pub every_up_to: u32,
    /// With more, this many combinations are drawn at random.
    pub drawn: u32,
    /// In addition, this many states in which writes are torn between sectors.
    pub torn: u32,
    /// In scenes about a start: the number of instants at which the process before it was cut off.
    pub starts: u64,
}

impl Limits {
    /// For a thorough run: up to 4,096 combinations at each cut.
    pub const WHOLE: Limits = Limits {
        every_up_to: 12,
        drawn: 4096,
        torn: 64,
        starts: 8,
    };
    /// For a test of every change.
    pub const QUICK: Limits = Limits {
        every_up_to: 4,
        drawn: 10,
        torn: 3,
        starts: 1,
    };
}

/// What a state contains of a write that was not safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    Nothing,
    All,
    /// Any sectors, drawn by this key.
    Some(u64),
}

/// A write that a state may contain.
struct Candidate {
    drive: usize,
    offset_bytes: u64,
    bytes: Rc<[u8]>,
    safe: bool,
    name: u64,
}

/// An instant, with all writes that the drives have received by then. See the module's prose.
pub struct Cut {
    bases: Vec<Store>,
    /// The name of the content of the bases.
    name: u64,
    writes: Vec<Candidate>,
}

/// A state to be examined.
pub struct Image {
    /// What each drive holds.
    pub stores: Vec<Store>,
    /// Equal for states with the same content.
    pub name: u64,
}

impl Cut {
    /// The instant `until` by the tapes' clock. `on_their_way` are the writes in flight at that time: bay, first
    /// byte and bytes.
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

    /// Number of writes that may or may not be on their drives, without those that would make no difference.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.writes.iter().filter(|write| !write.safe).count() as u32
    }

    /// Calls `look` with every state within `limits`, until it fails. Returns the number of states.
    ///
    /// # Errors
    /// The error of `look`.
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

    /// First come the states with none, with all, with each write alone and with each write missing, then random
    /// ones, from few writes to many.
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
        // The sum does not depend on the order of writes; it need not, because writes to the same place have the
        // same order at every cut. The sum is the same whether or not a write has been folded into a base.
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

/// Leaves out the writes that make no difference, whether or not the others are carried out: mostly zeros over
/// zeros.
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

/// The name of a write on a certain drive. Multiplying by a factor commutes with adding names up.
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
