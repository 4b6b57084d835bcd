//! Work is counted: monotone counters by class, per shard. The virtual-time world charges them by a
//! cost table; people read them as metrics.

macro_rules! counters {
    ($($(#[doc = $words:literal])+ $name:ident,)*) => {
        /// Counters of one shard. All of them only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $words])+ pub $name: u64,)*
        }

        impl Stats {
            /// What each of [`Stats::fields`] counts: a sentence by its name.
            pub const HELP: [(&'static str, &'static str); [$(stringify!($name)),*].len()] =
                [$((stringify!($name), concat!($($words),+))),*];

            /// Names and values, in a fixed order.
            #[must_use]
            pub fn fields(&self) -> [(&'static str, u64); Stats::HELP.len()] {
                [$((stringify!($name), self.$name)),*]
            }

            /// The values of [`Stats::fields`] without their names.
            #[must_use]
            pub fn values(&self) -> [u64; Stats::HELP.len()] {
                [$(self.$name),*]
            }

            fn fields_mut(&mut self) -> [&mut u64; Stats::HELP.len()] {
                [$(&mut self.$name),*]
            }
        }
    };
}

counters!(
    /// Reads accepted.
    reads,
    /// Writes accepted.
    writes,
    /// Flushes accepted.
    flushes,
    /// Trims and zeroings accepted.
    trims,
    /// Bytes of accepted reads.
    read_bytes,
    /// Bytes of accepted writes.
    write_bytes,
    /// Requests answered with an error.
    request_errors,
    /// Reads of one command, run without a plan.
    singles_read,
    /// Writes of one command per copy, run without a plan.
    singles_write,
    /// Plans started: reads served directly from members, and writes without redundancy.
    plans_direct,
    /// Pieces of chunks in plans that need no lock.
    pieces_direct,
    /// Plans started: writes under a range lock.
    plans_write,
    /// Plans started: reads that had to be reconstructed.
    plans_reconstruct,
    /// Plans started for rebuild, resync, scrub or replace.
    plans_background,
    /// Steps of all plans: member commands, computations and log entries.
    plan_steps,
    /// Memory segments that the steps of plans use.
    plan_segments,
    /// Member reads issued.
    member_reads,
    /// Member writes issued, zeroings and discards included.
    member_writes,
    /// Member flushes issued.
    member_flushes,
    /// Bytes of member reads.
    member_read_bytes,
    /// Bytes of member writes.
    member_write_bytes,
    /// Member I/Os answered with an error.
    member_errors,
    /// Member I/Os that were abandoned because a failed member did not answer them.
    abandoned,
    /// Abandoned member I/Os that were answered later.
    returned,
    /// Xor and compare computations.
    xors,
    /// Bytes of the sources of xor and compare computations.
    xor_bytes,
    /// Bytes of the results of xor computations.
    xor_written_bytes,
    /// Units of write-hole logs written.
    log_units,
    /// Entries in units of write-hole logs.
    log_entries,
    /// Bytes of units of write-hole logs, headers included.
    log_bytes,
    /// Updates of write-intent bitmaps, each to all members.
    bitmap_writes,
    /// Pieces of writes that joined the plan of another write.
    merges,
    /// Pieces that had to wait for a range lock.
    conflicts,
    /// Pieces sent to the shard that owns their row.
    forwards,
    /// Plans made anew because some of their reads failed.
    replans,
    /// Blocks read with a media error, reconstructed and written back.
    read_repairs,
    /// Pieces of reads whose range was made equal on all copies of a mirror before the answer.
    reads_made_equal,
    /// Stripes whose redundancy did not match their data.
    mismatches,
    /// Metadata updates of members.
    metadata_writes,
    /// Turns of the loop that had something to do.
    turns,
    /// Checks of deadlines and idle volumes, four a second.
    sweeps,
);

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
