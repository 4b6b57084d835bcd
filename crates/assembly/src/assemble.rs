//! Decides which of the records on opened drives to use, and turns it into the engine's record.
//!
//! Only what must be durable before the first volume starts is written ([`crate::prepare`]).
//! [`bitmap`] handles write-intent bitmaps; [`wrong_drives`] explains why the drives are not those of one array.

pub mod bitmap;
pub mod wrong_drives;

use crate::decide::{Decision, decide};
use crate::level::of_format;
use crate::log::{initialise_all, logged_volume, logged_volumes};
use crate::member::{Member, left_alone};
use crate::persist::Persister;
use crate::prepare::prepare;
use anyhow::{Result, anyhow, bail};
use bitmap::{FoundBitmap, returning};
use engine::control::bad_blocks::{BadBlocks, BadRange};
use engine::control::record::Returning;
use engine::control::record::{
    LogArea, MemberRecord, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::layout::Geometry;
use engine::limits::CONTAINER_MEMBERS_MAX;
use engine::units::{MemberId, Slot, VolumeId};
use metadata::imsm::choose::{Assembly, MemberState as Chosen, choose};
use metadata::imsm::start::{ReadOnlyReason, StartMode, StartOptions, SyncWork};
use metadata::imsm::{BadBlockEntry, Mpb, SectorSize, Volume};
use wrong_drives::{no_array, several_arrays};

const SECTOR_BYTES: u64 = 512;

/// A container ready to be served.
#[derive(Debug)]
pub struct Container<M> {
    /// Its drives by [`MemberId`]: first members, then spares.
    pub members: Vec<M>,
    /// The record with which the engine starts.
    pub record: Record,
    /// Follows the engine's record and encodes it.
    pub persister: Persister,
    /// Names of the volumes, by volume.
    pub volume_names: Vec<String>,
    /// By volume: a sentence that says why it is not started and what to do; `None` if it is started.
    pub not_started: Vec<Option<String>>,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

impl<M> Container<M> {
    /// The volumes that are started, with their names.
    #[must_use]
    pub fn started(&self) -> Vec<(VolumeId, String)> {
        let names = (0u8..).zip(&self.volume_names).zip(&self.not_started);
        names
            .filter(|(_, not_started)| not_started.is_none())
            .map(|((at, name), _)| (VolumeId(at), name.clone()))
            .collect()
    }
}

/// Assembles the one container found on `drives`.
///
/// # Errors
/// There is no container or more than one, it must not be assembled, no volume can be started, or a drive fails; the
/// sentence says why and what to do.
pub fn assemble<M: Member>(
    drives: Vec<M>,
    options: StartOptions,
    read_only: bool,
) -> Result<Container<M>> {
    if drives.len() > CONTAINER_MEMBERS_MAX {
        bail!(
            "{} drives are more than one process serves; name at most {CONTAINER_MEMBERS_MAX}, spares included",
            drives.len()
        );
    }
    let decision = decide(&drives, &choose_one(&drives)?, options, read_only);
    if let Some(refusal) = decision.refused(&drives) {
        bail!("{refusal}");
    }
    let not_started: Vec<Option<String>> = (0..decision.modes.len())
        .map(|at| decision.sentence(&drives, at))
        .collect();
    let Decision {
        assembly,
        mut bitmaps,
        mut modes,
        ..
    } = decision;
    let mut mpb = assembly.mpb.clone();
    let mut notes = assembly.warnings.clone();
    notes.extend(not_started.iter().flatten().cloned());
    notes.extend(mpb.volumes.iter().zip(&modes).filter_map(read_only_note));
    if !read_only {
        let what = (&mut modes[..], &mut bitmaps[..]);
        notes.extend(prepare(&mut mpb, &assembly, &drives, what, options)?);
    }
    let kept = bitmaps
        .iter()
        .filter(|bitmap| not_started[bitmap.at].is_none());
    notes.extend(kept.filter_map(|bitmap| bitmap.note(&mpb)));
    let returning = if read_only {
        Vec::new()
    } else {
        returning_drives(&drives, &assembly, &mpb, &bitmaps)
    };
    let back: Vec<&M> = returning.iter().map(|(drive, _)| &drives[*drive]).collect();
    // The drive may hold an old log, which must not be replayed once the drive serves.
    initialise_all(&logged_volumes(&mpb, assembly.sector), &back)?;
    notes.extend(back.iter().map(|drive| {
        format!(
            "{} comes back: only what was written without it is rebuilt",
            drive.name()
        )
    }));
    let mut order = drive_order(&assembly);
    order.extend(returning.iter().map(|(drive, _)| *drive));
    let (members, left): (Vec<_>, Vec<_>) = split(drives, &order);
    notes.extend(
        left.iter()
            .map(|probed| format!("{} is not used", probed.name())),
    );
    notes.extend(members.iter().flat_map(|member| left_alone(member, &mpb)));
    let geometry = |volume: &Volume| geometry_of(volume, assembly.sector.bytes() as u32);
    let shapes = mpb
        .volumes
        .iter()
        .map(geometry)
        .collect::<Result<Vec<_>>>()?;
    let actives = active_drives(&assembly).count();
    let mut record = record_of(
        &mpb,
        assembly.sector,
        &members,
        actives,
        &shapes,
        &modes,
        read_only,
    );
    for bitmap in &bitmaps {
        let volume = &record.volumes[bitmap.at];
        let is_kept = !volume.read_only && !volume.not_started;
        record.volumes[bitmap.at].bitmap = is_kept.then(|| bitmap.record());
    }
    note_behind(&mut record, &assembly, &order);
    note_returning(&mut record, &returning);
    let volume_names = mpb
        .volumes
        .iter()
        .map(|volume| volume.name.to_string())
        .collect();
    let headers: Vec<_> = bitmaps
        .iter()
        .map(|bitmap| (bitmap.at, bitmap.volume, bitmap.header))
        .collect();
    let persister = Persister::new(mpb, assembly.sector, &members, &record).with_bitmaps(headers);
    Ok(Container {
        members,
        record,
        persister,
        volume_names,
        not_started,
        notes,
    })
}

/// Chooses the record of the one container on `drives`.
fn choose_one(drives: &[impl Member]) -> Result<Assembly> {
    let candidates: Vec<_> = drives.iter().map(|drive| drive.candidate()).collect();
    let mut choice = choose(&candidates);
    let found = match choice.containers.len() {
        0 => bail!(no_array(drives)),
        1 => choice.containers.remove(0),
        _ => bail!(several_arrays(drives)),
    };
    found.outcome.map_err(|refusal| anyhow!("{refusal}"))
}

/// A note for the user on a volume that may only be read.
fn read_only_note((volume, mode): (&Volume, &StartMode)) -> Option<String> {
    let StartMode::ReadOnly { reason, .. } = mode else {
        return None;
    };
    let name = volume.name;
    Some(format!("volume {name} is started read-only: {reason}"))
}

/// Evicted drives that may return to their slot and be updated by the bitmap, with their slot and generation. They join
/// as spares that only their own slot may take. Other evicted drives stay out.
fn returning_drives(
    drives: &[impl Member],
    assembly: &Assembly,
    mpb: &Mpb,
    bitmaps: &[FoundBitmap],
) -> Vec<(usize, Returning)> {
    let evicted = assembly.members.iter().filter_map(|state| match state {
        Chosen::Evicted { drive, .. } => Some(*drive),
        _ => None,
    });
    let outsiders = assembly.outsiders.iter().map(|(drive, _)| *drive);
    let may_return = |returning: &Returning| {
        let newest = bitmaps.iter().map(|bitmap| bitmap.header.events_cleared);
        let is_known = newest
            .max()
            .is_some_and(|cleared| returning.generation >= cleared);
        let slot = usize::from(returning.slot.0);
        let is_empty = mpb.volumes.iter().all(|volume| {
            let entry = volume.current_map().order.get(slot);
            entry.is_some_and(|entry| {
                let disk = mpb.disks.get(entry.disk_index as usize);
                entry.out_of_sync && disk.is_none_or(|disk| disk.is_failed())
            })
        });
        is_known && is_empty && returning.generation < u64::from(mpb.generation)
    };
    evicted
        .chain(outsiders)
        .filter_map(|drive| Some((drive, returning(&drives[drive], mpb)?)))
        .filter(|(_, returning)| may_return(returning))
        .collect()
}

/// Sets which members had an older record than others. Interrupted updates have been completed by now, but the data on
/// these drives may be as old as their records were.
fn note_behind(record: &mut Record, assembly: &Assembly, order: &[usize]) {
    let Some(unfinished) = &assembly.unfinished else {
        return;
    };
    for (member, drive) in record.members.iter_mut().zip(order) {
        member.behind = unfinished.drives.contains(drive);
    }
}

/// Sets for the last members, which are returning drives, to which slot they return.
fn note_returning(record: &mut Record, returning: &[(usize, Returning)]) {
    let first = record.members.len() - returning.len();
    for (at, (_, returning)) in returning.iter().enumerate() {
        let slot = record.may_return(*returning);
        let member = &mut record.members[first + at];
        member.returns_to = slot;
        if slot.is_none() {
            member.state = MemberState::Absent;
        }
    }
}

/// Indices of the drives in service, in the order of the disk table, then of the spares.
pub(crate) fn drive_order(assembly: &Assembly) -> Vec<usize> {
    active_drives(assembly)
        .chain(assembly.spares.iter().copied())
        .collect()
}

/// Indices of the drives in service, in the order of the disk table.
pub(crate) fn active_drives(assembly: &Assembly) -> impl Iterator<Item = usize> {
    assembly.members.iter().filter_map(|state| match state {
        Chosen::Present { drive } => Some(*drive),
        _ => None,
    })
}

/// Splits the drives into those in `order`, in that order, and the others.
fn split<M>(drives: Vec<M>, order: &[usize]) -> (Vec<M>, Vec<M>) {
    let mut all: Vec<Option<M>> = drives.into_iter().map(Some).collect();
    let taken = order.iter().filter_map(|&at| all[at].take()).collect();
    (taken, all.into_iter().flatten().collect())
}

/// The engine's geometry of a volume.
///
/// # Errors
/// The shape is not supported by the engine; the error names it.
pub fn geometry_of(volume: &Volume, block_bytes: u32) -> Result<Geometry> {
    let map = &volume.map;
    let Some(level) = map.level().map(of_format) else {
        bail!(
            "volume {}: level {} is not supported",
            volume.name,
            map.stored_level
        );
    };
    let members = u8::try_from(map.members()).map_err(|_| {
        anyhow!(
            "volume {}: {} members are too many",
            volume.name,
            map.members()
        )
    })?;
    let chunk_bytes = u64::from(map.sectors_per_strip) * SECTOR_BYTES;
    Geometry::new(Geometry {
        level,
        members,
        chunk_bytes: u32::try_from(chunk_bytes).unwrap_or(0),
        start_bytes: map.start_sector * SECTOR_BYTES,
        component_bytes: volume.component_sectors() * SECTOR_BYTES,
        size_bytes: volume.size_sectors * SECTOR_BYTES,
        block_bytes,
    })
    .map_err(|error| anyhow!("volume {}: {error}", volume.name))
}

fn record_of<M: Member>(
    mpb: &Mpb,
    sector: SectorSize,
    members: &[M],
    actives: usize,
    shapes: &[Geometry],
    modes: &[StartMode],
    read_only: bool,
) -> Record {
    let drive = |(at, probed): (usize, &M)| MemberRecord {
        state: if at < actives {
            MemberState::Active
        } else {
            MemberState::Spare
        },
        size_bytes: probed.size_bytes(),
        volatile_cache: probed.volatile_cache(),
        kind: probed.kind(),
        discards: probed.discards(),
        returns_to: None,
        behind: false,
    };
    let volumes = mpb.volumes.iter().zip(shapes).zip(modes).enumerate().map(
        |(at, ((volume, shape), mode))| {
            let lost = match mode {
                StartMode::ReadWrite { lost_slots, .. }
                | StartMode::ReadOnly { lost_slots, .. } => lost_slots.clone(),
                StartMode::Refused { .. } => Vec::new(),
            };
            let slots = slots_of(mpb, volume, members, &lost);
            VolumeRecord {
                geometry: *shape,
                not_started: matches!(mode, StartMode::Refused { .. }),
                read_only: read_only || matches!(mode, StartMode::ReadOnly { .. }),
                dirty: volume.is_dirty(),
                slots,
                sync: sync_of(mode),
                then_resync: matches!(
                    mode,
                    StartMode::ReadWrite {
                        sync: SyncWork::Rebuild {
                            then_resync: true,
                            ..
                        },
                        ..
                    }
                ),
                log: log_area(mpb, at, sector, mode).filter(|_| !read_only),
                bitmap: None,
            }
        },
    );
    Record {
        generation: u64::from(mpb.generation),
        volumes: volumes.collect(),
        members: members.iter().enumerate().map(drive).collect(),
        bad_blocks: bad_blocks_of(mpb, members),
    }
}

/// The recorded bad blocks of the drives that are present.
fn bad_blocks_of(mpb: &Mpb, members: &[impl Member]) -> BadBlocks {
    let rows: Vec<Option<usize>> = members
        .iter()
        .map(|member| mpb.disk_index_of(&member.serial()))
        .collect();
    let elsewhere = |entry: &&BadBlockEntry| !rows.contains(&Some(usize::from(entry.disk_index)));
    let mut bad_blocks = BadBlocks::new(mpb.bad_blocks.iter().filter(elsewhere).count());
    for (member, row) in rows.iter().enumerate() {
        for sectors in row.map_or(Vec::new(), |row| mpb.bad_ranges(row)) {
            let range = BadRange {
                member: MemberId(member as u8),
                offset_bytes: sectors.start * SECTOR_BYTES,
                length_bytes: (sectors.end - sectors.start) * SECTOR_BYTES,
            };
            let added = bad_blocks.add(range);
            debug_assert!(added.is_ok(), "the recorded ranges fit one log");
        }
    }
    bad_blocks
}

fn log_area(mpb: &Mpb, at: usize, sector: SectorSize, mode: &StartMode) -> Option<LogArea> {
    if !matches!(mode, StartMode::ReadWrite { .. }) {
        return None;
    }
    logged_volume(mpb, at, sector).map(|logged| LogArea {
        offset_bytes: logged.log_sector() * SECTOR_BYTES,
        length_bytes: logged.log_bytes() as u32,
    })
}

fn slots_of(
    mpb: &Mpb,
    volume: &Volume,
    members: &[impl Member],
    lost: &[usize],
) -> Vec<SlotRecord> {
    let slot = |(at, entry): (usize, &metadata::imsm::SlotEntry)| {
        let serial = mpb
            .disks
            .get(entry.disk_index as usize)
            .map(|disk| disk.serial);
        let member = members
            .iter()
            .position(|probed| Some(probed.serial()) == serial);
        let member = member
            .filter(|_| !lost.contains(&at))
            .map(|at| MemberId(at as u8));
        SlotRecord {
            member,
            current: member.is_some() && !entry.out_of_sync,
        }
    };
    volume
        .current_map()
        .order
        .iter()
        .enumerate()
        .map(slot)
        .collect()
}

fn sync_of(mode: &StartMode) -> Option<SyncRecord> {
    let unsynced = |from_sector: u64| SyncRecord {
        kind: SyncKind::Initial,
        done_bytes: from_sector * SECTOR_BYTES,
    };
    let sync = match mode {
        StartMode::ReadWrite { sync, .. } => sync,
        // No sync will run, but the engine needs its position: beyond it, data cannot be reconstructed from parity, so
        // reads of a missing drive's data must fail there.
        StartMode::ReadOnly {
            reason: ReadOnlyReason::UnsyncedParity { from_sector },
            ..
        } => return Some(unsynced(*from_sector)),
        StartMode::ReadOnly { .. } | StartMode::Refused { .. } => return None,
    };
    let (kind, from_sector) = match sync {
        SyncWork::None => return None,
        SyncWork::InitialSync { from_sector } => (SyncKind::Initial, *from_sector),
        SyncWork::Resync { from_sector } => (SyncKind::Resync, *from_sector),
        SyncWork::Rebuild {
            slots, from_sector, ..
        } => {
            let slot = slots.first().map(|&slot| Slot(slot as u8))?;
            (SyncKind::Rebuild(slot), *from_sector)
        }
    };
    Some(SyncRecord {
        kind,
        done_bytes: from_sector * SECTOR_BYTES,
    })
}
