//! Identities of containers and volumes, equal to those that mdadm derives.
//!
//! The format stores no UUID. One is derived by SHA-1 from the fixed signature, the container's
//! family number and, for a volume, its index and name. Hence renaming a volume, or deleting one
//! before it, changes its UUID.

use super::attributes::SIGNATURE_PREFIX;
use super::record::Mpb;
use core::fmt;
use sha1::{Digest, Sha1};

/// A derived identity; prints as mdadm prints it, four 32-bit words in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Identity of the container that `mpb` describes.
    #[must_use]
    pub fn of_container(mpb: &Mpb) -> Self {
        Self::of_family(mpb.container_family())
    }

    /// Identity of the container with this family number ([`Mpb::container_family`]), which the header of a torn
    /// record still states.
    #[must_use]
    pub fn of_family(container_family: u32) -> Self {
        Self::finish(Self::begin(container_family))
    }

    /// Identity of volume number `index` of `mpb`, or `None` if there is no such volume.
    #[must_use]
    pub fn of_volume(mpb: &Mpb, index: usize) -> Option<Self> {
        let volume = mpb.volumes.get(index)?;
        let mut hash = Self::begin(mpb.container_family());
        hash.update(u32::try_from(index).ok()?.to_le_bytes());
        hash.update(volume.name.0);
        Some(Self::finish(hash))
    }

    /// The identity that is printed like this; `None` if none is.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let mut words = text.split(':');
        for into in bytes.chunks_exact_mut(4) {
            let word = words.next().filter(|word| word.len() == 8)?;
            into.copy_from_slice(&u32::from_str_radix(word, 16).ok()?.to_le_bytes());
        }
        words.next().is_none().then_some(Self(bytes))
    }

    fn begin(container_family: u32) -> Sha1 {
        let mut hash = Sha1::new();
        hash.update(SIGNATURE_PREFIX);
        hash.update(container_family.to_le_bytes());
        hash
    }

    fn finish(hash: Sha1) -> Self {
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, word) in self.0.chunks_exact(4).enumerate() {
            let separator = if position == 0 { "" } else { ":" };
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            write!(out, "{separator}{value:08x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Uuid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_is_printed_is_read() {
        let uuid = Uuid(std::array::from_fn(|at| at as u8 * 17));
        assert_eq!(Uuid::parse(&uuid.to_string()), Some(uuid));
        for other in [
            "",
            "00000000:00000000:00000000",
            "00000000:00000000:00000000:0000000g",
            "00000000:00000000:00000000:000000000",
            "00000000:00000000:00000000:00000000:",
        ] {
            assert_eq!(Uuid::parse(other), None, "{other}");
        }
    }
}
