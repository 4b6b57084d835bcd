//! Turns a family's file into the numbers of one drive, each of which is checked; `rules` checks them together.

use super::{Family, SCHEMA};
use crate::platform::DriveLink;
use crate::port::Port;
use crate::server::Pace;
use crate::tables::{FigureError, Tables};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Size of the commands to which ratings in IOPS and latencies refer.
pub(crate) const RATED_BYTES: u64 = 4096;
/// Bytes of a sector, the unit in which the controller's time is counted.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The numbers of one drive, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The member's name.
    pub id: String,
    /// What the host can address.
    pub capacity_bytes: u64,
    /// Number of parallel flash units.
    pub units: usize,
    /// Whether a read has to use the unit that holds its data; true, except to find out what collisions cost.
    pub collides: bool,
    /// Controller time of a command, whatever its size.
    pub command_ns: u64,
    /// Controller time of 512 bytes.
    pub sector_ns: u64,
    /// Total latency of a 4 KiB read.
    pub read_latency_ns: u64,
    /// Total latency of a 4 KiB write.
    pub write_latency_ns: u64,
    /// Flash time of a 4 KiB read.
    pub read_unit_ns: u64,
    /// Bandwidth of one unit for the rest of a longer piece.
    pub unit_transfer_bytes_per_s: u64,
    /// Consecutive bytes on one unit.
    pub stripe_bytes: u64,
    /// Duration of one program on one unit.
    pub program_ns: u64,
    /// What one program writes.
    pub program_bytes: u64,
    /// Whether programs are suspended for reads.
    pub suspends: bool,
    /// The delay of a read for which a program is suspended.
    pub suspend_ns: u64,
    /// Granularity of the drive's map.
    pub map_unit_bytes: u64,
    /// Cost of a map unit that is written in part as a multiple of a whole one, in thousandths.
    pub partial_write_per_mille: u64,
    /// For how long the medium refreshes itself after power-on, in thousandths of an hour.
    pub refresh_per_mille_hours: u64,
    /// The share of the medium's time that this takes, in thousandths.
    pub refresh_per_mille: u64,
    /// Bandwidth of the data path between port and flash, both directions together.
    pub path_bytes_per_s: u64,
    /// Bandwidth of programs.
    pub program_bytes_per_s: u64,
    /// Programmed bytes per host byte in the steady state, in thousandths.
    pub amplification_per_mille: u64,
    /// Size of the power-safe buffer.
    pub buffer_bytes: u64,
    /// Size of the clean pool in host bytes.
    pub pool_bytes: u64,
    /// Host bytes that an empty pseudo-SLC cache takes.
    pub burst_bytes: u64,
    /// Bandwidth of writes while it takes them.
    pub burst_bytes_per_s: u64,
    /// How far the drive reads ahead.
    pub read_ahead_bytes: u64,
    /// Largest command.
    pub command_max_bytes: u64,
    /// Queue pairs for I/O.
    pub io_queues: u64,
    /// Its link.
    pub link: DriveLink,
    /// The drive's own end of its link.
    pub port: Port,
    /// Short and long stalls of reads, rate and mean in ns.
    pub read_stalls: [crate::stalls::Component; 2],
    /// The same for writes.
    pub write_stalls: [crate::stalls::Component; 2],
    /// Most bytes per second that a worn drive can write.
    pub worn_write_bytes_per_s: u64,
    /// Power of the idle drive, in milliwatts.
    pub idle_mw: u64,
    /// Energy per byte read, in picojoules.
    pub read_pj_per_byte: u64,
    /// Energy per byte programmed, in picojoules.
    pub program_pj_per_byte: u64,
}

/// A value in a unit that is `factor` times smaller, as a whole number.
pub(super) fn whole(value: f64, factor: f64) -> u64 {
    (value * factor + 0.5) as u64
}

pub(super) fn profile(family: &Family, id: &str) -> Result<Profile, FigureError> {
    if family.schema != SCHEMA {
        return Err(FigureError {
            name: family.family.clone(),
            key: "schema".to_string(),
            rule: format!("is {}, but this program reads {SCHEMA}", family.schema),
        });
    }
    let Some(member) = family.members.iter().find(|member| member.id == id) else {
        let known: Vec<&str> = family.members.iter().map(|m| m.id.as_str()).collect();
        return Err(FigureError {
            name: family.family.clone(),
            key: id.to_string(),
            rule: format!(
                "is not a drive of this family, which has {}",
                known.join(", ")
            ),
        });
    };
    check_ranges(family, id)?;
    Ok(convert(family, member))
}

/// Keys that may be 0; all others must be greater.
const MAY_BE_ZERO: [&str; 14] = [
    "sector_ns",
    "buffer_kib",
    "burst_gb",
    "burst_write_mb_s",
    "read_ahead_kib",
    "refresh_hours",
    "refresh_share",
    "suspend",
    "suspend_us",
    "short_per_read",
    "short_per_write",
    "long_per_read",
    "long_per_write",
    "worn_write_mb_s",
];
/// Keys that are probabilities or switches: at most 1.
const AT_MOST_ONE: [&str; 5] = [
    "suspend",
    "short_per_read",
    "short_per_write",
    "long_per_read",
    "long_per_write",
];
/// Bandwidths, which have to be at least 1 MB/s; a worn drive may write nothing.
const BANDWIDTHS: [&str; 3] = ["unit_transfer_mb_s", "read_mb_s", "write_mb_s"];
/// Keys that must be whole numbers.
const WHOLE_NUMBERS: [&str; 7] = [
    "lanes",
    "generation",
    "units",
    "io_queues",
    "command_max_kib",
    "stripe_kib",
    "map_unit_kib",
];
/// Larger than any plausible figure of a profile; keeps conversions in range.
const LARGEST: f64 = 1e9;
/// The smallest plausible value of everything that is not a probability.
const SMALLEST: f64 = 1e-3;

fn check_ranges(family: &Family, id: &str) -> Result<(), FigureError> {
    let mut found = None;
    let mut check = |table: &str, key: &'static str, value: f64| {
        let rule = if !value.is_finite() {
            "has to be a number"
        } else if value < 0.0 {
            "must not be negative"
        } else if value == 0.0 && !MAY_BE_ZERO.contains(&key) {
            "has to be above 0"
        } else if value > 0.0 && value < SMALLEST && !AT_MOST_ONE.contains(&key) {
            "has to be at least 0.001"
        } else if value < 1.0 && BANDWIDTHS.contains(&key) {
            "has to be at least 1"
        } else if value > 1.0 && AT_MOST_ONE.contains(&key) {
            "has to be at most 1"
        } else if value > LARGEST {
            "has to be at most 1e9"
        } else if WHOLE_NUMBERS.contains(&key) && value != (value as u64) as f64 {
            "has to be a whole number"
        } else {
            return;
        };
        found.get_or_insert_with(|| FigureError {
            name: id.to_string(),
            key: format!("{table}.{key}"),
            rule: format!("is {value}, but {rule}"),
        });
    };
    let is_other = |table| table != id && family.members.iter().any(|m| m.id == table);
    for (table, figures) in family.tables() {
        if !is_other(table) {
            let table = if table == id { "ratings" } else { table };
            figures.each(&mut |key, figure| check(table, key, figure.value));
        }
    }
    found.map_or(Ok(()), Err)
}

fn convert(family: &Family, member: &super::Member) -> Profile {
    let (media, controller, stalls) = (&family.media, &family.controller, &family.stalls);
    let ratings = &member.ratings;
    let us = |figure: &super::Figure| whole(figure.value, 1e3);
    let kib = |figure: &super::Figure| whole(figure.value, 1024.0);
    let mb = |figure: &super::Figure| whole(figure.value, 1e6);
    let component = |rate: &super::Figure, mean: &super::Figure| crate::stalls::Component {
        rate: rate.value,
        mean_ns: us(mean),
    };
    let sector_ns = whole(controller.sector_ns.value, 1.0);
    let rated_ns = whole(1e6 / ratings.read_kiops.value, 1.0);
    let extra_w = (ratings.active_w.value - ratings.idle_w.value).max(0.0);
    let steady_mb_s = ratings.steady_write_kiops.value * (media.map_unit_kib.value * 1.024);
    let link = DriveLink {
        lanes: whole(family.link.lanes.value, 1.0),
        generation: whole(family.link.generation.value, 1.0),
    };
    Profile {
        id: member.id.clone(),
        capacity_bytes: whole(ratings.capacity_gb.value, 1e9),
        units: whole(ratings.units.value, 1.0) as usize,
        collides: true,
        command_ns: rated_ns.saturating_sub(sector_ns * (RATED_BYTES / SECTOR_BYTES)),
        sector_ns,
        read_latency_ns: us(&family.latency.read_us),
        write_latency_ns: us(&family.latency.write_us),
        read_unit_ns: us(&media.read_unit_us),
        unit_transfer_bytes_per_s: mb(&media.unit_transfer_mb_s),
        stripe_bytes: kib(&media.stripe_kib),
        program_ns: us(&media.program_us),
        program_bytes: kib(&media.program_kib),
        suspends: media.suspend.value >= 0.5,
        suspend_ns: us(&media.suspend_us),
        map_unit_bytes: kib(&media.map_unit_kib),
        partial_write_per_mille: whole(media.partial_write_factor.value, 1e3),
        refresh_per_mille_hours: whole(media.refresh_hours.value, 1e3),
        refresh_per_mille: whole(media.refresh_share.value, 1e3),
        path_bytes_per_s: mb(&ratings.read_mb_s),
        program_bytes_per_s: mb(&ratings.write_mb_s),
        amplification_per_mille: if controller.buffer_kib.value == 0.0 {
            // What is written in place is not collected.
            1000
        } else {
            whole(ratings.write_mb_s.value / steady_mb_s, 1e3)
        },
        buffer_bytes: kib(&controller.buffer_kib),
        pool_bytes: mb(&ratings.pool_mb),
        burst_bytes: whole(ratings.burst_gb.value, 1e9),
        burst_bytes_per_s: mb(&ratings.burst_write_mb_s),
        read_ahead_bytes: kib(&controller.read_ahead_kib),
        command_max_bytes: kib(&family.limits.command_max_kib),
        io_queues: whole(family.limits.io_queues.value, 1.0),
        port: Port::of_link(link.lanes, link.generation),
        link,
        read_stalls: [
            component(&stalls.short_per_read, &stalls.short_mean_us),
            component(&stalls.long_per_read, &stalls.long_mean_us),
        ],
        write_stalls: [
            component(&stalls.short_per_write, &stalls.short_mean_us),
            component(&stalls.long_per_write, &stalls.long_mean_us),
        ],
        worn_write_bytes_per_s: mb(&family.end_of_life.worn_write_mb_s),
        idle_mw: whole(ratings.idle_w.value, 1e3),
        read_pj_per_byte: whole(extra_w / ratings.read_mb_s.value, 1e6),
        program_pj_per_byte: whole(extra_w / ratings.write_mb_s.value, 1e6),
    }
}

impl Profile {
    /// Controller time of a command of this size.
    #[must_use]
    pub fn controller_ns(&self, length_bytes: u64) -> u64 {
        self.command_ns + length_bytes.div_ceil(SECTOR_BYTES) * self.sector_ns
    }

    /// The time that a 4 KiB read spends in stages that have a queue, on an idle drive.
    #[must_use]
    pub fn staged_read_ns(&self) -> u64 {
        let moves_ns = self.moves_ns(self.port.to_host_bytes_per_s);
        self.controller_ns(RATED_BYTES) + self.read_unit_ns + moves_ns
    }

    /// The time that 4 KiB of data take through data path and port: both at once if there is no buffer between them.
    fn moves_ns(&self, port_bytes_per_s: u64) -> u64 {
        let path_ns = Pace::of_bytes_per_s(self.path_bytes_per_s).time_ns(RATED_BYTES);
        let port_ns = Pace::of_bytes_per_s(port_bytes_per_s)
            .time_ns(RATED_BYTES + self.port.command_overhead_bytes);
        if self.is_in_place() {
            path_ns.max(port_ns)
        } else {
            path_ns + port_ns
        }
    }

    /// The same for a write.
    #[must_use]
    pub fn staged_write_ns(&self) -> u64 {
        let program_ns = if self.is_in_place() {
            let paced_ns = Pace::of_bytes_per_s(self.program_bytes_per_s).time_ns(RATED_BYTES);
            self.program_ns.max(paced_ns)
        } else {
            0
        };
        self.controller_ns(RATED_BYTES) + self.moves_ns(self.port.to_drive_bytes_per_s) + program_ns
    }

    /// Takes the stalls out, which come by chance.
    pub fn without_stalls(&mut self) {
        let components = self.read_stalls.iter_mut().chain(&mut self.write_stalls);
        components.for_each(|component| component.rate = 0.0);
    }

    /// Whether writes are done when the medium has them: there is no buffer.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.buffer_bytes == 0
    }
}

impl Profile {
    /// Host bytes of one episode of garbage collection: one program on every unit.
    #[must_use]
    pub fn episode_bytes(&self) -> u64 {
        self.units as u64 * self.program_bytes
    }
}
