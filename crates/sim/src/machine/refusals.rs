//! Records that the metadata cannot express, on order: the next ones that change a certain thing.
//!
//! Who has refused a record refuses it for every member, and however often it is asked. An array that asks again and
//! again is found out.

use engine::control::record::{MemberState, Record, SlotRecord, SyncKind, VolumeRecord};

/// Times that one record may be asked for: once for each member, and a few more.
const ASKED_MAX: u32 = 64;

/// What a record changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// A member has failed.
    Failed,
    /// A volume is written to.
    Dirty,
    /// A volume is clean.
    Clean,
    /// Background work has come further.
    Checkpoint,
    /// A drive is to be filled.
    RebuildBegin,
    /// A drive has been filled, or will not be.
    RebuildEnd,
    /// Redundancy has been established.
    SyncEnd,
    /// A drive has been replaced while it served.
    Replaced,
    /// What is recorded of blocks.
    BadBlocks,
    /// Since when a bitmap's bits may have been cleared.
    Bitmap,
}

impl Update {
    /// All of them.
    pub const ALL: [Update; 10] = [
        Update::Failed,
        Update::Dirty,
        Update::Clean,
        Update::Checkpoint,
        Update::RebuildBegin,
        Update::RebuildEnd,
        Update::SyncEnd,
        Update::Replaced,
        Update::BadBlocks,
        Update::Bitmap,
    ];

    /// Whether it is in what changes from one record to another.
    #[must_use]
    pub fn is_in(self, before: &Record, now: &Record) -> bool {
        let volumes = || before.volumes.iter().zip(&now.volumes);
        let kind = |volume: &VolumeRecord| volume.sync.map(|sync| sync.kind);
        let rebuilds = |volume: &VolumeRecord| matches!(kind(volume), Some(SyncKind::Rebuild(_)));
        let served = |slot: &SlotRecord| slot.member.filter(|_| slot.current);
        let failed = |record: &Record| {
            let members = record.members.iter();
            let failed = members.filter(|member| member.state == MemberState::Failed);
            failed.count()
        };
        match self {
            Update::Failed => failed(now) > failed(before),
            Update::Dirty => volumes().any(|(was, is)| !was.dirty && is.dirty),
            Update::Clean => volumes().any(|(was, is)| was.dirty && !is.dirty),
            Update::Checkpoint => {
                volumes().any(|(was, is)| kind(was) == kind(is) && was.sync != is.sync)
            }
            Update::RebuildBegin => {
                volumes().any(|(was, is)| rebuilds(is) && kind(was) != kind(is))
            }
            Update::RebuildEnd => volumes().any(|(was, is)| rebuilds(was) && kind(was) != kind(is)),
            Update::SyncEnd => volumes()
                .any(|(was, is)| kind(was).is_some() && !rebuilds(was) && kind(is).is_none()),
            Update::Replaced => volumes().any(|(was, is)| {
                let mut slots = was.slots.iter().zip(&is.slots);
                slots.any(|(was, is)| {
                    let (was, is) = (served(was), served(is));
                    was.is_some() && is.is_some() && was != is
                })
            }),
            Update::BadBlocks => before.bad_blocks != now.bad_blocks,
            Update::Bitmap => volumes().any(|(was, is)| {
                let since = |volume: &VolumeRecord| {
                    let bitmap = volume.bitmap.as_ref();
                    bitmap.map(|bitmap| bitmap.cleared_generation)
                };
                since(was) != since(is)
            }),
        }
    }
}

/// See the module's prose.
#[derive(Debug, Default)]
pub struct Refusals {
    wanted: Option<(Update, u8)>,
    refused: Option<Record>,
    asked: u32,
    /// Records that have been refused.
    pub count: u64,
}

impl Refusals {
    /// Refuses the next `count` records with such an update in them.
    pub fn order(&mut self, update: Update, count: u8) {
        self.wanted = Some((update, count));
    }

    /// Nothing is refused any more.
    pub fn forget(&mut self) {
        self.wanted = None;
        self.refused = None;
    }

    /// Whether a record is refused that follows `before`.
    ///
    /// # Errors
    /// It has been refused too often: somebody goes on asking.
    pub fn refuses(&mut self, before: &Record, record: &Record) -> Result<bool, String> {
        if self.refused.as_ref() == Some(record) {
            self.asked += 1;
            if self.asked > ASKED_MAX {
                return Err("a record that cannot be expressed is tried again and again".to_owned());
            }
            return Ok(true);
        }
        let Some((update, left)) = &mut self.wanted else {
            return Ok(false);
        };
        if *left == 0 || !update.is_in(before, record) {
            return Ok(false);
        }
        *left -= 1;
        self.refused = Some(record.clone());
        self.asked = 1;
        self.count += 1;
        Ok(true)
    }
}
