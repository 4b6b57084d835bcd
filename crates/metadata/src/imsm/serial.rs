//! Drive serial numbers as the format stores them: at most 16 bytes, without spaces.
//!
//! A record identifies its drives only by these serials, so two drives whose serials agree in the last
//! 16 characters cannot be told apart and must not be in the same container. When a drive is marked
//! failed, its serial in the table gets a suffix, so that the drive no longer matches when it
//! comes back.

use alloc::string::String;
use core::fmt;

/// Bytes of a serial in the disk table.
pub const SERIAL_BYTES: usize = 16;

/// The end of a failed drive's serial in the table.
const FAILED_SUFFIX: &[u8; 2] = b":0";

/// A serial as stored in the disk table: it ends at its first NUL, or at the end of the field. The bytes after the NUL
/// have no meaning: mdadm pads with NULs, but when it writes the serial of a failed or missing drive, it leaves there
/// what was in its memory. They are preserved when a record is written again, and otherwise ignored.
#[derive(Clone, Copy, Default)]
pub struct Serial(pub [u8; SERIAL_BYTES]);

impl Serial {
    /// The stored form of the serial that a drive reports: that of an NVMe controller, or page 0x80 of
    /// a SCSI or ATA drive.
    ///
    /// Every byte up to 0x20 is dropped (all spaces, not only padding), `:` becomes `;` because it
    /// starts the failed suffix, and the last 16 bytes are kept.
    #[must_use]
    pub fn from_drive(reported: &[u8]) -> Self {
        let mut stored = [0; SERIAL_BYTES];
        let mut length = 0;
        for &byte in reported.iter().filter(|&&byte| byte > 0x20) {
            if length == SERIAL_BYTES {
                stored.copy_within(1.., 0);
                length -= 1;
            }
            stored[length] = if byte == b':' { b';' } else { byte };
            length += 1;
        }
        Self(stored)
    }

    /// The bytes before its end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0);
        &self.0[..end.unwrap_or(SERIAL_BYTES)]
    }

    /// Whether there is no serial at all; such a drive cannot be a member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The serial under which the table lists this drive once it has failed: with `:0` appended;
    /// if that would make it longer than 15 characters, only the last 15 are kept.
    #[must_use]
    pub fn failed(&self) -> Self {
        let own = self.bytes();
        let mut suffixed = [0; SERIAL_BYTES + 2];
        suffixed[..own.len()].copy_from_slice(own);
        suffixed[own.len()..own.len() + 2].copy_from_slice(FAILED_SUFFIX);
        let length = own.len() + 2;
        let kept = length.min(SERIAL_BYTES - 1);
        let mut stored = [0; SERIAL_BYTES];
        stored[..kept].copy_from_slice(&suffixed[length - kept..length]);
        Self(stored)
    }

    /// The drive's own serial, as far as it was kept, from a serial that the table lists as [failed](Serial::failed);
    /// for people, who compare it with the label on the drive.
    #[must_use]
    pub fn without_failed_mark(&self) -> Self {
        let own = self.bytes().strip_suffix(FAILED_SUFFIX);
        let own = own.unwrap_or(self.bytes());
        let mut stored = [0; SERIAL_BYTES];
        stored[..own.len()].copy_from_slice(own);
        Self(stored)
    }

    /// The serial of a drive that was missing at an assembly too: without its first character.
    #[must_use]
    pub fn without_first(&self) -> Self {
        let mut stored = [0; SERIAL_BYTES];
        let rest = self.bytes().get(1..).unwrap_or_default();
        stored[..rest.len()].copy_from_slice(rest);
        Self(stored)
    }

    /// Whether `table_serial` is this drive's serial in one of the forms that a failed drive's takes.
    #[must_use]
    pub fn is_listed_as_failed_by(&self, table_serial: &Self) -> bool {
        let failed = self.failed();
        !self.is_empty() && (*table_serial == failed || *table_serial == failed.without_first())
    }
}

impl PartialEq for Serial {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Serial {}

impl fmt::Display for Serial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&printable(self.bytes()))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Serial({:?})", printable(self.bytes()))
    }
}

/// `padded` without its NUL padding, each byte that is not printable ASCII shown as `?`.
pub(super) fn printable(padded: &[u8]) -> String {
    let end = padded
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    padded[..end]
        .iter()
        .map(|&byte| {
            if (0x20..0x7F).contains(&byte) {
                char::from(byte)
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn serial(text: &str) -> Serial {
        Serial::from_drive(text.as_bytes())
    }

    #[test]
    fn keeps_the_last_sixteen_and_replaces_colons() {
        assert_eq!(
            serial("PHN1234:56789ABCDEF0").to_string(),
            "234;56789ABCDEF0"
        );
    }

    #[test]
    fn drops_every_space_not_only_padding() {
        assert_eq!(serial("  S2 46\tN X\0   ").to_string(), "S246NX");
        assert!(serial("   ").is_empty());
    }

    #[test]
    fn failed_form_appends_a_suffix() {
        let failed = serial("IMSMLAB0001").failed();
        assert_eq!(failed.to_string(), "IMSMLAB0001:0");
        assert_eq!(failed.without_failed_mark().to_string(), "IMSMLAB0001");
        assert_eq!(serial("A1").without_failed_mark().to_string(), "A1");
        // 13 characters still fit with their terminator, 14 do not.
        assert_eq!(
            serial("ABCDEFGHIJKLM").failed().to_string(),
            "ABCDEFGHIJKLM:0"
        );
        assert_eq!(
            serial("ABCDEFGHIJKLMN").failed().to_string(),
            "BCDEFGHIJKLMN:0"
        );
        assert_eq!(
            serial("ABCDEFGHIJKLMNOP").failed().to_string(),
            "DEFGHIJKLMNOP:0"
        );
    }

    /// Behind the end there may be old bytes: mdadm leaves them there when it writes the form of a failed or missing
    /// drive over a longer serial.
    #[test]
    fn a_serial_ends_at_its_first_nul() {
        let own = serial("IMSMLAB0001");
        let dirty = |clean: Serial| {
            let mut stored = clean.0;
            let end = clean.bytes().len();
            stored[end + 1..].copy_from_slice(&b"\xF0\x7F\x1B[31mXYZABCDEF"[..15 - end]);
            Serial(stored)
        };
        for clean in [own, own.failed(), own.failed().without_first()] {
            assert_ne!(dirty(clean).0, clean.0);
            assert_eq!(dirty(clean).to_string(), clean.to_string());
            assert_eq!(dirty(clean).bytes(), clean.bytes());
            assert_eq!(dirty(clean), clean);
        }
        assert!(own.is_listed_as_failed_by(&dirty(own.failed())));
        assert_eq!(dirty(own).failed(), own.failed());
        assert!(Serial(*b"\0BCDEFGHIJKLMNOP").is_empty());
        assert_eq!(
            Serial(*b"A\x1B[31mB\xFF\0\0\0\0\0\0\0\0").to_string(),
            "A?[31mB?"
        );
    }

    #[test]
    fn failed_and_missing_forms_are_recognised() {
        let own = serial("IMSMLAB0001");
        assert!(own.is_listed_as_failed_by(&own.failed()));
        assert!(own.is_listed_as_failed_by(&own.failed().without_first()));
        assert_eq!(own.failed().without_first().to_string(), "MSMLAB0001:0");
        assert!(!own.is_listed_as_failed_by(&own));
        assert!(!serial("IMSMLAB0002").is_listed_as_failed_by(&own.failed()));
    }
}
