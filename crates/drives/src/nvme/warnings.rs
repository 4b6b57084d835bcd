//! Judges what a drive reports about its health: which of it is a warning.
//!
//! `doctor` and the serving process share these rules. [`judge`] depends on its arguments alone. Positions of bits and
//! fields are those of the NVM Express Base Specification 2.0, figure 207 (health log) and figure 275 (temperatures).

use super::{Controller, Health};

/// Something about a drive that its operator should know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Warning {
    /// Critical warning bit 0, or Available Spare below Available Spare Threshold.
    SpareLow,
    /// Critical warning bit 1, or at least WCTEMP.
    Hot,
    /// At least CCTEMP.
    TooHot,
    /// Critical warning bit 2.
    Unreliable,
    /// Critical warning bit 3.
    ReadOnly,
    /// Critical warning bit 4.
    BackupFailed,
    /// Percentage Used is 100 or more.
    WornOut,
    /// Media and Data Integrity Errors has grown.
    MediaErrors,
}

impl Warning {
    /// All, in the order in which they are told.
    pub const ALL: [Warning; 8] = [
        Warning::SpareLow,
        Warning::Hot,
        Warning::TooHot,
        Warning::Unreliable,
        Warning::ReadOnly,
        Warning::BackupFailed,
        Warning::WornOut,
        Warning::MediaErrors,
    ];

    /// A word for programs, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Warning::SpareLow => "spare-low",
            Warning::Hot => "hot",
            Warning::TooHot => "too-hot",
            Warning::Unreliable => "unreliable",
            Warning::ReadOnly => "read-only",
            Warning::BackupFailed => "backup-failed",
            Warning::WornOut => "worn-out",
            Warning::MediaErrors => "media-errors",
        }
    }

    /// The end of the sentence "it reports that …".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Warning::SpareLow => "its spare capacity is below its threshold",
            Warning::Hot => "its temperature is out of bounds",
            Warning::TooHot => "it is so hot that it may stop or lose data",
            Warning::Unreliable => "it has become unreliable",
            Warning::ReadOnly => "it cannot be written any more",
            Warning::BackupFailed => "its protection against power loss has failed",
            Warning::WornOut => "it has reached the end of its rated life",
            Warning::MediaErrors => "it has met more errors that it could not correct",
        }
    }

    /// Whether the drive is about to fail, so that its data should be copied while it can still be read. A hot drive is
    /// none of these, because it recovers, nor is a worn one, because drives often work long past their rated life.
    #[must_use]
    pub fn means_failing(self) -> bool {
        matches!(
            self,
            Warning::SpareLow | Warning::Unreliable | Warning::ReadOnly
        )
    }
}

/// The temperatures at which a drive wants to be warned of; `None` where it reports none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// WCTEMP in degrees Celsius.
    pub warning_celsius: Option<i32>,
    /// CCTEMP in degrees Celsius.
    pub critical_celsius: Option<i32>,
}

impl Limits {
    /// The limits that a controller reports.
    #[must_use]
    pub fn of(controller: &Controller) -> Limits {
        Limits {
            warning_celsius: controller.warning_celsius,
            critical_celsius: controller.critical_celsius,
        }
    }
}

/// The warnings that follow from a health log, in the order of [`Warning::ALL`]; `media_errors_before` is the number that
/// does not count as growth. Bit 5 of the critical warning is about a region of memory that arrays do not use, and bits 6 and
/// 7 are reserved, so they are no warnings.
#[must_use]
pub fn judge(health: &Health, limits: Limits, media_errors_before: u128) -> Vec<Warning> {
    let has = |warning: &Warning| {
        let bit = |number: u8| health.critical_warning & 1 << number != 0;
        let reaches = |limit: Option<i32>| limit.is_some_and(|limit| health.celsius >= limit);
        match warning {
            Warning::SpareLow => {
                bit(0) || health.available_spare_percent < health.spare_threshold_percent
            }
            Warning::Hot => bit(1) || reaches(limits.warning_celsius),
            Warning::TooHot => reaches(limits.critical_celsius),
            Warning::Unreliable => bit(2),
            Warning::ReadOnly => bit(3),
            Warning::BackupFailed => bit(4),
            Warning::WornOut => health.used_percent >= 100,
            Warning::MediaErrors => health.media_errors > media_errors_before,
        }
    };
    Warning::ALL.into_iter().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::super::HEALTH_BYTES;
    use super::*;

    /// The fields of a health log that are judged. Each vector is written out as the 512 bytes that a drive sends.
    #[derive(Clone, Copy)]
    struct Log {
        critical_warning: u8,
        /// Kelvin.
        composite_temperature: u16,
        available_spare: u8,
        available_spare_threshold: u8,
        percentage_used: u8,
        media_errors: u128,
    }

    const HEALTHY: Log = Log {
        critical_warning: 0,
        composite_temperature: 311,
        available_spare: 98,
        available_spare_threshold: 10,
        percentage_used: 3,
        media_errors: 0,
    };

    impl Log {
        fn health(self) -> Health {
            let mut bytes = [0u8; HEALTH_BYTES];
            bytes[0] = self.critical_warning;
            bytes[1..3].copy_from_slice(&self.composite_temperature.to_le_bytes());
            bytes[3] = self.available_spare;
            bytes[4] = self.available_spare_threshold;
            bytes[5] = self.percentage_used;
            // Data Units Written, Power On Hours.
            bytes[48..64].copy_from_slice(&6_000_000u128.to_le_bytes());
            bytes[128..144].copy_from_slice(&8760u128.to_le_bytes());
            bytes[160..176].copy_from_slice(&self.media_errors.to_le_bytes());
            Health::decode(&bytes)
        }

        fn judged(self) -> Vec<Warning> {
            let limits = Limits {
                warning_celsius: Some(70),
                critical_celsius: Some(80),
            };
            judge(&self.health(), limits, 2)
        }
    }

    #[test]
    fn a_healthy_drive_gives_no_warning() {
        assert_eq!(HEALTHY.judged(), []);
    }

    #[test]
    fn a_worn_drive_is_warned_of_from_100_percent_on() {
        let worn = |percentage_used| Log {
            percentage_used,
            ..HEALTHY
        };
        assert_eq!(worn(99).judged(), []);
        for percentage_used in [100, 104, 255] {
            assert_eq!(worn(percentage_used).judged(), [Warning::WornOut]);
        }
        assert!(!Warning::WornOut.means_failing());
    }

    #[test]
    fn spare_capacity_below_the_threshold_counts_with_and_without_the_bit() {
        let spare = |critical_warning, available_spare| Log {
            critical_warning,
            available_spare,
            ..HEALTHY
        };
        assert_eq!(spare(0, 10).judged(), []);
        assert_eq!(spare(0, 9).judged(), [Warning::SpareLow]);
        assert_eq!(spare(1, 9).judged(), [Warning::SpareLow]);
        assert_eq!(spare(1, 98).judged(), [Warning::SpareLow]);
        assert!(Warning::SpareLow.means_failing());
        // A drive that reports neither, as QEMU's, has no spare capacity to speak of.
        let silent = Log {
            available_spare: 0,
            available_spare_threshold: 0,
            ..HEALTHY
        };
        assert_eq!(silent.judged(), []);
    }

    #[test]
    fn each_bit_of_the_critical_warning_is_told() {
        let wanted: [&[Warning]; 8] = [
            &[Warning::SpareLow],
            &[Warning::Hot],
            &[Warning::Unreliable],
            &[Warning::ReadOnly],
            &[Warning::BackupFailed],
            &[],
            &[],
            &[],
        ];
        for (bit, wanted) in wanted.into_iter().enumerate() {
            let log = Log {
                critical_warning: 1 << bit,
                ..HEALTHY
            };
            assert_eq!(log.judged(), wanted, "bit {bit}");
        }
    }

    #[test]
    fn a_drive_is_failing_if_it_is_unreliable_read_only_or_without_spare_capacity() {
        let failing = Warning::ALL
            .into_iter()
            .filter(|one| one.means_failing())
            .collect::<Vec<_>>();
        assert_eq!(
            failing,
            [Warning::SpareLow, Warning::Unreliable, Warning::ReadOnly]
        );
        let both = Log {
            critical_warning: 0b1100,
            ..HEALTHY
        };
        assert_eq!(both.judged(), [Warning::Unreliable, Warning::ReadOnly]);
    }

    #[test]
    fn a_drive_is_hot_from_its_own_limits_on() {
        let at = |celsius: u16| Log {
            composite_temperature: celsius + 273,
            ..HEALTHY
        };
        assert_eq!(at(69).judged(), []);
        assert_eq!(at(70).judged(), [Warning::Hot]);
        assert_eq!(at(79).judged(), [Warning::Hot]);
        assert_eq!(at(80).judged(), [Warning::Hot, Warning::TooHot]);
        assert_eq!(judge(&at(120).health(), Limits::default(), 0), []);
    }

    #[test]
    fn media_errors_count_when_they_have_grown() {
        let log = |media_errors| Log {
            media_errors,
            ..HEALTHY
        };
        // `judged` says that two were known before.
        assert_eq!(log(2).judged(), []);
        assert_eq!(log(3).judged(), [Warning::MediaErrors]);
        assert_eq!(log(u128::MAX).judged(), [Warning::MediaErrors]);
        assert!(!Warning::MediaErrors.means_failing());
    }

    #[test]
    fn names_are_words_for_programs_and_differ() {
        let names = Warning::ALL.map(Warning::name);
        let distinct: std::collections::BTreeSet<&str> = names.into_iter().collect();
        assert_eq!(distinct.len(), names.len());
        let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_word)));
    }
}
