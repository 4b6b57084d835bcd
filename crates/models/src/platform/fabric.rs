//! Links as shared servers: computes when a transfer has passed them.
//!
//! Each link has a calendar for each direction, so that directions do not delay each other and drives behind one uplink
//! share it in the order in which their data is ready. The memory of a socket is one more server, for both directions
//! together. Packets do not wait for the rest of their transfer: a link begins when the first bytes arrive, and cannot
//! finish before the link before it has. So a transfer over several links takes as long as on the slowest one, plus the
//! latency of the nodes.

use super::check::{Graph, negotiated, speed};
use crate::calendar::Calendar;
use crate::port::Way;
use crate::server::Pace;
use crate::tables::FigureError;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use repeatable::random::mix;

/// The link that belongs to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveLink {
    /// Its lanes.
    pub lanes: u64,
    /// Its PCIe generation.
    pub generation: u64,
}

/// Which sockets' memory holds the buffers of the drives' transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// The memory of one socket.
    On(u64),
    /// The memory of the drive's socket.
    Local,
    /// Evenly spread over all sockets, wherever the drive is.
    Spread,
}

/// One direction of a link.
#[derive(Clone, Debug)]
struct Lane {
    calendar: Calendar,
    pace: Pace,
    bytes_per_s: u64,
    /// Whether the links that lead to it are together no faster, so that nothing ever waits for it.
    never_waits: bool,
    /// Busy time that was not booked in the calendar.
    passed_ns: u64,
}

impl Lane {
    fn new(bytes_per_s: u64) -> Lane {
        Lane {
            calendar: Calendar::default(),
            pace: Pace::of_bytes_per_s(bytes_per_s),
            bytes_per_s,
            never_waits: false,
            passed_ns: 0,
        }
    }

    /// Sets the bandwidth of everything that leads here. If nothing can ever wait for this link, its calendar is not
    /// used.
    fn is_fed_by(&mut self, bytes_per_s: u64) {
        self.never_waits = bytes_per_s <= self.bytes_per_s;
    }

    fn busy_ns(&self) -> u64 {
        self.calendar.busy_ns() + self.passed_ns
    }
}

/// When the first and the last byte of a transfer pass.
#[derive(Clone, Copy)]
struct Front {
    first_ns: u64,
    last_ns: u64,
}

impl Front {
    /// Passes one more server.
    fn pass(self, lane: &mut Lane, now_ns: u64, bytes: u64) -> Front {
        let service_ns = lane.pace.time_ns(bytes);
        // A faster link would have gaps between packets. It is booked so late that it finishes with the transfer's last
        // byte.
        let ready_ns = self.first_ns.max(self.last_ns.saturating_sub(service_ns));
        let last_ns = if lane.never_waits {
            lane.passed_ns += service_ns;
            ready_ns + service_ns
        } else {
            lane.calendar.reserve(now_ns, ready_ns, service_ns)
        };
        Front {
            first_ns: last_ns - service_ns,
            last_ns,
        }
    }
}

/// The path from a drive to its socket.
#[derive(Clone, Debug)]
struct Path {
    /// From the drive upwards.
    links: Vec<usize>,
    socket: u64,
    latency_ns: u64,
    interrupt_ns: u64,
    /// Number of commands so far, by which buffers are spread.
    commands: u64,
}

/// How long a link was busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The link's name.
    pub name: alloc::string::String,
    /// Busy time towards the host.
    pub to_host_busy_ns: u64,
    /// Busy time towards drives.
    pub to_drive_busy_ns: u64,
}

/// A machine with drives in its bays.
#[derive(Clone, Debug)]
pub struct Platform {
    names: Vec<alloc::string::String>,
    to_host: Vec<Lane>,
    to_drive: Vec<Lane>,
    memory: Vec<Lane>,
    /// From each socket to each, row by row.
    crossings: Vec<Lane>,
    crossing_ns: u64,
    sockets: u64,
    paths: Vec<Path>,
    command_bytes: u64,
    buffers: Buffers,
    now_ns: u64,
}

impl Platform {
    /// Puts drives into bays, both in order, with buffers as `buffers` says.
    ///
    /// # Errors
    /// If there are more drives than bays, or no such socket.
    pub fn new(
        graph: &Graph,
        drives: &[DriveLink],
        buffers: Buffers,
    ) -> Result<Platform, FigureError> {
        let refuse = |key: &str, rule| FigureError {
            name: graph.name.clone(),
            key: key.to_string(),
            rule,
        };
        if drives.len() > graph.bays.len() {
            let rule = format!(
                "have lanes for {} drives, but {} are asked for",
                graph.bays.len(),
                drives.len()
            );
            return Err(refuse("bays", rule));
        }
        let sockets = graph.cores.sockets;
        if let Buffers::On(socket) = buffers
            && socket >= sockets
        {
            let rule = format!("{socket} is not there: it has {sockets}, counted from 0");
            return Err(refuse("socket", rule));
        }
        let mut platform = Platform {
            names: graph.links.iter().map(|link| link.name.clone()).collect(),
            to_host: Vec::new(),
            to_drive: Vec::new(),
            memory: lanes(sockets, graph.memory_bytes_per_s),
            crossings: lanes(sockets * sockets, graph.crossing_bytes_per_s),
            crossing_ns: graph.crossing_ns,
            sockets,
            paths: Vec::new(),
            command_bytes: graph.packets.command_bytes,
            buffers,
            now_ns: 0,
        };
        for link in &graph.links {
            platform.to_host.push(Lane::new(link.to_host_bytes_per_s));
            platform.to_drive.push(Lane::new(link.to_drive_bytes_per_s));
        }
        for (bay, drive) in graph.bays.iter().zip(drives) {
            let (lanes, generation) = negotiated(bay, *drive);
            let (to_host, to_drive) = speed(&graph.packets, lanes, generation);
            let [to_host, to_drive] =
                [to_host, to_drive].map(|speed| (speed as f64 * graph.drive_links_speed) as u64);
            let mut links = alloc::vec![platform.to_host.len()];
            links.extend(&bay.links);
            platform.names.push(bay.name.clone());
            platform.to_host.push(Lane::new(to_host));
            platform.to_drive.push(Lane::new(to_drive));
            platform.paths.push(Path {
                links,
                socket: bay.socket,
                latency_ns: bay.latency_ns,
                interrupt_ns: bay.interrupt_ns,
                commands: 0,
            });
        }
        platform.spare_calendars();
        Ok(platform)
    }

    /// Finds the servers that nothing can ever wait for, because the drives' own links together are slower.
    fn spare_calendars(&mut self) {
        let own = |platform: &Platform, path: &Path| {
            let bay = path.links[0];
            (
                platform.to_host[bay].bytes_per_s,
                platform.to_drive[bay].bytes_per_s,
            )
        };
        let sum = |platform: &Platform, counts: &dyn Fn(&Path) -> bool| {
            let paths = platform.paths.iter().filter(|path| counts(path));
            let speeds = paths.map(|path| own(platform, path));
            speeds.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        for link in 0..self.to_host.len() {
            // A bay's own link is the place where its drive waits.
            if self.paths.iter().any(|path| path.links[0] == link) {
                continue;
            }
            let (up, down) = sum(self, &|path| path.links.contains(&link));
            self.to_host[link].is_fed_by(up);
            self.to_drive[link].is_fed_by(down);
        }
        for from in 0..self.sockets {
            for to in 0..self.sockets {
                let up = sum(self, &|path| path.socket == from).0;
                let down = sum(self, &|path| path.socket == to).1;
                self.crossings[(from * self.sockets + to) as usize].is_fed_by(up + down);
            }
        }
        let (up, down) = sum(self, &|_| true);
        for memory in &mut self.memory {
            memory.is_fed_by(up + down);
        }
    }

    /// Latency from a drive to a socket's memory, one way.
    #[must_use]
    pub fn latency_ns(&self, drive: usize, socket: u64) -> u64 {
        let path = &self.paths[drive];
        let crosses = path.socket != socket;
        path.latency_ns + if crosses { self.crossing_ns } else { 0 }
    }

    /// Additional processor time of this drive's interrupts.
    #[must_use]
    pub fn interrupt_ns(&self, drive: usize) -> u64 {
        self.paths[drive].interrupt_ns
    }

    /// The socket whose memory holds the buffer of a drive's next command.
    pub fn next_socket(&mut self, drive: usize) -> u64 {
        let path = &mut self.paths[drive];
        match self.buffers {
            Buffers::On(socket) => socket,
            Buffers::Local => path.socket,
            Buffers::Spread => {
                path.commands += 1;
                mix(path.commands ^ mix(drive as u64)) % self.sockets
            }
        }
    }

    /// When data that begins to leave a drive at `ready_ns` has arrived in a socket's memory, including the overhead of
    /// `commands` commands. `now_ns` is the caller's time and not after `ready_ns`.
    pub fn to_host_ns(
        &mut self,
        drive: usize,
        socket: u64,
        now_ns: u64,
        ready_ns: u64,
        bytes: u64,
        commands: u64,
    ) -> u64 {
        let now_ns = self.pass_to(now_ns);
        let latency_ns = self.latency_ns(drive, socket);
        let wire_bytes = bytes + commands * self.command_bytes;
        let path = &self.paths[drive];
        let first_ns = ready_ns.max(now_ns);
        let mut front = Front {
            first_ns,
            last_ns: first_ns,
        };
        for &link in &path.links {
            front = front.pass(&mut self.to_host[link], now_ns, wire_bytes);
        }
        if path.socket != socket {
            let crossing = (path.socket * self.sockets + socket) as usize;
            front = front.pass(&mut self.crossings[crossing], now_ns, wire_bytes);
        }
        front = front.pass(&mut self.memory[socket as usize], now_ns, bytes);
        front.last_ns + latency_ns
    }

    /// When data in a socket's memory that a drive requests at `ready_ns` has arrived at the drive.
    pub fn to_drive_ns(
        &mut self,
        drive: usize,
        socket: u64,
        now_ns: u64,
        ready_ns: u64,
        bytes: u64,
    ) -> u64 {
        let now_ns = self.pass_to(now_ns);
        let latency_ns = self.latency_ns(drive, socket);
        let wire_bytes = bytes + self.command_bytes;
        let path = &self.paths[drive];
        let first_ns = ready_ns.max(now_ns);
        let mut front = Front {
            first_ns,
            last_ns: first_ns,
        };
        front = front.pass(&mut self.memory[socket as usize], now_ns, bytes);
        if path.socket != socket {
            let crossing = (socket * self.sockets + path.socket) as usize;
            front = front.pass(&mut self.crossings[crossing], now_ns, wire_bytes);
        }
        for &link in path.links.iter().rev() {
            front = front.pass(&mut self.to_drive[link], now_ns, wire_bytes);
        }
        // The latency counts twice: for the request and for the data.
        front.last_ns + 2 * latency_ns
    }

    /// When processors have read and written `bytes` of a socket's memory, beginning at `now_ns`. After the first such
    /// call drives may have to wait for this memory, however slow they are, because cores may saturate it.
    pub fn touch_ns(&mut self, socket: u64, now_ns: u64, bytes: u64) -> u64 {
        let lane = &mut self.memory[socket as usize];
        lane.never_waits = false;
        // Drives' commands may be booked with a later `now_ns` than that of the cores, by the latency to the drive.
        // `now_ns` is not raised to it here, so a moment may be booked twice.
        lane.calendar
            .reserve(now_ns, now_ns, lane.pace.time_ns(bytes))
    }

    /// The same for the memory that holds drives' buffers, divided among the sockets that hold them.
    pub fn touch_buffers_ns(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let holders = (0..self.sockets).filter(|&socket| self.holds_buffers(socket));
        let share = bytes.div_ceil(holders.count().max(1) as u64);
        let mut end_ns = now_ns;
        for socket in 0..self.sockets {
            if self.holds_buffers(socket) {
                end_ns = end_ns.max(self.touch_ns(socket, now_ns, share));
            }
        }
        end_ns
    }

    fn holds_buffers(&self, socket: u64) -> bool {
        match self.buffers {
            Buffers::On(only) => only == socket,
            Buffers::Local => self.paths.iter().any(|path| path.socket == socket),
            Buffers::Spread => true,
        }
    }

    /// Raises this platform's time to `now_ns`. Callers' times may differ a little, but calendars need them in order.
    fn pass_to(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// The busy time of each link.
    #[must_use]
    pub fn uses(&self) -> Vec<Use> {
        let lanes = self.to_host.iter().zip(&self.to_drive);
        let named = self.names.iter().zip(lanes);
        named
            .map(|(name, (to_host, to_drive))| Use {
                name: name.clone(),
                to_host_busy_ns: to_host.busy_ns(),
                to_drive_busy_ns: to_drive.busy_ns(),
            })
            .collect()
    }

    /// The busy time of all links between sockets together.
    #[must_use]
    pub fn crossings_busy_ns(&self) -> u64 {
        self.crossings.iter().map(Lane::busy_ns).sum()
    }

    /// The busy time of all sockets' memory together.
    #[must_use]
    pub fn memory_busy_ns(&self) -> u64 {
        self.memory.iter().map(Lane::busy_ns).sum()
    }
}

fn lanes(count: u64, bytes_per_s: u64) -> Vec<Lane> {
    (0..count).map(|_| Lane::new(bytes_per_s)).collect()
}

/// The path of one command through a platform.
#[derive(Debug)]
pub struct CommandWay<'a> {
    /// The machine.
    pub platform: &'a mut Platform,
    /// The drive, by its bay.
    pub drive: usize,
    /// The socket whose memory holds the command's buffer.
    pub socket: u64,
}

impl Way for CommandWay<'_> {
    fn to_host_ns(&mut self, now_ns: u64, ready_ns: u64, bytes: u64, commands: u64) -> u64 {
        let (drive, socket) = (self.drive, self.socket);
        self.platform
            .to_host_ns(drive, socket, now_ns, ready_ns, bytes, commands)
    }

    fn to_drive_ns(&mut self, now_ns: u64, ready_ns: u64, bytes: u64) -> u64 {
        let (drive, socket) = (self.drive, self.socket);
        self.platform
            .to_drive_ns(drive, socket, now_ns, ready_ns, bytes)
    }
}
