//! What an operator may choose.

use crate::limits::{CLEAN_AFTER, CLEAR_REGIONS_EVERY, MEMBER_DEADLINE};
use crate::units::Nanos;

/// Operator's choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// A member that has not answered for this long is failed.
    pub member_deadline: Nanos,
    /// A volume without writes for this long is marked clean.
    pub clean_after: Nanos,
    /// How often bits of write-intent bitmaps are cleared.
    pub clear_regions_every: Nanos,
    /// Background work's limit, bytes of each member per second; 0 is unlimited.
    pub rate_bytes_per_s: u64,
    /// Take a spare as soon as a member fails.
    pub auto_rebuild: bool,
    /// For this long after the start no spare is taken unasked, unless it is known before which drives are about to fail
    /// ([`Message::AboutToFail`](crate::control::message::Message::AboutToFail)).
    pub health_known_within: Nanos,
    /// Write nothing to any member, metadata included.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            member_deadline: MEMBER_DEADLINE,
            clean_after: CLEAN_AFTER,
            clear_regions_every: CLEAR_REGIONS_EVERY,
            rate_bytes_per_s: 0,
            auto_rebuild: true,
            health_known_within: Nanos(0),
            read_only: false,
        }
    }
}
