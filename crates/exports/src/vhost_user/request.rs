//! From the head of a guest's request to a request for the engine, or a refusal.
//!
//! The guest is not trusted: whatever it writes, what passes here lies inside the volume and consists of whole blocks.

use super::wire::*;
use engine::request::{Failure, Operation};
use std::fmt;

/// The longest discard, and the longest request to write zeroes.
pub const WITHOUT_DATA_BYTES_MAX: u64 = 1 << 30;

/// The limits that requests of a volume keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The size of the volume.
    pub size_bytes: u64,
    /// The smallest unit of a request.
    pub block_bytes: u32,
    /// Whether each write has to be durable before it is answered: the guest does not know that there are flushes.
    pub write_through: bool,
    /// What [`REQUEST_IDENTITY`] is answered with.
    pub identity: [u8; IDENTITY_BYTES],
}

/// What the guest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The engine carries it out.
    Engine(Order),
    /// Who the device is.
    Identity,
}

/// A request in the terms of the engine. It may be longer than one request of the engine; then it is carried out in
/// pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What to do.
    pub operation: Operation,
    /// Durable before it is answered.
    pub fua: bool,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 for a flush only.
    pub length_bytes: u64,
}

impl Order {
    /// Whether data goes with it.
    #[inline]
    #[must_use]
    pub fn has_data(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Write)
    }
}

/// Why a request is refused. The guest is told only the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This device does not know the type with this number.
    Unknown(u32),
    /// A flag of a range is not known.
    Flags(u32),
    /// There is not exactly one range, or no room for the answer.
    Shape,
    /// It has no length.
    Empty,
    /// It ends behind the volume's end.
    PastEnd,
    /// It does not consist of whole blocks.
    Unaligned,
    /// It has more segments than the device allows, or is too long.
    TooLong,
}

impl Refusal {
    /// The status that the guest gets.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Refusal::Unknown(_) | Refusal::Flags(_) => STATUS_UNSUPPORTED,
            _ => STATUS_ERROR,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unknown(number) => write!(out, "type {number} is unknown"),
            Refusal::Flags(flags) => write!(out, "its range has the unknown flags {flags:#x}"),
            Refusal::Shape => write!(out, "its parts do not fit its type"),
            Refusal::Empty => write!(out, "it has no length"),
            Refusal::PastEnd => write!(out, "it ends behind the end of the volume"),
            Refusal::Unaligned => write!(out, "it does not consist of whole blocks"),
            Refusal::TooLong => write!(out, "it is longer than the device allows"),
        }
    }
}

/// The status of a request that the engine has not carried out.
///
/// # Panics
/// If the request has to be asked again ([`Failure::BufferHeld`]): then it is not answered.
#[must_use]
pub fn failure_status(failure: Failure) -> u8 {
    match failure {
        Failure::NotSupported => STATUS_UNSUPPORTED,
        Failure::Misuse | Failure::ReadOnly | Failure::Unrecoverable { .. } | Failure::Stopping => {
            STATUS_ERROR
        }
        Failure::BufferHeld => unreachable!("a read whose memory is held is asked again"),
    }
}

/// The beginning of what the device reads of a request: its head, and the range of a discard or of zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The first bytes, and zeroes if there are fewer.
    pub bytes: [u8; HEADER_BYTES + RANGE_BYTES],
    /// All bytes behind the head.
    pub data_bytes: u64,
    /// What the device may write, without the status.
    pub room_bytes: u64,
}

impl Beginning {
    /// Whether a range follows the head.
    #[inline]
    #[must_use]
    pub fn has_range(&self) -> bool {
        matches!(self.number(0), REQUEST_DISCARD | REQUEST_ZEROES)
    }

    #[inline]
    fn number(&self, at: usize) -> u32 {
        let bytes = &self.bytes[at..at + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn place(&self, at: usize) -> Result<u64, Refusal> {
        let bytes = &self.bytes[at..at + 8];
        let sector = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        sector.checked_mul(SECTOR_BYTES).ok_or(Refusal::PastEnd)
    }
}

impl Rules {
    /// Checks a request.
    ///
    /// # Errors
    /// [`Refusal`] if it breaks a rule.
    #[inline]
    pub fn judge(&self, beginning: &Beginning) -> Result<Asked, Refusal> {
        match beginning.number(0) {
            REQUEST_READ => self.with_data(Operation::Read, beginning, beginning.room_bytes),
            REQUEST_WRITE => self.with_data(Operation::Write, beginning, beginning.data_bytes),
            REQUEST_FLUSH => Ok(FLUSH),
            REQUEST_IDENTITY if beginning.room_bytes < IDENTITY_BYTES as u64 => Err(Refusal::Shape),
            REQUEST_IDENTITY => Ok(Asked::Identity),
            REQUEST_DISCARD | REQUEST_ZEROES => self.range(beginning),
            other => Err(Refusal::Unknown(other)),
        }
    }

    #[inline]
    fn with_data(
        &self,
        operation: Operation,
        beginning: &Beginning,
        length_bytes: u64,
    ) -> Result<Asked, Refusal> {
        self.checked(operation, beginning.place(8)?, length_bytes)
    }

    /// A discard, or zeroes.
    fn range(&self, beginning: &Beginning) -> Result<Asked, Refusal> {
        if beginning.data_bytes != RANGE_BYTES as u64 {
            return Err(Refusal::Shape);
        }
        let is_discard = beginning.number(0) == REQUEST_DISCARD;
        let flags = beginning.number(HEADER_BYTES + 12);
        let known = if is_discard { 0 } else { RANGE_UNMAP };
        if flags & !known != 0 {
            return Err(Refusal::Flags(flags));
        }
        let operation = match is_discard {
            true => Operation::Trim,
            false => Operation::WriteZeroes {
                keep_allocated: flags & RANGE_UNMAP == 0,
                only_if_fast: false,
            },
        };
        let length_bytes = u64::from(beginning.number(HEADER_BYTES + 8)) * SECTOR_BYTES;
        if length_bytes > WITHOUT_DATA_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        self.checked(operation, beginning.place(HEADER_BYTES)?, length_bytes)
    }

    #[inline]
    fn checked(
        &self,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Asked, Refusal> {
        if length_bytes == 0 {
            return Err(Refusal::Empty);
        }
        let end_bytes = offset_bytes.checked_add(length_bytes);
        if end_bytes.is_none_or(|end_bytes| end_bytes > self.size_bytes) {
            return Err(Refusal::PastEnd);
        }
        if (offset_bytes | length_bytes) & (u64::from(self.block_bytes) - 1) != 0 {
            return Err(Refusal::Unaligned);
        }
        Ok(Asked::Engine(Order {
            operation,
            fua: self.write_through && operation != Operation::Read,
            offset_bytes,
            length_bytes,
        }))
    }
}

const FLUSH: Asked = Asked::Engine(Order {
    operation: Operation::Flush,
    fua: false,
    offset_bytes: 0,
    length_bytes: 0,
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules {
        size_bytes: 1 << 20,
        block_bytes: 4096,
        write_through: false,
        identity: [7; IDENTITY_BYTES],
    };

    fn beginning(kind: u32, sector: u64, data_bytes: u64, room_bytes: u64) -> Beginning {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&sector.to_le_bytes());
        Beginning {
            bytes,
            data_bytes,
            room_bytes,
        }
    }

    fn range(kind: u32, sector: u64, sectors: u32, flags: u32) -> Beginning {
        let mut one = beginning(kind, 99, 16, 0);
        one.bytes[16..24].copy_from_slice(&sector.to_le_bytes());
        one.bytes[24..28].copy_from_slice(&sectors.to_le_bytes());
        one.bytes[28..].copy_from_slice(&flags.to_le_bytes());
        one
    }

    fn order(beginning: &Beginning) -> Order {
        match RULES.judge(beginning) {
            Ok(Asked::Engine(order)) => order,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_keep_their_place_and_length() {
        let write = order(&beginning(1, 8, 8192, 0));
        assert_eq!(
            (write.operation, write.offset_bytes, write.length_bytes),
            (Operation::Write, 4096, 8192)
        );
        let read = order(&beginning(0, 16, 0, 4096));
        assert_eq!(
            (read.operation, read.offset_bytes, read.length_bytes),
            (Operation::Read, 8192, 4096)
        );
        let discard = order(&range(11, 8, 16, 0));
        assert_eq!(
            (
                discard.operation,
                discard.offset_bytes,
                discard.length_bytes
            ),
            (Operation::Trim, 4096, 8192)
        );
        assert_eq!(RULES.judge(&beginning(4, 77, 3, 0)), Ok(FLUSH));
        assert_eq!(RULES.judge(&beginning(8, 0, 0, 20)), Ok(Asked::Identity));
    }

    #[test]
    fn zeroes_stay_allocated_unless_the_guest_allows_otherwise() {
        for (flags, keep_allocated) in [(0, true), (RANGE_UNMAP, false)] {
            let wanted = Operation::WriteZeroes {
                keep_allocated,
                only_if_fast: false,
            };
            assert_eq!(order(&range(13, 0, 8, flags)).operation, wanted);
        }
    }

    /// A guest that has not accepted the feature "flush" believes that writes are durable when they are answered.
    #[test]
    fn a_guest_without_flushes_has_durable_writes() {
        let rules = Rules {
            write_through: true,
            ..RULES
        };
        for (request, fua) in [
            (beginning(1, 8, 8192, 0), true),
            (range(13, 0, 8, 0), true),
            (range(11, 0, 8, 0), true),
            (beginning(0, 8, 0, 8192), false),
        ] {
            let Ok(Asked::Engine(order)) = rules.judge(&request) else {
                panic!("{request:?} is refused");
            };
            assert_eq!(order.fua, fua, "{request:?}");
        }
        assert!(!order(&beginning(1, 8, 8192, 0)).fua);
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for (request, refusal) in [
            (beginning(7, 0, 0, 0), Refusal::Unknown(7)),
            (beginning(1, 0, 0, 0), Refusal::Empty),
            (beginning(0, 2048, 0, 4096), Refusal::PastEnd),
            (beginning(0, u64::MAX / 256, 0, 4096), Refusal::PastEnd),
            (beginning(0, u64::MAX / 512, 0, 4096), Refusal::PastEnd),
            (beginning(0, 1, 0, 4096), Refusal::Unaligned),
            (beginning(1, 8, 4097, 0), Refusal::Unaligned),
            (beginning(8, 0, 0, 19), Refusal::Shape),
            (beginning(11, 0, 32, 0), Refusal::Shape),
            (beginning(13, 0, 0, 0), Refusal::Shape),
            (range(11, 0, 8, 1), Refusal::Flags(1)),
            (range(13, 0, 8, 3), Refusal::Flags(3)),
            (range(13, 0, (1 << 21) + 8, 0), Refusal::TooLong),
            (range(11, 0, 0, 0), Refusal::Empty),
        ] {
            assert_eq!(RULES.judge(&request), Err(refusal), "{request:?}");
            assert_ne!(refusal.status(), STATUS_OK);
        }
    }

    proptest! {
        /// Whatever lies in the guest's memory, what reaches the engine is inside the volume and consists of blocks.
        #[test]
        fn nothing_reaches_the_engine_that_breaks_a_rule(
            bytes in any::<[u8; 32]>(), kind in 0u32..15, sector in 0u64..3000,
            data_bytes in 0u64..70000, room_bytes in 0u64..70000, keep in any::<bool>()
        ) {
            let mut one = Beginning { bytes, data_bytes, room_bytes };
            one.bytes[..4].copy_from_slice(&kind.to_le_bytes());
            if keep {
                one.bytes[8..16].copy_from_slice(&sector.to_le_bytes());
            }
            if let Ok(Asked::Engine(order)) = RULES.judge(&one) {
                prop_assert!(order.offset_bytes + order.length_bytes <= RULES.size_bytes);
                prop_assert_eq!((order.offset_bytes | order.length_bytes) % 4096, 0);
                prop_assert_eq!(order.length_bytes == 0, order.operation == Operation::Flush);
                let most = if order.operation == Operation::Read { room_bytes } else { data_bytes };
                prop_assert!(!order.has_data() || order.length_bytes == most);
            }
        }
    }
}
