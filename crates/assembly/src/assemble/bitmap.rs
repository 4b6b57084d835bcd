//! The write-intent bitmaps of a container's volumes, before it is served: they are read from all members and merged,
//! then the result is written to every member. [`metadata::imsm::bitmap`] defines the format.
//!
//! No doubt may narrow a resync: bits that cannot be read count as set, and so do all bits if a
//! member has no valid header for this volume. Bits count as clear only where the volume is whole, clean and at
//! rest, or where they are clear on every member.
//!
//! The header's event counter is the generation of the record since which bits may have been cleared: a
//! drive that left earlier lacks more than the bitmap marks. Other programs that write the format clear bits without
//! changing the counter, but they do change the record. So the counter is used only if the last program to write the
//! record was fullstripe, which keeps a shadow of the record ([`metadata::imsm::shadow`]) on each member.

use crate::member::{FoundShadow, Member};
use anyhow::{Context, Result};
use engine::control::record::{BitmapRecord, Returning};
use engine::units::Slot;
use metadata::imsm::bitmap::{self, BitmapVolume, Header};
use metadata::imsm::choose::Assembly;
use metadata::imsm::start::{StartMode, StartOptions, SyncWork, start_mode};
use metadata::imsm::{MapState, Mpb, SectorSize, Volume, WriteHolePolicy};

/// A volume's bitmap as it was read.
#[derive(Clone, Debug)]
pub struct FoundBitmap {
    /// Number of the volume.
    pub at: usize,
    /// Where it is on the drives.
    pub volume: BitmapVolume,
    /// Its header; a new one if no member has a valid one.
    pub header: Header,
    /// Regions that are set on any member.
    pub marked: Vec<u64>,
    /// Why all regions count as set although they are not set on every member.
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

    /// A note for the user: that only marked regions will be synchronised, or all of them.
    #[must_use]
    pub fn note(&self, mpb: &Mpb) -> Option<String> {
        let volume = &mpb.volumes[self.at];
        let name = volume.name;
        if let Some(doubt) = &self.doubt {
            return Some(format!(
                "volume {name}: its bitmap cannot be used, so the whole volume is in doubt: {doubt}"
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

    /// The header and the bits in their form on a drive, from [`BitmapVolume::header_offset_bytes`] on.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let length = self.volume.bits_bytes(self.header.region_bytes);
        let bits = bitmap::bits_of(&self.marked, self.regions(), length);
        let mut bytes = self.header.encode().to_vec();
        bytes.extend_from_slice(&bits);
        bytes
    }

    /// The bitmap in the engine's form.
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

/// The place of the bitmap of volume number `at`, if its policy is a bitmap and a bitmap can be kept for it.
#[must_use]
pub fn bitmapped_volume(mpb: &Mpb, at: usize, sector: SectorSize) -> Option<BitmapVolume> {
    let has_bitmap = mpb.volumes[at].write_hole_policy == WriteHolePolicy::Bitmap;
    BitmapVolume::of(mpb, at, sector)
        .ok()
        .filter(|_| has_bitmap)
}

/// The header and bits on one drive.
///
/// # Errors
/// A sentence: there is no valid header, or something cannot be read.
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

/// Reads the bitmaps of all volumes that have one.
pub fn read_all(drives: &[impl Member], assembly: &Assembly) -> Vec<FoundBitmap> {
    let mpb = &assembly.mpb;
    (0..mpb.volumes.len())
        .filter_map(|at| {
            let volume = bitmapped_volume(mpb, at, assembly.sector)?;
            Some(read_union(drives, assembly, at, volume))
        })
        .collect()
}

/// Merges the bitmaps of the members that are in sync.
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

/// Whether fullstripe was the last to write the record: then some member's shadow is equal to its record.
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

/// How the volumes start, with their bitmaps taken into account.
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
                // No region is marked, so no write was under way: the volume counts as clean.
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
                // A bitmap that is not maintained would mislead the next program that reads it.
                *switch_policy = Some(WriteHolePolicy::Off);
            }
            mode
        })
        .collect()
}

/// Adjusts the bits to the way the volumes start: none are set if a volume is whole, clean and at rest, all
/// if redundancy has never been established.
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

/// Writes the bitmaps `found` to `drives`, durably, with `generation` in their headers.
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

/// A new bitmap for volume number `at`: without marks if redundancy is established, otherwise with all regions marked.
///
/// # Errors
/// The volume cannot have a bitmap, or not with regions of this size.
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

/// As [`former`], if bitmaps mark what the drive lacks. The caller has to check whether its slot is empty now, and
/// whether bits have been cleared without the drive ([`engine::control::record::Record::may_return`]).
#[must_use]
pub fn returning(drive: &impl Member, mpb: &Mpb) -> Option<Returning> {
    let is_marked = |volume: &Volume| volume.write_hole_policy == WriteHolePolicy::Bitmap;
    former(drive, mpb).filter(|_| mpb.volumes.iter().any(is_marked))
}

/// The slot that a drive served and the generation of its record, if the drive was a current member of the container
/// of `mpb` and has been used for nothing else since: everything on it is an older state of this container.
#[must_use]
pub fn former(drive: &impl Member, mpb: &Mpb) -> Option<Returning> {
    let Ok(Some(found)) = drive.found() else {
        return None;
    };
    let old = &found.mpb;
    let is_ancestor =
        old.container_family() == mpb.container_family() && old.volumes.len() == mpb.volumes.len();
    if !is_ancestor {
        return None;
    }
    // If a volume is failed without this drive and waits for it, the drive must not become a spare.
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
        // The volume was whole when the drive left, so the drive was not used without the others.
        let was_whole = order.iter().all(|entry| !entry.out_of_sync);
        // The recorded bad blocks of a drive are forgotten when it leaves, so their content would be taken for data.
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
