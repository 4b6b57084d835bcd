//! Messages of generic netlink, without I/O: how they are written, and how the kernel's are read.
//!
//! A message is two headers and attributes, and each attribute begins at a multiple of four bytes
//! (`linux/netlink.h`, `linux/genetlink.h`). All numbers are in the byte order of the machine.
//!
//! ```text
//! bytes  0..4   length of the whole message      16     command
//!        4..6   type: the family's number        17     version of the family
//!        6..8   flags                            18..20 zero
//!        8..12  sequence number                  20..   attributes: length (2, with these four bytes),
//!       12..16  sender, which the kernel knows                      type (2), value, zeros up to a multiple of 4
//! ```
//!
//! The kernel answers with a message of the same family, and with one of type 2: an errno, of which 0 says that the
//! command is done.

/// The family that knows the numbers of all families (`GENL_ID_CTRL`).
pub(super) const CONTROLLER: u16 = 16;

const HEADER_BYTES: usize = 16;
const COMMAND_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ALIGNMENT_BYTES: usize = 4;
/// `NLMSG_ERROR`.
const OUTCOME: u16 = 2;
/// The lowest number of a family (`NLMSG_MIN_TYPE`).
const FAMILY_MIN: u16 = 16;
/// `NLM_F_REQUEST` and `NLM_F_ACK`: the outcome is told even if it is good.
const ASK: u16 = 1 | 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// `NLA_TYPE_MASK`.
const TYPE_MASK: u16 = 0x3fff;

/// Attributes that are being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    fn put(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len());
        let length = length.expect("our attributes are far shorter than 64 KiB");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0
            .resize(self.0.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        self
    }

    pub fn u32(self, kind: u16, number: u32) -> Self {
        self.put(kind, &number.to_ne_bytes())
    }

    pub fn u64(self, kind: u16, number: u64) -> Self {
        self.put(kind, &number.to_ne_bytes())
    }

    /// Text with a zero at its end.
    pub fn text(self, kind: u16, text: &str) -> Self {
        self.put(kind, &[text.as_bytes(), &[0]].concat())
    }

    pub fn nested(self, kind: u16, inner: Attributes) -> Self {
        self.put(kind | NESTED, &inner.0)
    }

    /// The whole message: a command to a family.
    pub fn command(self, family: u16, command: u8, sequence: u32) -> Vec<u8> {
        const VERSION: u8 = 1;
        let length = (HEADER_BYTES + COMMAND_HEADER_BYTES + self.0.len()) as u32;
        let mut bytes = Vec::with_capacity(length as usize);
        bytes.extend(length.to_ne_bytes());
        bytes.extend(family.to_ne_bytes());
        bytes.extend(ASK.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend([command, VERSION, 0, 0]);
        bytes.extend(self.0);
        bytes
    }
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// What was asked for.
    Answer(Values<'a>),
    /// The command has been carried out, or failed with this errno.
    Outcome(Result<(), i32>),
}

/// The kernel's bytes are not messages as they are described above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The messages in received bytes that belong to the command with this sequence number.
///
/// # Errors
/// [`Malformed`]: a message is longer than what was received, or too short for its headers.
pub(super) fn messages(mut bytes: &[u8], sequence: u32) -> Result<Vec<Told<'_>>, Malformed> {
    let mut told = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_ne_bytes(field(bytes, 0)?) as usize;
        let message = bytes.get(..length).ok_or(Malformed)?;
        let value = message.get(HEADER_BYTES..).ok_or(Malformed)?;
        if u32::from_ne_bytes(field(message, 8)?) == sequence {
            match u16::from_ne_bytes(field(message, 4)?) {
                OUTCOME => told.push(Told::Outcome(match i32::from_ne_bytes(field(value, 0)?) {
                    0 => Ok(()),
                    errno => Err(errno.wrapping_neg()),
                })),
                FAMILY_MIN.. => {
                    let values = value.get(COMMAND_HEADER_BYTES..).ok_or(Malformed)?;
                    told.push(Told::Answer(Values(values)));
                }
                // Messages without meaning, which every reader has to pass over.
                _ => {}
            }
        }
        let next = length.next_multiple_of(ALIGNMENT_BYTES).min(bytes.len());
        bytes = &bytes[next..];
    }
    Ok(told)
}

/// The attributes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values<'a>(&'a [u8]);

impl Values<'_> {
    /// The value of the first attribute of a type, if it has this length.
    pub fn get<const BYTES: usize>(&self, wanted: u16) -> Option<[u8; BYTES]> {
        let mut rest = self.0;
        while !rest.is_empty() {
            let length = usize::from(u16::from_ne_bytes(field(rest, 0).ok()?));
            let kind = u16::from_ne_bytes(field(rest, 2).ok()?) & TYPE_MASK;
            let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
            if kind == wanted {
                return value.try_into().ok();
            }
            rest = &rest[length.next_multiple_of(ALIGNMENT_BYTES).min(rest.len())..];
        }
        None
    }
}

fn field<const BYTES: usize>(bytes: &[u8], at: usize) -> Result<[u8; BYTES], Malformed> {
    let part = bytes.get(at..at + BYTES).ok_or(Malformed)?;
    part.try_into().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes are those of a little-endian machine.
    fn on_a_little_endian_machine() -> bool {
        cfg!(target_endian = "little")
    }

    #[test]
    fn a_command_lies_where_the_headers_say() {
        if !on_a_little_endian_machine() {
            return;
        }
        let items = Attributes::default().nested(1, Attributes::default().u32(1, 9));
        let bytes = Attributes::default()
            .u64(2, 0x0102_0304_0506_0708)
            .text(10, "ab")
            .nested(7, items)
            .command(28, 3, 0x0a0b_0c0d);
        #[rustfmt::skip]
        assert_eq!(bytes, [
            56, 0, 0, 0,  28, 0,  5, 0,  0x0d, 0x0c, 0x0b, 0x0a,  0, 0, 0, 0,
            3,  1,  0, 0,
            12, 0,  2, 0,  8, 7, 6, 5, 4, 3, 2, 1,
            7, 0,  10, 0,  b'a', b'b', 0, 0,
            16, 0,  7, 0x80,
            12, 0,  1, 0x80,
            8, 0,  1, 0,  9, 0, 0, 0,
        ]);
    }

    /// What a kernel answered to the question for the family `nlctrl`: what it is, and the outcome.
    const OF_THE_KERNEL: &str = "
        8800000010000000080000008c610000 01020000
        0b0002006e6c6374726c0000 0600010010000000 0800030002000000 0800040000000000 0800050000000000
        2c000600 14000100 0800010003000000080002000e000000 14000200 080001000a000000080002000c000000
        1c000700 18000100 0800010010000000 0b0002006e6f746966790000
        24000000020000010800 00008c610000 00000000 20000000100005000800000000000000";

    #[test]
    fn an_answer_of_the_kernel_is_read() {
        if !on_a_little_endian_machine() {
            return;
        }
        let digits: String = OF_THE_KERNEL.split_whitespace().collect();
        let bytes: Vec<u8> = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let told = messages(&bytes, 8).unwrap();
        let [Told::Answer(values), Told::Outcome(Ok(()))] = told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(values.get(1).map(u16::from_ne_bytes), Some(16));
        assert_eq!(values.get(3).map(u32::from_ne_bytes), Some(2));
        assert_eq!(values.get(2), Some(*b"nlctrl\0"));
        assert_eq!(values.get::<4>(1), None, "another length");
        assert_eq!(values.get::<4>(9), None, "absent");
        assert_eq!(messages(&bytes, 9).unwrap(), [], "of another command");
    }

    #[test]
    fn a_refusal_has_its_errno() {
        if !on_a_little_endian_machine() {
            return;
        }
        #[rustfmt::skip]
        let bytes = [
            0x14, 0, 0, 0,  2, 0,  0, 0,  7, 0, 0, 0,  0, 0, 0, 0,
            0xfe, 0xff, 0xff, 0xff,
        ];
        assert_eq!(messages(&bytes, 7), Ok(vec![Told::Outcome(Err(2))]));
        assert_eq!(messages(&bytes[..19], 7), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..96), sequence in 0u32..2) {
            for told in messages(&bytes, sequence).unwrap_or_default() {
                if let Told::Answer(values) = told {
                    let _ = values.get::<4>(1);
                }
            }
        }

        #[test]
        fn values_that_begin_well_are_read_or_refused(
            lengths in prop::collection::vec((0u8..12, any::<u8>()), 0..12),
        ) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|&(length, kind)| [length, 0, kind, 0]).collect();
            let _ = Values(&bytes).get::<4>(1);
        }
    }
}
