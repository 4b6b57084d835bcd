//! The write-intent bitmaps of a container's volumes, before it is served: read from all members and united,
//! then the same on every member. What the bytes mean is [`metadata::imsm::bitmap`]'s business.
//!
//! Nothing that is doubtful narrows a resync: bits that cannot be read count as set, and so do all bits of a
//! member without a header of this volume. Bits count as cleared only where the volume is whole, clean and at
//! rest, or where every member says so.
//!
//! The header's event counter says since when bits may have been cleared, in generations of the record: a
//! drive that left before lacks more than what is marked. Other writers of the format clear bits and leave the
//! counter alone, but not the record. So the counter is believed only if the last writer of the record was
//! fullstripe, which keeps a shadow of it ([`metadata::imsm::shadow`]) on each member.

use crate::member::{FoundShadow, Member};
use anyhow::{Context, Result};
use engine::control::record::{BitmapRecord, Returning};
use engine::units::Slot;
use metadata::imsm::bitmap::{self, BitmapVolume, Header};
use metadata::imsm::choose::Assembly;
use metadata::imsm::start::{StartMode, StartOptions, SyncWork, start_mode};
use metadata::imsm::{MapState, Mpb, SectorSize, Volume, WriteHolePolicy};

/// A volume's bitmap as it was found.
#[derive(Clone, Debug)]
pub struct FoundBitmap {
    /// Number of the volume.
    pub at: usize,
    /// Where it lies.
    pub volume: BitmapVolume,
    /// Its header; a new one where no member has a valid one.
    pub header: Header,
    /// Regions that are set on any member.
    pub marked: Vec<u64>,
    /// Why all regions are set although not every member says so.
    pub doubt: Option<String>,
}

impl FoundBitmap {
    /// Number of regions.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.volume.regions(self.header.region_bytes)
    }

    /// Regions that are set.
    #[must_use]
    pub fn count(&self) -> u64 {
        bitmap::count(&self.marked)
    }

    /// What the user should know: that not everything, or everything, will be synchronised.
    #[must_use]
    pub fn note(&self, mpb: &Mpb) -> Option<String> {
        let volume = &mpb.volumes[self.at];
        let name = volume.name;
        if let Some(doubt) = &self.doubt {
            return Some(format!(
                "volume {name}: its bitmap does not count, so all of it is in doubt: {doubt}"
            ));
        }
        volume.is_dirty().then(|| {
            format!(
                "volume {name} was not stopped cleanly; its write-intent bitmap marks {} of {} regions",
                self.count(),
                self.regions()
            )
        })
    }

    /// The header and the bits as they lie on a drive, from [`BitmapVolume::header_offset_bytes`] on.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let length = self.volume.bits_bytes(self.header.region_bytes);
        let bits = bitmap::bits_of(&self.marked, self.regions(), length);
        let mut bytes = self.header.encode().to_vec();
        bytes.extend_from_slice(&bits);
        bytes
    }

    /// As the engine wants to know it.
    #[must_use]
    pub fn record(&self) -> BitmapRecord {
        BitmapRecord {
            bits_offset_bytes: self.volume.bits_offset_bytes(),
            region_bytes: u64::from(self.header.region_bytes),
            marked: self.marked[..].into(),
            cleared_generation: self.header.events_cleared,
        }
    }
}

/// Volume number `at`, if its policy is a bitmap and it can be kept.
#[must_use]
pub fn bitmapped_volume(mpb: &Mpb, at: usize, sector: SectorSize) -> Option<BitmapVolume> {
    let has_bitmap = mpb.volumes[at].write_hole_policy == WriteHolePolicy::Bitmap;
    BitmapVolume::of(mpb, at, sector)
        .ok()
        .filter(|_| has_bitmap)
}

/// What one drive says: its header and bits; or why neither counts.
///
/// # Errors
/// There is no valid header, or something cannot be read, a sentence.
pub fn read_one(drive: &impl Member, volume: &BitmapVolume) -> Result<(Header, Vec<u64>)> {
    let offset_bytes = volume.header_offset_bytes();
    let bytes = drive.read_at(offset_bytes, bitmap::HEADER_BYTES)?;
    let header = Header::decode(&bytes, volume)
        .map_err(|problem| anyhow::anyhow!("{}: bitmap: {problem}", drive.name()))?;
    let length = volume.bits_bytes(header.region_bytes);
    let bits = drive.read_at(volume.bits_offset_bytes(), length)?;
    let words = bitmap::words_of(&bits, volume.regions(header.region_bytes));
    Ok((header, words))
}

/// The bitmaps of all volumes that have one.
pub fn read_all(drives: &[impl Member], assembly: &Assembly) -> Vec<FoundBitmap> {
    let mpb = &assembly.mpb;
    (0..mpb.volumes.len())
        .filter_map(|at| {
            let volume = bitmapped_volume(mpb, at, assembly.sector)?;
            Some(read_union(drives, assembly, at, volume))
        })
        .collect()
}

/// What the members that are in sync say together.
fn read_union(
    drives: &[impl Member],
    assembly: &Assembly,
    at: usize,
    volume: BitmapVolume,
) -> FoundBitmap {
    let record = &assembly.mpb.volumes[at];
    let here = assembly.slot_drives(record);
    let order = &record.current_map().order;
    let in_sync = here
        .iter()
        .zip(order)
        .filter(|(_, entry)| !entry.out_of_sync);
    let mut found = FoundBitmap {
        at,
        header: Header {
            uuid: volume.uuid,
            events: u64::from(assembly.mpb.generation),
            events_cleared: u64::from(assembly.mpb.generation),
            region_bytes: volume.region_bytes_default(),
        },
        volume,
        marked: Vec::new(),
        doubt: None,
    };
    let said: Vec<_> = in_sync
        .filter_map(|(drive, _)| *drive)
        .map(|drive| read_one(&drives[drive], &volume))
        .collect();
    let headers = || said.iter().flatten().map(|(header, _)| *header);
    if let Some(first) = headers().next() {
        found.header = first;
        found.header.events_cleared = headers().map(|h| h.events_cleared).max().unwrap_or(0);
    }
    let regions = found.regions();
    found.marked = vec![0; regions.div_ceil(64) as usize];
    for one in &said {
        match one {
            Ok((header, words)) if header.region_bytes == found.header.region_bytes => {
                for (word, more) in found.marked.iter_mut().zip(words) {
                    *word |= more;
                }
            }
            Ok(_) => found.doubt = Some("its members' bitmaps have different regions".to_owned()),
            Err(error) => found.doubt = Some(format!("{error:#}")),
        }
    }
    if found.doubt.is_some() || said.is_empty() {
        found.marked = bitmap::all_words(regions);
        found.header.events_cleared = u64::from(assembly.mpb.generation);
    }
    if !last_written_here(drives, assembly) {
        found.header.events_cleared = u64::from(assembly.mpb.generation);
    }
    found
}

/// Whether fullstripe was the last to write the record: then a member's shadow is the same as its record.
fn last_written_here(drives: &[impl Member], assembly: &Assembly) -> bool {
    let truth = &assembly.mpb;
    assembly.present_drives().any(|drive| {
        let (Ok(Some(found)), FoundShadow::Whole(shadow)) =
            (drives[drive].found(), drives[drive].shadow())
        else {
            return false;
        };
        found.mpb.generation == truth.generation && shadow.mpb == found.mpb
    })
}

/// How the volumes start, with what their bitmaps say.
#[must_use]
pub fn start_modes(
    assembly: &Assembly,
    found: &[FoundBitmap],
    options: StartOptions,
) -> Vec<StartMode> {
    let (mpb, present) = (&assembly.mpb, assembly.present());
    (0..mpb.volumes.len())
        .map(|at| {
            let bitmap = found.iter().find(|found| found.at == at);
            if bitmap.is_some_and(|bitmap| bitmap.count() == 0) && mpb.volumes[at].is_dirty() {
                // No write was under way: as good as clean.
                let mut settled = mpb.clone();
                settled.volumes[at].dirty = 0;
                return start_mode(&settled, at, &present, options);
            }
            let mut mode = start_mode(mpb, at, &present, options);
            let has_policy = mpb.volumes[at].write_hole_policy == WriteHolePolicy::Bitmap;
            if let StartMode::ReadWrite { switch_policy, .. } = &mut mode
                && has_policy
                && bitmap.is_none()
            {
                // One that is not maintained would mislead the next reader.
                *switch_policy = Some(WriteHolePolicy::Off);
            }
            mode
        })
        .collect()
}

/// What follows for the bits from the way a volume starts: none where it is whole, clean and at rest, all
/// where redundancy has never been established.
pub fn follow(found: &mut [FoundBitmap], mpb: &Mpb, modes: &[StartMode]) {
    for bitmap in found {
        let volume = &mpb.volumes[bitmap.at];
        let StartMode::ReadWrite {
            sync, lost_slots, ..
        } = &modes[bitmap.at]
        else {
            continue;
        };
        match sync {
            SyncWork::InitialSync { .. } => {
                bitmap.marked = bitmap::all_words(bitmap.regions());
            }
            SyncWork::None if lost_slots.is_empty() && is_at_rest(volume) => {
                bitmap.marked.fill(0);
            }
            _ => {}
        }
    }
}

fn is_at_rest(volume: &Volume) -> bool {
    !volume.is_dirty() && volume.migration.is_none() && volume.map.state == MapState::Normal
}

/// Makes bitmaps what they were `found` to be on `drives`, durably, and with `generation` in their headers.
///
/// # Errors
/// A drive cannot be written.
pub fn write_all<'a>(
    found: impl IntoIterator<Item = &'a mut FoundBitmap>,
    drives: &[&impl Member],
    generation: u32,
) -> Result<()> {
    for bitmap in found {
        bitmap.header.events = u64::from(generation);
        let bytes = bitmap.encode();
        for drive in drives {
            drive
                .write_at(bitmap.volume.header_offset_bytes(), &bytes)
                .and_then(|()| drive.flush())
                .with_context(|| format!("{}: cannot write the bitmap", drive.name()))?;
        }
    }
    Ok(())
}

/// A new bitmap for volume number `at`: without marks where redundancy is established, else with all.
///
/// # Errors
/// The volume cannot have one, or not with such regions.
pub fn new_bitmap(
    mpb: &Mpb,
    at: usize,
    sector: SectorSize,
    region_bytes: Option<u32>,
) -> Result<FoundBitmap> {
    let name = mpb.volumes[at].name;
    let volume = BitmapVolume::of(mpb, at, sector)
        .map_err(|why| anyhow::anyhow!("volume {name} gets no bitmap: {why}"))?;
    let region_bytes = region_bytes.unwrap_or_else(|| volume.region_bytes_default());
    if !volume.takes(region_bytes) {
        anyhow::bail!(
            "volume {name} cannot have a bitmap with regions of {region_bytes} bytes: use a power of two \
             from 64k to 2g with which all bits fit into {} bytes",
            bitmap::BITS_BYTES_MAX
        );
    }
    let generation = u64::from(mpb.generation) + 1;
    let regions = volume.regions(region_bytes);
    let marked = if is_at_rest(&mpb.volumes[at]) {
        vec![0; regions.div_ceil(64) as usize]
    } else {
        bitmap::all_words(regions)
    };
    Ok(FoundBitmap {
        at,
        header: Header {
            uuid: volume.uuid,
            events: generation,
            events_cleared: generation,
            region_bytes,
        },
        volume,
        marked,
        doubt: None,
    })
}

/// The slot that a drive served and what it holds, if it was a current member of the container of `mpb` and
/// has done nothing else since. Whether that slot is empty now, and whether bits have been cleared without
/// the drive, is for others to know ([`engine::control::record::Record::may_return`]).
#[must_use]
pub fn returning(drive: &impl Member, mpb: &Mpb) -> Option<Returning> {
    let Ok(Some(found)) = drive.found() else {
        return None;
    };
    let old = &found.mpb;
    let is_ancestor = old.container_family() == mpb.container_family()
        && old.volumes.len() == mpb.volumes.len()
        && mpb
            .volumes
            .iter()
            .any(|volume| volume.write_hole_policy == WriteHolePolicy::Bitmap);
    if !is_ancestor {
        return None;
    }
    // One that a volume waits for, which stands still without it, is not a spare.
    let is_waited_for = |volume: &Volume| {
        let mut order = volume.current_map().order.iter();
        order.any(|entry| {
            let disk = mpb.disks.get(entry.disk_index as usize);
            let is_lost = disk.is_some_and(|disk| {
                disk.is_failed() && drive.serial().is_listed_as_failed_by(&disk.serial)
            });
            is_lost && !entry.out_of_sync
        })
    };
    if mpb.volumes.iter().any(is_waited_for) {
        return None;
    }
    let row = old.disk_index_of(&drive.serial())?;
    let mut slots = old.volumes.iter().zip(&mpb.volumes).map(|(old, now)| {
        let order = &old.current_map().order;
        let slot = order
            .iter()
            .position(|entry| entry.disk_index as usize == row)?;
        // It went on with all others: it has not lived alone.
        let was_whole = order.iter().all(|entry| !entry.out_of_sync);
        // What is recorded of a drive goes when it leaves, and would be taken for data.
        let row_now = now.current_map().order.get(slot)?.disk_index;
        if has_bad_blocks(&found.mpb, row as u32) || has_bad_blocks(mpb, row_now) {
            return None;
        }
        (was_whole && same_place(old, now)).then_some(slot)
    });
    let slot = slots.next()??;
    slots.all(|other| other == Some(slot)).then_some(Returning {
        slot: Slot(slot as u8),
        generation: u64::from(old.generation),
    })
}

fn has_bad_blocks(mpb: &Mpb, row: u32) -> bool {
    let mut entries = mpb.bad_blocks.iter();
    entries.any(|entry| u32::from(entry.disk_index) == row)
}

fn same_place(old: &Volume, now: &Volume) -> bool {
    old.name == now.name
        && old.size_sectors == now.size_sectors
        && old.map.start_sector == now.map.start_sector
        && old.map.sectors_per_strip == now.map.sectors_per_strip
        && old.map.stored_level == now.map.stored_level
        && old.map.members() == now.map.members()
        && old.write_hole_policy == now.write_hole_policy
}
