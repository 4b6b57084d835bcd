//! The write-hole logs of a container's volumes, before it is served: replayed where writes were interrupted,
//! then empty on every drive that could hold one. What the bytes mean is [`metadata::imsm::log`]'s business.

use crate::member::Member;
use anyhow::{Result, bail};
use engine::log::unit::LogUnit;
use metadata::imsm::choose::Assembly;
use metadata::imsm::log::{
    Entry, HEADER_BYTES, LoggedVolume, Members, Report, encode_header, initialise, replay,
};
use metadata::imsm::start::{StartMode, StartOptions, start_mode_without_log};
use metadata::imsm::{Mpb, SectorSize, WriteHolePolicy};
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;

/// Drives by any number, such as their slots.
struct Drives<'a, M> {
    drives: Vec<Option<&'a M>>,
    /// By the same numbers, where there are any: sectors that hold something else than the volume's data.
    bad_sectors: Vec<Vec<Range<u64>>>,
    /// Nothing is written: only to see what would be.
    rehearsal: bool,
}

impl<M: Member> Drives<'_, M> {
    fn get(&self, member: usize) -> &M {
        // Nobody names a drive that is not here.
        self.drives[member].expect("the drive is here")
    }
}

impl<M: Member> Members for Drives<'_, M> {
    type Error = anyhow::Error;

    fn read(&mut self, member: usize, sector: u64, bytes: &mut [u8]) -> Result<()> {
        let drive = self.get(member);
        let end = sector + bytes.len() as u64 / SECTOR_BYTES;
        let bad = self.bad_sectors.get(member).into_iter().flatten();
        if bad
            .into_iter()
            .any(|bad| bad.start < end && sector < bad.end)
        {
            bail!(
                "{} has recorded bad blocks from LBA {sector} to {end}",
                drive.name()
            );
        }
        bytes.copy_from_slice(&drive.read_at(sector * SECTOR_BYTES, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, member: usize, sector: u64, bytes: &[u8]) -> Result<()> {
        if self.rehearsal {
            return Ok(());
        }
        self.get(member).write_at(sector * SECTOR_BYTES, bytes)
    }

    fn flush(&mut self, member: usize) -> Result<()> {
        if self.rehearsal {
            return Ok(());
        }
        self.get(member).flush()
    }
}

/// What a replay would do, without doing it; `None` for a volume without a log.
#[must_use]
pub fn rehearse(drives: &[impl Member], assembly: &Assembly, at: usize) -> Option<Report> {
    // Only writing can fail; what cannot be read is counted.
    run(drives, assembly, &assembly.mpb, at, true)
        .ok()
        .flatten()
}

/// Replays the logs of the volumes whose `modes` say so, and says what was done. Where that does not settle
/// everything, the mode becomes the one without a log.
///
/// # Errors
/// Parity could not be written, or a volume must not be started without its log.
pub fn replay_all(
    drives: &[impl Member],
    assembly: &Assembly,
    mpb: &Mpb,
    modes: &mut [StartMode],
    options: StartOptions,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (at, mode) in modes.iter_mut().enumerate() {
        if !matches!(mode, StartMode::ReadWrite { replay: true, .. }) {
            continue;
        }
        let Some(report) = run(drives, assembly, mpb, at, false)? else {
            continue;
        };
        let name = mpb.volumes[at].name;
        if report.is_conclusive() {
            notes.push(format!(
                "volume {name} was not stopped cleanly; its write-hole log has made parity right: {report}"
            ));
            continue;
        }
        *mode = start_mode_without_log(mpb, at, &assembly.present(), options);
        if let StartMode::Refused {
            reason,
            override_flag,
        } = mode
        {
            let hint = override_flag.map_or(String::new(), |flag| {
                format!("; {flag} starts it all the same")
            });
            bail!(
                "volume {name} is not started: {reason}, and its write-hole log does not settle that ({report}){hint}"
            );
        }
        notes.push(format!(
            "volume {name} was not stopped cleanly, and its write-hole log does not settle everything: {report}"
        ));
    }
    Ok(notes)
}

fn run(
    drives: &[impl Member],
    assembly: &Assembly,
    mpb: &Mpb,
    at: usize,
    rehearsal: bool,
) -> Result<Option<Report>> {
    let Some(logged) = LoggedVolume::of(mpb, at, assembly.sector) else {
        return Ok(None);
    };
    let volume = &mpb.volumes[at];
    let here = assembly.slot_drives(volume);
    let in_sync: Vec<usize> = volume
        .current_map()
        .order
        .iter()
        .zip(&here)
        .enumerate()
        .filter(|(_, (entry, drive))| !entry.out_of_sync && drive.is_some())
        .map(|(slot, _)| slot)
        .collect();
    let order = &volume.current_map().order;
    let mut members = Drives {
        drives: here
            .iter()
            .map(|drive| drive.map(|drive| &drives[drive]))
            .collect(),
        bad_sectors: order
            .iter()
            .map(|entry| mpb.bad_ranges(entry.disk_index as usize))
            .collect(),
        rehearsal,
    };
    Ok(Some(replay(&logged, &in_sync, &mut members)?))
}

/// The volumes of `mpb` whose policy is a log, as it is kept today.
#[must_use]
pub fn logged_volumes(mpb: &Mpb, sector: SectorSize) -> Vec<LoggedVolume> {
    (0..mpb.volumes.len())
        .filter_map(|at| logged_volume(mpb, at, sector))
        .collect()
}

/// Volume number `at`, if its policy is a log as it is kept today.
#[must_use]
pub fn logged_volume(mpb: &Mpb, at: usize, sector: SectorSize) -> Option<LoggedVolume> {
    let is_logged = mpb.volumes[at].write_hole_policy == WriteHolePolicy::Log;
    LoggedVolume::of(mpb, at, sector).filter(|_| is_logged)
}

/// Makes the logs of `volumes` empty on `drives`, durably.
///
/// # Errors
/// A drive cannot be written.
pub fn initialise_all(volumes: &[LoggedVolume], drives: &[&impl Member]) -> Result<()> {
    let all: Vec<usize> = (0..drives.len()).collect();
    let mut members = Drives {
        drives: drives.iter().copied().map(Some).collect(),
        bad_sectors: Vec::new(),
        rehearsal: false,
    };
    for volume in volumes {
        initialise(volume, &all, &mut members)?;
    }
    Ok(())
}

/// What writes the headers of the units of the container with this `signature`: given a unit, the CRC-32C of
/// each entry's partial parity, and the place for the header.
pub fn encoder(
    signature: u32,
    sector: SectorSize,
) -> impl FnMut(&LogUnit, &[u32], &mut [u8; HEADER_BYTES]) + Send {
    move |unit, checksums, header| {
        let entries = unit.entries.iter().zip(checksums);
        let entries = entries.map(|(entry, &checksum)| Entry {
            data_sector: entry.data_offset_bytes / SECTOR_BYTES,
            partial_parity_bytes: entry.partial_parity_bytes,
            data_bytes: entry.data_bytes,
            parity_slot: u32::from(unit.slot.0),
            checksum,
        });
        // The tables of `metadata::crc32c` take thirteen thousand instructions for a header.
        let checksum_of = |bytes: &[u8]| crc32c::crc32c(bytes);
        encode_header(
            header,
            signature,
            unit.generation,
            entries,
            sector,
            checksum_of,
        );
    }
}

#[cfg(test)]
mod tests;
