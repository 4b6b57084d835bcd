//! A cache line that all cores change: a counter, a lock. It is in one core's cache at a time, so changing it is a
//! server of its own, and the time that takes depends on who did so last: the more cores take turns, and the more
//! sockets they are on, the dearer. How likely each was the last is its share of the changes of the millisecond before.

use crate::calendar::Calendar;
use alloc::vec;
use alloc::vec::Vec;

const WINDOW_NS: u64 = 1_000_000;

/// One such line.
#[derive(Clone, Debug)]
pub struct SharedLine {
    booked: Calendar,
    /// A change after one by the same core, by another of its socket, by one of another socket.
    line_ns: [u64; 3],
    sockets: usize,
    /// By core: changes in this window, and what one takes.
    changes: Vec<u64>,
    change_ns: Vec<u64>,
    window_ends_ns: u64,
}

impl SharedLine {
    /// A line that so many cores may change, dealt out over sockets in turn. `line_ns`: a change after one by the
    /// same core, by another of its socket, by one of another socket.
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

    /// When a core that wants to change it so many times from `ready_ns` on has done so. `now_ns` never falls from call
    /// to call, and `ready_ns` is never before it.
    pub fn change(&mut self, now_ns: u64, ready_ns: u64, core: usize, times: u64) -> u64 {
        if now_ns >= self.window_ends_ns {
            self.look_back();
            self.window_ends_ns = now_ns + WINDOW_NS;
        }
        self.changes[core] += times;
        let service_ns = times * self.change_ns[core];
        self.booked.reserve(now_ns, ready_ns, service_ns)
    }

    /// For how long all changes so far have kept it.
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

    /// Changes per second by so many cores that do nothing else, after two windows.
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
            // Each is the last one in eight times; half of the others are far away.
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
