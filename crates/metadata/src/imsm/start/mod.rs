//! Whether and how a volume may be started.
//!
//! A volume is started read-write only if every sector that will be returned is right. Its
//! redundancy may be incomplete, provided that this is known. The order of the questions:
//!
//! 1. Does the record use features that are not supported, and are its maps valid?
//! 2. Is the volume being reshaped? Then its data is in two layouts, and it is not started.
//! 3. Are enough members here? A member that is missing without a failed mark needs a decision.
//! 4. Can data be reconstructed from what is here? A RAID 5 that lacks a member **and** has parity
//!    that may be outdated (dirty, an unfinished repair) or was never computed (unfinished initial
//!    synchronisation) returns wrong bytes for the missing member; md starts some of these. If a write-hole
//!    log is replayed, the writes that a crash interrupted are not a reason to refuse.
//! 5. Is a write-hole log or bitmap in use that is not supported, or for which there is no room? Then the volume
//!    is switched to a supported policy before its first write.
//! 6. What has to be synchronised, and from where?
//!
//! Sectors in the bad block log are not a reason to refuse: code that reads members treats them as unreadable
//! ([`Mpb::bad_ranges`](crate::imsm::Mpb::bad_ranges)).

mod decide;
mod reasons;

#[cfg(test)]
mod tests;

use crate::imsm::record::WriteHolePolicy;
use alloc::vec::Vec;

pub use decide::{start_mode, start_mode_without_log};
pub use reasons::{ReadOnlyReason, RefusedReason};

/// Option that accepts members missing without a failed mark.
pub const DEGRADED_FLAG: &str = "--degraded";
/// Option that accepts that a RAID 5 lacking a member may return outdated or wrong bytes where
/// writes were interrupted.
pub const ACCEPT_WRITE_HOLE_FLAG: &str = "--accept-write-hole";
/// Option that accepts that a RAID 5 lacking a member returns correct bytes only where it was synchronised or
/// written.
pub const ACCEPT_UNSYNCED_FLAG: &str = "--accept-unsynced";

/// Option that accepts that drives that are back hold what they held when they left, and that nothing was written
/// meanwhile to volumes that could not work without them.
pub const TRUST_RETURNED_FLAG: &str = "--trust-returned-drive";

/// What the user has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// [`DEGRADED_FLAG`].
    pub degraded: bool,
    /// [`ACCEPT_WRITE_HOLE_FLAG`].
    pub accept_write_hole: bool,
    /// [`ACCEPT_UNSYNCED_FLAG`].
    pub accept_unsynced: bool,
    /// [`TRUST_RETURNED_FLAG`].
    pub trust_returned_drive: bool,
}

/// How a volume may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// For reading and writing.
    ReadWrite {
        /// What has to be synchronised in the background.
        sync: SyncWork,
        /// Slots without a member that serves or is being rebuilt. Their failed marks must be
        /// durable before the first write.
        lost_slots: Vec<usize>,
        /// The write-hole log must be replayed before anything else. If that settles everything
        /// ([`LogReport::is_conclusive`](super::log::LogReport::is_conclusive)), the volume counts as clean, except for what
        /// `sync` says; if not, [`start_mode_without_log`] gives the mode.
        replay: bool,
        /// The write-hole policy must be switched to this one, durably, after the replay and before
        /// the first write.
        switch_policy: Option<WriteHolePolicy>,
    },
    /// For reading only.
    ReadOnly {
        /// Why it may not be written.
        reason: ReadOnlyReason,
        /// Slots without a member that serves.
        lost_slots: Vec<usize>,
    },
    /// It is not started.
    Refused {
        /// Why.
        reason: RefusedReason,
        /// The option with which it would be started, if there is one.
        override_flag: Option<&'static str>,
    },
}

/// What has to be synchronised in the background. Positions are sectors from the start of the
/// component, the same on each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncWork {
    /// Nothing.
    None,
    /// Parity or mirrors have never been valid from `from_sector` on.
    InitialSync {
        /// Where to continue.
        from_sector: u64,
    },
    /// Parity or mirrors may be inconsistent from `from_sector` on.
    Resync {
        /// Where to continue.
        from_sector: u64,
    },
    /// Slots are being rebuilt.
    Rebuild {
        /// The slots.
        slots: Vec<usize>,
        /// Where to continue.
        from_sector: u64,
        /// Mirrors that are not rebuilt need a resync afterwards; the dirty mark must stay until then.
        then_resync: bool,
    },
}
