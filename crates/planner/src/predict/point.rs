//! A point that can be run: configuration, drives, surroundings and stack together.

use super::library::Library;
use super::mechanisms::Mechanisms;
use super::resources::Resource;
use super::surroundings::Surroundings;
use anyhow::{Result, bail};
use engine::layout;
use lab::claims::predictor::NotModelled;
use lab::schema::configuration::{Configuration, State};
use lab::schema::metric::Metric;
use lab::schema::setup::{Condition, Level};
use lab::workload::meter::Figures;
use lab::workload::{Completion, Operation, Workload, act};
use models::drive::{self, Drive};
use models::profile::Profile;
use models::queue_map::QueueMap;
use models::units::READ_MIN_BYTES;
use serde::{Deserialize, Serialize};
use timed::array::{Array, Rebuilding};
use timed::host::Books;
use timed::machine::SharedPlatform;
use timed::run::{RunOutcome, Setup, Window, run, run_act};
use timed::stacks::Stack;
use timed::stacks::faster::Faster;
use timed::stacks::fullstripe::Fullstripe;
use timed::stacks::md_2018::Md2018;
use timed::stacks::none::NoRaid;
use timed::stacks::raid_driver::RaidDriver;

/// Chunk size of the engine's arrays if the setup gives none: the default of `create`.
pub const CHUNK_KIB: u32 = 128;
/// Space on each drive for metadata and logs, at least.
const RESERVE_BYTES: u64 = 64 << 20;
/// Cores that run the engine, unless somebody asks for more.
const SHARDS: u8 = 1;
/// The slot of the drive that is missing or new. Any slot would do, because all drives are alike.
const AFFECTED_SLOT: u8 = 0;
/// Linux md of 2018.
const MD_2018: &str = "md-2018";
/// The stacks that are modelled: `none` is for one drive alone.
pub const STACKS: [&str; 5] = [
    "none",
    "fullstripe",
    MD_2018,
    RAID_DRIVERS[0],
    RAID_DRIVERS[1],
];
/// RAID drivers of Windows of 2017.
const RAID_DRIVERS: [&str; 2] = ["vroc-windows-2017", "rst-z270"];

/// Whether arrays of a stack have the metadata format of this program, IMSM, which is that of Intel's drivers.
#[must_use]
pub fn is_in_own_format(stack: &str) -> bool {
    stack == "fullstripe" || RAID_DRIVERS.contains(&stack)
}

/// In which state drives start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The state that the configuration names.
    AsPut,
    /// The same, but with an empty clean pool, and each drive at a random place of its collection period.
    Spent,
    /// The same, but all drives are about to begin a collection: see [`Drive::spend_pool_in_step`].
    SpentInStep,
}

impl Start {
    /// The start of runs that are only compared with each other.
    #[must_use]
    pub fn in_step(self) -> Start {
        match self {
            Start::Spent => Start::SpentInStep,
            other => other,
        }
    }
}

/// See the module's prose.
#[derive(Clone, Debug)]
pub struct Point {
    profile: Profile,
    surroundings: Surroundings,
    configuration: Configuration,
}

/// The results of one run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The figures that clients see.
    pub figures: Figures,
    /// Commands that drives carried out.
    pub commands: u64,
    /// Digest of all events and their times.
    pub digest: u64,
    /// Processor time, split by client, kernel and RAID; `None` if no processors are modelled.
    pub books: Option<Books>,
    /// The rate of a rebuild.
    pub rebuild: Option<Rebuild>,
    /// Bytes that drives read for each byte that clients wrote.
    pub read_per_written: f64,
    /// Bytes that drives wrote for each byte that clients wrote, logs included.
    pub written_per_written: f64,
    /// The multiple of ACT's load, in tenths.
    act_tenths: Option<u32>,
    /// The share of a thread's busy time in which it has a core.
    busy_share: f64,
    watts: f64,
}

/// A rebuild beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rebuild {
    /// Bytes rebuilt on each drive per second.
    pub bytes_per_s: f64,
    /// Size of a drive.
    pub total_bytes: u64,
}

impl Measured {
    /// A figure; `None` if the run does not have it.
    #[must_use]
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Watts => Some(self.watts),
            Metric::CpuCores => {
                let books = self.books?;
                Some(books.cores(self.figures.window_ns) * self.busy_share)
            }
            Metric::ActMultiple => self.act_tenths.map(|tenths| f64::from(tenths) / 10.0),
            other => other.of(&self.figures),
        }
    }
}

impl Point {
    /// Combines a configuration with what the library holds for it.
    ///
    /// # Errors
    ///
    /// If a part of it is not modelled.
    pub fn new(configuration: &Configuration, library: &Library) -> Result<Point, NotModelled> {
        let setup = &configuration.setup;
        let missing = |reason: String| Err(NotModelled { reason });
        if !STACKS.contains(&setup.stack.as_str()) {
            return missing(format!("the stack \"{}\" is not modelled yet", setup.stack));
        }
        let point = Point {
            profile: library.profile(&setup.drive)?.clone(),
            surroundings: Surroundings::of(setup, library)?,
            configuration: configuration.clone(),
        };
        if let Err(error) = point.stack() {
            return missing(format!("{error:#}"));
        }
        Ok(point)
    }

    /// The setup.
    #[must_use]
    pub fn setup(&self) -> &lab::schema::setup::Setup {
        &self.configuration.setup
    }

    /// What surrounds its drives.
    #[must_use]
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The workload.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.configuration.workload
    }

    /// Threads that issue requests.
    fn client_threads(&self) -> u32 {
        let workload = self.workload();
        match workload.op {
            Operation::Act => workload.threads + act::LARGE_THREADS,
            _ => workload.threads,
        }
    }

    /// The same, and the stack's own.
    fn busy_threads(&self) -> u32 {
        self.client_threads() + u32::from(self.engine_cores())
    }

    /// Whether a map unit of its drives holds several of the least reads: small writes then fill it only in part.
    #[must_use]
    pub fn has_large_map_units(&self) -> bool {
        self.profile.map_unit_bytes > READ_MIN_BYTES
    }

    /// The burst that its drives take before the rate falls to that of the long run: a note for the reader. `None` if they have
    /// no pseudo-SLC cache in this state.
    #[must_use]
    pub fn burst(&self) -> Option<String> {
        let Profile {
            burst_bytes,
            burst_bytes_per_s,
            ..
        } = self.profile;
        let has_cache = matches!(self.configuration.state, State::Fresh | State::Filled);
        (has_cache && burst_bytes > 0).then(|| {
            format!(
                "figures are those of full pseudo-SLC caches; an empty one takes {:.0} GB of its drive's writes at up to {:.1} GB/s \
                 before",
                burst_bytes as f64 / 1e9,
                burst_bytes_per_s as f64 / 1e9
            )
        })
    }

    /// Which cores share queues of the drives: a note for the reader. `None` if none do.
    #[must_use]
    pub fn shared_queues(&self) -> Option<String> {
        let graph = self.surroundings.graph()?;
        let stack = self.stack().ok()?;
        let (cores, sockets) = (stack.cores(), graph.cores.sockets as usize);
        let processors = graph.cores.processors() as usize;
        let queues = self.surroundings.queues(&self.profile, stack.drives());
        let (fewest, greatest) = (*queues.iter().min()?, *queues.iter().max()?);
        let as_few = if fewest < greatest { "as few as " } else { "" };
        let fewest = usize::try_from(fewest).unwrap_or(usize::MAX);
        let most = QueueMap::new(cores, processors, sockets, fewest, 0).most();
        let shared = match self.workload().completion {
            None | Some(Completion::Interrupt) => "lock and interrupts",
            // Who polls finds its own completions.
            Some(Completion::Polled | Completion::Hybrid) => "locks",
        };
        (most > 1).then(|| {
            format!(
                "{} submit to drives that have {as_few}{}: up to {most} of them share a queue's {shared}",
                words::count(cores.min(processors), "core"),
                words::count(fewest, "queue")
            )
        })
    }

    /// Whether the load leaves the layout of data on the drives as it is: it only reads, or it writes at random over
    /// data that is already scattered.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        let workload = self.workload();
        let is_random = matches!(workload.op, Operation::RandWrite | Operation::RandMix);
        let is_scattered = matches!(
            self.configuration.state,
            State::Steady | State::Worn | State::PoweredOn
        );
        workload.read_percent() == Some(100) || (is_random && is_scattered)
    }

    /// The size that clients see.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.stack().map_or(0, |stack| stack.size_bytes())
    }

    fn stack(&self) -> Result<Box<dyn Stack>> {
        let setup = &self.configuration.setup;
        let threads = self.client_threads();
        let Some(level) = setup.level.array() else {
            return Ok(Box::new(NoRaid::new(self.profile.capacity_bytes, threads)));
        };
        let Ok(members) = u8::try_from(setup.count) else {
            bail!("{} drives are more than an array can have", setup.count);
        };
        let md = match setup.stack.as_str() {
            MD_2018 => Some(
                self.surroundings
                    .md(u64::from(threads) + u64::from(self.engine_cores()))?,
            ),
            _ => None,
        };
        let chunk_bytes = match setup.chunk_kib {
            Some(chunk_kib) => chunk_kib.saturating_mul(1024),
            None => md.map_or(CHUNK_KIB * 1024, |costs| costs.chunk_bytes),
        };
        let room_bytes = self.profile.capacity_bytes.saturating_sub(RESERVE_BYTES);
        if RAID_DRIVERS.contains(&setup.stack.as_str()) {
            if setup.condition.is_some() {
                bail!("RAID drivers of Windows are modelled with all members only");
            }
            let mut costs = self.surroundings.raid_driver(u64::from(threads))?;
            if setup.chunk_kib.is_some() {
                costs.chunk_bytes = chunk_bytes;
            }
            let driver = RaidDriver::new(level, members, room_bytes, costs, threads)?;
            return Ok(Box::new(driver));
        }
        let unit_bytes = u64::from(chunk_bytes.max(1 << 20));
        let array = Array {
            level,
            members,
            chunk_bytes,
            component_bytes: room_bytes / unit_bytes * unit_bytes,
            logged: level == layout::Level::Raid5,
            volatile_cache: false,
            missing: (setup.condition == Some(Condition::Degraded)).then_some(AFFECTED_SLOT),
            rebuilding: (setup.condition == Some(Condition::Rebuilding)).then(|| Rebuilding {
                slot: AFFECTED_SLOT,
                rate_bytes_per_s: u64::from(setup.rebuild_mb_s.unwrap_or(0)) * 1_000_000,
            }),
            shards: self.engine_cores(),
        };
        if let Some(costs) = md {
            return Ok(Box::new(Md2018::new(&array, costs, threads)?));
        }
        let prices = &self.surroundings.prices;
        Ok(Box::new(Fullstripe::new(&array, prices)?))
    }

    /// Whether the stack has cores of its own instead of sharing those of the clients.
    #[must_use]
    pub fn has_stack_cores(&self) -> bool {
        self.engine_cores() > 0
    }

    /// Cores that run only the stack.
    fn engine_cores(&self) -> u8 {
        let setup = &self.configuration.setup;
        match (setup.stack.as_str(), setup.level) {
            (_, Level::Single) => 0,
            // md has a thread of its own for RAID 5.
            (MD_2018, level) => u8::from(level == Level::Raid5),
            (stack, _) if RAID_DRIVERS.contains(&stack) => 0,
            _ => setup.engine_cores.map_or(SHARDS, |cores| {
                u8::try_from(cores)
                    .expect("a checked setup names no more cores than the engine has shards")
            }),
        }
    }

    /// The same with `resource` made `times` times as fast.
    #[must_use]
    pub fn faster(&self, resource: &Resource, times: f64) -> Point {
        let mut faster = self.clone();
        let is_on_clients_cores = !self.has_stack_cores();
        faster.surroundings = self
            .surroundings
            .faster(resource, times, is_on_clients_cores);
        resource.speed_up(&mut faster.profile, times);
        faster
    }

    /// The same without some mechanisms.
    #[must_use]
    pub fn without(mut self, off: &Mechanisms) -> Point {
        off.apply_to_drives(&mut self.profile, self.configuration.state);
        self.surroundings = self.surroundings.without(off);
        self
    }

    /// The same with `times` times as many requests outstanding.
    #[must_use]
    pub fn deeper(&self, times: u32) -> Point {
        let mut deeper = self.clone();
        let depth = &mut deeper.configuration.workload.qd;
        *depth = depth.map(|depth| depth.saturating_mul(times));
        deeper
    }

    fn drive(&self, start: Start, seed: u64, index: u64) -> Drive {
        let is_new = index == u64::from(AFFECTED_SLOT)
            && self.setup().condition == Some(Condition::Rebuilding);
        let state = match self.configuration.state {
            // The part of a new drive that has been rebuilt was written sequentially.
            _ if is_new => drive::State::Filled,
            State::Fresh => drive::State::Fresh,
            State::Filled => drive::State::Filled,
            State::Steady | State::PoweredOn => drive::State::Steady,
            State::Worn => drive::State::Worn,
        };
        let port = self.surroundings.port(&self.profile);
        let mut drive = Drive::new(&self.profile, state, port, seed, index);
        if self.configuration.state == State::PoweredOn {
            drive.power_on();
        }
        match start {
            Start::AsPut => {}
            Start::Spent => drive.spend_pool(),
            Start::SpentInStep => drive.spend_pool_in_step(),
        }
        drive
    }

    /// Runs the point once.
    ///
    /// # Errors
    ///
    /// If the workload does not fit the drives, or a law of virtual time does not hold.
    pub fn run(&self, start: Start, seed: u64, window: Window) -> Result<RunOutcome> {
        Ok(self.watch(start, seed, window)?.0)
    }

    /// The same, but also returns the machine after the run, if there is one.
    ///
    /// # Errors
    ///
    /// As [`Point::run`].
    pub fn watch(
        &self,
        start: Start,
        seed: u64,
        window: Window,
    ) -> Result<(RunOutcome, Option<SharedPlatform>)> {
        let (setup, platform) = self.at_start(start, seed)?;
        Ok((run(setup, window)?, platform))
    }

    /// Everything that runs, at its start.
    fn at_start(&self, start: Start, seed: u64) -> Result<(Setup, Option<SharedPlatform>)> {
        let mut stack = self.stack()?;
        let speed = self.surroundings.stack_speed();
        if speed > 1.0 {
            stack = Box::new(Faster::new(stack, (speed * 1e3) as u64));
        }
        let drives = (0..stack.drives() as u64).map(|index| self.drive(start, seed, index));
        let (drives, platform) = self.surroundings.hang(drives.collect(), &self.profile)?;
        let queues = self.surroundings.queues(&self.profile, drives.len());
        if let Some(platform) = &platform {
            stack.work_in(platform.clone());
        }
        let setup = Setup {
            drives,
            queues,
            stack,
            host: self.surroundings.host(self.workload(), self.busy_threads()),
            workload: self.configuration.workload.clone(),
            seed,
        };
        Ok((setup, platform))
    }

    /// Runs the point once and returns its figures.
    ///
    /// # Errors
    ///
    /// As [`Point::run`].
    pub fn measure(&self, start: Start, seed: u64, window: Window) -> Result<Measured> {
        Ok(self.measured(self.run(start, seed, window)?))
    }

    /// Runs the point once at `tenths` tenths of the load of Aerospike's certification test. Returns its figures, and by how
    /// many bytes the drives' clean pools have shrunk in the window.
    ///
    /// # Errors
    ///
    /// As [`Point::run`].
    pub fn measure_act(
        &self,
        start: Start,
        tenths: u32,
        seed: u64,
        window: Window,
    ) -> Result<(Measured, u64)> {
        let (setup, _) = self.at_start(start, seed)?;
        let outcome = run_act(setup, tenths, window)?;
        let [begun, ended] = outcome.pool_bytes.map(Option::unwrap_or_default);
        let measured = Measured {
            act_tenths: Some(tenths),
            ..self.measured(outcome)
        };
        Ok((measured, begun.saturating_sub(ended)))
    }

    fn measured(&self, outcome: RunOutcome) -> Measured {
        let window_ns = outcome.figures.window_ns.max(1);
        Measured {
            // Nanojoules in nanoseconds are watts.
            watts: outcome.energy_nj as f64 / window_ns as f64,
            books: self.surroundings.has_processors().then_some(outcome.books),
            rebuild: outcome.rebuilt.map(|[begun, ended]| {
                let done_bytes = ended.done_bytes.saturating_sub(begun.done_bytes);
                Rebuild {
                    bytes_per_s: done_bytes as f64 * 1e9 / window_ns as f64,
                    total_bytes: ended.total_bytes,
                }
            }),
            read_per_written: outcome.counters.member_read_bytes as f64
                / outcome.counters.write_bytes.max(1) as f64,
            written_per_written: (outcome.counters.member_write_bytes + outcome.counters.log_bytes)
                as f64
                / outcome.counters.write_bytes.max(1) as f64,
            commands: outcome.commands,
            digest: outcome.digest,
            figures: outcome.figures,
            act_tenths: None,
            busy_share: self.surroundings.busy_share(self.busy_threads()),
        }
    }
}
