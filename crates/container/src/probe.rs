//! Opening members and reading the metadata region at their end.

use super::busy::open;
use anyhow::{Context, Result, anyhow, bail};
use assembly::member::Looked;
pub use assembly::member::{FoundShadow, Member};
use drives::drive::{Access, Drive};
use drives::spec::{MemberSpec, Target};
use engine::policy::MemberKind;
use metadata::imsm::place::{Found, Placement};
use metadata::imsm::{DecodeError, SectorSize, Serial};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A drive that takes longer than this for its first answer is considered hung. Kernels retry for up to 30 s
/// per command, but a drive that needs so long should not be used to start an array.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// A member that has been opened and examined.
#[derive(Debug)]
pub struct Probed {
    /// The user's specification.
    pub spec: MemberSpec,
    /// The open drive.
    pub drive: Drive,
    /// Where metadata is on it.
    pub placement: Placement,
    /// Its sector size as the metadata knows it.
    pub sector: SectorSize,
    /// Its serial in the form in which the metadata stores it.
    pub serial: Serial,
    /// The content of its metadata region.
    pub found: Result<Option<Found>, DecodeError>,
    /// The content of the place where its shadow would be.
    pub shadow: FoundShadow,
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
/// The drive cannot be opened or read, does not answer, or is too small for any metadata.
pub fn probe(spec: MemberSpec, access: Access) -> Result<Probed> {
    let name = match &spec.target {
        Target::Path(path) => path.display().to_string(),
        // Memory always answers.
        Target::Ram { .. } | Target::Null { .. } => return probe_patiently(spec, access),
    };
    in_time(&name, move || probe_patiently(spec, access))?
}

fn probe_patiently(spec: MemberSpec, access: Access) -> Result<Probed> {
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
    let (found, shadow) = look(&drive, placement, sector)?;
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

/// Runs `ask`, which queries the drive called `name`, on a thread of its own: if it ran on the caller's thread and
/// hung, the command would hang without saying which drive it waits for.
///
/// # Errors
/// There is no answer in time.
pub fn in_time<T: Send + 'static>(
    name: &str,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // The receiver may have given up.
        let _ = sender.send(ask());
    })?;
    receiver.recv_timeout(ANSWERS_WITHIN).map_err(|_| {
        anyhow!(
            "{name} has not answered for {} s; leave it out, or look for the reason in the kernel's log",
            ANSWERS_WITHIN.as_secs()
        )
    })
}

fn look(drive: &Drive, placement: Placement, sector: SectorSize) -> Result<Looked> {
    let read = |offset_bytes, length_bytes| drive.read_at(offset_bytes, length_bytes);
    assembly::member::look(placement, sector, read)
        .with_context(|| format!("{}: cannot read the metadata region", drive.name()))
}

/// Opens every member of `specs`; see [`probe`].
///
/// # Errors
/// The first drive that cannot be probed, or two members with the same serial number.
pub fn probe_all(specs: &[String], access: Access) -> Result<Vec<Probed>> {
    let mut all: Vec<Probed> = Vec::with_capacity(specs.len());
    for text in specs {
        let probed = probe(parse_spec(text)?, access)?;
        if let Some(twin) = all.iter().find(|other| other.serial == probed.serial) {
            bail!(twins(twin, &probed));
        }
        all.push(probed);
    }
    Ok(all)
}

/// Why two drives with the same serial number are refused. If their records are the same as well, this is one drive that
/// can be reached in two ways, or a copy: giving one of them another serial number would be wrong.
fn twins(first: &Probed, second: &Probed) -> String {
    let names = (first.drive.name(), second.drive.name());
    let serial = first.serial;
    if is_same_record(first, second) {
        seen_twice(names, &serial.to_string())
    } else {
        format!(
            "{} and {} have the same serial number {serial}; drives are told apart by its last 16 characters, so give \
             one of them another with ,serial=NAME",
            names.0, names.1
        )
    }
}

/// A sentence about two names with the same serial number and the same record.
#[must_use]
pub fn seen_twice((first, second): (&str, &str), serial: &str) -> String {
    format!(
        "{first} and {second} have the same serial number {serial} and the same record, so they are two paths to one \
         drive or one is a copy of the other; name only one of them, and list the drive under blacklist in \
         /etc/multipath.conf if multipath would join the paths"
    )
}

/// Whether both drives carry the same update of one container's record.
fn is_same_record(first: &Probed, second: &Probed) -> bool {
    match (&first.found, &second.found) {
        (Ok(Some(first)), Ok(Some(second))) => first.mpb == second.mpb,
        _ => false,
    }
}

impl Probed {
    /// Reads the metadata region again, after something was written to it.
    ///
    /// # Errors
    /// The drive cannot be read.
    pub fn reread(&mut self) -> Result<()> {
        self.found = look(&self.drive, self.placement, self.sector)?.0;
        Ok(())
    }

    /// The path, if the member is one; other programs may use it too.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        match &self.spec.target {
            Target::Path(path) => Some(path),
            Target::Ram { .. } | Target::Null { .. } => None,
        }
    }
}

impl Member for Probed {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn size_bytes(&self) -> u64 {
        self.drive.size_bytes()
    }

    fn kind(&self) -> MemberKind {
        self.drive.kind()
    }

    fn discards(&self) -> bool {
        self.drive.discards()
    }

    fn volatile_cache(&self) -> bool {
        self.drive.volatile_cache()
    }

    fn serial(&self) -> Serial {
        self.serial
    }

    fn sector(&self) -> SectorSize {
        self.sector
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn found(&self) -> &Result<Option<Found>, DecodeError> {
        &self.found
    }

    fn shadow(&self) -> &FoundShadow {
        &self.shadow
    }

    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> Result<Vec<u8>> {
        Ok(self.drive.read_at(offset_bytes, length_bytes)?)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.drive.write_at(offset_bytes, bytes)?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.drive.flush()?)
    }
}
