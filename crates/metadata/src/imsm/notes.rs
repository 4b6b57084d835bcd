//! Notes: what a serving process keeps across restarts and the format has no field for.
//!
//! Today these are the positions, schedules and reports of scrubs. Nothing depends on them: if they are lost,
//! volumes are scrubbed again. So the serving process writes them independently of the record.
//!
//! A spare has other notes: that it is one, of the container that the header names ([`Notes::of_spare`]). Its record cannot
//! say whose spare it is.
//!
//! # Where they lie
//!
//! In 256 sectors of the free reserve just in front of the [`shadow`](super::shadow), whose module shows the
//! layout and explains why no other program uses the place. There are two copies of 128 sectors, used in
//! turn, so that an interrupted write damages only the newest notes and not the ones before. If a volume
//! reaches into the place, or a reshape is on record, the drive has no notes ([`has_room`]).
//!
//! # What a copy holds
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | `fullstripe notes` |
//! | 16 | 4 | version of this layout: 1 |
//! | 20 | 4 | CRC-32C of this header, with zeros here, and the text |
//! | 24 | 4 | length of the text |
//! | 28 | 4 | container family, as the record has it |
//! | 32 | 8 | sequence number: of all copies on all drives, the one with the highest is the newest |
//! | 40 | 24 | zeros |
//! | 64 | .. | the text: JSON, whose fields are those of the program that serves |
//!
//! All integers are little-endian. Notes of a newer version are left as they are ([`newer_version`]).

use super::SECTOR_BYTES;
use super::place::Placement;
use super::record::{Mpb, SectorSize};
use super::shadow::is_free;
use crate::crc32c::crc32c;
use alloc::vec::Vec;

const MAGIC: &[u8; 16] = b"fullstripe notes";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const CRC_OFFSET: usize = 20;

/// First sector of the first copy, from the end of the drive.
pub(super) const START_SECTORS_FROM_END: u64 = 2608;
/// Sectors of each copy.
pub(super) const COPY_SECTORS: u64 = 128;

/// The text of a spare's notes. Members' notes are a list in JSON, so programs that do not know this text find nothing in it.
const OF_SPARE: &[u8] = b"{\"spare\":true}";

/// Maximum length of the text.
pub const TEXT_BYTES_MAX: usize = (COPY_SECTORS * SECTOR_BYTES) as usize - HEADER_BYTES;

/// Notes that were read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notes {
    /// The container to which they belong, as in its record.
    pub container_family: u32,
    /// See the module's table.
    pub sequence: u64,
    /// See the module's table.
    pub text: Vec<u8>,
}

impl Notes {
    /// The notes of a spare of this container. Their sequence number is below that of any member's notes, so those are always the
    /// newer ones when the spare has become a member.
    #[must_use]
    pub fn of_spare(container_family: u32) -> Notes {
        Notes {
            container_family,
            sequence: 0,
            text: OF_SPARE.to_vec(),
        }
    }

    /// Whether these are the notes of a spare.
    #[must_use]
    pub fn is_of_spare(&self) -> bool {
        self.text == OF_SPARE
    }

    /// The index of the copy on a drive to which these notes are written.
    #[must_use]
    pub fn copy(&self) -> usize {
        (self.sequence & 1) as usize
    }

    /// The bytes to write, in whole sectors, for [`Placement::notes`]; `None` if the text is too long.
    #[must_use]
    pub fn encode(&self, sector: SectorSize) -> Option<Vec<u8>> {
        if self.text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.text.len() + sector.bytes());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.container_family.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(&self.text);
        let crc = crc32c(&bytes);
        bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(sector.bytes()), 0);
        Some(bytes)
    }

    /// The notes in `copy`, the bytes of one of [`Placement::notes`]; `None` if there are no whole ones.
    #[must_use]
    pub fn decode(copy: &[u8]) -> Option<Notes> {
        let word = |at: usize| Some(u32::from_le_bytes(*copy.get(at..)?.first_chunk()?));
        if !has_mark(copy) || word(16)? != VERSION {
            return None;
        }
        let length = word(24)? as usize;
        let text = copy.get(HEADER_BYTES..)?.get(..length)?;
        let mut sealed = copy[..HEADER_BYTES + length].to_vec();
        sealed[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
        if crc32c(&sealed) != word(CRC_OFFSET)? {
            return None;
        }
        Some(Notes {
            container_family: word(28)?,
            sequence: u64::from_le_bytes(*copy.get(32..)?.first_chunk()?),
            text: text.to_vec(),
        })
    }
}

/// Whether `copy` starts with the mark of notes, whole or not.
#[must_use]
pub fn has_mark(copy: &[u8]) -> bool {
    copy.starts_with(MAGIC)
}

/// The version of the layout in `copy`, if it is newer than this program's. Such notes are left as they are, and this
/// program writes none to the drive.
#[must_use]
pub fn newer_version(copy: &[u8]) -> Option<u32> {
    let found = u32::from_le_bytes(*copy.get(MAGIC.len()..)?.first_chunk()?);
    (has_mark(copy) && found > VERSION).then_some(found)
}

/// Whether a drive with the places `placement` has room for notes beside everything that `mpb` puts on it.
#[must_use]
pub fn has_room(placement: &Placement, mpb: &Mpb) -> bool {
    is_free(placement, mpb, START_SECTORS_FROM_END, 2 * COPY_SECTORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn notes(text: &[u8]) -> Notes {
        Notes {
            container_family: 0x1234_5678,
            sequence: 0x0102_0304_0506_0708,
            text: text.to_vec(),
        }
    }

    #[test]
    fn the_bytes_on_a_drive_are_these() {
        let bytes = notes(b"{}").encode(SectorSize::Bytes512).unwrap();
        assert_eq!(bytes.len(), 512);
        assert_eq!(&bytes[..20], b"fullstripe notes\x01\0\0\0");
        assert_eq!(
            bytes[24..40],
            [2, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 8, 7, 6, 5, 4, 3, 2, 1]
        );
        assert_eq!(&bytes[64..66], b"{}");
        assert!(
            bytes[40..64]
                .iter()
                .chain(&bytes[66..])
                .all(|&byte| byte == 0)
        );
        assert_eq!(Notes::decode(&bytes), Some(notes(b"{}")));
    }

    #[test]
    fn the_notes_of_a_spare_are_these() {
        let bytes = Notes::of_spare(0x1234_5678)
            .encode(SectorSize::Bytes512)
            .unwrap();
        assert_eq!(
            bytes[24..40],
            [14, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(&bytes[64..78], b"{\"spare\":true}");
        assert!(Notes::decode(&bytes).unwrap().is_of_spare());
        assert!(!notes(b"[]").is_of_spare());
    }

    #[test]
    fn notes_that_are_torn_or_foreign_are_none() {
        let text = vec![b'x'; 3000];
        let bytes = notes(&text).encode(SectorSize::Bytes512).unwrap();
        for at in 0..HEADER_BYTES + text.len() {
            for bit in 0..8 {
                let mut torn = bytes.clone();
                torn[at] ^= 1 << bit;
                assert_eq!(Notes::decode(&torn), None, "bit {bit} of byte {at}");
            }
        }
        for length in 0..HEADER_BYTES + text.len() {
            assert_eq!(Notes::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Notes::decode(&vec![0; 65536]), None);
        assert_eq!(Notes::decode(&vec![0xFF; 65536]), None);
        let mut long = bytes.clone();
        long[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Notes::decode(&long), None);
    }

    #[test]
    fn notes_of_a_newer_version_are_known_as_that() {
        let mut bytes = notes(b"{}").encode(SectorSize::Bytes512).unwrap();
        assert_eq!(newer_version(&bytes), None);
        bytes[16] = VERSION as u8 + 1;
        assert_eq!(newer_version(&bytes), Some(VERSION + 1));
        assert_eq!(Notes::decode(&bytes), None);
        bytes[16] = 0;
        assert_eq!(newer_version(&bytes), None);
        bytes[16] = VERSION as u8 + 1;
        assert_eq!(newer_version(&bytes[..19]), None);
        bytes[0] = b'F';
        assert_eq!(newer_version(&bytes), None);
    }

    #[test]
    fn the_longest_text_fills_a_copy_and_a_longer_one_is_refused() {
        for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
            let place = Placement::new(64 << 20, sector).unwrap().notes();
            let full = notes(&vec![b' '; TEXT_BYTES_MAX]);
            let bytes = full.encode(sector).unwrap();
            assert_eq!(bytes.len() as u64, place[0].length_bytes);
            assert_eq!(Notes::decode(&bytes), Some(full));
            assert_eq!(notes(&vec![b' '; TEXT_BYTES_MAX + 1]).encode(sector), None);
        }
    }

    #[test]
    fn the_two_copies_lie_side_by_side_in_front_of_the_shadow() {
        for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
            let placement = Placement::new((64 << 20) + 4096, sector).unwrap();
            let [first, second] = placement.notes();
            assert_eq!(first.offset_bytes + first.length_bytes, second.offset_bytes);
            let end = second.offset_bytes + second.length_bytes;
            assert_eq!(end, placement.shadow().offset_bytes);
            assert_eq!(first.offset_bytes % 4096, 0);
        }
    }
}
