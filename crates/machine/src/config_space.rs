//! What a PCI device's configuration space says, beyond what the kernel shows in files of its own.
//!
//! The kernel gives everybody the first 64 bytes, and only root the rest, where the PCI Express capability is. Offsets and
//! bits are those of the PCI Express Base Specification 4.0, section 7.5.3.

use super::files::Files;

/// The PCI Express capability of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Express {
    /// The most payload of a packet that the device sends.
    pub payload_bytes: u32,
    /// Retimers on its link, as far as devices tell: since generation 4, and up to 2.
    pub retimers: u8,
}

/// Where the list of capabilities begins.
const FIRST_CAPABILITY: usize = 0x34;
/// PCI Express.
const EXPRESS: u8 = 0x10;
/// More capabilities than this do not fit into 256 bytes, so a longer list is a circle.
const MOST_CAPABILITIES: usize = 48;

impl Express {
    /// The capability of the PCI device in `folder`; `None` without it, or if not all of the space can be read.
    #[must_use]
    pub fn read(files: &Files, folder: &str) -> Option<Express> {
        Express::of(&files.bytes(&format!("{folder}/config"))?)
    }

    fn of(space: &[u8]) -> Option<Express> {
        let word = |at: usize| Some(u16::from_le_bytes([*space.get(at)?, *space.get(at + 1)?]));
        let mut at = usize::from(*space.get(FIRST_CAPABILITY)?);
        for _ in 0..MOST_CAPABILITIES {
            if at < 0x40 {
                return None;
            }
            if *space.get(at)? == EXPRESS {
                break;
            }
            at = usize::from(*space.get(at + 1)?);
        }
        if *space.get(at)? != EXPRESS {
            return None;
        }
        // Device Control, bits 5 to 7; Link Status 2, bits 6 and 7. Version 1 of the capability ends before the latter.
        let control = word(at + 0x08)?;
        let version = word(at + 0x02)? & 0xf;
        let status = if version >= 2 { word(at + 0x32)? } else { 0 };
        Some(Express {
            payload_bytes: 128 << ((control >> 5) & 0x7).min(5),
            retimers: match (status >> 6) & 0x3 {
                0 => 0,
                1 => 1,
                _ => 2,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space of 256 bytes with a power capability that leads to a PCI Express one of this version.
    fn space(version: u8, control: u16, status: u16) -> Vec<u8> {
        let mut space = vec![0; 256];
        space[FIRST_CAPABILITY] = 0x40;
        space[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        space[0x60..0x64].copy_from_slice(&[EXPRESS, 0, version, 0]);
        space[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        space[0x92..0x94].copy_from_slice(&status.to_le_bytes());
        space
    }

    #[test]
    fn payload_and_retimers_are_read() {
        let said = |payload_bytes, retimers| {
            Some(Express {
                payload_bytes,
                retimers,
            })
        };
        assert_eq!(Express::of(&space(2, 0x0020, 0x0040)), said(256, 1));
        assert_eq!(Express::of(&space(2, 0x0000, 0x00c0)), said(128, 2));
        assert_eq!(Express::of(&space(2, 0x0040, 0x001f)), said(512, 0));
        // Version 1 has no second status: what is there belongs to another capability.
        assert_eq!(Express::of(&space(1, 0x0020, 0x0040)), said(256, 0));
    }

    #[test]
    fn what_is_cut_off_or_goes_in_a_circle_says_nothing() {
        let whole = space(2, 0x0020, 0x0040);
        assert_eq!(Express::of(&whole[..64]), None, "what a user may read");
        assert_eq!(Express::of(&[]), None);
        let mut circle = whole.clone();
        circle[0x41] = 0x40;
        assert_eq!(Express::of(&circle), None);
        let mut without = whole;
        without[0x41] = 0;
        assert_eq!(Express::of(&without), None);
    }
}
