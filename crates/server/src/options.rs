//! What is served, and how.

use drives::completion::CompletionMode;
use engine::layout::Level;
use exports::export::Bind;
use metadata::imsm::start::StartOptions;
use std::path::PathBuf;
use std::time::Duration;

/// What is served, and how. Each field is an option of `fullstripe serve`, whose help says more; errors
/// call a field by the name of its option.
pub struct ServeOptions {
    /// Specifications of the drives of one array, in any order.
    pub drives: Vec<String>,
    /// A new array of this level is made on the drives, which all lie in memory, and is gone when serving ends.
    pub scratch: Option<Level>,
    /// Drives that take a failed member's place; one that cannot be taken is reported.
    pub spares: Vec<String>,
    /// How clients reach the volumes.
    pub exports: Vec<Bind>,
    /// Where the API listens, if not at the usual place.
    pub socket: Option<PathBuf>,
    /// Data threads.
    pub shards: u8,
    /// Memory for payload, of all data threads together.
    pub payload_bytes: u64,
    /// How data threads learn of completed I/O.
    pub completion: CompletionMode,
    /// What is accepted of an array that is not whole.
    pub start: StartOptions,
    /// Nothing at all is written to the drives.
    pub read_only: bool,
    /// Spares are taken without an order.
    pub auto_rebuild: bool,
    /// Limit of background work on each member; 0 is unlimited. Without it, what was ordered last counts.
    pub rate_bytes_per_s: Option<u64>,
    /// A member that does not answer for so long is failed.
    pub member_deadline: Duration,
    /// Runs by `sh -c` for every event.
    pub on_event: Option<String>,
    /// Folder for copies of what a drive held that joins by force.
    pub backup: Option<PathBuf>,
}
