//! How long a drive lasts and how often it fails: what a sheet says, and what is usual where it says nothing.
//!
//! No profile has these figures, because they change no run. They are drawn as those of a profile are, with the same draws.

use crate::Entry;
use crate::draw::Draw;
use crate::prior::{Prior, of_unknown};
use crate::profile::Derived;
use crate::sheet::Rating;
use models::profile::{Figure, Use};

/// The figures of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Reliability {
    /// How long the warranty lasts, for which the endurance is rated.
    pub warranty_years: Figure,
    /// Sectors that cannot be read, for each bit that is read.
    pub unreadable_per_bit: Figure,
    /// Drives of a hundred that fail in a year.
    pub annual_failure_percent: Figure,
}

impl Reliability {
    /// That of a drive with a sheet, in one draw.
    #[must_use]
    pub fn of(entry: Entry, draw: Draw) -> Reliability {
        let derived = Derived::of(entry, draw);
        Reliability {
            warranty_years: derived.rating_or(Rating::WarrantyYears, Prior::WarrantyYears),
            unreadable_per_bit: derived.prior(Prior::UnreadablePerBit),
            annual_failure_percent: derived.prior(Prior::AnnualFailurePercent),
        }
    }

    /// That of a drive of which nothing is known: as of a drive for everybody.
    #[must_use]
    pub fn of_unknown() -> Reliability {
        let usual = |prior| {
            let range = of_unknown(prior);
            Figure {
                value: range.usual,
                source: range.source,
                r#use: Use::Prior,
            }
        };
        Reliability {
            warranty_years: usual(Prior::WarrantyYears),
            unreadable_per_bit: usual(Prior::UnreadablePerBit),
            annual_failure_percent: usual(Prior::AnnualFailurePercent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;
    use crate::draw::DRAWS;

    #[test]
    fn a_drive_for_servers_is_rated_better_than_one_that_is_not_known() {
        let catalogue = Catalogue::built_in();
        let of = |id| {
            let entry = catalogue.with_id(id).expect("it is there");
            Reliability::of(entry, Draw::Usual)
        };
        let server = of("p4510-2tb");
        assert_eq!(server.warranty_years.value, 5.0);
        assert_eq!(server.warranty_years.r#use, Use::Reported);
        assert_eq!(server.unreadable_per_bit.value, 1e-17);
        assert_eq!(server.annual_failure_percent.value, 0.44);
        assert_eq!(server.annual_failure_percent.r#use, Use::Prior);
        let consumer = of("wd-sn850x-1tb");
        assert_eq!(
            (
                consumer.unreadable_per_bit.value,
                consumer.annual_failure_percent.value
            ),
            (1e-15, 1.0)
        );
        let unknown = Reliability::of_unknown();
        assert_eq!(unknown.unreadable_per_bit, consumer.unreadable_per_bit);
        assert_eq!(
            unknown.annual_failure_percent,
            consumer.annual_failure_percent
        );
    }

    #[test]
    fn draws_stay_within_their_ranges_and_differ() {
        let catalogue = Catalogue::built_in();
        let entry = catalogue.with_id("p4510-2tb").expect("it is there");
        let drawn = |number| {
            let of = Reliability::of(entry, Draw::Number(number));
            of.annual_failure_percent.value
        };
        let mut all: Vec<f64> = (0..DRAWS).map(drawn).collect();
        assert!(all.iter().all(|percent| (0.26..=1.05).contains(percent)));
        all.sort_by(f64::total_cmp);
        all.dedup();
        assert_eq!(all.len(), DRAWS as usize);
    }
}
