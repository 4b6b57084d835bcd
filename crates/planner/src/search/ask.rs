//! Turns a user's search into a [`Question`]: the drives that have a price and can be planned, the machine, and the load.

use super::Question;
use super::wanted::Wanted;
use crate::files::{add_drive, add_platform};
use crate::plan::ask::{HOST, option, usual_state};
use crate::plan::loads::load;
use crate::plan::size::{SizeQuestion, Sizer};
use crate::predict::library::Library;
use anyhow::{Result, anyhow, bail, ensure};
use lab::schema::configuration::State;
use lab::schema::nearest::nearest;
use lab::schema::setup::{Export, Level, Reference};
use lab::workload::Completion;
use models::platform::Machine;
use std::path::Path;

/// The levels of a search that names none: those that survive the loss of a drive.
const LEVELS: [Level; 3] = [Level::Raid1, Level::Raid5, Level::Raid10];
/// Clients, unless others are given: as in plans of one load.
const CLIENTS: (u32, u32) = (8, 64);

/// What the user asks of a search.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What the array has to do.
    pub text: String,
    /// The drive, if only one is to be looked at; by default all that have a price.
    pub drive: Option<String>,
    /// The levels; if empty, those that survive the loss of a drive.
    pub levels: Vec<Level>,
    /// The number of drives; by default as few as hold.
    pub count: Option<u32>,
    /// Chunk size; by default several are tried.
    pub chunk_kib: Option<u32>,
    /// The machine: an id, or a file.
    pub platform: String,
    /// That machine, if it is the one at hand.
    pub here: Option<Machine>,
    /// The operating system; by default that of plans.
    pub host: Option<String>,
    /// Cores that run the engine; by default one.
    pub engine_cores: Option<u32>,
    /// How clients of other processes reach the engine.
    pub export: Option<Export>,
    /// How completions are noticed.
    pub completion: Option<Completion>,
    /// Threads of clients.
    pub threads: Option<u32>,
    /// Requests outstanding per thread.
    pub qd: Option<u32>,
    /// State of the drives; by default that in which reviews prepare drives for the load.
    pub state: Option<State>,
    /// Spares, prices and failure rate.
    pub size: SizeQuestion,
}

impl Asked {
    /// The question, and a sentence about each drive that is left out. Its drives and machine are added to `library`.
    ///
    /// # Errors
    /// What is asked for is not understood, there are no prices, or something is unknown or impossible: one sentence.
    pub fn question(&self, library: &mut Library) -> Result<(Question, Vec<String>)> {
        let wanted = Wanted::parse(&self.text)?;
        ensure!(
            self.size.prices.is_some(),
            "--for looks for the cheapest array, so it needs --prices with a file of what drives cost (docs/planning.md)"
        );
        self.add_machine(library)?;
        if let Some(drive) = &self.drive {
            add_drive(library, Path::new(""), &Reference::from(drive.clone()))?;
        }
        let sizer = Sizer::of_search(&self.size, library)?;
        let (drives, left_out) = self.drives(&sizer, library)?;
        let (threads, qd) = CLIENTS;
        let mut load = load(
            wanted.op,
            Some(wanted.bs),
            self.threads.unwrap_or(threads),
            self.qd.unwrap_or(qd),
        );
        load.read_pct = wanted.read_pct;
        load.completion = self.completion;
        let question = Question {
            text: self.text.clone(),
            drives,
            levels: self.levels(),
            count: self.count,
            chunk_kib: self.chunk_kib,
            platform: self.platform.clone(),
            host: self.host.clone().unwrap_or_else(|| HOST.to_owned()),
            engine_cores: self.engine_cores,
            export: self.export,
            state: self.state.unwrap_or(usual_state(wanted.op)),
            load,
            wanted,
            platform_price: sizer.platform_price(&self.platform),
            sizer,
            run_all: false,
        };
        self.check_levels(&question, library)?;
        question.check(library)?;
        Ok((question, left_out))
    }

    /// The levels to choose from, each once.
    fn levels(&self) -> Vec<Level> {
        let asked = match self.levels.as_slice() {
            [] => &LEVELS,
            some => some,
        };
        let mut levels = Vec::new();
        for level in asked {
            if !levels.contains(level) {
                levels.push(*level);
            }
        }
        levels
    }

    /// Fails if a level that is asked for by name cannot have the number of drives that is asked for, or no level the spares.
    fn check_levels(&self, question: &Question, library: &Library) -> Result<()> {
        ensure!(
            !self.levels.contains(&Level::Single),
            "--for looks for arrays, and --level none is one drive without RAID: leave out one of them"
        );
        let catalogue = library.catalogue();
        // Options that hold for every level.
        let first = question.setup(&question.drives[0], Level::Raid5, 3, self.chunk_kib);
        first
            .check(&catalogue)
            .map_err(|broken| option(&broken, &first))?;
        for &level in &self.levels {
            let count = self.count.unwrap_or(level.drives_min());
            let setup = question.setup(&question.drives[0], level, count, self.chunk_kib);
            let rule = match setup.check(&catalogue) {
                Err(broken) if broken.key == "count" => Some(level.drives_in_words()),
                Err(broken) => return Err(option(&broken, &setup)),
                Ok(()) if level == Level::Raid1 && count != level.drives_min() => {
                    Some("exactly 2 drives".to_owned())
                }
                Ok(()) => None,
            };
            if let Some(rule) = rule {
                bail!(
                    "--count {count} is impossible: {} needs {rule}",
                    level.name()
                );
            }
        }
        let spared = question
            .levels
            .iter()
            .filter(|level| question.sizer.spares_of(**level) > 0);
        ensure!(
            self.size.spares == 0 || spared.count() > 0,
            "--spares goes with RAID 1, 5 and 10 only: no other level is rebuilt"
        );
        Ok(())
    }

    fn add_machine(&self, library: &mut Library) -> Result<()> {
        match &self.here {
            Some(machine) => library.add_machine(&self.platform, machine)?,
            None => {
                let platform = Reference::from(self.platform.clone());
                add_platform(library, Path::new(""), &platform)?;
            }
        }
        let known: Vec<&str> = library.platforms().collect();
        ensure!(
            known.contains(&self.platform.as_str()),
            "--platform does not know \"{}\"; nearest: {}",
            self.platform,
            nearest(&self.platform, known.iter().copied())
        );
        Ok(())
    }

    /// The drives to choose from, and why others with a price are left out.
    fn drives(&self, sizer: &Sizer, library: &mut Library) -> Result<(Vec<String>, Vec<String>)> {
        let (mut drives, mut left_out) = (Vec::new(), Vec::new());
        let here = Path::new("");
        if let Some(drive) = &self.drive {
            sizer.price(drive)?;
            return Ok((vec![drive.clone()], left_out));
        }
        for name in sizer.drives() {
            let drive = Reference::from(name.to_owned());
            match add_drive(library, here, &drive) {
                Ok(()) if library.profile(&drive).is_ok() => drives.push(name.to_owned()),
                Ok(()) => {
                    left_out.push(format!("{name} cannot be planned: nothing is known of it"))
                }
                Err(why) => left_out.push(format!("{why:#}")),
            }
        }
        if drives.is_empty() {
            let why = left_out.join("; ");
            bail!("--prices has no drive that can be planned: {why}");
        }
        Ok((drives, left_out))
    }
}

impl Question {
    /// Fails if no array could be run at all.
    fn check(&self, library: &Library) -> Result<()> {
        let hosts: Vec<&str> = library.hosts().collect();
        ensure!(
            hosts.contains(&self.host.as_str()),
            "--host does not know \"{}\"; nearest: {}",
            self.host,
            nearest(&self.host, hosts.iter().copied())
        );
        self.load
            .check()
            .map_err(|broken| anyhow!("--for: {} {}", broken.key, broken.rule))?;
        let platform = Reference::from(self.platform.clone());
        let graph = library.platform(&platform);
        let bays = graph.map_err(|missing| anyhow!(missing.reason))?.bays.len();
        let all = self.first(&vec![0.0; self.drives.len()], bays as u32);
        ensure!(
            !all.is_empty(),
            "no array of --level and --count, with its spares, is possible in {}, which has bays and lanes for at most {bays} drives",
            self.platform
        );
        Ok(())
    }
}
