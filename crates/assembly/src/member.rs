//! A drive that has been examined.

use engine::policy::MemberKind;
use metadata::imsm::choose::{Candidate, Content};
use metadata::imsm::place::{ByteRange, Found, Placement, decode_region};
use metadata::imsm::shadow::{self, Shadow, ShadowError, has_room};
use metadata::imsm::{DecodeError, Mpb, SectorSize, Serial, Uuid, notes};

/// The content of the place where a drive's shadow would be ([`metadata::imsm::shadow`]).
#[derive(Debug)]
pub enum FoundShadow {
    /// No shadow. The place may be part of a volume.
    Nothing,
    /// A whole shadow.
    Whole(Box<Shadow>),
    /// The mark of a shadow, which is not whole.
    Damaged(ShadowError),
    /// The place cannot be read.
    Unreadable,
}

/// A drive and the metadata found on it. Errors of reading and writing are sentences that name the drive.
pub trait Member {
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Capacity.
    fn size_bytes(&self) -> u64;
    /// Whether acknowledged writes may be lost with the power until they are flushed.
    fn volatile_cache(&self) -> bool;
    /// The kind of drive, which determines what its errors mean.
    fn kind(&self) -> MemberKind;
    /// Whether it can discard.
    fn discards(&self) -> bool;
    /// Its serial in stored form.
    fn serial(&self) -> Serial;
    /// Its sector size, as a type of the metadata.
    fn sector(&self) -> SectorSize;
    /// Where metadata is on it.
    fn placement(&self) -> Placement;
    /// The content of its metadata region.
    fn found(&self) -> &Result<Option<Found>, DecodeError>;
    /// The content of the place where its shadow would be.
    fn shadow(&self) -> &FoundShadow;
    /// Reads whole sectors.
    ///
    /// # Errors
    /// The drive fails.
    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> anyhow::Result<Vec<u8>>;
    /// Writes whole sectors.
    ///
    /// # Errors
    /// The drive fails.
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> anyhow::Result<()>;
    /// Makes everything written durable.
    ///
    /// # Errors
    /// The drive fails.
    fn flush(&self) -> anyhow::Result<()>;

    /// The drive as input for the rules of [`metadata::imsm::choose`].
    fn candidate(&self) -> Candidate {
        let content = match self.found() {
            Ok(None) => Content::Nothing,
            Ok(Some(found)) => Content::Record(Box::new(found.mpb.clone())),
            Err(error) => Content::Damaged(*error),
        };
        Candidate {
            name: self.name().to_owned(),
            serial: self.serial(),
            total_sectors: self.placement().total_sectors(),
            sector: self.sector(),
            content,
            shadow: match self.shadow() {
                FoundShadow::Whole(shadow) => Some(shadow.clone()),
                _ => None,
            },
        }
    }
}

impl FoundShadow {
    /// What is left of an array on a drive whose own record is gone, as a noun phrase; `None` if nothing is left.
    #[must_use]
    pub fn remains(&self) -> Option<String> {
        match self {
            FoundShadow::Nothing | FoundShadow::Unreadable => None,
            FoundShadow::Whole(shadow) => Some(format!(
                "the shadow copy of a record that is gone, of {}",
                of_array(&shadow.mpb)
            )),
            FoundShadow::Damaged(_) => {
                Some("a damaged shadow copy of an array's record that is gone".to_owned())
            }
        }
    }

    /// Whether a newer version of this program wrote it, so that it must not be overwritten.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        matches!(self, FoundShadow::Damaged(error) if error.is_newer())
    }
}

/// The container of a record and its volumes, as a noun phrase.
#[must_use]
pub fn of_array(mpb: &Mpb) -> String {
    let names: Vec<String> = mpb
        .volumes
        .iter()
        .map(|volume| volume.name.to_string())
        .collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!(
        "the IMSM container {} (volume{plural} {})",
        Uuid::of_container(mpb),
        names.join(", ")
    )
}

/// Sentences that name what a newer version of this program keeps on a drive beside the record `mpb`, and which this
/// version does not touch.
#[must_use]
pub fn left_alone(drive: &impl Member, mpb: &Mpb) -> Vec<String> {
    let name = drive.name();
    let mut sentences = Vec::new();
    if drive.shadow().is_newer() {
        sentences.push(format!(
            "{name}: a newer version of this program wrote the shadow copy of its metadata; it is left \
             alone, and none is kept there by this version"
        ));
    }
    let placement = drive.placement();
    let is_newer = |place: &ByteRange| {
        let first = drive.read_at(place.offset_bytes, drive.sector().bytes());
        first.is_ok_and(|first| notes::newer_version(&first).is_some())
    };
    if notes::has_room(&placement, mpb) && placement.notes().iter().any(is_newer) {
        sentences.push(format!(
            "{name}: a newer version of this program wrote the notes on it; they are left alone, and scrubs \
             are not recorded there"
        ));
    }
    sentences
}

/// What was found on a drive.
pub type Looked = (Result<Option<Found>, DecodeError>, FoundShadow);

/// Examines a drive through `read` (first byte, length): its metadata region and, unless its own record
/// puts a volume there, the place of its shadow.
///
/// # Errors
/// The metadata region cannot be read.
pub fn look<E>(
    placement: Placement,
    sector: SectorSize,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Looked, E> {
    let region = placement.region_to_read();
    let bytes = read(region.offset_bytes, region.length_bytes as usize)?;
    let found = decode_region(&bytes, sector);
    if matches!(&found, Ok(Some(found)) if !has_room(&placement, &found.mpb)) {
        return Ok((found, FoundShadow::Nothing));
    }
    let place = placement.shadow();
    let shadow = match read(place.offset_bytes, place.length_bytes as usize) {
        Err(_) => FoundShadow::Unreadable,
        Ok(bytes) => match shadow::decode(&bytes, &placement, sector) {
            Ok(None) | Err(ShadowError::Misplaced) => FoundShadow::Nothing,
            Ok(Some(shadow)) => FoundShadow::Whole(Box::new(shadow)),
            Err(error) => FoundShadow::Damaged(error),
        },
    };
    let found = match (found, &shadow) {
        (Ok(Some(own)), FoundShadow::Whole(shadow)) if shadow.disproves(&own.print) => {
            let claims = own.print.identity;
            Err(DecodeError::Mixed { claims })
        }
        (found, _) => found,
    };
    Ok((found, shadow))
}
