//! Follows the engine's record: every change of it is made in the IMSM record too.
//!
//! The engine says *what* is true (this member has failed, that slot has been rebuilt up to this point); the
//! [`metadata`] crate knows how the format expresses it. [`Persister`] compares the engine's record with the one it saw
//! last and applies the difference, so that everything in the IMSM record that the engine does not know is preserved.
//!
//! A change is applied to a copy, which is adopted only if all of it can be expressed and encoded. Otherwise everything
//! stays as it was and the caller gets an error ([`Inexpressible`]): a record that says less than it should must not
//! count as durable.
//!
//! Each member is first given the headers of bitmaps that it lacks, then the record's shadow and, once that is durable,
//! the record ([`metadata::imsm::shadow`] says why).

mod follow;

use crate::member::Member;
use crate::write::record_on;
use engine::control::record::Record;
use engine::log::unit::LogUnit;
use engine::units::MemberId;
pub use follow::Inexpressible;
use follow::Written;
use metadata::imsm::bitmap::{BitmapVolume, Header};
use metadata::imsm::log::HEADER_BYTES;
use metadata::imsm::place::Placement;
use metadata::imsm::shadow::{self, has_room};
use metadata::imsm::{Mpb, RecordPrint, SectorSize, Serial};

/// What the persister knows about a drive.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Serial in stored form.
    pub serial: Serial,
    /// Where metadata is on it.
    pub placement: Placement,
    /// Which record its own copy is; `None` if that is not known.
    pub holds: Option<RecordPrint>,
    /// The drive holds a newer version's shadow, which must not be overwritten.
    pub keeps_shadow: bool,
}

impl Identity {
    /// The identity of a drive as it is now.
    #[must_use]
    pub fn of(probed: &impl Member) -> Identity {
        Identity {
            serial: probed.serial(),
            placement: probed.placement(),
            holds: record_on(probed),
            keeps_shadow: probed.shadow().is_newer(),
        }
    }
}

/// Where a bitmap's header is, and which version of it each member has.
#[derive(Debug)]
struct KeptBitmap {
    volume: BitmapVolume,
    /// By member: the event counter in the header on the drive; `None` if that is not known.
    on: Vec<Option<u64>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Persister {
    sector: SectorSize,
    drives: Vec<Identity>,
    written: Written,
    /// The volumes whose headers are in `written`, in the same order.
    bitmaps: Vec<KeptBitmap>,
}

/// Maximum number of drives in a container; reserved at once, so that a joining drive needs no allocation.
const DRIVES_MAX: usize = engine::limits::CONTAINER_MEMBERS_MAX;

impl Persister {
    /// Starts with `mpb`, from which `record` was made.
    #[must_use]
    pub fn new(
        mpb: Mpb,
        sector: SectorSize,
        members: &[impl Member],
        record: &Record,
    ) -> Persister {
        let mut drives = Vec::with_capacity(DRIVES_MAX);
        drives.extend(members.iter().map(|member| Identity::of(member)));
        Persister {
            sector,
            drives,
            written: Written::new(mpb, record),
            bitmaps: Vec::new(),
        }
    }

    /// Also maintains the headers of these volumes' bitmaps, which all members have already.
    #[must_use]
    pub fn with_bitmaps(
        mut self,
        headers: impl IntoIterator<Item = (usize, BitmapVolume, Header)>,
    ) -> Persister {
        for (at, volume, header) in headers {
            let on = vec![Some(header.events_cleared); self.drives.len()];
            self.bitmaps.push(KeptBitmap { volume, on });
            self.written.headers.push((at, header));
        }
        self
    }

    /// Adds a drive that joins; it gets the next number.
    pub fn add_drive(&mut self, drive: Identity) {
        self.drives.push(drive);
    }

    /// The IMSM record as it is written.
    #[must_use]
    pub fn mpb(&self) -> &Mpb {
        &self.written.mpb
    }

    /// The sector size of all members.
    #[must_use]
    pub fn sector(&self) -> SectorSize {
        self.sector
    }

    /// The last of the engine's records that was expressed.
    #[must_use]
    pub fn expressed(&self) -> &Record {
        &self.written.seen
    }

    /// The function that writes the headers of this container's write-hole logs.
    pub fn log_encoder(
        &self,
    ) -> impl FnMut(&LogUnit, &[u32], &mut [u8; HEADER_BYTES]) + Send + use<> {
        crate::log::encoder(self.written.mpb.container_family(), self.sector)
    }

    /// The parts of `record` for `member`, in the order in which they are written: first byte on the drive, and the
    /// bytes. Each part has to be durable before the next is written.
    ///
    /// # Errors
    /// The format cannot express the record. Then no part of it is written to any member, and the next record is
    /// compared with the one expressed before.
    pub fn encode(
        &mut self,
        member: MemberId,
        record: &Record,
    ) -> Result<Vec<(u64, Vec<u8>)>, Inexpressible> {
        if record.generation != self.written.seen.generation || self.written.image.is_empty() {
            self.follow(record)?;
        }
        let (mpb, image) = (&self.written.mpb, &self.written.image);
        let Identity {
            placement,
            holds,
            keeps_shadow,
            ..
        } = self.drives[member.0 as usize];
        let shadow = shadow::encode(mpb, holds, self.sector)
            .ok()
            .filter(|_| has_room(&placement, mpb) && !keeps_shadow)
            .map(|bytes| (placement.shadow().offset_bytes, bytes));
        let own = (placement.image(image.len()).offset_bytes, image.clone());
        self.drives[member.0 as usize].holds = self.written.print;
        // Once a record allows bits to be cleared, no drive may return by its older bits; so the headers come first.
        let headers = self.headers_for(member);
        Ok(headers.into_iter().chain(shadow).chain([own]).collect())
    }

    /// Applies the changes since the record seen last, all of them or none.
    fn follow(&mut self, record: &Record) -> Result<(), Inexpressible> {
        let mut next = self.written.clone();
        match next.follow(record, &self.drives, self.sector) {
            Ok(()) => {}
            Err(error) => return Err(error),
        }
        self.written = next;
        Ok(())
    }

    /// The bitmap headers that a member lacks: first byte on the drive, and the bytes.
    fn headers_for(&mut self, member: MemberId) -> Vec<(u64, Vec<u8>)> {
        let at = member.0 as usize;
        let mut parts = Vec::new();
        for (bitmap, (_, header)) in self.bitmaps.iter_mut().zip(&self.written.headers) {
            if bitmap.on.len() <= at {
                bitmap.on.resize(at + 1, None);
            }
            if bitmap.on[at] != Some(header.events_cleared) {
                bitmap.on[at] = Some(header.events_cleared);
                let bytes = header.encode().to_vec();
                parts.push((bitmap.volume.header_offset_bytes(), bytes));
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests;
