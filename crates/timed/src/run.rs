//! A run: a workload on drives behind a stack, for a while.

use super::audit::Audit;
use super::clients::Clients;
use super::drive_counters::DriveCounters;
use super::event::Event;
use super::host::{Books, Host};
use super::series::Series;
use crate::stacks::{Rebuilt, Stack};
use anyhow::{Context, Result, bail, ensure};
use engine::plan::StepKind;
use engine::request::Operation;
use engine::stats::Stats;
use engine::world::Input;
use lab::workload::Workload;
use lab::workload::generator::Generator;
use lab::workload::meter::{Figures, Meter};
use repeatable::random::mix;
use virtual_time::queue::Queue;
use virtual_time::timing::{Place, Timing};

/// One drive's metadata: an anchor and what lies before it.
const METADATA_BYTES: u64 = 4096;
/// What is under way when a run ends has so long to come back, or the run has stalled.
const DRAIN_NS: u64 = 600_000_000_000;

/// What runs.
pub struct Setup {
    /// The code between clients and drives.
    pub stack: Box<dyn Stack>,
    /// The drives, in the order of their slots.
    pub drives: Vec<Box<dyn Timing>>,
    /// What everything around the stack costs.
    pub host: Host,
    /// What clients do.
    pub workload: Workload,
    /// Chooses the clients' random numbers.
    pub seed: u64,
}

/// The part of a run that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Not measured before this.
    pub from_ns: u64,
    /// Measured until this.
    pub until_ns: u64,
}

/// What a run says.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of the clients, in the window.
    pub figures: Figures,
    /// Processor time spent in the window.
    pub books: Books,
    /// Energy that drives used in the window, in nanojoules; 0 where they do not say.
    pub energy_nj: u64,
    /// What drives have left to write before they have to collect, at the window's begin and end; the least of
    /// all drives. `None` where they do not say.
    pub pool_bytes: [Option<u64>; 2],
    /// For how long the busiest of the stack's lines that cores share has been kept by changes, from the first to
    /// the last.
    pub stack_lines_busy_ns: u64,
    /// The same of the drives' counters.
    pub drive_counters_busy_ns: u64,
    /// How far a rebuild was at the window's begin and end; `None` where there was none.
    pub rebuilt: Option<[Rebuilt; 2]>,
    /// Answers over time, from the first moment to the window's end.
    pub series: Series,
    /// Commands that drives have carried out, from the first to the last.
    pub commands: u64,
    /// The stack's counters, likewise.
    pub counters: Stats,
    /// Of everything that has happened, and when: the same run has the same one, on every machine and in every
    /// build.
    pub digest: u64,
}

/// A core of the stack.
#[derive(Clone, Default)]
struct Core {
    /// When the turn under way ends.
    free_at_ns: u64,
    /// When the next one begins, as far as known.
    turn_at_ns: Option<u64>,
    /// When else one was to begin until something came up: that event is still to come, and need not be asked for
    /// again. Mostly it is the engine's next look at its deadlines, which every turn asks for.
    asked_for_ns: Option<u64>,
    /// The kernel's work for answers that the next turn will take.
    owed_ns: u64,
}

struct Run {
    queue: Queue<Event>,
    stack: Box<dyn Stack>,
    cores: Vec<Core>,
    drives: Vec<Box<dyn Timing>>,
    drive_counters: DriveCounters,
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

/// What has been used up when a window begins or ends.
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
/// When stack or workload are impossible, when something failed although nothing fails here, or when a law of
/// [`super`] does not hold.
pub fn run(setup: Setup, window: Window) -> Result<Outcome> {
    let workload = setup.workload.clone();
    let mut run = Run::new(setup, window)?;
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
    Ok(Outcome {
        figures,
        books: used.books.since(begun.books),
        energy_nj: used.energy_nj - begun.energy_nj,
        pool_bytes: [begun.pool_bytes, used.pool_bytes],
        stack_lines_busy_ns: run.stack.lines_busy_ns(),
        drive_counters_busy_ns: run.drive_counters.busy_ns(),
        rebuilt: begun.rebuilt.zip(used.rebuilt).map(<[Rebuilt; 2]>::from),
        series: run.series,
        commands: run.audit.commands,
        counters,
        digest: run.digest,
    })
}

impl Run {
    fn new(setup: Setup, window: Window) -> Result<Run> {
        let Setup { stack, drives, .. } = setup;
        ensure!(
            drives.len() == stack.drives(),
            "{} drives for an array of {}",
            drives.len(),
            stack.drives()
        );
        let generator = Generator::new(&setup.workload, stack.size_bytes(), setup.seed);
        let generator = generator
            .map_err(|broken| anyhow::anyhow!("the workload: {} {}", broken.key, broken.rule))?;
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

    /// What has been used up by now.
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

    /// Lets a thread go on until its core is busy or nothing may be issued.
    fn issue(&mut self, thread: u32) -> Result<()> {
        let now_ns = self.queue.now_ns();
        let takes_ns = self.host.client_request_ns;
        while self.is_loaded && self.clients.begin(thread, now_ns) {
            self.audit.issue(now_ns);
            self.under_way += 1;
            self.books.client_ns += takes_ns;
            if takes_ns > 0 {
                let from_ns = self.thread_is_free_at_ns(thread);
                self.queue.at(from_ns + takes_ns, Event::Made(thread));
                self.occupy_thread(thread, from_ns + takes_ns);
                return Ok(());
            }
            self.hand_over(thread)?;
        }
        if self.is_loaded
            && let Some(at_ns) = self.clients.sleep(thread, now_ns)
        {
            self.queue.at(at_ns, Event::Wake(thread));
        }
        Ok(())
    }

    /// When a thread's core can do something for the client. Where the stack works on the same core, its turn
    /// under way comes first.
    fn thread_is_free_at_ns(&self, thread: u32) -> u64 {
        let now_ns = self.queue.now_ns();
        if self.stack.is_on_clients_cores() {
            return now_ns.max(self.cores[thread as usize].free_at_ns);
        }
        now_ns
    }

    /// Keeps the stack from a thread's core until then, if it works on that.
    fn occupy_thread(&mut self, thread: u32, until_ns: u64) {
        if self.stack.is_on_clients_cores() {
            let core = &mut self.cores[thread as usize];
            core.free_at_ns = core.free_at_ns.max(until_ns);
        }
    }

    /// A thread's request goes to the thread's core of the stack.
    fn hand_over(&mut self, thread: u32) -> Result<()> {
        let request = self.clients.made(thread).context("a thread made nothing")?;
        let core = thread as usize % self.cores.len();
        self.cores[core].owed_ns += match request.operation {
            Operation::Write => self.host.serve_write_ns,
            _ => self.host.serve_read_ns,
        };
        self.tell(core as u16, Input::Request(request));
        Ok(())
    }

    fn tell_clients(&mut self, core: u16) -> Result<()> {
        let now_ns = self.queue.now_ns();
        let world = self.stack.world(usize::from(core));
        let mut completions = std::mem::take(&mut world.completions);
        for completion in &completions {
            if let Err(failure) = completion.result {
                bail!("a request was answered {failure:?}, although nothing fails here");
            }
            let command = self.clients.answered(completion.tag);
            let command = command
                .with_context(|| format!("request {} was answered twice", completion.tag))?;
            self.under_way -= 1;
            self.audit.answer(command.issued_ns, now_ns);
            self.series.answered(now_ns);
            if let Some(meter) = &mut self.meter {
                meter.completed(&command, now_ns);
            }
            if self.stack.is_on_clients_cores() && u32::from(core) != command.thread {
                // The thread sleeps in the kernel, and another one has its answer.
                self.rouse(command.thread as u16);
            }
            self.issue(command.thread)?;
        }
        completions.clear();
        self.stack.world(usize::from(core)).completions = completions;
        Ok(())
    }

    /// Hands a core something, and has it turn.
    fn tell(&mut self, number: u16, input: Input) {
        let world = self.stack.world(usize::from(number));
        world.inputs.push_back(input);
        self.rouse(number);
    }

    /// Has a core turn as soon as it notices that there is something to do.
    fn rouse(&mut self, number: u16) {
        let now_ns = self.queue.now_ns();
        let core = &mut self.cores[usize::from(number)];
        // Whoever has done something until now looks once more before sleeping.
        let is_awake = core.free_at_ns >= now_ns || core.turn_at_ns == Some(now_ns);
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

    /// Has a core turn at this time, or when it is free, unless it will sooner.
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
            // The client was first, on a core that both use.
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

    /// What a turn asked for happens when it ends.
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
            let token = io.token;
            self.queue.at(at_ns, Event::Done { core, token });
        }
        world.commands.clear();
        if !world.completions.is_empty() {
            // Before the next turn begins, which may be at the same time.
            self.queue.at(end_ns, Event::Told(core));
        }
        if !world.asks_others() {
            // As nearly all turns.
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
