//! A drive of the machine as [`assembly`] sees it.

use crate::drive::{Drive, Errno};
use crate::history::Abilities;
use crate::machine::Machine;
use anyhow::anyhow;
use assembly::member::{FoundShadow, Looked, Member, look};
use engine::plan::StepKind;
use engine::policy::MemberKind;
use metadata::imsm::place::{Found, Placement};
use metadata::imsm::{DecodeError, SectorSize, Serial};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A drive that has been probed.
pub struct Probed {
    machine: Rc<RefCell<Machine>>,
    /// Its bay.
    pub bay: usize,
    name: String,
    size_bytes: u64,
    volatile_cache: bool,
    abilities: Abilities,
    placement: Placement,
    sector: SectorSize,
    looked: Looked,
}

impl fmt::Debug for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Probes the drive in a bay; `None` if it cannot be read.
#[must_use]
pub fn probe(machine: &Rc<RefCell<Machine>>, bay: usize, sector: SectorSize) -> Option<Probed> {
    let mut borrowed = machine.borrow_mut();
    let drive = &mut borrowed.drives[bay];
    let placement = Placement::new(drive.size_bytes, sector).ok()?;
    let looked = look(placement, sector, |at, length| drive.read_now(at, length)).ok()?;
    Some(Probed {
        machine: machine.clone(),
        bay,
        name: drive.serial.clone(),
        size_bytes: drive.size_bytes,
        volatile_cache: drive.volatile_cache,
        abilities: drive.abilities,
        placement,
        sector,
        looked,
    })
}

impl Probed {
    fn drive<T>(&self, act: impl Fn(&mut Drive) -> Result<T, Errno>) -> anyhow::Result<T> {
        let mut machine = self.machine.borrow_mut();
        // A command that succeeds at the second or third try must not stop the start.
        for _ in 1..TRIES {
            if let Ok(done) = act(&mut machine.drives[self.bay]) {
                return Ok(done);
            }
        }
        let last = act(&mut machine.drives[self.bay]);
        last.map_err(|errno| anyhow!("{}: errno {errno}", self.name))
    }
}

impl Probed {
    /// Fails once the power has been cut during a start. The write at which it is cut is carried out in part.
    fn goes_on(&self, write: Option<(u64, &[u8])>) -> anyhow::Result<()> {
        let mut machine = self.machine.borrow_mut();
        let Some(left) = &mut machine.start_left else {
            return Ok(());
        };
        let strikes = *left == 1;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(());
        }
        let drive = &mut machine.drives[self.bay];
        if let Some((offset_bytes, bytes)) = write.filter(|_| strikes && !drive.faults.gone) {
            drive.write_partly(offset_bytes, bytes);
        }
        Err(anyhow!("the power is gone"))
    }
}

/// How often a command is tried outside the running array.
const TRIES: usize = 3;

impl Member for Probed {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn volatile_cache(&self) -> bool {
        self.volatile_cache
    }

    fn kind(&self) -> MemberKind {
        self.abilities.kind
    }

    fn discards(&self) -> bool {
        self.abilities.discards
    }

    fn serial(&self) -> Serial {
        Serial::from_drive(self.name.as_bytes())
    }

    fn sector(&self) -> SectorSize {
        self.sector
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn found(&self) -> &Result<Option<Found>, DecodeError> {
        &self.looked.0
    }

    fn shadow(&self) -> &FoundShadow {
        &self.looked.1
    }

    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> anyhow::Result<Vec<u8>> {
        self.drive(|drive| drive.read_now(offset_bytes, length_bytes))
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.goes_on(Some((offset_bytes, bytes)))?;
        self.drive(|drive| drive.write_now(offset_bytes, bytes))
    }

    fn flush(&self) -> anyhow::Result<()> {
        self.goes_on(None)?;
        self.drive(|drive| {
            // This process has not promised anything yet, so it may repeat a failed flush.
            drive.faults.flush_failed = false;
            let position = drive.cache_position();
            drive.carry_out(StepKind::Flush, (0, 0), &mut [], position)
        })
    }
}
