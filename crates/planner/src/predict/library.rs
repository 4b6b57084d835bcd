//! What a configuration may name: drives, platforms and hosts that come with the program, and drives and platforms from
//! the user's files.

use super::built_in::{HOSTS, MD_2018, NBD, RAID_DRIVERS, UBLK, machines};
use super::make::{Make, Makes};
use super::point::STACKS;
use super::rated::{Rated, RatedDrives};
use crate::provenance::{Known, of_draws, of_drive, of_engine, of_file};
use catalogue::Entry;
use catalogue::draw::{DRAWS, Draw};
use lab::claims::predictor::NotModelled;
use lab::schema::catalogue::Catalogue;
use lab::schema::document::{Refusal, read};
use lab::schema::setup::{self, Reference, Setup};
use models::export::{Export, ExportFile};
use models::host::{Host, HostFile};
use models::library::{self, path_and_id};
use models::md::MdFile;
use models::platform::{Buffers, Graph, Machine};
use models::profile::{Family, Member, Profile};
use models::raid_driver::DriverFile;
use models::tables::FigureError;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The names of the drives in the catalogue whose sheets a plan can be made from.
fn planned_from_sheets() -> Vec<String> {
    let catalogue = catalogue::Catalogue::built_in();
    let drives = catalogue.entries().map(|entry| entry.drive);
    let complete = drives.filter(|drive| catalogue::profile::missing(drive).is_empty());
    let names = complete.flat_map(|drive| drive.names().map(str::to_owned).collect::<Vec<_>>());
    names.collect()
}

/// Keeps figures by what they are figures of.
fn keep(known: &mut BTreeMap<String, Vec<Known>>, figures: Vec<Known>) {
    if let Some(first) = figures.first() {
        known.insert(first.of.clone(), figures);
    }
}

/// Between the name of a drive and the number of its draw.
const DRAW: &str = ", draw ";

/// The name of a draw's profile.
pub(super) fn of_draw(drive: &Reference, number: usize) -> Reference {
    Reference::Id(format!("{}{DRAW}{number}", drive.text()))
}

/// Drives and platforms by the name that a configuration uses, an id or a file path. Hosts are named by id only.
#[derive(Clone, Debug)]
pub struct Library {
    profiles: BTreeMap<String, Profile>,
    /// Of drives that are known from a data sheet only, those that may be meant, by [`of_draw`].
    drawn: BTreeMap<String, Vec<Profile>>,
    /// What drives are rated for beside their speed, draws too.
    rated: RatedDrives,
    platforms: BTreeMap<String, Graph>,
    hosts: BTreeMap<String, Host>,
    nbd: Export,
    ublk: Export,
    /// Linux md.
    pub(super) md: MdFile,
    /// RAID drivers of Windows, by the name of their stack.
    pub(super) raid_drivers: BTreeMap<String, DriverFile>,
    /// Who makes the drives of `profiles`.
    makes: Makes,
    /// The figures of drives, platforms and hosts, by what they are figures of.
    known: BTreeMap<String, Vec<Known>>,
}

impl Default for Library {
    /// What comes with the program. Its files are read once: a sweep makes a library for each of its points.
    fn default() -> Library {
        static BUILT_IN: OnceLock<Library> = OnceLock::new();
        BUILT_IN.get_or_init(Library::built_in).clone()
    }
}

impl Library {
    fn built_in() -> Library {
        let (mut known, mut makes) = (BTreeMap::new(), Makes::new());
        let mut rated = RatedDrives::default();
        let catalogue = catalogue::Catalogue::built_in();
        let profiles = library::all().into_iter();
        for (file, text) in library::FAMILIES {
            let family: Family = read(file, text).expect("a test reads every profile");
            for Member { id, .. } in &family.members {
                keep(&mut known, of_drive(id, &family, id));
                makes.insert(id.clone(), Make::of(&family));
                rated.add_profile(id, &family, id, &catalogue);
            }
        }
        let platforms: BTreeMap<String, Graph> = machines()
            .into_iter()
            .map(|machine| {
                let subject = format!("platform {}", machine.platform);
                keep(&mut known, of_file(&subject, &machine));
                let graph = machine.graph().expect("a test checks every platform");
                (machine.platform, graph)
            })
            .collect();
        let hosts = HOSTS.map(|(file, text)| {
            let host: HostFile = read(file, text).expect("a test reads every host");
            let checked = host.host().expect("a test checks every host");
            keep(&mut known, of_file(&format!("host {}", host.host), &host));
            (host.host, checked)
        });
        let [nbd, ublk] = [NBD, UBLK].map(|(file, text)| {
            let export: ExportFile = read(file, text).expect("a test reads every export");
            keep(
                &mut known,
                of_file(&format!("export {}", export.export), &export),
            );
            export.export().expect("a test checks every export")
        });
        let md: MdFile = read(MD_2018.0, MD_2018.1).expect("a test reads md's file");
        keep(&mut known, of_file(&format!("stack {}", md.stack), &md));
        let raid_drivers = RAID_DRIVERS.map(|(file, text)| {
            let driver: DriverFile = read(file, text).expect("a test reads every RAID driver");
            let subject = format!("stack {}", driver.stack);
            keep(&mut known, of_file(&subject, &driver));
            (driver.stack.clone(), driver)
        });
        keep(&mut known, vec![of_engine()]);
        Library {
            profiles: profiles.map(|it| (it.id.clone(), it)).collect(),
            drawn: BTreeMap::new(),
            rated,
            platforms,
            hosts: hosts.into(),
            nbd,
            ublk,
            md,
            raid_drivers: raid_drivers.into(),
            makes,
            known,
        }
    }

    /// Ids that a configuration may name: those of the claims, and those of the profiles in the library.
    #[must_use]
    pub fn catalogue(&self) -> Catalogue {
        let mut catalogue = Catalogue::of_claims();
        let add = |known: &mut Vec<String>, id: &String| {
            if !known.contains(id) {
                known.push(id.clone());
            }
        };
        let Library {
            profiles,
            platforms,
            hosts,
            ..
        } = self;
        profiles
            .keys()
            .for_each(|id| add(&mut catalogue.drives, id));
        platforms
            .keys()
            .for_each(|id| add(&mut catalogue.platforms, id));
        hosts.keys().for_each(|id| add(&mut catalogue.hosts, id));
        let sheets = planned_from_sheets();
        sheets.iter().for_each(|id| add(&mut catalogue.drives, id));
        let is_modelled = |id: &&String| {
            profiles.contains_key(*id)
                || sheets.contains(id)
                || platforms.contains_key(*id)
                || hosts.contains_key(*id)
                || STACKS.contains(&id.as_str())
        };
        let Catalogue {
            drives,
            platforms: named_platforms,
            hosts: named_hosts,
            stacks,
            ..
        } = &catalogue;
        let named = [drives, named_platforms, named_hosts, stacks];
        let named = named.into_iter().flatten();
        catalogue.not_modelled = named.filter(|id| !is_modelled(id)).cloned().collect();
        catalogue
    }

    /// Adds the drive that configurations call `reference` (`PATH`, or `PATH#ID`). `text` describes its family: by a profile,
    /// or by a data sheet.
    ///
    /// # Errors
    ///
    /// If that is not a family, has a number that no drive can have, or does not say which drive is meant.
    pub fn add_file(&mut self, reference: &str, text: &str) -> Result<(), Refusal> {
        if catalogue::is_sheet(text) {
            let (family, place) = catalogue::in_file(reference, text)?;
            let drive = &family.drives[place];
            let entry = Entry {
                family: &family,
                drive,
            };
            return self.add_sheet(reference, path_and_id(reference).0, entry);
        }
        let profile = library::in_file(reference, text)?;
        let family: Family = read(reference, text)?;
        keep(&mut self.known, of_drive(reference, &family, &profile.id));
        self.makes.insert(reference.to_owned(), Make::of(&family));
        let catalogue = catalogue::Catalogue::built_in();
        self.rated
            .add_profile(reference, &family, &profile.id, &catalogue);
        self.profiles.insert(reference.to_owned(), profile);
        Ok(())
    }

    /// Adds the drive of a data sheet, `file`, that configurations call `name`: the usual such drive by this name, and those of
    /// all draws by [`Library::draws`].
    ///
    /// # Errors
    ///
    /// If the sheet lacks a rate, or has a number that no drive can have.
    pub fn add_sheet(&mut self, name: &str, file: &str, entry: Entry) -> Result<(), Refusal> {
        let id = &entry.drive.id;
        let family = |draw| catalogue::profile::family(file, entry, draw);
        let profile = |family: &Family| family.member(id).expect("it has been checked");
        let usual = family(Draw::Usual)?;
        let drawn: Vec<Family> = (0..DRAWS)
            .map(|number| family(Draw::Number(number)))
            .collect::<Result<_, _>>()?;
        keep(&mut self.known, of_draws(name, &usual, &drawn, id));
        self.drawn
            .insert(name.to_owned(), drawn.iter().map(profile).collect());
        self.makes.insert(name.to_owned(), Make::of(&usual));
        self.profiles.insert(name.to_owned(), profile(&usual));
        self.rated.add_sheet(name, entry, &usual, &drawn);
        Ok(())
    }

    /// Adds another name for a drive that the library has.
    ///
    /// # Panics
    ///
    /// If there is no such drive.
    pub fn add_name(&mut self, name: &str, known: &str) {
        let profile = self
            .profiles
            .get(known)
            .expect("the drive is in the library");
        self.profiles.insert(name.to_owned(), profile.clone());
        let make = self.makes.get(known).expect("each profile has a make");
        self.makes.insert(name.to_owned(), make.clone());
        self.rated.add_name(name, known);
        let of = format!("drive {name}");
        let figures = self.known.get(&format!("drive {known}"));
        let figures = figures.into_iter().flatten().cloned();
        let renamed: Vec<Known> = figures
            .map(|figure| Known {
                of: of.clone(),
                ..figure
            })
            .collect();
        keep(&mut self.known, renamed);
    }

    /// The drives that may be meant by one that is known from a data sheet only, by the names of their profiles; empty for others.
    pub fn draws(&self, drive: &Reference) -> Vec<Reference> {
        let drawn = self.drawn.get(drive.text()).map_or(0, Vec::len);
        (0..drawn).map(|number| of_draw(drive, number)).collect()
    }

    /// Whether this is the name of a draw, one of [`Library::draws`].
    #[must_use]
    pub fn is_draw(&self, drive: &Reference) -> bool {
        self.draw(drive.text()).is_some()
    }

    fn draw(&self, name: &str) -> Option<&Profile> {
        let (drive, number) = name.rsplit_once(DRAW)?;
        self.drawn.get(drive)?.get(number.parse::<usize>().ok()?)
    }

    /// Puts the drives of a family in the place of those of the program, to find out what a constant of theirs does.
    ///
    /// # Errors
    ///
    /// The first number that no drive can have.
    pub fn replace(&mut self, family: &Family) -> Result<(), FigureError> {
        for Member { id, .. } in &family.members {
            self.profiles.insert(id.clone(), family.member(id)?);
        }
        Ok(())
    }

    /// Adds the platform that configurations call `reference`. `text` is the content of the file.
    ///
    /// # Errors
    ///
    /// If that is not a platform, or has a number or a tree of links that no machine can have.
    pub fn add_platform(&mut self, reference: &str, text: &str) -> Result<(), Refusal> {
        let machine: Machine = read(reference, text)?;
        self.add_machine(reference, &machine)
    }

    /// Adds the machine that configurations call `name`.
    ///
    /// # Errors
    ///
    /// If it has a number or a tree of links that no machine can have.
    pub fn add_machine(&mut self, name: &str, machine: &Machine) -> Result<(), Refusal> {
        let graph = machine.graph();
        let graph = graph.map_err(|error| Refusal::new(name, error.key, error.rule))?;
        keep(
            &mut self.known,
            of_file(&format!("platform {name}"), machine),
        );
        self.platforms.insert(name.to_owned(), graph);
        Ok(())
    }

    /// Has the platform `name` keep all buffers in the memory of one socket.
    ///
    /// # Panics
    ///
    /// If there is no such platform.
    pub fn keep_buffers_on(&mut self, name: &str, socket: u64) {
        let graph = self.platforms.get_mut(name);
        graph.expect("the platform is in the library").buffers = Buffers::On(socket);
    }

    /// Has the drives of plans on the platform `name` be those of `machine`, with as many queues as it shows of them.
    ///
    /// # Panics
    ///
    /// If there is no such platform.
    pub fn keep_queues_of(&mut self, name: &str, machine: &Machine) {
        let graph = self.platforms.get_mut(name);
        let graph = graph.expect("the platform is in the library");
        graph.keep_queues_of(machine);
    }

    /// Everything that the library holds for a setup, with all digits of all numbers.
    #[must_use]
    pub fn contents(&self, setup: &Setup) -> String {
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            self.profile(&setup.drive),
            self.platform(&setup.platform),
            self.host(&setup.host),
            setup.export.map(|export| self.export(export)),
            (setup.stack == self.md.stack).then_some(&self.md),
            self.raid_drivers.get(&setup.stack)
        )
    }

    /// The figures that a setup is computed from, with their sources: of drive, platform, host, stack and export.
    #[must_use]
    pub fn provenance(&self, setup: &Setup) -> Vec<Known> {
        let export = setup.export.map(|export| match export {
            setup::Export::Nbd => "export nbd".to_owned(),
            setup::Export::Ublk => "export ublk".to_owned(),
        });
        let drive = self.known.get(&format!("drive {}", setup.drive.text()));
        let rated = self.rated.known(&setup.drive);
        let subjects = [
            format!("platform {}", setup.platform.text()),
            format!("host {}", setup.host),
            format!("stack {}", setup.stack),
        ];
        let subjects = subjects.into_iter().chain(export);
        let known = subjects.filter_map(|subject| self.known.get(&subject));
        let all = drive.into_iter().chain(&rated).chain(known);
        all.flatten().cloned().collect()
    }

    /// A drive.
    ///
    /// # Errors
    ///
    /// If the library has no profile of it.
    pub fn profile(&self, drive: &Reference) -> Result<&Profile, NotModelled> {
        let name = drive.text();
        let profile = self.profiles.get(name).or_else(|| self.draw(name));
        profile.ok_or_else(|| NotModelled {
            reason: format!("there is no profile of the drive \"{name}\""),
        })
    }

    /// Who makes a drive, and what for.
    ///
    /// # Errors
    ///
    /// If the library has no profile of it.
    pub fn make(&self, drive: &Reference) -> Result<&Make, NotModelled> {
        let name = drive.text();
        self.makes.get(name).ok_or_else(|| NotModelled {
            reason: format!("there is no profile of the drive \"{name}\""),
        })
    }

    /// What a drive is rated for beside its speed; `None` if the library has no profile of it.
    #[must_use]
    pub fn rated(&self, drive: &Reference) -> Option<&Rated> {
        self.rated.get(drive)
    }

    /// A platform.
    ///
    /// # Errors
    ///
    /// If the library has no profile of it.
    pub fn platform(&self, platform: &Reference) -> Result<&Graph, NotModelled> {
        let name = platform.text();
        self.platforms.get(name).ok_or_else(|| NotModelled {
            reason: format!("the platform \"{name}\" is not modelled yet"),
        })
    }

    /// A host.
    ///
    /// # Errors
    ///
    /// If the library has no profile of it.
    pub fn host(&self, name: &str) -> Result<&Host, NotModelled> {
        self.hosts.get(name).ok_or_else(|| NotModelled {
            reason: format!("the host \"{name}\" is not modelled yet"),
        })
    }

    /// The host that a stack is a driver of, if it is one.
    #[must_use]
    pub fn host_of_stack(&self, stack: &str) -> Option<&str> {
        let driver = self.raid_drivers.get(stack)?;
        Some(&driver.host)
    }

    /// An export.
    #[must_use]
    pub fn export(&self, export: setup::Export) -> &Export {
        match export {
            setup::Export::Nbd => &self.nbd,
            setup::Export::Ublk => &self.ublk,
        }
    }

    /// The drives that have profiles, in order.
    pub fn drives(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// The platforms that are modelled, in order.
    pub fn platforms(&self) -> impl Iterator<Item = &str> {
        self.platforms.keys().map(String::as_str)
    }

    /// The hosts that are modelled, in order.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }
}
