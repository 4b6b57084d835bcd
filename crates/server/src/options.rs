//! What is served, and how.

use super::alerting::AlertOptions;
use super::newcomers::Newcomers;
use super::scrub::every::ScrubEvery;
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
    /// Make a new array of this level on the drives, which must all be in memory; it is gone when serving ends.
    pub scratch: Option<Level>,
    /// Drives that may take a failed member's place; one that cannot be used is reported.
    pub spares: Vec<String>,
    /// How clients reach the volumes.
    pub exports: Vec<Bind>,
    /// Where the API listens, if not at the usual place.
    pub socket: Option<PathBuf>,
    /// Data threads.
    pub shards: u8,
    /// Payload memory of all data threads together.
    pub payload_bytes: u64,
    /// How data threads learn of completed I/O.
    pub completion: CompletionMode,
    /// Which defects of an array are accepted at its start.
    pub start: StartOptions,
    /// Nothing is written to the drives.
    pub read_only: bool,
    /// Spares replace failed members without an order.
    pub auto_rebuild: bool,
    /// Limit of background work on each member; 0 is unlimited. If absent, the limit ordered last applies.
    pub rate_bytes_per_s: Option<u64>,
    /// How often volumes are scrubbed without an order.
    pub scrub_every: ScrubEvery,
    /// A member that does not answer for this long is failed.
    pub member_deadline: Duration,
    /// The event hook: run by `sh -c` for every event.
    pub on_event: Option<String>,
    /// Drives that appear later are taken back; if absent, an operator adds them.
    pub newcomers: Option<Newcomers>,
    /// Whom to tell when something is wrong; nobody if absent.
    pub alerts: Option<AlertOptions>,
    /// Somebody keeps sockets while no process runs, so that clients can be handed over to the next one.
    pub sockets_are_kept: bool,
    /// Folder for backups of drives that join by force.
    pub backup: Option<PathBuf>,
}
