//! What was asked of the files, in order.

/// What a program asks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// fsync or fdatasync.
    Sync,
    /// A hole is punched: what discards become.
    Punch,
    /// A range is zeroed and stays allocated.
    ZeroRange,
}

/// One operation. Moments are numbers of the file system's counter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's number, in the order in which files were named.
    pub file: usize,
    /// What was asked.
    pub operation: Operation,
    /// First byte; 0 for a sync.
    pub offset_bytes: u64,
    /// Number of bytes; 0 for a sync.
    pub length_bytes: u64,
    /// Whether the kernel passed `O_DSYNC` or `O_SYNC` on.
    pub dsync: bool,
    /// When it came.
    pub arrived: u64,
    /// When it was answered, if it was.
    pub answered: Option<u64>,
    /// When what it changed became durable: for a write not before it was answered.
    pub durable: Option<u64>,
    /// What it was answered; 0 is success.
    pub errno: i32,
    /// Of a write: a tag of each 512 bytes, made of their first 16.
    pub tags: Vec<u64>,
    /// Of a write near the end of a file ([`crate::Options::kept_bytes`]): what was written.
    pub content: Vec<u8>,
}

/// The tag of a sector that begins with these bytes.
///
/// # Panics
///
/// There are fewer than 16.
#[must_use]
pub fn tag(sector: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
    repeatable::random::mix(word(0) ^ repeatable::random::mix(word(8)))
}

impl Entry {
    /// The byte behind the last one.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    /// Whether it changes what the file holds.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self.operation, Operation::Read | Operation::Sync)
    }

    /// Whether all of it was taken, and is durable, at `moment`.
    #[must_use]
    pub fn is_durable_at(&self, moment: u64) -> bool {
        self.errno == 0 && self.durable.is_some_and(|durable| durable <= moment)
    }
}
