//! What a drive is like, in numbers with their sources.
//!
//! A file describes a **family**: drives that share controller and flash, and so latencies, media timing,
//! stalls and limits. Its **members** differ by how much flash there is and by what their maker rates.
//! Every number says where it comes from and what it may be taken for ([`Use`]); a key's last word is its
//! unit. Reading the file is the caller's work: these are types for any serde format.
//!
//! [`Family::member`] checks a member and gives its [`Profile`], plain numbers that a drive is made from.

mod check;
mod figure;

pub use check::Profile;
pub use figure::{Figure, Figures, Use};

use crate::tables::{FigureError, tables};
use alloc::string::String;
use alloc::vec::Vec;
pub(crate) use figure::figures;
use serde::{Deserialize, Serialize};

/// The version of the form of profile files.
pub const SCHEMA: u32 = 1;

figures! {
    /// Whole latency of one 4 KiB command on an idle drive, without any host.
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
        /// Largest command; a longer one is cut by whoever sends it.
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
    /// The one server that all commands pass.
    Controller {
        /// Its time for each 512 bytes of a command.
        sector_ns,
        /// Bytes acknowledged before they are in flash, held by capacitors.
        buffer_kib,
        /// How far ahead of a recognised stream the drive reads; 0 if it does not.
        read_ahead_kib,
    }
}

figures! {
    /// Flash, as one unit behaves.
    Media {
        /// A read of one map unit, without transfer of more.
        read_unit_us,
        /// Bandwidth at which a unit gives the rest of a longer piece.
        unit_transfer_mb_s,
        /// Bytes in a row on one unit, where data were written in order.
        stripe_kib,
        /// One program.
        program_us,
        /// What one program writes on one unit.
        program_kib,
        /// 1 if programs are suspended for reads, 0 if reads wait for their end.
        suspend,
        /// What a read waits for when it meets a program that is suspended for it.
        suspend_us,
        /// Cost in flash of a write that fills its map unit in part, as a multiple of a whole one.
        partial_write_factor,
    }
}

figures! {
    /// Rare waits: see the module of this name.
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
        /// What the host may still write.
        worn_write_mb_s,
    }
}

figures! {
    /// What distinguishes a member of the family.
    Ratings {
        /// What the host can address.
        capacity_gb,
        /// Parallel units.
        units,
        /// Most random reads, in thousands per second: the cap of the controller.
        read_kiops,
        /// Bandwidth of the data path between port and flash, for both directions together.
        read_mb_s,
        /// Bandwidth of programs on all units together.
        write_mb_s,
        /// Random writes of 4 KiB in the steady state, in thousands per second.
        steady_write_kiops,
        /// Clean pool in host bytes.
        pool_mb,
        /// Power without commands.
        idle_w,
        /// Power at rated bandwidth.
        active_w,
        /// Rated drive writes per day, over five years.
        endurance_dwpd,
    }
}

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
    /// Idle latencies.
    pub latency: Latency,
    /// What it accepts.
    pub limits: Limits,
    /// Link to the host.
    pub link: Link,
    /// Controller and its memory.
    pub controller: Controller,
    /// Flash.
    pub media: Media,
    /// Rare waits.
    pub stalls: StallRates,
    /// Past the rated endurance.
    pub end_of_life: EndOfLife,
    /// The sizes.
    #[serde(rename = "member")]
    pub members: Vec<Member>,
}

impl Family {
    /// The member with this id, checked.
    ///
    /// # Errors
    /// An unknown id, or the first number that breaks a rule: see [`FigureError`].
    pub fn member(&self, id: &str) -> Result<Profile, FigureError> {
        check::profile(self, id)
    }
}

tables!(
    Family: latency, limits, link, controller, media, stalls, end_of_life;
    members: id ratings
);
