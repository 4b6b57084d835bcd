//! Faults that a test orders: failing operations and power cuts.

use crate::journal::{Entry, Operation};
use std::ops::Range;

/// Makes matching operations fail with an errno.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The number of the file.
    pub file: usize,
    /// The kind of operation.
    pub operation: Operation,
    /// Only operations that overlap this range match. A sync matches whatever the range.
    pub range: Range<u64>,
    /// The errno that a failing operation is answered with.
    pub errno: i32,
    /// How many matching operations succeed first.
    pub skip: u64,
    /// How many matching operations fail after those.
    pub count: u64,
    /// Whether a failed sync loses for good the writes it should have made durable, so that the next sync succeeds
    /// without them. Kernels behave like this when they cannot write back pages of the page cache.
    pub loses: bool,
}

impl Fault {
    /// All such operations on the file fail from now on.
    #[must_use]
    pub fn always(file: usize, operation: Operation, errno: i32) -> Fault {
        Fault {
            file,
            operation,
            range: 0..u64::MAX,
            errno,
            skip: 0,
            count: u64::MAX,
            loses: false,
        }
    }

    /// The next such operation on the file fails.
    #[must_use]
    pub fn once(file: usize, operation: Operation, errno: i32) -> Fault {
        Fault {
            count: 1,
            ..Fault::always(file, operation, errno)
        }
    }

    /// Whether this entry fails. Counts the entry if it matches.
    pub(crate) fn strikes(&mut self, entry: &Entry) -> bool {
        let somewhere = entry.operation == Operation::Sync
            || (entry.offset_bytes < self.range.end && self.range.start < entry.end_bytes());
        if entry.file != self.file || entry.operation != self.operation || !somewhere {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let struck = self.count > 0;
        self.count = self.count.saturating_sub(1);
        struck
    }
}

/// When the power fails without a call of [`crate::FaultFs::cut`].
#[derive(Clone, Debug)]
pub struct CutAt {
    /// Operations that count. Empty: every operation that changes a file, and syncs.
    pub operations: Vec<Operation>,
    /// Only operations that overlap this range count. A sync counts whatever the range.
    pub range: Range<u64>,
    /// How many counted operations pass before the cut.
    pub skip: u64,
    /// Whether the operation at which the power fails is still carried out. It is answered with EIO either way.
    pub is_carried_out: bool,
}

impl CutAt {
    /// Whether the power fails at this entry.
    pub(crate) fn strikes(&mut self, entry: &Entry) -> bool {
        let is_sync = entry.operation == Operation::Sync;
        let counts = match self.operations.as_slice() {
            [] => is_sync || entry.changes(),
            some => some.contains(&entry.operation),
        };
        let somewhere = is_sync
            || (entry.offset_bytes < self.range.end && self.range.start < entry.end_bytes());
        if !counts || !somewhere {
            return false;
        }
        let now = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        now
    }
}
