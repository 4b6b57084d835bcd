//! Opening members and reading the metadata region at their end.

use super::busy::open;
use anyhow::{Context, Result, bail};
use drives::drive::{Access, Drive};
use drives::spec::{MemberSpec, Target};
use metadata::imsm::choose::{Candidate, Content};
use metadata::imsm::place::{Found, Placement, decode_region};
use metadata::imsm::shadow::{self, Shadow, ShadowError, has_room};
use metadata::imsm::{DecodeError, SectorSize, Serial};

/// A member that has been opened and looked at.
#[derive(Debug)]
pub struct Probed {
    /// What the user asked for.
    pub spec: MemberSpec,
    /// The open drive.
    pub drive: Drive,
    /// Where metadata lies on it.
    pub placement: Placement,
    /// Its sector size as the metadata knows it.
    pub sector: SectorSize,
    /// Its serial in stored form.
    pub serial: Serial,
    /// What lies in its metadata region.
    pub found: Result<Option<Found>, DecodeError>,
    /// What lies where its shadow would be.
    pub shadow: FoundShadow,
}

/// What lies where a drive's shadow would be ([`metadata::imsm::shadow`]).
#[derive(Debug)]
pub enum FoundShadow {
    /// No shadow. The place may be part of a volume.
    Nothing,
    /// A whole one.
    Whole(Box<Shadow>),
    /// The mark of one, but not a whole one.
    Damaged(ShadowError),
    /// The place cannot be read.
    Unreadable,
}

/// Parses a member specification.
///
/// # Errors
/// One sentence that names the key.
pub fn parse_spec(text: &str) -> Result<MemberSpec> {
    Ok(text.parse::<MemberSpec>()?)
}

/// Opens the member `spec` and reads its metadata region.
///
/// # Errors
/// The drive cannot be opened or read, or is too small for any metadata.
pub fn probe(spec: MemberSpec, access: Access) -> Result<Probed> {
    let drive = open(&spec, access)?;
    let name = drive.name().to_owned();
    let Some(sector) = SectorSize::from_bytes(drive.sector_bytes()) else {
        bail!(
            "{name} has sectors of {} bytes; only 512 and 4096 are supported",
            drive.sector_bytes()
        );
    };
    let placement = Placement::new(drive.size_bytes(), sector)
        .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let found = read_region(&drive, placement, sector)?;
    let shadow = read_shadow(&drive, placement, sector, &found);
    let serial = Serial::from_drive(drive.serial().as_bytes());
    if serial.is_empty() {
        bail!("{name} reports no serial number; give it one with {name},serial=NAME");
    }
    Ok(Probed {
        spec,
        drive,
        placement,
        sector,
        serial,
        found,
        shadow,
    })
}

fn read_region(
    drive: &Drive,
    placement: Placement,
    sector: SectorSize,
) -> Result<Result<Option<Found>, DecodeError>> {
    let region = placement.region_to_read();
    let bytes = drive
        .read_at(region.offset_bytes, region.length_bytes as usize)
        .with_context(|| format!("{}: cannot read the metadata region", drive.name()))?;
    Ok(decode_region(&bytes, sector))
}

/// Looks for a shadow, unless the drive's own record puts data there.
fn read_shadow(
    drive: &Drive,
    placement: Placement,
    sector: SectorSize,
    found: &Result<Option<Found>, DecodeError>,
) -> FoundShadow {
    if matches!(found, Ok(Some(found)) if !has_room(&placement, &found.mpb)) {
        return FoundShadow::Nothing;
    }
    let place = placement.shadow();
    let Ok(bytes) = drive.read_at(place.offset_bytes, place.length_bytes as usize) else {
        return FoundShadow::Unreadable;
    };
    match shadow::decode(&bytes, &placement, sector) {
        Ok(None) | Err(ShadowError::Misplaced) => FoundShadow::Nothing,
        Ok(Some(shadow)) => FoundShadow::Whole(Box::new(shadow)),
        Err(error) => FoundShadow::Damaged(error),
    }
}

/// Opens every member of `specs`; see [`probe`].
///
/// # Errors
/// The first that fails, and two members with the same serial number.
pub fn probe_all(specs: &[String], access: Access) -> Result<Vec<Probed>> {
    let mut all: Vec<Probed> = Vec::with_capacity(specs.len());
    for text in specs {
        let probed = probe(parse_spec(text)?, access)?;
        if let Some(twin) = all.iter().find(|other| other.serial == probed.serial) {
            bail!(
                "{} and {} have the same serial number {}; drives are told apart by its last 16 \
                 characters, so give one of them another with ,serial=NAME",
                twin.drive.name(),
                probed.drive.name(),
                probed.serial
            );
        }
        all.push(probed);
    }
    Ok(all)
}

impl Probed {
    /// Reads the metadata region again, after something was written to it.
    ///
    /// # Errors
    /// The drive cannot be read.
    #[cfg(test)]
    pub fn reread(&mut self) -> Result<()> {
        self.found = read_region(&self.drive, self.placement, self.sector)?;
        Ok(())
    }

    /// What the rules of [`metadata::imsm::choose`] want to know.
    #[must_use]
    pub fn candidate(&self) -> Candidate {
        let content = match &self.found {
            Ok(None) => Content::Nothing,
            Ok(Some(found)) => Content::Record(Box::new(found.mpb.clone())),
            Err(error) => Content::Damaged(*error),
        };
        Candidate {
            name: self.drive.name().to_owned(),
            serial: self.serial,
            total_sectors: self.placement.total_sectors(),
            sector: self.sector,
            content,
            shadow: match &self.shadow {
                FoundShadow::Whole(shadow) => Some(shadow.clone()),
                _ => None,
            },
        }
    }

    /// Whether it is a path, which other programs may use too.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        match &self.spec.target {
            Target::Path(path) => Some(path),
            Target::Ram { .. } | Target::Null { .. } => None,
        }
    }
}
