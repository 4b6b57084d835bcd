//! The health of a drive in the status, as the drive itself reports it.

use drives::nvme::{Health, Warning};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use words::and;

/// The drive reports no warning.
pub const GOOD: &str = "good";
/// The drive reports a warning, and is not about to fail.
pub const WARNING: &str = "warning";
/// The drive reports that it is about to fail.
pub const FAILING: &str = "failing";
/// It is not known how the drive is.
pub const NOT_KNOWN: &str = "not known";

/// What a drive reports about its health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriveHealth {
    /// `good`: it reports no warning. `warning`: it reports one. `failing`: it reports that it has become unreliable, cannot be
    /// written any more or has too little spare capacity. `not known`: it does not say.
    pub state: String,
    /// Why its health is not known; absent otherwise, and until it was first asked.
    #[serde(default)]
    pub not_known: Option<String>,
    /// Whether it might report its health: false for files and memory, and while that is not known.
    #[serde(default)]
    pub may_report: bool,
    /// Its newest health log, which is old while the health is not known.
    #[serde(default)]
    pub log: Option<HealthLog>,
    /// What that log warns of: `spare-low`, `hot`, `too-hot`, `unreliable`, `read-only`, `backup-failed`, `worn-out` or
    /// `media-errors`.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The numbers of a health log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthLog {
    /// When the drive sent it, seconds since 1970.
    pub read_s: u64,
    /// Temperature in degrees Celsius.
    pub celsius: i32,
    /// Rated life used, percent; may exceed 100.
    pub used_percent: u8,
    /// Spare capacity left, percent of the original.
    pub available_spare_percent: u8,
    /// The drive warns when the spare capacity is below this.
    pub spare_threshold_percent: u8,
    /// Errors that it could not correct since it was made.
    pub media_errors: u64,
}

impl Default for DriveHealth {
    fn default() -> DriveHealth {
        DriveHealth {
            state: NOT_KNOWN.to_owned(),
            not_known: None,
            may_report: false,
            log: None,
            warnings: Vec::new(),
        }
    }
}

impl HealthLog {
    /// The numbers of `health`, which was read at `read_s`.
    #[must_use]
    pub fn of(health: &Health, read_s: u64) -> HealthLog {
        HealthLog {
            read_s,
            celsius: health.celsius,
            used_percent: health.used_percent,
            available_spare_percent: health.available_spare_percent,
            spare_threshold_percent: health.spare_threshold_percent,
            media_errors: u64::try_from(health.media_errors).unwrap_or(u64::MAX),
        }
    }
}

impl DriveHealth {
    /// What the drive warns of, each as the end of the sentence "it reports that …".
    #[must_use]
    pub fn reported(&self) -> Vec<&'static str> {
        self.reported_if(|_| true)
    }

    /// Why the drive is about to fail, as the end of the sentence "it reports that …"; `None` if it is not, as far as is known.
    #[must_use]
    pub fn failing(&self) -> Option<String> {
        let reported = self.reported_if(Warning::means_failing);
        (!reported.is_empty()).then(|| and(&reported))
    }

    /// Whether the drive reports that it cannot be written any more.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        !self
            .reported_if(|warning| warning == Warning::ReadOnly)
            .is_empty()
    }

    fn reported_if(&self, is_wanted: impl Fn(Warning) -> bool) -> Vec<&'static str> {
        let reported = self.warned().into_iter().filter(|one| is_wanted(*one));
        reported.map(Warning::words).collect()
    }

    fn warned(&self) -> Vec<Warning> {
        let is_reported = |warning: &Warning| {
            let mut names = self.warnings.iter();
            names.any(|name| name == warning.name())
        };
        Warning::ALL.into_iter().filter(is_reported).collect()
    }

    /// What the drive warns of now; `None` if its health is not known.
    #[must_use]
    pub fn known_warnings(&self) -> Option<Vec<Warning>> {
        (self.state != NOT_KNOWN).then(|| self.warned())
    }
}
