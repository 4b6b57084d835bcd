//! What surrounds the drives: the host's processor time, and the links between drives and host.
//!
//! On the test appliance the host's software adds no visible latency, and each drive has a link of its own. Elsewhere
//! drives sit in the bays of a platform and share its links and memory, and requests cost what the host's profile says
//! for the platform's processors.

use super::library::Library;
use super::mechanisms::{AT_ONCE, Mechanism, Mechanisms};
use super::resources::Resource;
use crate::slots::unsplit;
use anyhow::{Context, Result, anyhow};
use lab::claims::predictor::NotModelled;
use lab::schema::setup::Setup;
use lab::workload::{self, Workload};
use models::drive::Drive;
use models::export::Export;
use models::host::Completion;
use models::md::{MdCosts, MdFile};
use models::platform::{Graph, Platform};
use models::port::Port;
use models::profile::Profile;
use models::raid_driver::{DriverCosts, DriverFile};
use timed::host::Host;
use timed::machine::{self, SharedPlatform};
use timed::modelled::Modelled;
use timed::prices::Prices;
use virtual_time::timing::Timing;

/// The host whose software takes no time, and its platform.
const APPLIANCE: &str = "appliance";
const APPLIANCE_PLATFORM: &str = "oakgate";
/// Instructions of the engine's work, as counted by `fullstripe bench --cost-table`.
const COSTS: &str = include_str!("../../../../profiles/costs.json");

/// Drives in their bays, and the machine that they share, if there is one. The machine is queried after the run.
pub type Hung = (Vec<Box<dyn Timing>>, Option<SharedPlatform>);

/// Everything around the drives of a setup.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// None for the appliance.
    machine: Option<Machine>,
    /// What the stack's own work costs.
    pub prices: Prices,
    /// Factors by which processors are faster than the model says.
    speeds: Speeds,
    /// Mechanisms that are switched off.
    off: Mechanisms,
}

/// Factors by which kinds of work are faster than the model says, to find out what limits.
#[derive(Clone, Copy, Debug)]
struct Speeds {
    client: f64,
    kernel: f64,
    stack: f64,
    stack_lines: f64,
    drive_counters: f64,
    drive_queues: f64,
}

const AS_IT_IS: Speeds = Speeds {
    client: 1.0,
    kernel: 1.0,
    stack: 1.0,
    stack_lines: 1.0,
    drive_counters: 1.0,
    drive_queues: 1.0,
};

/// The cost of changing a shared cache line when it is `times` times as fast.
fn faster_line(line_ns: [u64; 3], times: f64) -> [u64; 3] {
    line_ns.map(|ns| (ns as f64 / times + 0.5) as u64)
}

#[derive(Clone, Debug)]
struct Machine {
    graph: Graph,
    host: models::host::Host,
    export: Option<Export>,
    md: MdFile,
    raid_driver: Option<DriverFile>,
}

impl Machine {
    /// Fails unless there are bays for all drives, in slots that take them.
    fn has_bays(&self, setup: &Setup, library: &Library) -> Result<(), NotModelled> {
        if let Some(reason) = unsplit(&self.graph, setup.count) {
            return Err(NotModelled { reason });
        }
        let links = vec![library.profile(&setup.drive)?.link; setup.count as usize];
        let platform = Platform::new(&self.graph, &links, self.graph.buffers);
        platform.map(|_| ()).map_err(|error| NotModelled {
            reason: error.to_string(),
        })
    }

    /// The cost of the engine's work on this machine's processors.
    fn prices(&self, level: u8) -> Result<Prices> {
        Prices::of_table(COSTS, level, self.graph.cores.instruction_ns())
    }
}

impl Surroundings {
    /// The surroundings of a setup.
    ///
    /// # Errors
    ///
    /// If its host or platform is not modelled.
    pub fn of(setup: &Setup, library: &Library) -> Result<Surroundings, NotModelled> {
        if setup.platform.text() == APPLIANCE_PLATFORM && setup.host == APPLIANCE {
            return Ok(Surroundings {
                machine: None,
                prices: Prices::nothing(),
                speeds: AS_IT_IS,
                off: Mechanisms::default(),
            });
        }
        let machine = Machine {
            graph: library.platform(&setup.platform)?.clone(),
            host: library.host(&setup.host)?.clone(),
            export: setup.export.map(|export| library.export(export).clone()),
            md: library.md.clone(),
            raid_driver: library.raid_drivers.get(&setup.stack).cloned(),
        };
        if let Some(driver) = &machine.raid_driver
            && driver.host != setup.host
        {
            return Err(NotModelled {
                reason: format!("{} is a driver of the host {}", driver.stack, driver.host),
            });
        }
        machine.has_bays(setup, library)?;
        let prices = match setup.level.array() {
            None => Ok(Prices::nothing()),
            Some(level) => machine.prices(level.number()),
        };
        let prices = prices.map_err(|error| NotModelled {
            reason: format!("{error:#}"),
        })?;
        Ok(Surroundings {
            machine: Some(machine),
            prices,
            speeds: AS_IT_IS,
            off: Mechanisms::default(),
        })
    }

    /// The same with `resource` made `times` times as fast, unless that is a part of the drives. The stack runs on
    /// cores of its own, or on the clients' (`is_on_clients_cores`).
    #[must_use]
    pub fn faster(
        &self,
        resource: &Resource,
        times: f64,
        is_on_clients_cores: bool,
    ) -> Surroundings {
        let mut faster = self.clone();
        let speed_up = |speed: &mut u64| *speed = (*speed as f64 * times) as u64;
        let speeds = &mut faster.speeds;
        match resource {
            Resource::ClientCores => {
                speeds.client *= times;
                if is_on_clients_cores {
                    speeds.kernel *= times;
                    speeds.stack *= times;
                }
            }
            Resource::StackCores => {
                speeds.kernel *= times;
                speeds.stack *= times;
            }
            Resource::StackLines => speeds.stack_lines *= times,
            Resource::DriveCounters => speeds.drive_counters *= times,
            Resource::DriveQueues => speeds.drive_queues *= times,
            Resource::Software => {
                for speed in [&mut speeds.client, &mut speeds.kernel, &mut speeds.stack] {
                    *speed *= times;
                }
            }
            _ => {}
        }
        let Some(Machine { graph, .. }) = &mut faster.machine else {
            return faster;
        };
        match resource {
            Resource::DriveLinks => graph.drive_links_speed *= times,
            Resource::Links(links) => {
                for link in links {
                    speed_up(&mut graph.links[*link].to_host_bytes_per_s);
                    speed_up(&mut graph.links[*link].to_drive_bytes_per_s);
                }
            }
            Resource::Crossings => speed_up(&mut graph.crossing_bytes_per_s),
            Resource::Memory => speed_up(&mut graph.memory_bytes_per_s),
            Resource::Hops => {
                let sooner =
                    |latency_ns: &mut u64| *latency_ns = (*latency_ns as f64 / times) as u64;
                sooner(&mut graph.crossing_ns);
                let bays = graph.bays.iter_mut();
                bays.for_each(|bay| sooner(&mut bay.latency_ns));
            }
            _ => {}
        }
        faster
    }

    /// The same without some mechanisms.
    #[must_use]
    pub fn without(mut self, off: &Mechanisms) -> Surroundings {
        let speeds = &mut self.speeds;
        for (mechanism, speed) in [
            (Mechanism::ClientWork, &mut speeds.client),
            (Mechanism::KernelWork, &mut speeds.kernel),
            (Mechanism::RaidWork, &mut speeds.stack),
        ] {
            if off.is_off(mechanism) {
                *speed = AT_ONCE;
            }
        }
        if let Some(machine) = &mut self.machine {
            off.apply_to_platform(&mut machine.graph);
        }
        self.off = off.clone();
        self
    }

    /// By what factor the stack's own work is faster than the model says.
    #[must_use]
    pub fn stack_speed(&self) -> f64 {
        self.speeds.stack
    }

    /// The links, memory and processors, if they are modelled.
    #[must_use]
    pub fn graph(&self) -> Option<&Graph> {
        self.machine.as_ref().map(|machine| &machine.graph)
    }

    /// The costs of Linux md on this machine while `threads` threads are busy.
    ///
    /// # Errors
    ///
    /// If no processors are modelled on which it could run.
    pub fn md(&self, threads: u64) -> Result<MdCosts> {
        let machine = self.machine.as_ref();
        let machine = machine.context("md-2018 runs on the processors of a platform only")?;
        let costs = machine.md.costs(&machine.graph.cores, threads);
        let mut costs = costs.map_err(|error| anyhow!("{error}"))?;
        self.off.apply_to_md(&mut costs);
        costs.line_ns = faster_line(costs.line_ns, self.speeds.stack_lines);
        Ok(costs)
    }

    /// The costs of the RAID driver of Windows that is the stack on this machine, while `threads` threads are busy.
    ///
    /// # Errors
    ///
    /// If no processors are modelled on which it could run.
    pub fn raid_driver(&self, threads: u64) -> Result<DriverCosts> {
        let machine = self.machine.as_ref();
        let machine = machine.context("a RAID driver runs on the processors of a platform only")?;
        let driver = machine.raid_driver.as_ref();
        let driver = driver.context("the stack is no RAID driver of Windows")?;
        let costs = driver.costs(&machine.graph.cores, threads);
        let mut costs = costs.map_err(|error| anyhow!("{error}"))?;
        if self.off.is_off(Mechanism::ArrayLines) {
            costs.serial_ns = 0;
        }
        costs.serial_ns = (costs.serial_ns as f64 / self.speeds.stack_lines + 0.5) as u64;
        Ok(costs)
    }

    /// Whether processors are modelled. If not, there is no figure of busy cores.
    #[must_use]
    pub fn has_processors(&self) -> bool {
        self.machine.is_some()
    }

    /// The share of a thread's busy time in which it has a core of its own: less than 1 where there are more threads than
    /// cores.
    #[must_use]
    pub fn busy_share(&self, threads: u32) -> f64 {
        let cores = self.graph().map_or(u64::MAX, |graph| graph.cores.cores);
        (cores as f64 / f64::from(threads.max(1))).min(1.0)
    }

    /// The host's costs per request and per command of a workload, with this many threads busy.
    #[must_use]
    pub fn host(&self, workload: &Workload, threads: u32) -> Host {
        let Some(Machine {
            graph,
            host,
            export,
            ..
        }) = &self.machine
        else {
            return Host::default();
        };
        let completion = match workload.completion {
            None | Some(workload::Completion::Interrupt) => Completion::Interrupt,
            Some(workload::Completion::Polled) => Completion::Polled,
            Some(workload::Completion::Hybrid) => Completion::Hybrid,
        };
        let threads = u64::from(threads);
        let mut costs = machine::host(host, graph, threads, completion);
        if self.off.is_off(Mechanism::DriveCounters) {
            costs.drive_counter_changes = 0;
        }
        costs.line_ns = faster_line(costs.line_ns, self.speeds.drive_counters);
        let queues = &mut costs.queues;
        queues.line_ns = faster_line(queues.line_ns, self.speeds.drive_queues);
        if let Some(export) = export {
            let request_bytes = workload.bs.map_or(0, |bs| u64::from(bs.bytes()));
            let export = export.costs(&graph.cores, threads, request_bytes);
            costs.client_request_ns += export.client_ns;
            (costs.serve_read_ns, costs.serve_write_ns) =
                (export.server_read_ns, export.server_write_ns);
        }
        let sooner = |ns: &mut u64, speed: f64| *ns = (*ns as f64 / speed + 0.5) as u64;
        sooner(&mut costs.client_request_ns, self.speeds.client);
        sooner(&mut costs.queues.held_ns, self.speeds.drive_queues);
        for ns in [
            &mut costs.submit_command_ns,
            &mut costs.page_ns,
            &mut costs.answer_command_ns,
            &mut costs.enter_ns,
            &mut costs.wake_ns,
            &mut costs.serve_read_ns,
            &mut costs.serve_write_ns,
            &mut costs.queues.held_ns,
            &mut costs.queues.interrupt_ns,
            &mut costs.queues.kick_ns,
        ] {
            sooner(ns, self.speeds.kernel);
        }
        costs
    }

    /// The queues of each drive: as many as the machine shows of it, or else as the drive grants.
    #[must_use]
    pub fn queues(&self, drive: &Profile, drives: usize) -> Vec<u64> {
        let shown = |bay: usize| self.graph()?.bays.get(bay)?.queues;
        (0..drives)
            .map(|bay| shown(bay).unwrap_or(drive.io_queues))
            .collect()
    }

    /// The port that a drive is created with: its own, or an unlimited one if the platform's links take its place.
    #[must_use]
    pub fn port(&self, drive: &Profile) -> Port {
        match self.machine {
            None => drive.port,
            Some(_) => Port::unlimited(),
        }
    }

    /// Puts drives of one profile into their bays.
    ///
    /// # Errors
    ///
    /// If the platform does not have enough bays.
    pub fn hang(&self, drives: Vec<Drive>, profile: &Profile) -> Result<Hung> {
        let Some(Machine { graph, .. }) = &self.machine else {
            let alone = |drive| -> Box<dyn Timing> { Box::new(Modelled(drive)) };
            return Ok((drives.into_iter().map(alone).collect(), None));
        };
        let links = vec![profile.link; drives.len()];
        let (drives, platform) = machine::drives_in_bays(drives, &links, graph, graph.buffers)?;
        Ok((drives, Some(platform)))
    }
}
