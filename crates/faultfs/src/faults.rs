//! What goes wrong on demand.

use crate::journal::{Entry, Operation};
use std::ops::Range;

/// Operations that are answered with an errno.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which file.
    pub file: usize,
    /// Which operation.
    pub operation: Operation,
    /// Where; a sync is everywhere.
    pub range: Range<u64>,
    /// What it is answered.
    pub errno: i32,
    /// So many go well before.
    pub skip: u64,
    /// So many fail then.
    pub count: u64,
    /// Whether a failed sync has lost for good what it should have made durable, and the next sync says
    /// nothing of it: what kernels do with a page cache that could not be written back.
    pub loses: bool,
}

impl Fault {
    /// Every such operation on a file fails, from now on.
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

    /// The next such operation on a file fails.
    #[must_use]
    pub fn once(file: usize, operation: Operation, errno: i32) -> Fault {
        Fault {
            count: 1,
            ..Fault::always(file, operation, errno)
        }
    }

    /// Whether this entry meets it; counts it if so.
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

/// When the power goes by itself.
#[derive(Clone, Debug)]
pub struct CutAt {
    /// Operations that count; empty: all that change something or sync.
    pub operations: Vec<Operation>,
    /// Only those in this range count; a sync is everywhere.
    pub range: Range<u64>,
    /// So many pass before.
    pub skip: u64,
    /// Whether the one at which it happens is still carried out (and not answered).
    pub is_carried_out: bool,
}

impl CutAt {
    /// Whether the power goes at this entry.
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
