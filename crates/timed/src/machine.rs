//! A modelled machine around modelled drives: drives share the platform's links and memory, and the costs of the
//! operating system come from the host's profile.
//!
//! [`drives_in_bays`] puts drives into a platform and returns them as the drives of a run. The platform's links
//! replace the drives' own ports. [`host`] computes a run's [`Host`] from a host's profile.

use super::host::{Host, QueueCosts};
use crate::modelled::command;
use anyhow::{Result, anyhow};
use engine::plan::StepKind;
use models::drive::{Drive, Operation};
use models::host::Completion;
use models::platform::fabric::CommandWay;
use models::platform::{Buffers, DriveLink, Graph, Platform};
use std::cell::RefCell;
use std::rc::Rc;
use virtual_time::timing::{Place, Timing};

/// Hops in sequence before a drive has received a command: the doorbell, the drive's request for the queue entry,
/// and the entry.
const HOPS_TO_COMMAND: u64 = 3;

/// A platform that its drives share.
pub type SharedPlatform = Rc<RefCell<Platform>>;

/// A drive in a bay.
pub struct InBay {
    drive: Drive,
    bay: usize,
    platform: SharedPlatform,
}

impl Timing for InBay {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        let command = command(kind, place);
        let platform = &mut *self.platform.borrow_mut();
        let socket = platform.next_socket(self.bay);
        let hop_ns = platform.latency_ns(self.bay, socket);
        let mut way = CommandWay {
            platform,
            drive: self.bay,
            socket,
        };
        let seen_ns = now_ns + HOPS_TO_COMMAND * hop_ns;
        let done_ns = self.drive.submit_by(command, seen_ns, &mut way).done_ns;
        match command.operation {
            // The completion follows directly after the data.
            Operation::Read => done_ns,
            _ => done_ns + hop_ns,
        }
    }

    fn energy_nj(&mut self, until_ns: u64) -> u64 {
        self.drive.energy_nj(until_ns)
    }

    fn pool_bytes(&self) -> Option<u64> {
        Some(self.drive.drain().pool_bytes())
    }
}

/// Puts drives into the bays of a machine, in the order of both. Returns the drives, and the machine for later
/// queries. The ports of the drives, such as [`models::port::Port::unlimited`], are not used.
///
/// # Errors
///
/// When there are more drives than bays, or buffers on a socket that does not exist.
pub fn drives_in_bays(
    drives: Vec<Drive>,
    links: &[DriveLink],
    graph: &Graph,
    buffers: Buffers,
) -> Result<(Vec<Box<dyn Timing>>, SharedPlatform)> {
    let platform = Platform::new(graph, links, buffers).map_err(|error| anyhow!("{error}"))?;
    anyhow::ensure!(
        drives.len() == links.len(),
        "{} links for {} drives",
        links.len(),
        drives.len()
    );
    let platform = Rc::new(RefCell::new(platform));
    let in_bay = |(bay, drive)| -> Box<dyn Timing> {
        Box::new(InBay {
            drive,
            bay,
            platform: platform.clone(),
        })
    };
    let drives = drives.into_iter().enumerate().map(in_bay).collect();
    Ok((drives, platform))
}

/// The host's costs of a run with this many busy threads (clients, and shards with cores of their own).
#[must_use]
pub fn host(
    profile: &models::host::Host,
    graph: &Graph,
    threads: u64,
    completion: Completion,
) -> Host {
    let costs = profile.costs(&graph.cores, threads, completion);
    // All drives of a machine are attached in a similar way, so the most expensive interrupt is used for all.
    let shared_ns = graph.bays.iter().map(|bay| bay.interrupt_ns).max();
    let interrupts = costs.interrupt_ns > 0 && completion == Completion::Interrupt;
    let shared_ns = if interrupts {
        shared_ns.unwrap_or(0)
    } else {
        0
    };
    Host {
        client_request_ns: costs.client_request_ns,
        submit_command_ns: costs.submit_command_ns,
        page_ns: costs.page_ns,
        answer_command_ns: costs.answer_command_ns,
        enter_ns: costs.enter_ns,
        notice_ns: costs.notice_ns,
        wake_ns: costs.interrupt_ns + costs.switch_ns + shared_ns,
        look_per_mille: costs.look_per_mille,
        serve_read_ns: 0,
        serve_write_ns: 0,
        // A core that polls does not enter a deep sleep state.
        deep_idle_after_ns: if completion == Completion::Interrupt {
            graph.cores.deep_idle_after_ns
        } else {
            u64::MAX
        },
        deep_idle_exit_ns: graph.cores.deep_idle_exit_ns,
        drive_counter_changes: costs.drive_counter_changes,
        line_ns: graph.cores.line_ns,
        sockets: graph.cores.sockets as usize,
        queues: QueueCosts {
            processors: graph.cores.processors() as usize,
            lock_changes: costs.queue_lock_changes,
            locks_per_turn: costs.queue_lock_per_call,
            held_ns: costs.queue_held_ns,
            line_ns: graph.cores.line_ns,
            has_handlers: completion == Completion::Interrupt,
            spreads_handlers: costs.spreads_handlers,
            handed_lines: costs.handed_lines,
            interrupt_ns: costs.interrupt_ns + shared_ns,
            kick_ns: costs.kick_ns,
        },
    }
}
