//! The properties of a drive, in numbers with their sources.
//!
//! A file describes a **family**: drives that share controller and flash, and therefore latencies, media timing, stalls
//! and limits. Its **members** differ by how much flash they have and by what their maker rates. Every number states
//! its source and its status ([`Use`]); the last word of a key is its unit. The caller reads the file: these are types
//! for any serde format.
//!
//! [`Family::member`] checks a member and gives its [`Profile`]: the plain numbers that a drive is made from.

mod check;
mod figure;
mod purpose;
mod rules;

pub use check::Profile;
pub use figure::{Figure, Figures, Use};
pub use purpose::Purpose;

use crate::tables::{FigureError, tables};
use alloc::string::String;
use alloc::vec::Vec;
pub(crate) use figure::figures;
use serde::{Deserialize, Serialize};

/// The version of the form of profile files.
pub const SCHEMA: u32 = 1;

figures! {
    /// Total latency of one 4 KiB command on an idle drive, without any host.
    Latency {
        /// A random read.
        read_us,
        /// A random write.
        write_us,
    }
}

figures! {
    /// What the drive accepts.
    Limits {
        /// Largest command; the sender splits a longer one.
        command_max_kib,
        /// Queue pairs for I/O.
        io_queues,
    }
}

figures! {
    /// The link to the host.
    Link {
        /// PCIe lanes.
        lanes,
        /// PCIe generation.
        generation,
    }
}

figures! {
    /// The single server that all commands pass.
    Controller {
        /// Its time for each 512 bytes of a command.
        sector_ns,
        /// Capacity of the buffer: bytes acknowledged before they are in flash, protected by capacitors. 0 if there is
        /// none: writes are done when the medium, which is overwritten in place, has them.
        buffer_kib,
        /// How far the drive reads ahead of a recognised stream; 0 if it does not read ahead.
        read_ahead_kib,
    }
}

figures! {
    /// Flash: the behaviour of one unit.
    Media {
        /// Time to read 4 KiB, without the transfer of more.
        read_unit_us,
        /// Bandwidth at which a unit transfers the rest of a longer piece.
        unit_transfer_mb_s,
        /// Consecutive bytes on one unit, if data was written sequentially.
        stripe_kib,
        /// Duration of one program.
        program_us,
        /// What one program writes on one unit.
        program_kib,
        /// 1 if programs are suspended for reads, 0 if reads wait for their end.
        suspend,
        /// The delay of a read that meets a program, which is suspended for it. Without a buffer: the time that a unit
        /// needs to change from reads to programs, and back.
        suspend_us,
        /// Granularity of the drive's map ("indirection unit"): what a write covers only in part is read and programmed
        /// again as a whole, unless the write continues another one.
        #[serde(default = "usual_map_unit")]
        map_unit_kib,
        /// Cost in flash of a map unit that a write covers only partly, as a multiple of a whole one: the read of the rest
        /// and the program.
        partial_write_factor,
        /// For how long the medium refreshes itself after power-on; 0 if it does not.
        #[serde(default = "no_refresh")]
        refresh_hours,
        /// The share of the medium's time that this takes meanwhile.
        #[serde(default = "no_refresh")]
        refresh_share,
    }
}

figures! {
    /// Rare stalls: see the module `stalls`.
    StallRates {
        /// Mean of the short component.
        short_mean_us,
        /// Its probability per read of a unit.
        short_per_read,
        /// Its probability per write command.
        short_per_write,
        /// Mean of the long component.
        long_mean_us,
        /// Its probability per read of a unit.
        long_per_read,
        /// Its probability per write command.
        long_per_write,
    }
}

figures! {
    /// A drive past its rated endurance.
    EndOfLife {
        /// The write rate that remains.
        worn_write_mb_s,
    }
}

figures! {
    /// The numbers in which members of the family differ.
    Ratings {
        /// What the host can address.
        capacity_gb,
        /// Number of parallel flash units.
        units,
        /// Most random reads, in thousands per second: the limit of the controller.
        read_kiops,
        /// Bandwidth of the data path between port and flash, for both directions together.
        read_mb_s,
        /// Bandwidth of programs on all units together.
        write_mb_s,
        /// Random writes of one map unit each (`media.map_unit_kib`) in the steady state, in thousands per second. Without
        /// a buffer it decides nothing: what is written in place is not collected.
        steady_write_kiops,
        /// Size of the clean pool in host bytes.
        pool_mb,
        /// Host bytes that an empty pseudo-SLC cache takes: flash that is written with one bit a cell. 0 if there is none.
        #[serde(default = "no_burst")]
        burst_gb,
        /// Bandwidth of writes while that cache takes them; then it is that of programs. 0 if there is none.
        #[serde(default = "no_burst")]
        burst_write_mb_s,
        /// Power of the idle drive.
        idle_w,
        /// Power at rated bandwidth.
        active_w,
        /// Rated drive writes per day, over five years.
        endurance_dwpd,
    }
}

/// The map unit of a file that states none, as files did before the key was added.
fn usual_map_unit() -> Figure {
    not_stated(4.0)
}

/// The pseudo-SLC cache of a file that states none, likewise.
fn no_burst() -> Figure {
    not_stated(0.0)
}

/// The refresh after power-on of a file that states none, likewise.
fn no_refresh() -> Figure {
    not_stated(0.0)
}

fn not_stated(value: f64) -> Figure {
    Figure {
        value,
        source: NOT_STATED.into(),
        r#use: Use::Prior,
    }
}

/// The source of a figure that a file need not state.
pub const NOT_STATED: &str = "not stated: what drives have unless their file says otherwise";

/// One size of drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name by which plans call it.
    pub id: String,
    /// Its own numbers.
    pub ratings: Ratings,
}

/// A family of drives: one profile file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Version of the form: [`SCHEMA`].
    pub schema: u32,
    /// Name of the family.
    pub family: String,
    /// Full name, for people.
    pub title: String,
    /// The maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<String>,
    /// What such drives are made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// Idle latencies.
    pub latency: Latency,
    /// What the drive accepts.
    pub limits: Limits,
    /// Link to the host.
    pub link: Link,
    /// Controller and its memory.
    pub controller: Controller,
    /// Flash.
    pub media: Media,
    /// Rare stalls.
    pub stalls: StallRates,
    /// The drive past its rated endurance.
    pub end_of_life: EndOfLife,
    /// The members.
    #[serde(rename = "member")]
    pub members: Vec<Member>,
}

impl Family {
    /// The member with this id, checked.
    ///
    /// # Errors
    /// An unknown id, or the first number that breaks a rule: see [`FigureError`].
    pub fn member(&self, id: &str) -> Result<Profile, FigureError> {
        let profile = check::profile(self, id)?;
        rules::check(self, &profile)?;
        Ok(profile)
    }
}

tables!(
    Family: latency, limits, link, controller, media, stalls, end_of_life;
    members: id ratings
);
