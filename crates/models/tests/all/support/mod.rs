//! Helpers of the tests, beside the loads of [`models::fit::loads`].

pub mod claims;

use models::drive::{Drive, State};
pub use models::fit::loads::{Arrivals, Load, LoadResult, closed_loop, open_loop};
use models::profile::{Family, Profile};
use std::path::Path;

/// The text of the P4510's profile in the repository.
pub fn profile_text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/drives/p4510.toml");
    std::fs::read_to_string(path).expect("the profile is part of the repository")
}

/// The P4510's profile.
pub fn family() -> Family {
    toml::from_str(&profile_text()).unwrap_or_else(|error| panic!("{error}"))
}

/// A drive at its own port.
pub fn drive_of(profile: &Profile, state: State) -> Drive {
    Drive::new(profile, state, profile.port, 1, 0)
}
