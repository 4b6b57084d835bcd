//! The oracle knows what a read may return: for every sector of a volume, the values that it may hold.
//!
//! A value is *dead* when a read must not return it any more: a write that began after the value was acknowledged
//! has itself been acknowledged, or a read has returned another value. A dead value is *buried* once what killed
//! it is durable (FLUSH, FUA): until then a power cut can bring it back. So
//!
//! * while a write is in flight, both the old and the new value are right;
//! * after the acknowledgement only the new one is, even if the process crashes;
//! * a power cut revives values that are not buried, and makes the values of writes in flight possible;
//! * the first read after that decides between the possible values, and the others are dead: a mirror must not
//!   return one copy now and the other one later.
//!
//! Events are ordered by a counter, not by virtual time, because several can happen at the same nanosecond.

pub mod pattern;

#[cfg(test)]
mod tests;

use pattern::SECTOR_BYTES;
use std::fmt;
use std::ops::Range;

/// Content of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Zeros.
    Zero,
    /// Whatever was on the drives when the array was created.
    LeftOver,
    /// Left-over content that has been read once, by its fingerprint.
    Seen(u64),
    /// The content that this request wrote.
    Of(u32),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: Value,
    /// The request that wrote it.
    request: u32,
    began: u64,
    /// `None` while in flight.
    ended: Option<u64>,
    dead: Option<u64>,
    buried: bool,
}

impl Entry {
    fn alive_since(&self, moment: u64) -> bool {
        self.dead.is_none_or(|dead| dead > moment)
    }
}

/// A sector with a wrong value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The volume.
    pub volume: u8,
    /// The sector.
    pub sector: u64,
    /// The value that it holds, if that is known.
    pub found: Option<Value>,
    /// The values that it may hold.
    pub allowed: Vec<Value>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {} sector {} holds ", self.volume, self.sector)?;
        match self.found {
            Some(value) => write!(f, "{value:?}, which it must not hold any more")?,
            None => f.write_str("what nobody wrote there")?,
        }
        write!(f, "; allowed: {:?}", self.allowed)
    }
}

/// How a request that changes sectors ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Acknowledged.
    Done,
    /// Acknowledged as durable.
    Durable,
    /// Failed, or a trim, which promises nothing: all, some or none of it may have been carried out.
    Maybe,
}

/// The oracle of one volume. See the module's prose.
#[derive(Clone)]
pub struct Oracle {
    volume: u8,
    /// By sector: its entries; empty while only the first value is possible.
    sectors: Vec<Vec<Entry>>,
    /// Sectors with more than one entry.
    touched: Vec<u32>,
    first: Value,
    clock: u64,
    /// When the reads in flight began.
    reads: Vec<u64>,
    requests: u32,
    /// Whether a read decides between the possible values.
    pub decides: bool,
}

impl Oracle {
    /// A volume of this many sectors, all with the same value.
    #[must_use]
    pub fn new(volume: u8, sectors: u64, first: Value) -> Oracle {
        Oracle {
            volume,
            sectors: vec![Vec::new(); sectors as usize],
            touched: Vec::new(),
            first,
            clock: 1,
            reads: Vec::new(),
            requests: 0,
            decides: true,
        }
    }

    /// The volume's number.
    #[must_use]
    pub fn volume(&self) -> u8 {
        self.volume
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Notes that a request begins to write `value` to sectors. Each request has its own number, from 1 on.
    pub fn write_begins(&mut self, request: u32, value: Value, sectors: Range<u64>) {
        let began = self.tick();
        self.requests = self.requests.max(request);
        for at in sectors {
            let entries = &mut self.sectors[at as usize];
            if entries.is_empty() {
                entries.push(Entry {
                    value: self.first,
                    request: 0,
                    began: 0,
                    ended: Some(0),
                    dead: None,
                    buried: false,
                });
            }
            if entries.len() == 1 {
                self.touched.push(at as u32);
            }
            entries.push(Entry {
                value,
                request,
                began,
                ended: None,
                dead: None,
                buried: false,
            });
        }
    }

    /// Notes that a request that changes sectors has been answered.
    pub fn write_ends(&mut self, request: u32, sectors: Range<u64>, how: Ended) {
        let now = self.tick();
        for at in sectors {
            let entries = &mut self.sectors[at as usize];
            let own = entries
                .iter_mut()
                .find(|entry| entry.request == request && entry.ended.is_none());
            let Some(own) = own else { continue };
            own.ended = Some(now);
            let began = own.began;
            if how == Ended::Maybe {
                continue;
            }
            for entry in entries.iter_mut() {
                if entry.ended.is_some_and(|ended| ended < began) {
                    entry.dead.get_or_insert(now);
                    entry.buried |= how == Ended::Durable;
                }
            }
            forget(entries, self.reads.iter().min().copied());
        }
    }

    /// Notes that a read begins. The returned moment is to be passed to [`Oracle::read_ends`].
    pub fn read_begins(&mut self) -> u64 {
        let now = self.tick();
        self.reads.push(now);
        now
    }

    /// Notes that a read has failed.
    pub fn read_failed(&mut self, began: u64) {
        self.reads.retain(|&read| read != began);
    }

    /// Checks the `bytes` that a read has returned from `sector` on.
    ///
    /// # Errors
    /// The first sector with a value that was not possible at any time since the read began.
    pub fn read_ends(&mut self, began: u64, sector: u64, bytes: &[u8]) -> Result<(), Wrong> {
        self.read_ends_with(began, sector, bytes, Err)
    }

    /// As [`Oracle::read_ends`], but calls `look` with each wrong sector. `look` decides whether to continue.
    ///
    /// # Errors
    /// The error of `look`.
    pub fn read_ends_with<E>(
        &mut self,
        began: u64,
        sector: u64,
        bytes: &[u8],
        mut look: impl FnMut(Wrong) -> Result<(), E>,
    ) -> Result<(), E> {
        let now = self.tick();
        self.reads.retain(|&read| read != began);
        let oldest_read = self.reads.iter().min().copied();
        for (at, bytes) in (sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            if let Err(wrong) = self.judge(at, bytes, began, now, oldest_read) {
                look(wrong)?;
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        at: u64,
        bytes: &[u8],
        began: u64,
        now: u64,
        oldest_read: Option<u64>,
    ) -> Result<(), Wrong> {
        let volume = self.volume;
        let matches = |value: Value| match value {
            Value::Zero => bytes.iter().all(|&byte| byte == 0),
            Value::Of(request) => pattern::holds(request, volume, at, bytes),
            Value::Seen(print) => pattern::fingerprint(bytes) == print,
            Value::LeftOver => false,
        };
        let entries = &mut self.sectors[at as usize];
        if entries.is_empty() {
            if matches(self.first) {
                return Ok(());
            }
            if self.first != Value::LeftOver {
                return Err(self.wrong(at, bytes, began));
            }
            entries.push(Entry {
                value: Value::LeftOver,
                request: 0,
                began: 0,
                ended: Some(0),
                dead: None,
                buried: false,
            });
        }
        let possible = |entry: &&mut Entry| entry.alive_since(began);
        let known = entries
            .iter_mut()
            .filter(possible)
            .position(|entry| matches(entry.value));
        let found = match known {
            Some(position) => entries.iter_mut().filter(possible).nth(position),
            None => entries
                .iter_mut()
                .filter(possible)
                .find(|entry| entry.value == Value::LeftOver),
        };
        let Some(found) = found else {
            return Err(self.wrong(at, bytes, began));
        };
        if found.value == Value::LeftOver && self.decides {
            found.value = Value::Seen(pattern::fingerprint(bytes));
        }
        let (value, alive) = (found.value, found.dead.is_none());
        let quiet = |entry: &Entry| entry.ended.is_some_and(|ended| ended < began);
        if self.decides && alive && entries.len() > 1 && entries.iter().all(quiet) {
            let others = entries.iter_mut().filter(|entry| entry.value != value);
            others.for_each(|entry| {
                entry.dead.get_or_insert(now);
            });
            forget(entries, oldest_read);
        }
        Ok(())
    }

    fn wrong(&self, at: u64, bytes: &[u8], began: u64) -> Wrong {
        let known = (0..=self.requests).map(Value::Of).find(
            |&value| matches!(value, Value::Of(r) if pattern::holds(r, self.volume, at, bytes)),
        );
        let zero = bytes.iter().all(|&byte| byte == 0).then_some(Value::Zero);
        let entries = &self.sectors[at as usize];
        let seen = entries.iter().map(|entry| entry.value).find(
            |value| matches!(value, Value::Seen(print) if *print == pattern::fingerprint(bytes)),
        );
        let allowed = if entries.is_empty() {
            vec![self.first]
        } else {
            let alive = entries.iter().filter(|entry| entry.alive_since(began));
            alive.map(|entry| entry.value).collect()
        };
        Wrong {
            volume: self.volume,
            sector: at,
            found: known.or(zero).or(seen),
            allowed,
        }
    }

    /// Notes that a FLUSH begins. The returned moment is to be passed to [`Oracle::flush_ends`].
    pub fn flush_begins(&mut self) -> u64 {
        self.tick()
    }

    /// Notes that the FLUSH that began at this moment has been acknowledged.
    pub fn flush_ends(&mut self, began: u64) {
        let oldest_read = self.reads.iter().min().copied();
        for &at in &self.touched {
            let entries = &mut self.sectors[at as usize];
            for entry in entries.iter_mut() {
                entry.buried |= entry.dead.is_some_and(|dead| dead <= began);
            }
            forget(entries, oldest_read);
        }
        let sectors = &self.sectors;
        self.touched.retain(|&at| sectors[at as usize].len() > 1);
    }

    /// Notes that the process has ended: writes in flight may or may not have been carried out. If the power is
    /// lost too, values that are not buried are possible again. Returns the sectors that now have more than one
    /// possible value, because a write to them was in flight, failed, or was not durable yet.
    pub fn crash(&mut self, power: bool) -> Vec<u64> {
        let now = self.tick();
        self.reads.clear();
        let mut in_flight = Vec::new();
        for &at in &self.touched {
            let entries = &mut self.sectors[at as usize];
            for entry in entries.iter_mut() {
                entry.ended.get_or_insert(now);
                if power && !entry.buried {
                    entry.dead = None;
                }
            }
            forget(entries, None);
            let possible = entries.iter().filter(|entry| entry.dead.is_none());
            if possible.count() > 1 {
                in_flight.push(u64::from(at));
            }
        }
        let sectors = &self.sectors;
        self.touched.retain(|&at| sectors[at as usize].len() > 1);
        in_flight
    }

    /// The values that a sector may hold while nothing is in flight.
    #[must_use]
    pub fn possible(&self, sector: u64) -> Vec<Value> {
        let entries = &self.sectors[sector as usize];
        if entries.is_empty() {
            return vec![self.first];
        }
        let alive = entries.iter().filter(|entry| entry.dead.is_none());
        alive.map(|entry| entry.value).collect()
    }

    /// Allows any content of a sector until it is read, because a write to it was in flight to a drive that is
    /// lost.
    pub fn may_hold_anything(&mut self, sector: u64) {
        let now = self.tick();
        self.sectors[sector as usize].push(Entry {
            value: Value::LeftOver,
            request: 0,
            began: now,
            ended: Some(now),
            dead: None,
            buried: false,
        });
    }
}

/// Removes entries that are buried and dead for all reads in flight: they can neither be read nor come back.
fn forget(entries: &mut Vec<Entry>, oldest_read: Option<u64>) {
    entries.retain(|entry| {
        let dead = entry
            .dead
            .is_some_and(|dead| oldest_read.is_none_or(|read| dead < read));
        !(dead && entry.buried)
    });
}
