//! The drives as one shard sees them: which it still uses, since when it does not, and how many commands each has.

use crate::limits::CONTAINER_MEMBERS_MAX;
use crate::units::{MemberSet, Nanos};

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Members {
    /// Members that this shard will not use any more, whether or not the controller knows.
    pub(crate) failed: MemberSet,
    /// These, and members with recorded bad blocks; see [`crate::bad_blocks`].
    pub(crate) watched: MemberSet,
    /// Members whose failure is on record and known to every shard.
    pub(crate) durable_failed: MemberSet,
    pub(crate) volatile: MemberSet,
    /// When this shard learned that a member has failed.
    pub(crate) failed_since: [Nanos; CONTAINER_MEMBERS_MAX],
    pub(crate) in_flight: [u32; CONTAINER_MEMBERS_MAX],
}
