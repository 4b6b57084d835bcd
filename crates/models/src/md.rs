//! The costs of Linux md of 2018, in numbers with their sources. What it costs that all cores change the same few cache
//! lines is part of the processor's profile.
//!
//! A file describes one [`MdFile`]; [`MdFile::costs`] checks it and gives the [`MdCosts`] on the processors that a
//! [`Cores`] describes. The behaviour of md is modelled in `crates/timed/src/stacks/md_2018`.

use crate::host::SCHEMA;
use crate::platform::Cores;
use crate::profile::{Figure, figures};
use crate::tables::{FigureError, check, tables};
use alloc::string::String;
use serde::{Deserialize, Serialize};

figures! {
    /// How arrays are made.
    Arrays {
        /// Chunk size of striped levels, unless a configuration gives another.
        chunk_kib,
        /// Stripe heads of RAID 5: each is one page per member.
        stripe_cache_heads,
        /// Stripe heads that the RAID 5 thread handles before it looks at its lists again.
        stripe_batch,
    }
}

figures! {
    /// Work of md, by kind.
    Work {
        /// Finding the member of a request.
        map_cycles,
        /// One command that md creates itself, with its completion: each copy but the first, each piece but the first,
        /// each page that the RAID 5 thread reads or writes.
        command_cycles,
        /// Attaching a page of a write to its stripe head.
        page_add_cycles,
        /// One pass of the RAID 5 thread over a stripe head.
        stripe_pass_cycles,
        /// Copying a page into the stripe cache, or adding it to parity.
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
    /// Its work.
    pub work: Work,
}

/// The costs of md on a given processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MdCosts {
    /// Chunk size of striped levels, unless a configuration gives another.
    pub chunk_bytes: u32,
    /// Stripe heads of RAID 5.
    pub stripe_cache_heads: usize,
    /// Stripe heads that the RAID 5 thread handles in a row.
    pub stripe_batch: usize,
    /// Finding the member of a request.
    pub map_ns: u64,
    /// One command that md creates itself.
    pub command_ns: u64,
    /// Attaching a page to its stripe head.
    pub page_add_ns: u64,
    /// One pass over a stripe head.
    pub stripe_pass_ns: u64,
    /// Copying a page, or adding it to parity.
    pub page_ns: u64,
    /// Changing a shared cache line that was last changed by this core, by another core of its socket, or by one of
    /// another socket.
    pub line_ns: [u64; 3],
    /// Sockets to which the clients' threads are assigned in turn.
    pub sockets: usize,
    /// Whether mirrors are read from the most suitable copy. If not, they are read from the first, to find out what
    /// this gains.
    pub balances_reads: bool,
    /// Whether a write goes to all copies. If not, it goes only to the copy that a read would choose. No real mirror
    /// does that; it shows what the copies cost.
    pub writes_copies: bool,
}

fn range(key: &str) -> (f64, f64, bool) {
    match key {
        "chunk_kib" => (4.0, 1024.0, true),
        // These are the kernel's own limits.
        "stripe_cache_heads" => (17.0, 32768.0, true),
        "stripe_batch" => (1.0, 1024.0, true),
        _ => (0.0, 1e6, false),
    }
}

impl MdFile {
    /// The costs on these processors while `threads` threads compute at once.
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
