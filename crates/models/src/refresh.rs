//! A medium that loses charge or order while it has no power reads itself and writes itself again after power-on: for some hours a
//! share of its time is gone.

use crate::profile::Profile;

/// Nanoseconds of an hour.
const HOUR_NS: u64 = 3_600_000_000_000;

/// The background work of a drive after power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refresh {
    /// When it ends.
    until_ns: u64,
    /// The share of the medium's time that it takes meanwhile, in thousandths.
    per_mille: u64,
}

impl Refresh {
    /// The work of a drive with this profile that was powered on at `now_ns`.
    pub(crate) fn after_power_on(profile: &Profile, now_ns: u64) -> Refresh {
        Refresh {
            until_ns: now_ns.saturating_add(profile.refresh_per_mille_hours * HOUR_NS / 1000),
            per_mille: profile.refresh_per_mille,
        }
    }

    /// The time that the medium takes for work of `service_ns` that begins at `now_ns`.
    pub(crate) fn stretched_ns(self, service_ns: u64, now_ns: u64) -> u64 {
        if now_ns >= self.until_ns || self.per_mille == 0 {
            return service_ns;
        }
        service_ns * 1000 / (1000 - self.per_mille)
    }
}
