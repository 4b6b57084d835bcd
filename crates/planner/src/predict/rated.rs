//! What a drive is rated for beside its speed: endurance, warranty, failures. No run depends on it; [`crate::sizing`] does.

use super::library::of_draw;
use crate::provenance::Known;
use catalogue::draw::{DRAWS, Draw};
use catalogue::reliability::Reliability;
use catalogue::{Catalogue, Entry};
use lab::schema::setup::Reference;
use models::profile::{Family, Figure};
use std::collections::BTreeMap;

/// The ratings of one drive, each with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    /// Drive writes a day during the warranty.
    pub endurance_dwpd: Figure,
    /// Warranty, failures, sectors that cannot be read.
    pub reliability: Reliability,
}

impl Rated {
    /// Of the drive `id` of a profile. What the profile does not say is said or usual of the drive of this id in `catalogue`; if that
    /// does not know it, of drives for everybody.
    fn of_profile(family: &Family, id: &str, catalogue: &Catalogue) -> Rated {
        let known = catalogue.with_id(id);
        Rated {
            endurance_dwpd: endurance_dwpd(family, id),
            reliability: known.map_or_else(
                |_| Reliability::of_unknown(),
                |entry| Reliability::of(entry, Draw::Usual),
            ),
        }
    }

    /// Of a drive with a sheet, in one draw; `family` is its profile in this draw.
    fn of_sheet(entry: Entry, draw: Draw, family: &Family) -> Rated {
        Rated {
            endurance_dwpd: endurance_dwpd(family, &entry.drive.id),
            reliability: Reliability::of(entry, draw),
        }
    }

    /// The figures that its profile does not have, by key.
    fn figures(&self) -> [(&'static str, &Figure); 3] {
        let Reliability {
            warranty_years,
            unreadable_per_bit,
            annual_failure_percent,
        } = &self.reliability;
        [
            ("reliability.warranty_years", warranty_years),
            ("reliability.unreadable_per_bit", unreadable_per_bit),
            ("reliability.annual_failure_percent", annual_failure_percent),
        ]
    }

    /// These figures with their sources and, over `draws`, their ranges. `name` is what plans call the drive.
    fn known(&self, name: &str, draws: &[&Rated]) -> Vec<Known> {
        let of = format!("drive {name}");
        let known = self.figures().into_iter().enumerate();
        let known = known.map(|(at, (key, figure))| {
            let drawn = draws.iter().map(|draw| draw.figures()[at].1.value);
            let (low, high) = drawn.fold((figure.value, figure.value), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            Known {
                of: of.clone(),
                key: key.to_owned(),
                value: Some(figure.value),
                drawn: (low < high).then_some((low, high)),
                status: figure.r#use.word().to_owned(),
                source: figure.source.clone(),
            }
        });
        known.collect()
    }
}

/// The ratings of all drives of a library, draws too, by the names of their profiles.
#[derive(Clone, Debug, Default)]
pub(super) struct RatedDrives(BTreeMap<String, Rated>);

impl RatedDrives {
    /// Adds the drive `id` of a profile by the name that plans call it.
    pub(super) fn add_profile(
        &mut self,
        name: &str,
        family: &Family,
        id: &str,
        catalogue: &Catalogue,
    ) {
        let rated = Rated::of_profile(family, id, catalogue);
        self.0.insert(name.to_owned(), rated);
    }

    /// Adds the drive of a sheet by the name that plans call it, and its draws; the families are their profiles.
    pub(super) fn add_sheet(&mut self, name: &str, entry: Entry, usual: &Family, drawn: &[Family]) {
        let drive = Reference::Id(name.to_owned());
        for (number, (draw, family)) in (0..DRAWS).map(Draw::Number).zip(drawn).enumerate() {
            let rated = Rated::of_sheet(entry, draw, family);
            self.0
                .insert(of_draw(&drive, number).text().to_owned(), rated);
        }
        let rated = Rated::of_sheet(entry, Draw::Usual, usual);
        self.0.insert(name.to_owned(), rated);
    }

    /// Adds another name for a drive.
    ///
    /// # Panics
    /// If there is no such drive.
    pub(super) fn add_name(&mut self, name: &str, known: &str) {
        let rated = self.0.get(known).expect("the drive has been added");
        self.0.insert(name.to_owned(), rated.clone());
    }

    /// Those of one drive.
    pub(super) fn get(&self, drive: &Reference) -> Option<&Rated> {
        self.0.get(drive.text())
    }

    /// The figures of a drive that its profile does not have, with their sources.
    pub(super) fn known(&self, drive: &Reference) -> Option<Vec<Known>> {
        let draws = (0..DRAWS as usize).filter_map(|number| self.get(&of_draw(drive, number)));
        let draws: Vec<&Rated> = draws.collect();
        Some(self.get(drive)?.known(drive.text(), &draws))
    }
}

fn endurance_dwpd(family: &Family, id: &str) -> Figure {
    let member = family.members.iter().find(|member| member.id == id);
    let member = member.expect("the profile of this drive has been made of this family");
    member.ratings.endurance_dwpd.clone()
}
