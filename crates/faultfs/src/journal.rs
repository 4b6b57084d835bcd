//! The journal: the operations on the files, in the order in which they came.

/// The kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
    /// fsync or fdatasync.
    Sync,
    /// A hole is punched. Discards arrive as this.
    Punch,
    /// A range is zeroed and stays allocated.
    ZeroRange,
}

/// One operation. Moments are values of the file system's counter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's number, in the order in which [`crate::FaultFs::mount`] was given the files.
    pub file: usize,
    /// The kind of operation.
    pub operation: Operation,
    /// First byte; 0 for a sync.
    pub offset_bytes: u64,
    /// Number of bytes; 0 for a sync.
    pub length_bytes: u64,
    /// Whether the kernel passed `O_DSYNC` or `O_SYNC` on.
    pub dsync: bool,
    /// When it came.
    pub arrived: u64,
    /// When it was answered, if it has been.
    pub answered: Option<u64>,
    /// When its change became durable, if it has; for a write not before its answer.
    pub durable: Option<u64>,
    /// The errno it was answered with; 0 is success.
    pub errno: i32,
    /// Of a write: a tag of each 512 bytes, computed from their first 16.
    pub tags: Vec<u64>,
    /// Of a write near the end of a file ([`crate::Options::kept_bytes`]): the data.
    pub content: Vec<u8>,
}

/// The tag of a sector that begins with these bytes.
///
/// # Panics
///
/// If there are fewer than 16 bytes.
#[must_use]
pub fn tag(sector: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
    repeatable::random::mix(word(0) ^ repeatable::random::mix(word(8)))
}

impl Entry {
    /// The offset of the first byte after the range.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    /// Whether the operation changes the file's content.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self.operation, Operation::Read | Operation::Sync)
    }

    /// Whether the operation succeeded and is durable at `moment`.
    #[must_use]
    pub fn is_durable_at(&self, moment: u64) -> bool {
        self.errno == 0 && self.durable.is_some_and(|durable| durable <= moment)
    }
}
