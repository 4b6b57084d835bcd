//! From the kernel's description of a request to a request for the engine.
//!
//! The kernel checks requests against the device's limits before they come here. They are checked again all the same,
//! because the engine relies on it.

pub use drives::ublk::Descriptor;
use drives::ublk::{Operation as Kind, SECTOR_BYTES};
use engine::request::{Failure, Operation};
use rustix::io::Errno;
use std::fmt;

/// The limits that requests of a device keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The size of the device.
    pub size_bytes: u64,
    /// The smallest unit of a request.
    pub block_bytes: u32,
    /// The longest request with data.
    pub request_bytes_max: u32,
}

/// What a request asks for, in the terms of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What to do.
    pub operation: Operation,
    /// Durable before it is answered.
    pub fua: bool,
    /// First byte.
    pub offset_bytes: u64,
    /// Length; 0 for a flush only.
    pub length_bytes: u32,
}

impl Asked {
    /// How a success is answered: the count of bytes of reads and writes, otherwise 0.
    #[must_use]
    pub fn success(&self) -> i32 {
        match self.operation {
            Operation::Read | Operation::Write => self.length_bytes as i32,
            Operation::Flush | Operation::Trim | Operation::WriteZeroes { .. } => 0,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This program does not know the operation with this number.
    Unknown(u8),
    /// The request has no length.
    Empty,
    /// It ends behind the device's end.
    PastEnd,
    /// It does not consist of whole blocks.
    Unaligned,
    /// It has more data than the device allows, or is too long for any request.
    TooLong,
}

impl Refusal {
    /// The answer to the kernel: a negative errno.
    #[must_use]
    pub fn answer(self) -> i32 {
        negative(match self {
            Refusal::Unknown(_) => Errno::OPNOTSUPP,
            Refusal::Empty | Refusal::PastEnd | Refusal::Unaligned | Refusal::TooLong => {
                Errno::INVAL
            }
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unknown(number) => write!(out, "operation {number} is unknown"),
            Refusal::Empty => write!(out, "it has no length"),
            Refusal::PastEnd => write!(out, "it ends behind the end of the device"),
            Refusal::Unaligned => write!(out, "it does not consist of whole blocks"),
            Refusal::TooLong => write!(out, "it is longer than the device allows"),
        }
    }
}

/// The answer to a request that the engine has not carried out: a negative errno.
///
/// # Panics
/// If the request has to be asked again ([`Failure::BufferHeld`]): then it is not answered.
#[must_use]
pub fn failure_answer(failure: Failure) -> i32 {
    negative(match failure {
        Failure::Misuse => Errno::INVAL,
        Failure::ReadOnly => Errno::ROFS,
        Failure::NotSupported => Errno::OPNOTSUPP,
        Failure::Unrecoverable { .. } | Failure::Stopping => Errno::IO,
        Failure::BufferHeld => unreachable!("a read whose memory is held is asked again"),
    })
}

fn negative(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

impl Rules {
    /// Checks a request.
    ///
    /// # Errors
    /// [`Refusal`] if it breaks a rule.
    #[inline]
    pub fn judge(&self, descriptor: &Descriptor) -> Result<Asked, Refusal> {
        let operation = match descriptor.operation() {
            Kind::Read => Operation::Read,
            Kind::Write => Operation::Write,
            Kind::Flush => return Ok(FLUSH),
            Kind::Discard => Operation::Trim,
            Kind::WriteZeroes => Operation::WriteZeroes {
                keep_allocated: descriptor.keep_allocated(),
                only_if_fast: false,
            },
            Kind::Other(number) => return Err(Refusal::Unknown(number)),
        };
        let length_bytes = u64::from(descriptor.sectors) * SECTOR_BYTES;
        let offset_bytes = descriptor.first_sector.checked_mul(SECTOR_BYTES);
        let offset_bytes = offset_bytes.ok_or(Refusal::PastEnd)?;
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        let longest = if has_data {
            self.request_bytes_max
        } else {
            u32::MAX
        };
        if length_bytes == 0 {
            return Err(Refusal::Empty);
        }
        if length_bytes > u64::from(longest) {
            return Err(Refusal::TooLong);
        }
        let end_bytes = offset_bytes.checked_add(length_bytes);
        if end_bytes.is_none_or(|end_bytes| end_bytes > self.size_bytes) {
            return Err(Refusal::PastEnd);
        }
        if (offset_bytes | length_bytes) & (u64::from(self.block_bytes) - 1) != 0 {
            return Err(Refusal::Unaligned);
        }
        Ok(Asked {
            operation,
            fua: descriptor.fua() && operation != Operation::Read,
            offset_bytes,
            length_bytes: length_bytes as u32,
        })
    }
}

const FLUSH: Asked = Asked {
    operation: Operation::Flush,
    fua: false,
    offset_bytes: 0,
    length_bytes: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules {
        size_bytes: 1 << 20,
        block_bytes: 4096,
        request_bytes_max: 64 << 10,
    };

    fn descriptor(operation_and_flags: u32, first_sector: u64, sectors: u32) -> Descriptor {
        Descriptor {
            operation_and_flags,
            sectors,
            first_sector,
        }
    }

    #[test]
    fn a_write_keeps_its_place_its_length_and_its_durability() {
        let asked = RULES.judge(&descriptor(1 | 1 << 13, 8, 16)).unwrap();
        let wanted = Asked {
            operation: Operation::Write,
            fua: true,
            offset_bytes: 4096,
            length_bytes: 8192,
        };
        assert_eq!(asked, wanted);
        assert_eq!(asked.success(), 8192);
    }

    #[test]
    fn zeroes_stay_allocated_if_the_kernel_says_so() {
        for (flags, keep_allocated) in [(0, false), (1 << 15, true)] {
            let asked = RULES.judge(&descriptor(5 | flags, 0, 2048)).unwrap();
            let wanted = Operation::WriteZeroes {
                keep_allocated,
                only_if_fast: false,
            };
            assert_eq!((asked.operation, asked.success()), (wanted, 0));
        }
    }

    #[test]
    fn zeroes_are_as_durable_as_the_kernel_asks() {
        for (flags, fua) in [(0, false), (1 << 13, true)] {
            let asked = RULES.judge(&descriptor(5 | flags, 0, 2048)).unwrap();
            assert_eq!(asked.fua, fua);
        }
    }

    /// A flush covers the whole device, and the kernel's description of it may name a place.
    #[test]
    fn a_flush_has_no_range() {
        assert_eq!(RULES.judge(&descriptor(2, 77, 3)), Ok(FLUSH));
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for (request, refusal) in [
            (descriptor(4, 0, 8), Refusal::Unknown(4)),
            (descriptor(1, 0, 0), Refusal::Empty),
            (descriptor(0, 2048, 8), Refusal::PastEnd),
            (descriptor(0, u64::MAX / 256, 8), Refusal::PastEnd),
            (descriptor(0, 1, 8), Refusal::Unaligned),
            (descriptor(0, 8, 9), Refusal::Unaligned),
            (descriptor(0, 0, 136), Refusal::TooLong),
            (descriptor(3, 0, 1 << 23), Refusal::TooLong),
        ] {
            assert_eq!(RULES.judge(&request), Err(refusal), "{request:?}");
            assert!(refusal.answer() < 0 && !refusal.to_string().is_empty());
        }
        // Without data, requests may be longer.
        assert!(RULES.judge(&descriptor(3, 0, 2048)).is_ok());
    }

    #[test]
    fn failures_have_answers_that_the_kernel_tells_apart() {
        assert_eq!(
            failure_answer(Failure::Unrecoverable { offset_bytes: 0 }),
            -5
        );
        assert_eq!(failure_answer(Failure::NotSupported), -95);
        assert_eq!(failure_answer(Failure::ReadOnly), -30);
        assert_eq!(failure_answer(Failure::Misuse), -22);
    }

    proptest! {
        /// Whatever lies in the shared memory, what reaches the engine is inside the device and consists of blocks.
        #[test]
        fn nothing_reaches_the_engine_that_breaks_a_rule(
            operation_and_flags: u32, sectors: u32, first_sector in prop_oneof![0u64..5000, any::<u64>()]
        ) {
            if let Ok(asked) = RULES.judge(&descriptor(operation_and_flags, first_sector, sectors)) {
                let end_bytes = asked.offset_bytes + u64::from(asked.length_bytes);
                prop_assert!(end_bytes <= RULES.size_bytes);
                prop_assert_eq!(asked.offset_bytes % 4096, 0);
                prop_assert_eq!(asked.length_bytes % 4096, 0);
                prop_assert_eq!(asked.length_bytes == 0, asked.operation == Operation::Flush);
                if matches!(asked.operation, Operation::Read | Operation::Write) {
                    prop_assert!(asked.length_bytes <= RULES.request_bytes_max);
                    prop_assert_eq!(asked.success() as u32, asked.length_bytes);
                }
            }
        }
    }
}
