//! The cost of one counter of commands in flight for each drive, shared by all cores, as Linux had it before
//! 4.14. A core changes the counter when it passes a command on, and again when the answer comes. The cache line
//! of each counter is modelled as a server ([`SharedLine`]).
//!
//! Both changes are charged when the command is passed on. With many commands in flight, this does not affect
//! which core has changed the line last.

use super::host::Host;
use engine::world::Io;
use models::shared_line::SharedLine;

/// The counters of a run's drives.
pub struct DriveCounters {
    lines: Vec<SharedLine>,
    changes: u64,
}

impl DriveCounters {
    /// The counters of this many drives, used by this many cores; none if the host's kernel has no such counters.
    #[must_use]
    pub fn new(host: &Host, drives: usize, cores: usize) -> DriveCounters {
        let line = SharedLine::new(cores, host.line_ns, host.sockets);
        let changes = host.drive_counter_changes;
        DriveCounters {
            lines: vec![line; if changes > 0 { drives } else { 0 }],
            changes,
        }
    }

    /// How long the busiest counter's line has been occupied by changes.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        let lines = self.lines.iter().map(SharedLine::busy_ns);
        lines.max().unwrap_or(0)
    }

    /// When a core that passes these commands on, beginning at `ready_ns`, has counted them. `now_ns` must not
    /// decrease from call to call, and `ready_ns` must not be before it.
    pub fn counted_ns(&mut self, now_ns: u64, ready_ns: u64, core: usize, commands: &[Io]) -> u64 {
        let mut at_ns = ready_ns;
        for io in commands {
            if let Some(line) = self.lines.get_mut(usize::from(io.member.0)) {
                at_ns = line.change(now_ns, at_ns, core, self.changes);
            }
        }
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::plan::StepKind;
    use engine::token::Token;
    use engine::units::MemberId;

    const MS: u64 = 1_000_000;

    fn command(member: u8) -> Io {
        Io {
            token: Token(0),
            member: MemberId(member),
            kind: StepKind::Read,
            offset_bytes: 0,
            length_bytes: 4096,
        }
    }

    /// Commands per second that so many cores pass to one drive if they do nothing else.
    fn commands_per_s(cores: usize, changes: u64) -> f64 {
        let host = Host {
            line_ns: [8, 60, 200],
            sockets: 2,
            drive_counter_changes: changes,
            ..Host::default()
        };
        let mut counters = DriveCounters::new(&host, 1, cores);
        let mut free_ns = vec![0; cores];
        let mut commands = 0;
        while let Some((core, &now_ns)) = free_ns.iter().enumerate().min_by_key(|(_, at)| **at) {
            if now_ns >= 4 * MS {
                break;
            }
            commands += u64::from(now_ns >= 2 * MS);
            let counted_ns = counters.counted_ns(now_ns, now_ns, core, &[command(0)]);
            free_ns[core] = counted_ns.max(now_ns + 1);
        }
        commands as f64 * 1e9 / (2 * MS) as f64
    }

    #[test]
    fn one_drive_takes_only_so_many_commands_from_all_cores() {
        // In one of 32 changes the core itself had the line last, in 15 a core on its socket, and in 16 one on the
        // other socket: 128 ns a change on average.
        let change_ns = (8.0 + 15.0 * 60.0 + 16.0 * 200.0) / 32.0;
        let rate = commands_per_s(32, 2) * 2.0 * change_ns / 1e9;
        assert!((rate - 1.0).abs() < 0.02, "{rate}");
        assert!(commands_per_s(1, 2) > 60e6);
    }

    #[test]
    fn drives_have_counters_of_their_own_and_newer_kernels_none() {
        let mut host = Host {
            line_ns: [8, 60, 200],
            sockets: 1,
            drive_counter_changes: 2,
            ..Host::default()
        };
        let mut counters = DriveCounters::new(&host, 2, 2);
        let both = [command(0), command(1)];
        assert_eq!(counters.counted_ns(0, 100, 0, &both), 132);
        // The first drive's line is free again when the second core wants it.
        assert_eq!(counters.counted_ns(0, 116, 1, &[command(0)]), 132);
        host.drive_counter_changes = 0;
        let mut none = DriveCounters::new(&host, 2, 2);
        assert_eq!(none.counted_ns(0, 100, 0, &both), 100);
    }
}
