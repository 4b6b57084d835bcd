//! A drive's profile from its data sheet: what the sheet says, priors for what it does not say, and figures that follow from both.
//!
//! | figure of the profile | from |
//! |---|---|
//! | capacity, link, rates | the sheet; where sources disagree, drawn between them |
//! | a rate that is a burst | `steady_share` of it |
//! | the pseudo-SLC cache | the sheet's, or `burst_share` of the capacity; its rate is the sheet's rate of writes if that is a burst, or that by `steady_share` |
//! | latencies, power, endurance | the sheet, or their priors |
//! | time of a unit for a read | `unit_share` of the read latency |
//! | random writes of a map unit | the sheet's, of a map unit's size or more; of smaller ones times `partial_write_factor` |
//! | number of units | rated reads x time of a unit x `unit_surplus` |
//! | duration of a program | so that all units together write what is rated |
//! | the rest | its prior |
//!
//! Rules of the model come before a prior: a latency is at least the sum of its stages, and steady random writes are at most the
//! sequential ones.

use crate::Entry;
use crate::draw::Draw;
use crate::prior::{Prior, Priors};
use crate::sheet::{self, Kind, Rating};
use models::document::Refusal;
use models::profile::{
    Controller, EndOfLife, Family, Figure, Latency, Limits, Link, Media, Member, Ratings, SCHEMA,
    StallRates, Use,
};

/// Rates without which there is no profile.
const NEEDED: [Rating; 4] = [
    Rating::ReadKiops,
    Rating::WriteKiops,
    Rating::ReadMbS,
    Rating::WriteMbS,
];
/// Size of the commands to which rated reads and latencies refer.
const RATED_KB: f64 = 4.096;
/// Fewest and most units.
const UNITS: (f64, f64) = (1.0, 4096.0);
/// A latency is at least this much above the sum of its stages, in microseconds: less would be rounded away.
const ABOVE_STAGES_US: f64 = 0.01;
/// Why a profile from a sheet has no refresh after power-on.
const NO_REFRESH: &str = "makers of flash drives tell of no such work";
/// Most clean pool that the model keeps, in 10⁶ bytes.
const POOL_MAX_MB: f64 = 1e6;

/// The rates that a drive lacks for a profile.
#[must_use]
pub fn missing(drive: &sheet::Drive) -> Vec<Rating> {
    let is_missing = |rating: &Rating| !drive.ratings.contains_key(rating);
    NEEDED.into_iter().filter(is_missing).collect()
}

/// The profile of a drive in one draw, as a family of one member that is checked: each figure with its source.
///
/// # Errors
/// The sheet lacks a rate, or no drive can have its figures: one sentence about `file`.
pub fn family(file: &str, entry: Entry, draw: Draw) -> Result<Family, Refusal> {
    let lacking = missing(entry.drive);
    if !lacking.is_empty() {
        let words: Vec<&str> = lacking.iter().map(|rating| rating.word()).collect();
        let rule = format!("says nothing of {}, which a plan needs", words::and(&words));
        let key = format!("drive \"{}\"", entry.drive.id);
        return Err(Refusal::new(file, key, rule));
    }
    let family = Derived::of(entry, draw).family();
    match family.member(&entry.drive.id) {
        Ok(_) => Ok(family),
        Err(error) => {
            let key = format!("drive \"{}\".{}", entry.drive.id, error.key);
            Err(Refusal::new(file, key, error.rule))
        }
    }
}

/// The makings of a profile.
pub(crate) struct Derived<'a> {
    entry: Entry<'a>,
    priors: Priors,
    draw: Draw,
}

/// A number that the sheet does not say: a prior, or what follows from others.
fn follows(value: f64, source: &str) -> Figure {
    Figure {
        value,
        source: source.to_owned(),
        r#use: Use::Prior,
    }
}

impl<'a> Derived<'a> {
    pub(crate) fn of(entry: Entry<'a>, draw: Draw) -> Derived<'a> {
        Derived {
            entry,
            priors: Priors::of(entry.family),
            draw,
        }
    }

    /// A prior's value in this draw.
    fn drawn(&self, prior: Prior) -> f64 {
        self.priors.range(prior).at(self.draw.share(prior.word()))
    }

    pub(crate) fn prior(&self, prior: Prior) -> Figure {
        follows(self.drawn(prior), &self.priors.range(prior).source)
    }

    /// A prior that is a whole number of `step`.
    fn whole(&self, prior: Prior, step: f64) -> Figure {
        let mut figure = self.prior(prior);
        figure.value = (figure.value / step).round().max(1.0) * step;
        figure
    }

    /// A figure as the sheet has it.
    fn said(&self, key: &str, figure: &sheet::Figure) -> Figure {
        let (low, high) = (figure.low(), figure.high());
        let cited: Vec<&sheet::Source> = figure
            .said()
            .map(|(_, id)| {
                let source = self.entry.family.source(id);
                source.expect("a family is checked when it is read")
            })
            .collect();
        let is_sheet = cited.iter().all(|source| source.kind == Kind::Sheet);
        let titles: Vec<String> = cited
            .iter()
            .map(|source| format!("{} ({})", source.title, source.date))
            .collect();
        Figure {
            value: low + (high - low) * self.draw.share(key),
            source: words::and(&titles),
            r#use: if is_sheet { Use::S } else { Use::Reported },
        }
    }

    /// A rating, if the sheet has it. Of a burst, what is left in the long run.
    fn rating(&self, rating: Rating) -> Option<Figure> {
        let said = self.entry.drive.ratings.get(&rating)?;
        let mut figure = self.said(rating.word(), said);
        if said.is_burst {
            figure.value *= self.drawn(Prior::SteadyShare);
            figure.r#use = Use::Prior;
            figure.source = format!(
                "of a burst ({}), what is usual in the long run: {}",
                figure.source,
                self.priors.range(Prior::SteadyShare).source
            );
        }
        Some(figure)
    }

    fn needed(&self, rating: Rating) -> Figure {
        let figure = self.rating(rating);
        figure.expect("a drive without it has been refused")
    }

    pub(crate) fn rating_or(&self, rating: Rating, prior: Prior) -> Figure {
        self.rating(rating).unwrap_or_else(|| self.prior(prior))
    }

    /// The profile. Figures that follow from several others come last.
    fn family(&self) -> Family {
        let mut family = Family {
            schema: SCHEMA,
            family: self.entry.family.name.clone(),
            title: self.entry.family.name.clone(),
            maker: Some(self.entry.family.maker.clone()),
            purpose: Some(self.entry.family.purpose),
            latency: Latency {
                read_us: self.rating_or(Rating::ReadUs, Prior::ReadUs),
                write_us: self.rating_or(Rating::WriteUs, Prior::WriteUs),
            },
            limits: Limits {
                command_max_kib: self.whole(Prior::CommandMaxKib, 1.0),
                io_queues: self.io_queues(),
            },
            link: Link {
                lanes: self.said("lanes", &self.entry.family.lanes),
                generation: self.said("generation", &self.entry.family.generation),
            },
            controller: self.controller(),
            media: self.media(),
            stalls: self.stalls(),
            end_of_life: EndOfLife {
                worn_write_mb_s: self.prior(Prior::WornWriteMbS),
            },
            members: vec![Member {
                id: self.entry.drive.id.clone(),
                ratings: self.ratings(),
            }],
        };
        self.settle(&mut family);
        family
    }

    /// A whole number, also between two that sources say.
    fn io_queues(&self) -> Figure {
        let mut figure = self.rating_or(Rating::IoQueues, Prior::IoQueues);
        figure.value = figure.value.round();
        figure
    }

    fn controller(&self) -> Controller {
        let rated_ns = 1e6 / self.needed(Rating::ReadKiops).value;
        let sectors = RATED_KB * 1000.0 / 512.0;
        Controller {
            sector_ns: follows(
                (rated_ns * self.drawn(Prior::SectorShare) / sectors).floor(),
                &self.priors.range(Prior::SectorShare).source,
            ),
            buffer_kib: self.prior(Prior::BufferKib),
            read_ahead_kib: self.prior(Prior::ReadAheadKib),
        }
    }

    /// The map unit: a power of two, also between two draws.
    fn map_unit_kib(&self) -> Figure {
        let mut figure = self.rating_or(Rating::MapUnitKib, Prior::MapUnitKib);
        figure.value = figure.value.log2().round().exp2();
        figure
    }

    /// Time of a unit and duration of a program are not known here yet: see [`Derived::settle`].
    fn media(&self) -> Media {
        let map_unit_kib = self.map_unit_kib();
        Media {
            read_unit_us: follows(0.0, "the priors unit_share and read_us"),
            unit_transfer_mb_s: self.prior(Prior::UnitTransferMbS),
            stripe_kib: self.whole(Prior::StripeKib, map_unit_kib.value),
            program_us: follows(0.0, "so that all units together write what is rated"),
            program_kib: self.whole(Prior::ProgramKib, 4.0),
            suspend: follows(
                f64::from(u8::from(self.drawn(Prior::Suspends) >= 0.5)),
                &self.priors.range(Prior::Suspends).source,
            ),
            suspend_us: self.prior(Prior::SuspendUs),
            map_unit_kib,
            partial_write_factor: self.prior(Prior::PartialWriteFactor),
            refresh_hours: follows(0.0, NO_REFRESH),
            refresh_share: follows(0.0, NO_REFRESH),
        }
    }

    fn stalls(&self) -> StallRates {
        StallRates {
            short_mean_us: self.prior(Prior::ShortMeanUs),
            short_per_read: self.prior(Prior::ShortPerRead),
            short_per_write: self.prior(Prior::ShortPerWrite),
            long_mean_us: self.prior(Prior::LongMeanUs),
            long_per_read: self.prior(Prior::LongPerRead),
            long_per_write: self.prior(Prior::LongPerWrite),
        }
    }

    /// Random writes of a map unit each, in thousands a second. Writes of another size that the sheet counts cost as many
    /// map units as they fill, or part of one.
    fn map_units_written(&self, map_unit_kib: f64) -> Figure {
        let mut figure = self.needed(Rating::WriteKiops);
        let size_kib = self.entry.drive.write_size_kib();
        figure.value *= if size_kib < map_unit_kib {
            self.drawn(Prior::PartialWriteFactor)
        } else {
            size_kib / map_unit_kib
        };
        if size_kib != map_unit_kib {
            figure.r#use = Use::Prior;
            figure.source = format!(
                "as map units of {map_unit_kib} KiB, of {size_kib} KiB each: {}",
                figure.source
            );
        }
        figure
    }

    /// The pseudo-SLC cache: its size, and the rate of writes while it takes them. 0 both if there is none.
    fn burst(&self, capacity: &Figure, write_mb_s: &Figure) -> [Figure; 2] {
        let size = self.rating(Rating::BurstGb).unwrap_or_else(|| {
            follows(
                capacity.value * self.drawn(Prior::BurstShare),
                &self.priors.range(Prior::BurstShare).source,
            )
        });
        let none = follows(0.0, "drives of this kind have no pseudo-SLC cache");
        if size.value == 0.0 {
            return [none.clone(), none];
        }
        let sequential = &self.entry.drive.ratings[&Rating::WriteMbS];
        let rate = match self.rating(Rating::BurstWriteMbS) {
            Some(said) => said,
            None if sequential.is_burst => self.said(Rating::WriteMbS.word(), sequential),
            None => follows(
                write_mb_s.value / self.drawn(Prior::SteadyShare),
                &self.priors.range(Prior::SteadyShare).source,
            ),
        };
        let link = &self.entry.family;
        let link_mb_s =
            models::port::raw_bytes_per_s(link.lanes.low() as u64, link.generation.low() as u64)
                / 1_000_000;
        let value = rate.value.min(link_mb_s as f64).max(write_mb_s.value);
        [size, Figure { value, ..rate }]
    }

    fn ratings(&self) -> Ratings {
        let capacity = self.needed(Rating::CapacityGb);
        let write_mb_s = self.needed(Rating::WriteMbS);
        let map_unit_kib = self.map_unit_kib().value;
        let mut steady = self.map_units_written(map_unit_kib);
        let most_kiops = write_mb_s.value / (map_unit_kib * 1.024);
        if steady.value > most_kiops {
            steady = follows(most_kiops, "as many bytes as are written in order");
        }
        let pool_mb = capacity.value * self.drawn(Prior::PoolPpm) / 1000.0;
        let [burst_gb, burst_write_mb_s] = self.burst(&capacity, &write_mb_s);
        Ratings {
            burst_gb,
            burst_write_mb_s,
            pool_mb: follows(
                pool_mb.min(POOL_MAX_MB),
                &self.priors.range(Prior::PoolPpm).source,
            ),
            capacity_gb: capacity,
            units: follows(0.0, "rated reads x time of a unit x the prior unit_surplus"),
            read_kiops: self.needed(Rating::ReadKiops),
            read_mb_s: self.needed(Rating::ReadMbS),
            write_mb_s,
            steady_write_kiops: steady,
            idle_w: self.rating_or(Rating::IdleW, Prior::IdleW),
            active_w: self.rating_or(Rating::ActiveW, Prior::ActiveW),
            endurance_dwpd: self.rating_or(Rating::EnduranceDwpd, Prior::EnduranceDwpd),
        }
    }

    /// Computes what follows from several figures, and lets the model's rules come before a prior.
    fn settle(&self, family: &mut Family) {
        let other_stages_us = self.stages_us(family);
        let Family {
            latency,
            media,
            members,
            ..
        } = family;
        let ratings = &mut members[0].ratings;
        let said = |rating| self.entry.drive.ratings.contains_key(&rating);
        let unit_us = latency.read_us.value * self.drawn(Prior::UnitShare);
        let least_us = other_stages_us.map(|us| us + ABOVE_STAGES_US);
        // A latency of the sheet is the sheet's matter: the model's check refuses an impossible one.
        if !said(Rating::WriteUs) {
            latency.write_us.value = latency.write_us.value.max(least_us[1]);
        }
        if !said(Rating::ReadUs) {
            latency.read_us.value = latency.read_us.value.max(least_us[0] + unit_us);
        }
        let most_us = (latency.read_us.value - least_us[0]).max(ABOVE_STAGES_US);
        media.read_unit_us.value = unit_us.min(most_us);

        let busy = ratings.read_kiops.value * media.read_unit_us.value / 1000.0;
        let units = (busy * self.drawn(Prior::UnitSurplus)).ceil();
        ratings.units.value = units.clamp(UNITS.0, UNITS.1);
        let program_mb = ratings.units.value * media.program_kib.value * 1024.0 / 1e6;
        media.program_us.value = program_mb / ratings.write_mb_s.value * 1e6;
        ratings.pool_mb.value = ratings.pool_mb.value.max(program_mb);
        if !said(Rating::IdleW) {
            ratings.idle_w.value = ratings.idle_w.value.min(ratings.active_w.value);
        } else if !said(Rating::ActiveW) {
            ratings.active_w.value = ratings.active_w.value.max(ratings.idle_w.value);
        }
    }

    /// What a read and a write take on an idle drive without its units.
    fn stages_us(&self, family: &Family) -> [f64; 2] {
        let port = models::port::Port::of_link(
            family.link.lanes.value as u64,
            family.link.generation.value as u64,
        );
        let ratings = &family.members[0].ratings;
        let controller_us = 1000.0 / ratings.read_kiops.value;
        let path_us = RATED_KB * 1000.0 / ratings.read_mb_s.value;
        let port_us = |bytes_per_s: u64| {
            (RATED_KB * 1000.0 + port.command_overhead_bytes as f64) / bytes_per_s as f64 * 1e6
        };
        [port.to_host_bytes_per_s, port.to_drive_bytes_per_s]
            .map(|bytes_per_s| controller_us + path_us + port_us(bytes_per_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;
    use crate::draw::DRAWS;
    use crate::given::Given;
    use crate::sheet::{Class, Purpose, Source};

    fn draws() -> impl Iterator<Item = Draw> {
        std::iter::once(Draw::Usual).chain((0..DRAWS).map(Draw::Number))
    }

    #[test]
    fn every_drive_with_all_rates_has_a_profile_in_every_draw() {
        let catalogue = Catalogue::built_in();
        let mut drives = 0;
        for entry in catalogue.entries() {
            if !missing(entry.drive).is_empty() {
                continue;
            }
            drives += 1;
            for draw in draws() {
                let family = family("catalogue", entry, draw);
                family.unwrap_or_else(|refusal| panic!("{draw:?}: {refusal}"));
            }
        }
        assert!(drives >= 30, "{drives} drives");
    }

    #[test]
    fn what_the_sheet_says_is_the_same_in_every_draw_and_priors_are_not() {
        let catalogue = Catalogue::built_in();
        let entry = catalogue.with_id("p4510-2tb").expect("it is there");
        let families: Vec<Family> = draws()
            .map(|draw| family("catalogue", entry, draw).expect("it has all rates"))
            .collect();
        let mut units = std::collections::BTreeSet::new();
        for family in &families {
            let ratings = &family.members[0].ratings;
            assert_eq!(ratings.read_kiops.value, 624.0);
            assert_eq!(ratings.steady_write_kiops.value, 79.0);
            assert_ne!(ratings.read_kiops.r#use, Use::Prior);
            assert_eq!(family.media.read_unit_us.r#use, Use::Prior);
            units.insert(ratings.units.value as u64);
        }
        assert!(units.len() > 5, "{units:?}");
    }

    #[test]
    fn rules_of_the_model_come_before_priors() {
        // Its controller alone takes 100 us for a read, and it needs less power than such drives do when idle.
        let given = Given {
            name: "slow".to_owned(),
            maker: "none".to_owned(),
            class: Class::Tlc,
            purpose: Purpose::DataCentre,
            generation: Some(3.0),
            lanes: Some(4.0),
            ratings: [
                (Rating::CapacityGb, 500.0),
                (Rating::ReadKiops, 10.0),
                (Rating::WriteKiops, 9.0),
                (Rating::ReadMbS, 400.0),
                (Rating::WriteMbS, 20.0),
                (Rating::ActiveW, 2.0),
            ]
            .map(|(rating, value)| (rating, (value, false)))
            .into(),
            pool_mb: Some(100.0),
            source: Source {
                id: String::new(),
                kind: Kind::Sheet,
                title: "a test".to_owned(),
                address: crate::check::UNKNOWN.to_owned(),
                date: crate::check::UNKNOWN.to_owned(),
            },
        };
        let sheet = given.family(None);
        let entry = Entry {
            family: &sheet,
            drive: &sheet.drives[0],
        };
        for draw in draws() {
            let family = family("slow.toml", entry, draw).expect("a drive can be like that");
            let ratings = &family.members[0].ratings;
            assert!(family.latency.read_us.value > 130.0, "{draw:?}");
            assert!(family.latency.write_us.value > 100.0, "{draw:?}");
            assert_eq!(ratings.idle_w.value, 2.0);
            assert_eq!(ratings.pool_mb.value, 100.0);
            // 9000 writes of 4 KiB a second would be more than 20 MB a second.
            assert!((ratings.steady_write_kiops.value - 20.0 / 4.096).abs() < 1e-9);
        }
    }

    #[test]
    fn rated_writes_are_counted_in_map_units() {
        let catalogue = Catalogue::built_in();
        let entry = catalogue.with_id("solidigm-d5-p5336-61.44tb");
        let entry = entry.expect("it is there");
        let media_and_ratings = |drive: &sheet::Drive| {
            let changed = Entry { drive, ..entry };
            let mut family = family("catalogue", changed, Draw::Usual).expect("it has all rates");
            (family.media, family.members.remove(0).ratings)
        };
        // Its map unit and its rated writes have the same size.
        let (media, ratings) = media_and_ratings(entry.drive);
        assert_eq!(media.map_unit_kib.value, 16.0);
        assert_eq!(ratings.steady_write_kiops.value, 38.0);
        assert_eq!(ratings.steady_write_kiops.r#use, Use::Reported);
        let figure = |value| sheet::Figure::one(value, "brief", false);
        // Smaller ones cost a map unit each, and the read of the rest.
        let mut small = entry.drive.clone();
        small.ratings.remove(&Rating::WriteSizeKib);
        let (_, ratings) = media_and_ratings(&small);
        assert!((ratings.steady_write_kiops.value - 38.0 * 1.05).abs() < 1e-9);
        assert_eq!(ratings.steady_write_kiops.r#use, Use::Prior);
        // Larger ones fill several.
        let mut large = entry.drive.clone();
        large.ratings.insert(Rating::MapUnitKib, figure(4.0));
        let (_, ratings) = media_and_ratings(&large);
        assert_eq!(ratings.steady_write_kiops.value, 38.0 * 4.0);
        // What no source says is drawn, and stripes fit.
        let mut unknown = entry.drive.clone();
        unknown.ratings.remove(&Rating::MapUnitKib);
        let sizes: std::collections::BTreeSet<u64> = draws()
            .map(|draw| {
                let drive = &unknown;
                let family = family("catalogue", Entry { drive, ..entry }, draw);
                let media = family.expect("it has all rates").media;
                assert_eq!(media.stripe_kib.value % media.map_unit_kib.value, 0.0);
                media.map_unit_kib.value as u64
            })
            .collect();
        assert!(sizes.len() >= 3 && sizes.contains(&16), "{sizes:?}");
        assert!(sizes.iter().all(|kib| kib.is_power_of_two()), "{sizes:?}");
    }

    #[test]
    fn a_drive_has_the_queues_of_its_sheet_or_those_that_are_usual() {
        let catalogue = Catalogue::built_in();
        let queues = |id: &str, draw| {
            let entry = catalogue.with_id(id).expect("it is there");
            let family = family("catalogue", entry, draw).expect("it has all rates");
            family.limits.io_queues
        };
        let said = queues("samsung-960-pro-512gb", Draw::Usual);
        assert_eq!((said.value, said.r#use), (8.0, Use::Reported));
        assert_eq!(queues("samsung-pm9a3-3.84tb", Draw::Usual).value, 127.0);
        let usual = queues("samsung-980-pro-1tb", Draw::Usual);
        assert_eq!((usual.value, usual.r#use), (16.0, Use::Prior));
        for draw in draws() {
            let drawn = queues("samsung-980-pro-1tb", draw).value;
            assert!(
                (8.0..=32.0).contains(&drawn) && drawn.fract() == 0.0,
                "{drawn}"
            );
        }
    }

    #[test]
    fn a_given_rate_of_writes_has_the_size_that_is_given_with_it() {
        let catalogue = Catalogue::built_in();
        let like = catalogue.with_id("solidigm-d5-p5336-61.44tb");
        let like = like.expect("it is there");
        let given = |ratings: &[(Rating, f64)]| Given {
            name: "like it".to_owned(),
            maker: "none".to_owned(),
            class: Class::Qlc,
            purpose: Purpose::DataCentre,
            generation: None,
            lanes: None,
            ratings: ratings
                .iter()
                .map(|(rating, value)| (*rating, (*value, false)))
                .collect(),
            pool_mb: None,
            source: Source {
                id: String::new(),
                kind: Kind::Sheet,
                title: "a test".to_owned(),
                address: crate::check::UNKNOWN.to_owned(),
                date: crate::check::UNKNOWN.to_owned(),
            },
        };
        let size_kib = |ratings: &[(Rating, f64)]| {
            let family = given(ratings).family(Some(like));
            family.drives[0].write_size_kib()
        };
        assert_eq!(size_kib(&[(Rating::ReadKiops, 900.0)]), 16.0);
        assert_eq!(size_kib(&[(Rating::WriteKiops, 100.0)]), 4.0);
        let both = [(Rating::WriteKiops, 10.0), (Rating::WriteSizeKib, 64.0)];
        assert_eq!(size_kib(&both), 64.0);
    }

    #[test]
    fn a_pseudo_slc_cache_is_the_sheets_or_what_is_usual() {
        let catalogue = Catalogue::built_in();
        let burst = |id: &str| {
            let entry = catalogue.with_id(id).expect("it is there");
            let family = family("catalogue", entry, Draw::Usual).expect("it has all rates");
            let ratings = &family.members[0].ratings;
            [
                &ratings.burst_gb,
                &ratings.burst_write_mb_s,
                &ratings.write_mb_s,
            ]
            .map(|figure| figure.value.round())
        };
        // Everything is said; of the rates that sources give for the cache, the middle.
        assert_eq!(burst("samsung-980-pro-1tb"), [113.0, 4500.0, 1500.0]);
        // What is said of writes is what the cache takes.
        assert_eq!(burst("wd-sn850x-1tb"), [300.0, 6300.0, 1764.0]);
        assert_eq!(burst("wd-sn850x-2tb"), [240.0, 6600.0, 1848.0]);
        // Only the size is usual.
        assert_eq!(burst("samsung-970-evo-plus-1tb"), [120.0, 3300.0, 1700.0]);
        // Others have none.
        for id in [
            "p4510-2tb",
            "samsung-970-pro-512gb",
            "samsung-bm1743-61.44tb",
        ] {
            assert_eq!(burst(id)[..2], [0.0, 0.0], "{id}");
        }
    }

    #[test]
    fn of_a_burst_a_part_is_left() {
        let catalogue = Catalogue::built_in();
        let entry = catalogue.with_id("wd-sn850x-1tb").expect("it is there");
        let family = family("catalogue", entry, Draw::Usual).expect("it has all rates");
        let ratings = &family.members[0].ratings;
        assert!((ratings.write_mb_s.value - 6300.0 * 0.28).abs() < 1e-6);
        assert_eq!(ratings.write_mb_s.r#use, Use::Prior);
        assert_eq!(ratings.read_mb_s.value, 7300.0);
        // What the cache takes is the sheet's own figure.
        assert_eq!(ratings.burst_write_mb_s.r#use, Use::Reported);
    }

    #[test]
    fn a_sheet_without_a_rate_is_refused_with_the_names_of_what_is_missing() {
        let catalogue = Catalogue::built_in();
        let entry = catalogue
            .with_id("kioxia-cm6-r-30.72tb")
            .expect("it is there");
        let refusal = family("my.toml", entry, Draw::Usual).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "my.toml: drive \"kioxia-cm6-r-30.72tb\" says nothing of read_kiops, which a plan needs"
        );
    }
}
