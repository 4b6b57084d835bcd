//! Kernels that crash when a ublk device is made.
//!
//! They have a change of 6.19 ("ublk: implement NUMA-aware memory allocation") without the one that it builds on ("ublk: reorder
//! tag_set initialization before queue allocation"). The first device that any program makes ends a thread of the kernel that
//! holds the driver's lock, and only a reboot releases it. So a program can do nothing but leave ublk alone there.
//!
//! Which kernels these are is in the list of kernel bugs of the project go-ublk, and in Ubuntu's bug 2154635.

use std::ops::RangeInclusive;

/// Stable kernels, and what is built from them.
const STABLE: [&str; 2] = ["6.18.4", "6.18.5"];
/// Ubuntu's builds of 6.17.0, by the flavour that ends their names. Other flavours have numbers like `generic`.
const UBUNTU: [(&str, RangeInclusive<u32>); 2] = [("azure", 1014..=1020), ("aws", 1019..=1019)];
const UBUNTU_GENERIC: RangeInclusive<u32> = 24..=40;

/// Whether the kernel of this release (`uname -r`) crashes when a ublk device is made.
#[must_use]
pub fn crashes(release: &str) -> bool {
    STABLE.iter().any(|stable| is_built_from(release, stable)) || is_of_ubuntu(release)
}

/// Whether `release` is `stable`, perhaps with what a distribution adds. 6.18.44 is not built from 6.18.4.
fn is_built_from(release: &str, stable: &str) -> bool {
    let rest = release.strip_prefix(stable);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// Names like `6.17.0-35-generic`.
fn is_of_ubuntu(release: &str) -> bool {
    let Some(rest) = release.strip_prefix("6.17.0-") else {
        return false;
    };
    let Some((number, flavour)) = rest.split_once('-') else {
        return false;
    };
    let Ok(number) = number.parse() else {
        return false;
    };
    let cloud = UBUNTU.iter().find(|(name, _)| *name == flavour);
    cloud
        .map_or(&UBUNTU_GENERIC, |(_, builds)| builds)
        .contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_names() {
        for release in [
            "6.18.4",
            "6.18.5-arch1-1",
            "6.17.0-35-generic",
            "6.17.0-40-generic",
            "6.17.0-1015-azure",
            "6.17.0-1019-aws",
        ] {
            assert!(crashes(release), "{release}");
        }
        for release in [
            "6.18.3",
            "6.18.6",
            "6.18.44-custom",
            "6.17.0-14-generic",
            "6.17.0-41-generic",
            "6.17.0-1021-azure",
            "6.17.0-1020-aws",
            "6.17.0-35",
            "6.17.0-rc4-generic",
            "6.12.9-amd64",
            "6.1.0-13-amd64",
            "",
        ] {
            assert!(!crashes(release), "{release}");
        }
    }
}
