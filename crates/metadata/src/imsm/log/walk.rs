//! Finds the newest unit of an area: each header follows the partial parity of the one before, from the area's start,
//! until there is no header or an older one.

use super::codec::{COUNT_AT, RESERVED_BYTES, SIGNATURE_AT, get};
use super::{ENTRIES_MAX, HEADER_BYTES, Header, HeaderProblem};
use crate::imsm::SectorSize;

/// What is at the start of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaStart {
    /// A header of this log.
    Header,
    /// Zeros: initialising the area was interrupted, after everything had been replayed.
    Blank,
    /// Remains of a header of this log of which not all sectors were written. None of the writes that it announces
    /// had begun.
    Torn,
    /// Anything else. If writes were interrupted, it is not known which.
    Foreign(HeaderProblem),
}

impl AreaStart {
    /// Whether it is certain that only writes that the area announces were under way.
    #[must_use]
    pub fn can_be_trusted(self) -> bool {
        !matches!(self, Self::Foreign(_))
    }
}

/// The newest unit of an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its header; without entries if no write was under way.
    pub header: Header,
    /// Offset of the partial parity in the area. It may be beyond the area's end.
    pub partial_parity_offset_bytes: usize,
}

/// What was found in an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// What is at its start.
    pub start: AreaStart,
    /// Number of headers in the chain.
    pub headers: usize,
    /// The last unit of the chain.
    pub newest: Option<Newest>,
}

/// Walks through `area`, the log of one member, for the container with this `signature`.
#[must_use]
pub fn walk(area: &[u8], signature: u32, sector: SectorSize) -> Walk {
    let mut found = Walk {
        start: AreaStart::Header,
        headers: 0,
        newest: None,
    };
    let mut at = 0;
    // Each iteration advances by at least a header.
    while let Some(bytes) = area
        .get(at..)
        .and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
    {
        let header = match Header::decode(bytes, signature, sector) {
            Ok(header) => header,
            Err(problem) => {
                if found.headers == 0 {
                    found.start = without_header(bytes, signature, problem, sector);
                }
                return found;
            }
        };
        let is_older = found
            .newest
            .as_ref()
            .is_some_and(|newest| header.generation < newest.header.generation);
        if is_older {
            return found;
        }
        found.headers += 1;
        let partial_parity_offset_bytes = at + HEADER_BYTES;
        let behind = partial_parity_offset_bytes as u64 + header.partial_parity_bytes();
        found.newest = Some(Newest {
            header,
            partial_parity_offset_bytes,
        });
        match usize::try_from(behind) {
            Ok(next) => at = next,
            Err(_) => return found,
        }
    }
    if found.headers == 0 {
        found.start = AreaStart::Foreign(HeaderProblem::Checksum);
    }
    found
}

/// Classifies the first bytes of an area that are not a header.
fn without_header(
    bytes: &[u8; HEADER_BYTES],
    signature: u32,
    problem: HeaderProblem,
    sector: SectorSize,
) -> AreaStart {
    if bytes.iter().all(|&byte| byte == 0) {
        return AreaStart::Blank;
    }
    // All headers of a log have the same first sector, and the same start of the second.
    let sector_of = |at: usize| &bytes[at * 512..(at + 1) * 512];
    let is_blank = |at: usize| sector_of(at).iter().all(|&byte| byte == 0);
    let first = is_blank(0) || bytes[..RESERVED_BYTES].iter().all(|&byte| byte == 0xFF);
    let second = is_blank(1)
        || get(bytes, SIGNATURE_AT) == signature
            && get(bytes, SIGNATURE_AT + 4) == 0
            && get(bytes, COUNT_AT) as usize <= ENTRIES_MAX;
    let can_tear = sector == SectorSize::Bytes512;
    let common = first && second;
    if common && can_tear && problem == HeaderProblem::Checksum {
        AreaStart::Torn
    } else {
        AreaStart::Foreign(problem)
    }
}
