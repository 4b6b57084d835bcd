//! What a server offers: named exports with size, block sizes and abilities.
//!
//! An [`ExportList`] is checked once when it is built, so that the code after it (the answers to options, the rules for
//! requests) can rely on block sizes that are powers of two and on names that fit the protocol. Sessions share a list;
//! when the volumes change, new sessions get a new list.

use super::wire::{self, MAX_MINIMUM_BLOCK_BYTES, MAX_PAYLOAD_BYTES, MAX_STRING_BYTES};

/// One block device that clients can choose by name.
///
/// The protocol's flag for rotating media is never set: arrays here are made of SSDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name by which clients request it; not empty, at most 4096 bytes of UTF-8 without NUL.
    pub name: String,
    /// One line for people, possibly empty; the same limits.
    pub description: String,
    /// Size in bytes, a multiple of the minimum block size.
    pub size_bytes: u64,
    /// Alignment and length of requests.
    pub block_sizes: BlockSizes,
    /// What clients may request.
    pub abilities: Abilities,
}

/// Sizes that requests must or should respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of this power of two, 1 to 65536 bytes.
    pub minimum_bytes: u32,
    /// Requests of at least this power of two are efficient; at least 512 bytes and the minimum.
    pub preferred_bytes: u32,
    /// Longest read or write; at least the preferred size, at most 32 MiB.
    pub maximum_payload_bytes: u32,
}

/// What an export can do beyond reading. A read-only export does not offer trimming and zeroing, whatever is set here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Writes of any kind are answered with "not permitted".
    pub read_only: bool,
    /// Flush: make completed writes durable.
    pub flush: bool,
    /// FUA: a single write that is durable when answered.
    pub fua: bool,
    /// Discard ranges.
    pub trim: bool,
    /// Zero ranges without payload.
    pub write_zeroes: bool,
    /// Zero quickly, or say at once that it would be slow. Needs `write_zeroes`.
    pub fast_zero: bool,
    /// A flush on one connection covers completed writes of all connections.
    pub multi_conn: bool,
}

/// Why an [`ExportList`] cannot be built. Each sentence names the export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The name is empty, too long, or holds a NUL character.
    #[error("export name {name:?} must have 1 to {MAX_STRING_BYTES} bytes and no NUL character")]
    Name {
        /// The export's name.
        name: String,
    },
    /// Two exports share a name.
    #[error("two exports are named {name:?}; rename one of them")]
    Duplicate {
        /// The shared name.
        name: String,
    },
    /// The description is too long or holds a NUL character.
    #[error(
        "the description of export {name:?} must have at most {MAX_STRING_BYTES} bytes and no NUL"
    )]
    Description {
        /// The export's name.
        name: String,
    },
    /// The size is not a multiple of the minimum block, or more than clients can address.
    #[error(
        "export {name:?} has {size_bytes} bytes; the size must be a multiple of the minimum block \
         of {minimum_bytes} bytes and fit in 63 bits"
    )]
    Size {
        /// The export's name.
        name: String,
        /// The size.
        size_bytes: u64,
        /// The minimum block size.
        minimum_bytes: u32,
    },
    /// The three block sizes do not fit the protocol's rules.
    #[error(
        "export {name:?} has block sizes {sizes:?}; minimum and preferred must be powers of two, \
         minimum at most 65536, preferred at least 512 and the minimum, the maximum payload at \
         least the preferred size and at most 33554432"
    )]
    BlockSizes {
        /// The export's name.
        name: String,
        /// The sizes.
        sizes: BlockSizes,
    },
    /// Fast zeroing without zeroing.
    #[error("export {name:?} offers fast zeroing without zeroing; enable write_zeroes as well")]
    FastZero {
        /// The export's name.
        name: String,
    },
}

impl Export {
    fn check(&self) -> Result<(), ExportError> {
        let name = || self.name.clone();
        if self.name.is_empty() || !is_protocol_string(&self.name) {
            return Err(ExportError::Name { name: name() });
        }
        if !is_protocol_string(&self.description) {
            return Err(ExportError::Description { name: name() });
        }
        let sizes = self.block_sizes;
        let minimum_bytes = sizes.minimum_bytes;
        let sizes_fit = minimum_bytes.is_power_of_two()
            && minimum_bytes <= MAX_MINIMUM_BLOCK_BYTES
            && sizes.preferred_bytes.is_power_of_two()
            && sizes.preferred_bytes >= minimum_bytes.max(512)
            && sizes.maximum_payload_bytes >= sizes.preferred_bytes
            && sizes.maximum_payload_bytes <= MAX_PAYLOAD_BYTES;
        if !sizes_fit {
            return Err(ExportError::BlockSizes {
                name: name(),
                sizes,
            });
        }
        let size_bytes = self.size_bytes;
        if !size_bytes.is_multiple_of(u64::from(minimum_bytes)) || size_bytes > i64::MAX as u64 {
            return Err(ExportError::Size {
                name: name(),
                size_bytes,
                minimum_bytes,
            });
        }
        if self.abilities.fast_zero && !self.abilities.write_zeroes {
            return Err(ExportError::FastZero { name: name() });
        }
        Ok(())
    }

    /// The transmission flags that tell a client what it may send.
    pub(super) fn transmission_flags(&self, structured_replies: bool) -> u16 {
        let can = &self.abilities;
        let writable = !can.read_only;
        let flags = [
            (can.read_only, wire::FLAG_READ_ONLY),
            (can.flush, wire::FLAG_SEND_FLUSH),
            (can.fua, wire::FLAG_SEND_FUA),
            (can.trim && writable, wire::FLAG_SEND_TRIM),
            (can.write_zeroes && writable, wire::FLAG_SEND_WRITE_ZEROES),
            (can.fast_zero && writable, wire::FLAG_SEND_FAST_ZERO),
            // Every read is answered by one chunk, so "don't fragment" costs nothing.
            (structured_replies, wire::FLAG_SEND_DF),
            (can.multi_conn, wire::FLAG_CAN_MULTI_CONN),
        ];
        flags.iter().fold(
            wire::FLAG_HAS_FLAGS,
            |sum, (set, flag)| if *set { sum | flag } else { sum },
        )
    }
}

fn is_protocol_string(text: &str) -> bool {
    text.len() <= MAX_STRING_BYTES && !text.contains('\0')
}

/// The checked exports of a server, in the order in which clients see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportList {
    exports: Vec<Export>,
}

impl ExportList {
    /// Checks every export. A list may be empty; then each client learns that its export is unknown.
    ///
    /// # Errors
    /// The first export that breaks a rule of the protocol, or two exports of the same name.
    pub fn new(exports: Vec<Export>) -> Result<Self, ExportError> {
        for (index, export) in exports.iter().enumerate() {
            export.check()?;
            if exports[..index]
                .iter()
                .any(|earlier| earlier.name == export.name)
            {
                return Err(ExportError::Duplicate {
                    name: export.name.clone(),
                });
            }
        }
        Ok(Self { exports })
    }

    /// Whether both lists have the same exports, apart from their abilities.
    pub(super) fn differs_in_abilities_at_most(&self, other: &ExportList) -> bool {
        let pairs = self.exports.iter().zip(&other.exports);
        let alike = |(one, other): (&Export, &Export)| {
            let abilities = one.abilities;
            *one == Export {
                abilities,
                ..other.clone()
            }
        };
        self.exports.len() == other.exports.len() && pairs.into_iter().all(alike)
    }

    /// All exports.
    pub fn as_slice(&self) -> &[Export] {
        &self.exports
    }

    /// Position of the export that a client means by `name`; the empty name means the first.
    pub fn find(&self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return (!self.exports.is_empty()).then_some(0);
        }
        self.exports.iter().position(|export| export.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> Export {
        Export {
            name: name.to_owned(),
            description: String::new(),
            size_bytes: 1 << 20,
            block_sizes: BlockSizes {
                minimum_bytes: 512,
                preferred_bytes: 4096,
                maximum_payload_bytes: MAX_PAYLOAD_BYTES,
            },
            abilities: Abilities::default(),
        }
    }

    fn error_of(change: impl FnOnce(&mut Export)) -> String {
        let mut export = export("vol0");
        change(&mut export);
        ExportList::new(vec![export]).unwrap_err().to_string()
    }

    #[test]
    fn the_empty_name_means_the_first() {
        let list = ExportList::new(vec![export("a"), export("b")]).unwrap();
        assert_eq!(list.find(""), Some(0));
        assert_eq!(list.find("b"), Some(1));
        assert_eq!(list.find("c"), None);
        assert_eq!(ExportList::default().find(""), None);
    }

    #[test]
    fn broken_exports_are_named() {
        assert!(error_of(|e| e.name.clear()).contains("export name \"\""));
        assert!(error_of(|e| e.name = "a\0b".into()).contains("NUL"));
        assert!(error_of(|e| e.description = "x".repeat(4097)).contains("description of"));
        assert!(error_of(|e| e.size_bytes += 1).contains("1048577 bytes"));
        assert!(error_of(|e| e.size_bytes = 1 << 63).contains("63 bits"));
        assert!(error_of(|e| e.block_sizes.minimum_bytes = 0).contains("block sizes"));
        assert!(error_of(|e| e.block_sizes.minimum_bytes = 768).contains("block sizes"));
        assert!(error_of(|e| e.block_sizes.minimum_bytes = 1 << 17).contains("block sizes"));
        assert!(error_of(|e| e.block_sizes.preferred_bytes = 256).contains("block sizes"));
        assert!(error_of(|e| e.block_sizes.maximum_payload_bytes = 2048).contains("block sizes"));
        assert!(error_of(|e| e.block_sizes.maximum_payload_bytes += 1).contains("block sizes"));
        assert!(error_of(|e| e.abilities.fast_zero = true).contains("fast zeroing"));
        let twice = ExportList::new(vec![export("a"), export("a")]).unwrap_err();
        assert_eq!(twice, ExportError::Duplicate { name: "a".into() });
    }

    /// A client that is offered FUA, flushes or several connections by an export without them loses data.
    #[test]
    fn each_ability_has_its_own_flag() {
        let none = Abilities::default;
        for (abilities, flag) in [
            (
                Abilities {
                    flush: true,
                    ..none()
                },
                1 << 2,
            ),
            (
                Abilities {
                    fua: true,
                    ..none()
                },
                1 << 3,
            ),
            (
                Abilities {
                    trim: true,
                    ..none()
                },
                1 << 5,
            ),
            (
                Abilities {
                    write_zeroes: true,
                    ..none()
                },
                1 << 6,
            ),
            (
                Abilities {
                    multi_conn: true,
                    ..none()
                },
                1 << 8,
            ),
            (
                Abilities {
                    fast_zero: true,
                    ..none()
                },
                1 << 11,
            ),
            (
                Abilities {
                    read_only: true,
                    ..none()
                },
                1 << 1,
            ),
        ] {
            let mut export = export("a");
            export.abilities = abilities;
            assert_eq!(export.transmission_flags(false), 1 | flag, "{abilities:?}");
        }
    }

    #[test]
    fn flags_follow_the_abilities() {
        let mut export = export("a");
        assert_eq!(export.transmission_flags(false), wire::FLAG_HAS_FLAGS);
        assert_eq!(
            export.transmission_flags(true),
            wire::FLAG_HAS_FLAGS | wire::FLAG_SEND_DF
        );
        export.abilities = Abilities {
            read_only: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
        };
        // Bits 0, 2, 3, 5, 6, 8 and 11.
        assert_eq!(export.transmission_flags(false), 0b1001_0110_1101);
        export.abilities.read_only = true;
        // The three commands that change data without a payload are gone. Left are bits 0, 1, 2, 3 and 8.
        assert_eq!(export.transmission_flags(false), 0b0001_0000_1111);
    }
}
