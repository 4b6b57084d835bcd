//! A run: a workload on drives behind a stack, for a given time. `requests` is the clients' side of it, `handing`
//! the interrupts that cores take for each other.

mod handing;
mod requests;

use super::audit::Audit;
use super::clients::Clients;
use super::drive_counters::DriveCounters;
use super::drive_queues::DriveQueues;
use super::event::Event;
use super::host::{Books, Host};
use super::series::Series;
use crate::stacks::{Rebuilt, Stack};
use anyhow::{Context, Result, bail, ensure};
use engine::plan::StepKind;
use engine::stats::Stats;
use engine::world::Input;
use lab::workload::generator::Generator;
use lab::workload::meter::{Figures, Meter};
use lab::workload::{Broken, Workload};
use repeatable::random::mix;
use virtual_time::queue::Queue;
use virtual_time::timing::{Place, Timing};

/// Bytes of a metadata update on one drive: the anchor and the rest of the record before it.
const METADATA_BYTES: u64 = 4096;
/// Requests in flight when the load ends must be answered within this time, or the run counts as stalled.
const DRAIN_NS: u64 = 600_000_000_000;

/// What runs.
pub struct Setup {
    /// The code between clients and drives.
    pub stack: Box<dyn Stack>,
    /// The drives, in the order of their slots.
    pub drives: Vec<Box<dyn Timing>>,
    /// The queues that each drive grants, in the same order. Those of drives that are not in the list are never shared.
    pub queues: Vec<u64>,
    /// The costs of everything around the stack.
    pub host: Host,
    /// What clients do.
    pub workload: Workload,
    /// The seed of the clients' random numbers.
    pub seed: u64,
}

/// The part of a run that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Start of the measurement.
    pub from_ns: u64,
    /// End of the measurement.
    pub until_ns: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Measurements of the clients, in the window.
    pub figures: Figures,
    /// Processor time spent in the window.
    pub books: Books,
    /// Energy that drives used in the window, in nanojoules; 0 if their model does not compute it.
    pub energy_nj: u64,
    /// Bytes that can be written before drives have to collect garbage, at the window's begin and end; the least
    /// of all drives. `None` if their model has no such pool.
    pub pool_bytes: [Option<u64>; 2],
    /// How long the busiest of the stack's shared cache lines has been occupied by changes, during the whole run.
    pub stack_lines_busy_ns: u64,
    /// How long the busiest line of the drives' counters has been occupied by changes, during the whole run.
    pub drive_counters_busy_ns: u64,
    /// The same of the locks of queues that cores share.
    pub drive_queues_busy_ns: u64,
    /// The progress of a rebuild at the window's begin and end; `None` without one.
    pub rebuilt: Option<[Rebuilt; 2]>,
    /// Answers over time, from the start of the run to the window's end.
    pub series: Series,
    /// Commands that drives have carried out during the whole run.
    pub commands: u64,
    /// The stack's counters for the whole run.
    pub counters: Stats,
    /// A digest of all events and their times: the same for the same run, on every machine and in every build.
    pub digest: u64,
}

/// A core of the stack.
#[derive(Clone, Default)]
struct Core {
    /// When the turn under way ends.
    free_at_ns: u64,
    /// When the next turn begins, if one is planned.
    turn_at_ns: Option<u64>,
    /// The time of a turn that was planned before an earlier one replaced it. Its event is still in the queue,
    /// and need not be queued again. Mostly this is the engine's next check of its deadlines, which every turn
    /// asks for.
    asked_for_ns: Option<u64>,
    /// The kernel's time for inputs of the next turn: answers, requests and the wake-up.
    owed_ns: u64,
}

struct Run {
    queue: Queue<Event>,
    stack: Box<dyn Stack>,
    cores: Vec<Core>,
    drives: Vec<Box<dyn Timing>>,
    drive_counters: DriveCounters,
    drive_queues: DriveQueues,
    clients: Clients,
    host: Host,
    books: Books,
    audit: Audit,
    meter: Option<Meter>,
    series: Series,
    under_way: u64,
    is_loaded: bool,
    digest: u64,
}

/// The totals when a window begins or ends.
#[derive(Clone, Copy, Default)]
struct Used {
    books: Books,
    energy_nj: u64,
    pool_bytes: Option<u64>,
    rebuilt: Option<Rebuilt>,
}

/// Carries out a run.
///
/// # Errors
///
/// When the stack or the workload is impossible, when something failed although a run has no faults, or when a
/// law of [`super`] does not hold.
pub fn run(setup: Setup, window: Window) -> Result<RunOutcome> {
    let generator = Generator::new(&setup.workload, setup.stack.size_bytes(), setup.seed);
    run_load(setup, generator, window)
}

/// The same at `tenths` tenths of the load of Aerospike's certification test, with the workload's threads.
///
/// # Errors
///
/// As [`run`].
pub fn run_act(setup: Setup, tenths: u32, window: Window) -> Result<RunOutcome> {
    let (threads, size_bytes) = (setup.workload.threads, setup.stack.size_bytes());
    let generator = Generator::act(threads, tenths, size_bytes, setup.seed);
    run_load(setup, generator, window)
}

fn run_load(
    setup: Setup,
    generator: Result<Generator, Broken>,
    window: Window,
) -> Result<RunOutcome> {
    let generator = generator
        .map_err(|broken| anyhow::anyhow!("the workload: {} {}", broken.key, broken.rule))?;
    let workload = setup.workload.clone();
    let mut run = Run::new(setup, generator, window)?;
    run.queue.at(window.from_ns, Event::Begins);
    run.queue.at(window.until_ns, Event::Ends);
    (0..run.clients.threads()).for_each(|thread| run.queue.at(0, Event::Wake(thread)));
    let mut begun = Used::default();
    let mut ended = None;
    loop {
        if ended.is_some() && run.under_way == 0 {
            break;
        }
        let event = run.queue.take().context("the run has nothing left to do")?;
        let now_ns = run.queue.now_ns();
        run.digest = mix(run.digest ^ mix(now_ns ^ event.name()));
        match event {
            Event::Begins => {
                run.meter = Some(Meter::new(&workload, now_ns));
                begun = run.used();
            }
            Event::Ends => {
                run.is_loaded = false;
                let meter = run
                    .meter
                    .take()
                    .context("a window ends after it has begun")?;
                let backlog = run.clients.backlog(now_ns);
                ended = Some((meter.finish(now_ns, backlog), run.used()));
            }
            event => run.happen(event)?,
        }
        ensure!(
            now_ns < window.until_ns + DRAIN_NS,
            "{} requests are not answered long after the load has ended",
            run.under_way
        );
    }
    let (figures, used) = ended.context("the window has ended")?;
    let counters = run.stack.counters();
    run.audit.judge(&counters)?;
    Ok(RunOutcome {
        figures,
        books: used.books.since(begun.books),
        energy_nj: used.energy_nj - begun.energy_nj,
        pool_bytes: [begun.pool_bytes, used.pool_bytes],
        stack_lines_busy_ns: run.stack.lines_busy_ns(),
        drive_counters_busy_ns: run.drive_counters.busy_ns(),
        drive_queues_busy_ns: run.drive_queues.busy_ns(),
        rebuilt: begun.rebuilt.zip(used.rebuilt).map(<[Rebuilt; 2]>::from),
        series: run.series,
        commands: run.audit.commands,
        counters,
        digest: run.digest,
    })
}

impl Run {
    fn new(setup: Setup, generator: Generator, window: Window) -> Result<Run> {
        let Setup { stack, drives, .. } = setup;
        ensure!(
            drives.len() == stack.drives(),
            "{} drives for an array of {}",
            drives.len(),
            stack.drives()
        );
        ensure!(
            !stack.is_on_clients_cores() || stack.cores() >= generator.threads() as usize,
            "{} threads on {} cores of their own",
            generator.threads(),
            stack.cores()
        );
        Ok(Run {
            queue: Queue::default(),
            cores: vec![Core::default(); stack.cores()],
            drive_counters: DriveCounters::new(&setup.host, drives.len(), stack.cores()),
            drive_queues: DriveQueues::new(&setup.host, &setup.queues, stack.cores()),
            stack,
            drives,
            clients: Clients::new(generator),
            host: setup.host,
            books: Books::default(),
            audit: Audit::default(),
            meter: None,
            series: Series::until(window.until_ns),
            under_way: 0,
            is_loaded: true,
            digest: 0,
        })
    }

    /// The totals so far.
    fn used(&mut self) -> Used {
        let now_ns = self.queue.now_ns();
        let drives = self.drives.iter_mut();
        let energy_nj = drives.map(|drive| drive.energy_nj(now_ns)).sum();
        let pools = self.drives.iter().filter_map(|drive| drive.pool_bytes());
        Used {
            books: self.books,
            energy_nj,
            pool_bytes: pools.min(),
            rebuilt: self.stack.rebuilt_bytes(),
        }
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Turn(number) => {
                let now_ns = Some(self.queue.now_ns());
                let core = &mut self.cores[usize::from(number)];
                if core.asked_for_ns == now_ns {
                    core.asked_for_ns = None;
                }
                if core.turn_at_ns == now_ns {
                    self.turn(number)?;
                }
            }
            Event::Done { core, token } => {
                let result = Ok(());
                if !self.stack.world(usize::from(core)).kernel_is_paid {
                    self.cores[usize::from(core)].owed_ns += self.host.answer_command_ns;
                }
                self.tell(core, Input::Done { token, result });
            }
            Event::Interrupt {
                core,
                member,
                token,
            } => self.interrupt(core, member, token),
            Event::Handed {
                core,
                member,
                token,
            } => self.handed(core, member, token),
            Event::Persisted(member) => {
                let result = Ok(());
                self.tell(0, Input::Persisted { member, result });
            }
            Event::Delivered(to, message) => {
                self.tell(u16::from(to.0), Input::Message(*message));
            }
            Event::Wake(thread) => self.issue(thread)?,
            Event::Made(thread) => {
                self.hand_over(thread)?;
                self.issue(thread)?;
            }
            Event::Told(core) => self.tell_clients(core)?,
            Event::Woken(core) => self.rouse(core),
            Event::Begins | Event::Ends => bail!("a window is not the stack's"),
        }
        Ok(())
    }

    /// Gives a core an input, and schedules a turn.
    fn tell(&mut self, number: u16, input: Input) {
        let world = self.stack.world(usize::from(number));
        world.inputs.push_back(input);
        self.rouse(number);
    }

    /// Whether a core works. One that was busy until now checks for work once more before it sleeps.
    fn is_awake(&self, core: usize, now_ns: u64) -> bool {
        let core = &self.cores[core];
        core.free_at_ns >= now_ns || core.turn_at_ns == Some(now_ns)
    }

    /// Schedules a turn of a core for when it notices that there is work.
    fn rouse(&mut self, number: u16) {
        let now_ns = self.queue.now_ns();
        let is_awake = self.is_awake(number.into(), now_ns);
        let core = &mut self.cores[usize::from(number)];
        let mut notice_ns = 0;
        if !is_awake {
            notice_ns = self.host.notice_after_ns(now_ns - core.free_at_ns);
            let is_woken = core
                .turn_at_ns
                .is_some_and(|turn_ns| turn_ns <= now_ns + notice_ns);
            core.owed_ns += if is_woken { 0 } else { self.host.wake_ns };
        }
        self.turn_at(number, now_ns + notice_ns);
    }

    /// Schedules a turn of a core for this time, or when the core is free, unless an earlier one is planned.
    fn turn_at(&mut self, number: u16, at_ns: u64) {
        let core = &mut self.cores[usize::from(number)];
        let at_ns = at_ns.max(core.free_at_ns);
        if core.turn_at_ns.is_some_and(|other_ns| other_ns <= at_ns) {
            return;
        }
        let is_asked_for = core.asked_for_ns == Some(at_ns);
        core.asked_for_ns = core.turn_at_ns.replace(at_ns).or(core.asked_for_ns);
        if !is_asked_for {
            self.queue.at(at_ns, Event::Turn(number));
        }
    }

    fn turn(&mut self, number: u16) -> Result<()> {
        let now_ns = self.queue.now_ns();
        let core = &mut self.cores[usize::from(number)];
        core.turn_at_ns = None;
        if core.free_at_ns > now_ns {
            // The client occupied the core first; both use it.
            self.turn_at(number, now_ns);
            return Ok(());
        }
        self.books.kernel_ns += self.host.looking_ns(now_ns - core.free_at_ns);
        let work_ns = self.stack.turn(usize::from(number), now_ns)?;
        // A core that waits for memory is busy.
        let touched_until_ns = self.stack.touched_until_ns(usize::from(number));
        let raid_ns = work_ns.max(touched_until_ns.saturating_sub(now_ns));
        let world = self.stack.world(usize::from(number));
        let entered = world.take_entered();
        let core = &mut self.cores[usize::from(number)];
        let kernel_ns = core.owed_ns
            + entered.count * self.host.submit_command_ns
            + entered.further_pages * self.host.page_ns
            + self.host.enter_ns * u64::from(entered.count > 0);
        core.owed_ns = 0;
        let mut end_ns = now_ns + raid_ns + kernel_ns;
        if !world.kernel_is_paid {
            let counters = &mut self.drive_counters;
            end_ns = counters.counted_ns(now_ns, end_ns, number.into(), &world.commands);
            let queues = &mut self.drive_queues;
            end_ns = queues.locked_ns(now_ns, end_ns, number.into(), &world.commands);
        }
        self.books.raid_ns += raid_ns;
        self.books.kernel_ns += end_ns - now_ns - raid_ns;
        core.free_at_ns = end_ns;
        self.carry_out(number, end_ns);
        if !self.stack.world(usize::from(number)).inputs.is_empty() {
            self.turn_at(number, end_ns);
        } else if let Some(wake_ns) = self.stack.wake_ns(usize::from(number)) {
            self.turn_at(number, wake_ns.max(end_ns));
        }
        Ok(())
    }

    /// Carries out the outputs of a turn when it ends.
    fn carry_out(&mut self, core: u16, end_ns: u64) {
        let world = self.stack.world(usize::from(core));
        for io in &world.commands {
            let place = Place {
                offset_bytes: io.offset_bytes,
                length_bytes: io.length_bytes,
            };
            self.audit.command(io.kind, io.length_bytes);
            let drive = &mut self.drives[usize::from(io.member.0)];
            let at_ns = drive.finish_ns(end_ns, io.kind, place);
            let (token, member) = (io.token, io.member);
            let handler = self.drive_queues.handler(member.0.into(), core.into());
            let event = match handler {
                Some(_) if !world.kernel_is_paid => Event::Interrupt {
                    core,
                    member,
                    token,
                },
                _ => Event::Done { core, token },
            };
            self.queue.at(at_ns, event);
        }
        world.commands.clear();
        if !world.completions.is_empty() {
            // Queued before the next turn, which may begin at the same time.
            self.queue.at(end_ns, Event::Told(core));
        }
        if !world.asks_others() {
            // True for nearly all turns.
            return;
        }
        for other in world.wakes.drain(..) {
            self.queue.at(end_ns, Event::Woken(other));
        }
        for (to, message) in world.mail.drain(..) {
            self.queue
                .at(end_ns, Event::Delivered(to, Box::new(message)));
        }
        let persists = std::mem::take(&mut world.persists);
        let offset_bytes = self.stack.metadata_offset_bytes();
        for member in persists {
            let place = Place {
                offset_bytes,
                length_bytes: METADATA_BYTES,
            };
            let drive = &mut self.drives[usize::from(member.0)];
            let at_ns = drive.finish_ns(end_ns, StepKind::Write { fua: true }, place);
            self.queue.at(at_ns, Event::Persisted(member));
        }
    }
}
