//! The write-hole logs of a container's volumes, before it is served: they are replayed if writes were interrupted,
//! then emptied on every drive that could hold one. [`metadata::imsm::log`] defines the format.

use crate::member::Member;
use anyhow::{Result, bail};
use engine::log::unit::LogUnit;
use metadata::imsm::choose::Assembly;
use metadata::imsm::log::{
    Entry, HEADER_BYTES, LogReport, LoggedVolume, Members, encode_header, initialise, replay,
};
use metadata::imsm::start::{StartMode, StartOptions, start_mode_without_log};
use metadata::imsm::{Mpb, SectorSize, WriteHolePolicy};
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;

/// Drives by a number of the caller's choice, such as their slots.
struct Drives<'a, M> {
    drives: Vec<Option<&'a M>>,
    /// By the same numbers, or empty: sectors whose content is not the volume's data.
    bad_sectors: Vec<Vec<Range<u64>>>,
    /// Nothing is written; the replay is only tried out.
    rehearsal: bool,
}

impl<M: Member> Drives<'_, M> {
    fn get(&self, member: usize) -> &M {
        // The caller names only drives that are present.
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

/// What a replay would do, without writing anything; `None` for a volume without a log.
#[must_use]
pub fn rehearse(drives: &[impl Member], assembly: &Assembly, at: usize) -> Option<LogReport> {
    // Only writes can fail; the report counts what cannot be read.
    run(drives, assembly, &assembly.mpb, at, true)
        .ok()
        .flatten()
}

/// Replays the logs of the volumes whose `modes` require it, and returns notes on what was done. If a replay does not
/// settle everything, the volume's mode becomes the one without a log.
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
                "volume {name} was not stopped cleanly; its write-hole log has corrected parity: {report}"
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
                "volume {name} is not started: {reason}, and its write-hole log cannot repair that ({report}){hint}"
            );
        }
        notes.push(format!(
            "volume {name} was not stopped cleanly, and its write-hole log could not repair everything: {report}"
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
) -> Result<Option<LogReport>> {
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

/// The volumes of `mpb` whose policy is a log of the present format.
#[must_use]
pub fn logged_volumes(mpb: &Mpb, sector: SectorSize) -> Vec<LoggedVolume> {
    (0..mpb.volumes.len())
        .filter_map(|at| logged_volume(mpb, at, sector))
        .collect()
}

/// The log of volume number `at`, if its policy is a log of the present format.
#[must_use]
pub fn logged_volume(mpb: &Mpb, at: usize, sector: SectorSize) -> Option<LoggedVolume> {
    let is_logged = mpb.volumes[at].write_hole_policy == WriteHolePolicy::Log;
    LoggedVolume::of(mpb, at, sector).filter(|_| is_logged)
}

/// Empties the logs of `volumes` on `drives`, durably.
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

/// The function that writes the headers of log units, for the container with this `signature`: its arguments are a
/// unit, the CRC-32C of each entry's partial parity, and the buffer for the header.
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
        // With the tables in `metadata::crc32c`, the checksum of a header would take thirteen thousand instructions.
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
