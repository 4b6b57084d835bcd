//! Draws a history from a seed. The seed first decides which kinds of requests and faults occur at all and how
//! often, then the single acts. So rare kinds occur together in some histories.

use super::{
    Access, Act, Action, Ask, Fault, History, Meddling, Mode, Order, Outage, Topology, VolumeShape,
    hangs, lies, refusals, returns, scenes, wide,
};
use crate::container::create::SECTOR;
use crate::drive::faults::Target;
use crate::random::Stream;
use crate::ublk::Devices;
use crate::vhost_user::Machines;
use engine::layout::Level;
use engine::request::Operation;

const KIB: u64 = 1 << 10;
const MS: u64 = 1_000_000;
/// Largest request that is drawn.
const REQUEST_BYTES_MAX: u64 = crate::process::REQUEST_BYTES_MAX as u64;

/// What a campaign requires of every history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Only this level.
    pub level: Option<Level>,
    /// What faults may do.
    pub mode: Mode,
}

/// The clients of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// They hand their requests to the engine.
    Plain,
    /// They use block devices.
    BlockDevices,
    /// They are virtual machines.
    Guests,
}

impl History {
    /// The history of a seed. Clients of a quarter of the seeds use block devices, and those of a sixth of the others are
    /// virtual machines. The rest take the course that they took before there were either. What lies of drives lead to is
    /// counted and compared with earlier counts, so in such histories requests go to the engine.
    #[must_use]
    pub fn draw(seed: u64, wish: Wish) -> History {
        let has_devices = Stream::new(seed, "access", 0).chance(1, 4);
        let has_guests = Stream::new(seed, "guests", 0).chance(1, 6);
        let clients = match (has_devices, has_guests) {
            _ if wish.mode == Mode::Lying => Clients::Plain,
            (true, _) => Clients::BlockDevices,
            (false, true) => Clients::Guests,
            (false, false) => Clients::Plain,
        };
        History::draw_with(seed, wish, clients)
    }

    /// The history of a seed, with these clients.
    #[must_use]
    pub fn draw_with(seed: u64, wish: Wish, clients: Clients) -> History {
        let mut topology = topology(&mut Stream::new(seed, "topology", 0), wish.level);
        if wish.mode.is_wide() {
            wide::shape(seed, &mut topology);
        }
        let mut policies = Stream::new(seed, "write hole", 0);
        for volume in &mut topology.volumes {
            volume.logged = volume.level == Level::Raid5 && policies.chance(2, 3);
        }
        let mut bitmaps = Stream::new(seed, "bitmap", 0);
        topology.clear_regions_every_ns = bitmaps.pick(&[MS, 300 * MS, 5000 * MS]);
        for volume in &mut topology.volumes {
            let can_have_one =
                volume.level != Level::Raid0 && !volume.logged && topology.sector == SECTOR;
            volume.marked = can_have_one && bitmaps.chance(1, 2);
        }
        let mut lags = Stream::new(seed, "lag", 0);
        topology.lag_ns = lags.pick(&[0, 0, 2 * MS, 20 * MS]);
        let mut drawing = Drawing {
            random: Stream::new(seed, "history", 0),
            style: Style::draw(&mut Stream::new(seed, "style", 0), wish.mode),
            topology: &topology,
            at_ns: 0,
            outage_in: 0,
            streams: [0; 4],
        };
        let mut actions = drawing.actions();
        if wish.mode != Mode::Calm {
            actions = scenes::insert(seed, &topology, actions);
        }
        if wish.mode == Mode::Lying {
            actions = lies::insert(seed, &topology, actions);
        }
        if wish.mode == Mode::Returning {
            actions = returns::insert(seed, &topology, actions);
        }
        if wish.mode.is_beyond() {
            actions = refusals::insert(seed, actions);
        }
        if wish.mode.is_wide() {
            actions = wide::insert(seed, wish.mode, &topology, actions);
        }
        if clients != Clients::Plain && wish.mode != Mode::Calm {
            actions = hangs::insert(seed, &topology, actions);
        }
        let access = match clients {
            Clients::Plain => Access::Engine,
            Clients::BlockDevices => Access::Ublk(Devices::draw(seed)),
            Clients::Guests => Access::VhostUser(Machines::draw(seed)),
        };
        History {
            seed,
            mode: wish.mode,
            topology,
            access,
            actions,
        }
    }
}

fn topology(random: &mut Stream, level: Option<Level>) -> Topology {
    let levels = [
        Level::Raid5,
        Level::Raid5,
        Level::Raid1,
        Level::Raid10,
        Level::Raid0,
    ];
    let level = level.unwrap_or_else(|| random.pick(&levels));
    let members = match level {
        Level::Raid0 => random.between(2, 4),
        Level::Raid1 => 2,
        Level::Raid10 => 4,
        Level::Raid5 => random.between(3, 5),
    } as u8;
    let left_over = random.chance(1, 3);
    let mut volumes = vec![volume(random, level, left_over)];
    if random.chance(1, 4) {
        // On four drives a RAID 5 and a RAID 10 can share a container; otherwise both volumes have the same
        // level.
        let second = match (level, members) {
            (Level::Raid5, 4) => random.pick(&[Level::Raid5, Level::Raid10]),
            (Level::Raid10, _) => random.pick(&[Level::Raid5, Level::Raid10]),
            _ => level,
        };
        volumes.push(volume(random, second, left_over));
    }
    let all_volatile = random.chance(2, 3);
    Topology {
        members,
        volumes,
        shards: random.between(1, 3) as u8,
        sector: SECTOR,
        volatile: (0..members)
            .map(|_| all_volatile || random.chance(1, 3))
            .collect(),
        abilities: Vec::new(),
        left_over,
        spares: u8::from(random.chance(1, 2)),
        deadline_ns: random.pick(&[300 * MS, 1000 * MS]),
        clean_after_ns: random.pick(&[2 * MS, 20 * MS, 300 * MS]),
        clear_regions_every_ns: 5000 * MS,
        rate_bytes_per_s: random.pick(&[0, 0, 0, 32 * KIB, 256 * KIB]),
        latency_ns: random.pick(&[5_000, 60_000]),
        spread_ns: random.pick(&[5_000, 100_000, 1_000_000]),
        lag_ns: 0,
    }
}

fn volume(random: &mut Stream, level: Level, left_over: bool) -> VolumeShape {
    let chunk_bytes = random.pick(&[4 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB]);
    let component_bytes = match level {
        // The format counts the size of a mirror in pairs of strips.
        Level::Raid1 => 128 * KIB * random.between(1, 20),
        Level::Raid10 => {
            let pair = 2 * chunk_bytes;
            pair * (random.between(32, 384) * KIB / pair).max(1)
        }
        _ => chunk_bytes * (random.between(32, 384) * KIB / chunk_bytes).max(2),
    };
    VolumeShape {
        level,
        chunk_bytes: chunk_bytes as u32,
        component_bytes,
        born_in_sync: !left_over && random.chance(2, 3),
        logged: false,
        marked: false,
    }
}

/// Which kinds of acts a history has, and how often.
struct Style {
    requests: u64,
    /// Weights of reads, writes, flushes, zeroes, trims.
    odds: [u64; 5],
    fua: u64,
    /// Largest usual request.
    usual_bytes: u64,
    /// Of 16 requests, how many are in the small hot area.
    hot: u64,
    sequential: bool,
    gap_ns: u64,
    pause: u64,
    /// Of 256 acts, how many are faults.
    faults: u64,
    orders: u64,
    /// Weights of the kinds of faults.
    kinds: [u64; 6],
}

impl Style {
    fn draw(random: &mut Stream, mode: Mode) -> Style {
        let mut kinds = [0; 6];
        for odds in &mut kinds {
            *odds = random.pick(&[0, 1, 4]);
        }
        Style {
            requests: random.pick(&[20, 60, 60, 150]),
            odds: [
                random.pick(&[1, 4, 8]),
                8,
                random.pick(&[0, 1, 3]),
                random.pick(&[0, 1]),
                random.pick(&[0, 0, 1]),
            ],
            fua: random.pick(&[0, 1, 4]),
            usual_bytes: random.pick(&[512, 4 * KIB, 16 * KIB, 64 * KIB]),
            hot: random.pick(&[0, 8, 14]),
            sequential: random.chance(1, 4),
            gap_ns: random.pick(&[1_000, 30_000, 300_000]),
            pause: random.pick(&[0, 1, 4]),
            faults: if mode == Mode::Calm {
                0
            } else {
                random.pick(&[6, 12, 30])
            },
            orders: random.pick(&[0, 0, 4, 12]),
            kinds,
        }
    }
}

struct Drawing<'a> {
    random: Stream,
    style: Style,
    topology: &'a Topology,
    at_ns: u64,
    /// Acts until an outage after the loss of a drive. The time before the loss is on record is the most
    /// critical.
    outage_in: u64,
    /// By connection: where its sequential stream continues.
    streams: [u64; 4],
}

impl Drawing<'_> {
    fn actions(&mut self) -> Vec<Action> {
        let count = self.style.requests;
        (1..=count as u32)
            .map(|number| {
                self.pass_time();
                let act = self.act();
                Action {
                    at_ns: self.at_ns,
                    act,
                    number,
                }
            })
            .collect()
    }

    fn pass_time(&mut self) {
        self.at_ns += self.random.below(2 * self.style.gap_ns);
        if self.random.chance(self.style.pause, 40) {
            let pauses = [
                MS,
                self.topology.clean_after_ns * 2,
                600 * MS,
                self.topology.deadline_ns * 3,
            ];
            self.at_ns += self.random.pick(&pauses);
        }
    }

    fn act(&mut self) -> Act {
        if self.outage_in == 1 {
            self.outage_in = 0;
            let outage = self.random.pick(&[Outage::PowerCut, Outage::Crash]);
            return Act::Fault(Fault::Outage(outage, vec![Meddling::Return]));
        }
        self.outage_in = self.outage_in.saturating_sub(1);
        let roll = self.random.below(256);
        if roll < self.style.faults {
            let fault = self.fault();
            let loses = matches!(fault, Fault::DropOut(_) | Fault::Errors(..));
            if loses && self.random.chance(1, 3) {
                self.outage_in = self.random.between(1, 6);
            }
            return Act::Fault(fault);
        }
        if roll < self.style.faults + self.style.orders {
            return Act::Order(self.order());
        }
        Act::Ask(self.ask())
    }

    fn size_bytes(&self, volume: u8) -> u64 {
        self.topology.size_bytes(volume)
    }

    fn ask(&mut self) -> Ask {
        let connection = self.random.below(4) as u8;
        let volume = self.random.below(self.topology.volumes.len() as u64) as u8;
        let size = self.size_bytes(volume);
        let most = match self.random.below(32) {
            0 => size.min(REQUEST_BYTES_MAX),
            1..=6 => 512,
            _ => self.style.usual_bytes.min(size),
        };
        let length = 512 * self.random.between(1, most / 512);
        let hot = self.random.chance(self.style.hot, 16);
        let area = if hot { size.min(48 * KIB) } else { size };
        let length = length.min(area);
        let mut offset = 512 * self.random.below((area - length) / 512 + 1);
        if self.style.sequential {
            let next = &mut self.streams[connection as usize];
            offset = if *next + length > size { 0 } else { *next };
            *next = offset + length;
        }
        let operation = self.operation();
        Ask {
            connection,
            volume,
            operation,
            fua: operation != Operation::Read && self.random.chance(self.style.fua, 16),
            offset_bytes: offset,
            length_bytes: if operation == Operation::Flush {
                0
            } else {
                length as u32
            },
        }
    }

    fn operation(&mut self) -> Operation {
        match self.one_of(self.style.odds) {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::WriteZeroes {
                keep_allocated: self.random.chance(1, 2),
                only_if_fast: self.random.chance(1, 4),
            },
            _ => Operation::Trim,
        }
    }

    fn one_of<const N: usize>(&mut self, odds: [u64; N]) -> usize {
        let mut roll = self.random.below(odds.iter().sum::<u64>().max(1));
        for (at, odds) in odds.into_iter().enumerate() {
            if roll < odds {
                return at;
            }
            roll -= odds;
        }
        0
    }

    fn bay(&mut self) -> usize {
        let bays = self.topology.members + self.topology.spares;
        self.random.below(u64::from(bays)) as usize
    }

    fn fault(&mut self) -> Fault {
        let bay = self.bay();
        match self.one_of(self.style.kinds) {
            0 => {
                let target = self.random.pick(&[
                    Target::Reads,
                    Target::Reads,
                    Target::Writes,
                    Target::Flushes,
                ]);
                // EIO, EAGAIN, ETIMEDOUT, ENODEV.
                let errno = self.random.pick(&[5, 5, 11, 110, 19]);
                Fault::Errors(bay, target, errno, self.random.between(1, 5) as u32)
            }
            1 => {
                let volumes = self.topology.volumes.len() as u64;
                let volume = self.random.below(volumes) as u8;
                let (start, component) = self.topology.extent(volume);
                let sectors = self.random.between(1, 16).min(component / 512);
                let offset = self.random.below(component / 512 - sectors + 1);
                Fault::BadSectors(bay, start + 512 * offset, 512 * sectors)
            }
            2 => {
                let deadline = self.topology.deadline_ns;
                let lengths = [MS, deadline / 2, 2 * deadline, 5 * deadline];
                Fault::Hang(bay, self.random.pick(&lengths))
            }
            3 => Fault::Slow(bay, self.random.pick(&[10, 100]), 50 * MS),
            4 => Fault::DropOut(bay),
            _ => self.outage(),
        }
    }

    fn outage(&mut self) -> Fault {
        let outage = self.random.pick(&[
            Outage::PowerCut,
            Outage::PowerCut,
            Outage::Crash,
            Outage::Stop,
        ]);
        let mut meddling = Vec::new();
        if self.random.chance(1, 2) {
            meddling.push(Meddling::Return);
        }
        if self.random.chance(1, 4) {
            let bay = self.bay();
            meddling.push(match self.random.below(6) {
                0 => Meddling::Blank(bay),
                1 => Meddling::Foreign(bay),
                2 => Meddling::Absent(bay),
                3 => Meddling::Torn(bay),
                _ => Meddling::Old(bay, self.random.between(1, 3) as u8),
            });
        }
        Fault::Outage(outage, meddling)
    }

    fn order(&mut self) -> Order {
        let volume = self.random.below(self.topology.volumes.len() as u64) as u8;
        match self.random.below(4) {
            0 => Order::Fail(self.bay()),
            1 => Order::AddSpare,
            2 => Order::Scrub {
                volume,
                repair: self.random.chance(1, 2),
            },
            _ => Order::Rate(self.random.pick(&[0, 64 * KIB])),
        }
    }
}
