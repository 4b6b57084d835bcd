//! A cache line that all cores change, such as a counter or a lock. It is in one core's cache at a time, so it is a
//! server of its own, and the time of a change depends on which core changed it last: it grows with the number of cores
//! and sockets that change it in turn. The probability that a core was the last one is its share of the changes in the
//! millisecond before.

use crate::calendar::Calendar;
use alloc::vec;
use alloc::vec::Vec;

const WINDOW_NS: u64 = 1_000_000;

/// One such line.
#[derive(Clone, Debug)]
pub struct SharedLine {
    booked: Calendar,
    /// Time of a change if the last one was by the same core, by another core of its socket, or by one of another
    /// socket.
    line_ns: [u64; 3],
    sockets: usize,
    /// By core: number of changes in this window, and the time of one change.
    changes: Vec<u64>,
    change_ns: Vec<u64>,
    window_ends_ns: u64,
}

impl SharedLine {
    /// A line that `cores` cores may change, which are assigned to sockets in turn. `line_ns` is the time of a change
    /// if the last one was by the same core, by another core of its socket, or by one of another socket.
    #[must_use]
    pub fn new(cores: usize, line_ns: [u64; 3], sockets: usize) -> SharedLine {
        SharedLine {
            booked: Calendar::default(),
            line_ns,
            sockets: sockets.max(1),
            changes: vec![0; cores],
            change_ns: vec![line_ns[0]; cores],
            window_ends_ns: WINDOW_NS,
        }
    }

    /// When a core has changed the line `times` times, from `ready_ns` on. `now_ns` must not decrease from call to
    /// call, and `ready_ns` must not be before it.
    pub fn change(&mut self, now_ns: u64, ready_ns: u64, core: usize, times: u64) -> u64 {
        self.hold(now_ns, ready_ns, core, times, 0)
    }

    /// The same, where no other core can change the line for `held_ns` more, as while a lock is held.
    pub fn hold(
        &mut self,
        now_ns: u64,
        ready_ns: u64,
        core: usize,
        times: u64,
        held_ns: u64,
    ) -> u64 {
        if now_ns >= self.window_ends_ns {
            self.look_back();
            self.window_ends_ns = now_ns + WINDOW_NS;
        }
        self.changes[core] += times;
        let service_ns = times * self.change_ns[core] + held_ns;
        self.booked.reserve(now_ns, ready_ns, service_ns)
    }

    /// Total time of all changes so far.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.booked.busy_ns()
    }

    fn look_back(&mut self) {
        let all: u64 = self.changes.iter().sum();
        let [own_ns, near_ns, far_ns] = self.line_ns;
        for core in 0..self.changes.len() {
            let own = self.changes[core];
            let socket = self.changes.iter().skip(core % self.sockets);
            let near: u64 = socket.step_by(self.sockets).sum();
            let sum_ns = own * own_ns + (near - own) * near_ns + (all - near) * far_ns;
            self.change_ns[core] = sum_ns.checked_div(all).unwrap_or(own_ns);
        }
        self.changes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE_NS: [u64; 3] = [8, 60, 200];

    /// Changes of the line per second by so many cores that do nothing else, measured after two windows.
    fn changes_per_s(cores: usize, sockets: usize) -> f64 {
        let mut line = SharedLine::new(cores, LINE_NS, sockets);
        let mut free_ns = vec![0; cores];
        let mut changes = 0;
        while let Some((core, &now_ns)) = free_ns.iter().enumerate().min_by_key(|(_, at)| **at) {
            if now_ns >= 4 * WINDOW_NS {
                break;
            }
            changes += u64::from(now_ns >= 2 * WINDOW_NS);
            free_ns[core] = line.change(now_ns, now_ns, core, 1);
        }
        changes as f64 * 1e9 / (2 * WINDOW_NS) as f64
    }

    #[test]
    fn a_line_goes_round_more_slowly_the_more_cores_and_sockets_there_are() {
        for (cores, sockets, change_ns) in [
            (1, 1, 8.0),
            (2, 1, 34.0),
            (2, 2, 104.0),
            // In one of eight changes the core itself had the line last, in three a core on its socket, and in four a
            // core on the other socket.
            (8, 2, (8.0 + 3.0 * 60.0 + 4.0 * 200.0) / 8.0),
        ] {
            let rate = changes_per_s(cores, sockets) * change_ns / 1e9;
            assert!((rate - 1.0).abs() < 0.02, "{cores} on {sockets}: {rate}");
        }
    }

    #[test]
    fn who_comes_later_and_is_ready_sooner_does_not_wait() {
        let mut line = SharedLine::new(2, LINE_NS, 1);
        assert_eq!(line.change(0, 50_000, 0, 2), 50_016);
        assert_eq!(line.change(0, 10, 1, 1), 18);
        assert_eq!(line.change(0, 12, 1, 1), 26);
    }
}
