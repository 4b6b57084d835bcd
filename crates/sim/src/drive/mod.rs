//! A member drive in virtual time: real sectors behind a volatile write cache. Two separate plug-ins decide how
//! long commands take ([`timing`]) and how they fail ([`faults`]); [`lies`] holds the faults that a drive does
//! not report.

pub mod cache;
pub mod faults;
pub mod lies;
pub mod store;
pub mod timing;

use crate::cuts::tape::{Clock, Tape};
use crate::history::Abilities;
use crate::random::Stream;
use cache::{Cache, Survival};
use engine::plan::StepKind;
use faults::{AGAIN, Faults};
use lies::{Lies, Untruth, differing};
use std::ops::Range;
use store::{SECTOR_BYTES, Store};
use virtual_time::timing::{Place, Timing};

/// A drive. See the module's prose.
pub struct Drive {
    /// The serial that it reports.
    pub serial: String,
    /// Capacity.
    pub size_bytes: u64,
    /// Acknowledged writes may be lost with the power until they are flushed.
    pub volatile_cache: bool,
    /// Bytes of a logical sector: commands consist of whole sectors, and a power cut tears none.
    pub sector_bytes: u64,
    /// Its abilities.
    pub abilities: Abilities,
    /// Its faults.
    pub faults: Faults,
    /// Commands that it acknowledges but does not carry out.
    pub lies: Lies,
    /// How long commands take.
    pub timing: Box<dyn Timing>,
    /// Records all writes, if the power is to be cut at every instant.
    pub tape: Option<Tape>,
    store: Store,
    cache: Cache,
    random: Stream,
}

/// Takes the place of a position after a failed flush. As in an operating system's cache, writes that could not
/// be written back are dropped, and the error is reported once: the next flush drops them and succeeds.
const DROPPED: u64 = u64::MAX;

/// The error of a command.
pub type Errno = i32;

impl Drive {
    /// A drive with `store` on it.
    #[must_use]
    pub fn new(
        serial: String,
        (size_bytes, store): (u64, Store),
        volatile_cache: bool,
        timing: Box<dyn Timing>,
        random: Stream,
    ) -> Drive {
        Drive {
            serial,
            size_bytes,
            volatile_cache,
            sector_bytes: SECTOR_BYTES,
            abilities: Abilities::default(),
            faults: Faults::default(),
            lies: Lies::default(),
            timing,
            tape: None,
            store,
            cache: Cache::default(),
            random,
        }
    }

    /// When a command started now will end, not counting hangs.
    pub fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        let finish_ns = self.timing.finish_ns(now_ns, kind, place);
        self.faults.delayed_ns(now_ns, finish_ns)
    }

    /// The cache position that a flush started now would make durable. After a failed flush: [`DROPPED`].
    #[must_use]
    pub fn cache_position(&self) -> u64 {
        if self.faults.flush_failed {
            return DROPPED;
        }
        self.cache.position()
    }

    /// Carries out a command, unless a fault changes its course. `bytes` is the payload of a write and receives
    /// that of a read; `position` is [`Drive::cache_position`] at the start of a flush.
    ///
    /// # Errors
    /// The errno that the operating system would return.
    pub fn carry_out(
        &mut self,
        kind: StepKind,
        (offset_bytes, length_bytes): (u64, u64),
        bytes: &mut [u8],
        position: u64,
    ) -> Result<(), Errno> {
        assert!(
            offset_bytes + length_bytes <= self.size_bytes,
            "a command past the end of drive {}",
            self.serial
        );
        assert!(
            (offset_bytes | length_bytes).is_multiple_of(self.sector_bytes),
            "a command for parts of sectors of drive {}",
            self.serial
        );
        if let Err(errno) = self.faults.verdict(kind, offset_bytes, length_bytes) {
            self.fail(kind, (offset_bytes, length_bytes), bytes, errno);
            return Err(errno);
        }
        let range = offset_bytes..offset_bytes + length_bytes;
        if let Some((untruth, within)) = self.lies.due(kind, &range) {
            self.lie(untruth, within, kind, range, bytes, position);
            return Ok(());
        }
        match kind {
            StepKind::Read => self.store.read(offset_bytes, bytes),
            StepKind::Write { fua } => self.write(offset_bytes, bytes, fua),
            StepKind::Zero { .. } | StepKind::Discard => {
                let zeros = vec![0; length_bytes as usize];
                self.write(offset_bytes, &zeros, false);
            }
            StepKind::Flush if position == DROPPED => {
                let grain_bytes = self.sector_bytes;
                self.cache.lose(
                    &mut self.store,
                    Survival::Nothing,
                    grain_bytes,
                    &mut self.random,
                );
            }
            StepKind::Flush => {
                self.cache.flushed(position);
                self.lies.flushed(position);
                if let Some(tape) = &mut self.tape {
                    tape.flushed(position);
                }
            }
            StepKind::Log { .. } | StepKind::Xor { .. } | StepKind::Compare => {}
        }
        Ok(())
    }

    /// Carries out the effects of a failed command.
    fn fail(&mut self, kind: StepKind, range: (u64, u64), bytes: &[u8], errno: Errno) {
        if self.faults.gone {
            return;
        }
        let strict = self.faults.is_strict;
        let is_durable = match kind {
            StepKind::Write { fua } => {
                self.write_partly(range.0, bytes);
                // For a drive without FUA of its own, the kernel sends a write and a flush.
                strict && fua && self.volatile_cache
            }
            StepKind::Zero { .. } | StepKind::Discard if strict => {
                self.write_partly(range.0, &vec![0; range.1 as usize]);
                false
            }
            StepKind::Flush => strict || errno != AGAIN,
            _ => false,
        };
        self.faults.flush_failed |= self.faults.drops && is_durable;
    }

    /// Carries out a lie in place of a command.
    fn lie(
        &mut self,
        untruth: Untruth,
        within: Range<u64>,
        kind: StepKind,
        range: Range<u64>,
        bytes: &[u8],
        position: u64,
    ) {
        let zeros;
        let (bytes, fua) = if let StepKind::Write { fua } = kind {
            (bytes, fua)
        } else {
            zeros = vec![0; (range.end - range.start) as usize];
            (&zeros[..], false)
        };
        let mut places = std::collections::BTreeSet::new();
        match untruth {
            Untruth::DroppedFlush => return self.lies.drop_flush(position),
            Untruth::LostWrite => {}
            Untruth::MisdirectedWrite(by) => {
                let room = within.end - within.start - (range.end - range.start);
                let to = within.start + (range.start - within.start + by) % (room + SECTOR_BYTES);
                places = differing(&self.store, to, bytes);
                self.write(to, bytes, fua);
            }
        }
        places.retain(|place| !range.contains(place));
        places.append(&mut differing(&self.store, range.start, bytes));
        self.lies.tell(untruth, places);
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) {
        self.lies.written(offset_bytes, bytes.len() as u64);
        if self.volatile_cache {
            self.cache.note(&self.store, offset_bytes, bytes.len());
        }
        self.store.write(offset_bytes, bytes);
        if let Some(tape) = &mut self.tape {
            let safe = fua || !self.volatile_cache;
            tape.wrote(self.cache.position(), offset_bytes, bytes, safe);
        }
        if fua && self.volatile_cache {
            self.cache.written_through(offset_bytes, bytes.len());
        }
    }

    /// Writes all, none or some sectors of a write that failed or was interrupted.
    pub fn write_partly(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let how = self.random.below(4);
        for (at, sector) in bytes.chunks(self.sector_bytes as usize).enumerate() {
            if how == 0 || (how > 1 && self.random.chance(1, 2)) {
                self.write(offset_bytes + at as u64 * self.sector_bytes, sector, false);
            }
        }
    }

    /// Cuts the power: all, nothing or some of the unflushed writes survive.
    pub fn lose_power(&mut self) {
        let survival = self.random.pick(&[
            Survival::All,
            Survival::Nothing,
            Survival::Some,
            Survival::Some,
        ]);
        let undone = self.cache.lose(
            &mut self.store,
            survival,
            self.sector_bytes,
            &mut self.random,
        );
        self.lies.power_lost(&undone);
    }

    /// Reads outside virtual time, as at the start of a process. Fails like a command.
    ///
    /// # Errors
    /// As [`Drive::carry_out`].
    pub fn read_now(&mut self, offset_bytes: u64, length_bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length_bytes];
        let range = (offset_bytes, length_bytes as u64);
        self.carry_out(StepKind::Read, range, &mut bytes, 0)?;
        Ok(bytes)
    }

    /// Writes outside virtual time, into the cache.
    ///
    /// # Errors
    /// As [`Drive::carry_out`].
    pub fn write_now(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut bytes = bytes.to_vec();
        let range = (offset_bytes, bytes.len() as u64);
        self.carry_out(StepKind::Write { fua: false }, range, &mut bytes, 0)
    }

    /// Reads the drive's content, ignoring its faults; for checks, not for the array.
    pub fn inspect(&self, offset_bytes: u64, into: &mut [u8]) {
        self.store.read(offset_bytes, into);
    }

    /// Changes the drive's content durably, ignoring its faults; for injecting faults, not for the array.
    pub fn tamper(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.lies.written(offset_bytes, bytes.len() as u64);
        self.store.write(offset_bytes, bytes);
        self.cache.written_through(offset_bytes, bytes.len());
    }

    /// Begins to record writes on a tape. The present content counts as safe.
    pub fn record(&mut self, clock: &Clock) {
        self.tape = Some(Tape::new(clock.clone(), self.store.clone()));
    }

    /// Replaces the whole content of the drive.
    pub fn replace_content(&mut self, store: Store) {
        self.lies.written(0, self.size_bytes);
        self.store = store;
        self.cache = Cache::default();
    }
}
