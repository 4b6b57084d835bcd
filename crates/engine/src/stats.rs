//! Work is counted: monotone counters by class, per shard. The virtual-time world charges them by a
//! cost table; people read them as metrics.

/// Counters of one shard. All of them only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests accepted, by operation.
    pub reads: u64,
    /// See [`Stats::reads`].
    pub writes: u64,
    /// See [`Stats::reads`].
    pub flushes: u64,
    /// Trims and zeroings accepted.
    pub trims: u64,
    /// Bytes of accepted reads.
    pub read_bytes: u64,
    /// Bytes of accepted writes.
    pub write_bytes: u64,
    /// Requests answered with an error.
    pub request_errors: u64,
    /// Reads of one command, run without a plan.
    pub singles_read: u64,
    /// Writes of one command per copy, run without a plan.
    pub singles_write: u64,
    /// Plans started: reads served directly from members.
    pub plans_direct: u64,
    /// Plans started: writes under a range lock.
    pub plans_write: u64,
    /// Plans started: reads that had to be reconstructed.
    pub plans_reconstruct: u64,
    /// Plans started for rebuild, resync, scrub or replace.
    pub plans_background: u64,
    /// Member reads issued.
    pub member_reads: u64,
    /// Member writes issued, zeroings and discards included.
    pub member_writes: u64,
    /// Member flushes issued.
    pub member_flushes: u64,
    /// Bytes of member reads.
    pub member_read_bytes: u64,
    /// Bytes of member writes.
    pub member_write_bytes: u64,
    /// Member I/Os answered with an error.
    pub member_errors: u64,
    /// Member I/Os of failed members that were not waited for any more.
    pub abandoned: u64,
    /// Those of them that came back later.
    pub returned: u64,
    /// Xor and compare computations.
    pub xors: u64,
    /// Bytes of their sources.
    pub xor_bytes: u64,
    /// Units of write-hole logs written.
    pub log_units: u64,
    /// Entries in them.
    pub log_entries: u64,
    /// Their bytes, headers included.
    pub log_bytes: u64,
    /// Pieces of writes that joined another's plan.
    pub merges: u64,
    /// Pieces that had to wait for a range lock.
    pub conflicts: u64,
    /// Pieces sent to the shard that owns their row.
    pub forwards: u64,
    /// Plans started again because a member failed under them.
    pub replans: u64,
    /// Blocks read with a media error, reconstructed and written back.
    pub read_repairs: u64,
    /// Stripes whose redundancy did not match their data.
    pub mismatches: u64,
    /// Metadata updates of members.
    pub metadata_writes: u64,
}

impl Stats {
    /// The sum of two shards' counters.
    #[must_use]
    pub fn plus(&self, other: &Stats) -> Stats {
        let mut sum = *self;
        for (into, from) in sum.fields_mut().into_iter().zip(other.fields()) {
            *into += from.1;
        }
        sum
    }
}

macro_rules! fields {
    ($($name:ident),* $(,)?) => {
        impl Stats {
            /// Names and values, in a fixed order.
            #[must_use]
            pub fn fields(&self) -> [(&'static str, u64); [$(stringify!($name)),*].len()] {
                [$((stringify!($name), self.$name)),*]
            }

            fn fields_mut(&mut self) -> [&mut u64; [$(stringify!($name)),*].len()] {
                [$(&mut self.$name),*]
            }
        }
    };
}

fields!(
    reads,
    writes,
    flushes,
    trims,
    read_bytes,
    write_bytes,
    request_errors,
    singles_read,
    singles_write,
    plans_direct,
    plans_write,
    plans_reconstruct,
    plans_background,
    member_reads,
    member_writes,
    member_flushes,
    member_read_bytes,
    member_write_bytes,
    member_errors,
    abandoned,
    returned,
    xors,
    xor_bytes,
    log_units,
    log_entries,
    log_bytes,
    merges,
    conflicts,
    forwards,
    replans,
    read_repairs,
    mismatches,
    metadata_writes,
);
