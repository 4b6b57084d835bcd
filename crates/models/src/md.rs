//! Linux md of 2018 in numbers with their sources: what its work takes. What it costs that all cores change the same
//! few cache lines is the processor's.
//!
//! A file describes one [`MdFile`]; [`MdFile::costs`] checks it and gives the [`MdCosts`] on some [`Cores`]. How md acts
//! with them is in `crates/timed/src/stacks/md_2018`.

use crate::host::SCHEMA;
use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

figures! {
    /// How arrays are made.
    Arrays {
        /// Chunk of striped levels, unless a configuration says another.
        chunk_kib,
        /// Stripe heads of RAID 5: each is one page per member.
        stripe_cache_heads,
        /// Stripe heads that the RAID 5 thread handles between two looks at its lists.
        stripe_batch,
    }
}

figures! {
    /// Work of one kind each.
    Work {
        /// A request finds its member.
        map_cycles,
        /// A command of md's own making, with its answer: each copy but the first, each piece but the first, each
        /// page that the RAID 5 thread reads or writes.
        command_cycles,
        /// A page of a write is hooked to its stripe head.
        page_add_cycles,
        /// The RAID 5 thread looks at a stripe head once.
        stripe_pass_cycles,
        /// A page is copied into the stripe cache, or added to parity.
        page_ns,
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdFile {
    /// Version of the form, the same as that of hosts.
    pub schema: u32,
    /// Name by which plans call it.
    pub stack: String,
    /// Full name, for people.
    pub title: String,
    /// How arrays are made.
    pub array: Arrays,
    /// Work.
    pub work: Work,
}

/// What md costs on some processor, in nanoseconds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MdCosts {
    /// Chunk of striped levels, unless a configuration says another.
    pub chunk_bytes: u32,
    /// Stripe heads of RAID 5.
    pub stripe_cache_heads: usize,
    /// Stripe heads that the RAID 5 thread handles in a row.
    pub stripe_batch: usize,
    /// A request finds its member.
    pub map_ns: u64,
    /// A command of md's own making.
    pub command_ns: u64,
    /// A page is hooked to its stripe head.
    pub page_add_ns: u64,
    /// A stripe head is looked at.
    pub stripe_pass_ns: u64,
    /// A page is copied or added.
    pub page_ns: u64,
    /// A shared line is changed that this core, another one of its socket, or one of another socket has changed last.
    pub line_ns: [u64; 3],
    /// Sockets over which clients' threads are dealt out in turn.
    pub sockets: usize,
    /// Mirrors are read from the copy that suits best. If not, from the first: for asking what that is worth.
    pub balances_reads: bool,
    /// A write goes to all copies. If not, to the one that a read would take, which no mirror does: for asking what
    /// that costs.
    pub writes_copies: bool,
}

fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "chunk_kib" => (4.0, 1024.0, true),
        // The kernel's own limits.
        "stripe_cache_heads" => (17.0, 32768.0, true),
        "stripe_batch" => (1.0, 1024.0, true),
        _ => (0.0, 1e6, false),
    }
}

impl MdFile {
    /// What it costs on these processors, with so many threads computing at once.
    ///
    /// # Errors
    /// The first number that breaks a rule.
    pub fn costs(&self, cores: &Cores, threads: u64) -> Result<MdCosts, FigureError> {
        check(self, &self.stack, [self.schema, SCHEMA], range)?;
        let slowdown = cores.slowdown(threads);
        let ns = |cycles: &Figure| (cores.cycles_ns(cycles.value) * slowdown + 0.5) as u64;
        let time_ns = |figure: &Figure| (figure.value + 0.5) as u64;
        let MdFile { array, work, .. } = self;
        Ok(MdCosts {
            chunk_bytes: (array.chunk_kib.value * 1024.0) as u32,
            stripe_cache_heads: array.stripe_cache_heads.value as usize,
            stripe_batch: array.stripe_batch.value as usize,
            map_ns: ns(&work.map_cycles),
            command_ns: ns(&work.command_cycles),
            page_add_ns: ns(&work.page_add_cycles),
            stripe_pass_ns: ns(&work.stripe_pass_cycles),
            page_ns: time_ns(&work.page_ns),
            line_ns: cores.line_ns,
            sockets: cores.sockets as usize,
            balances_reads: true,
            writes_copies: true,
        })
    }
}

tables!(MdFile: array, work);
