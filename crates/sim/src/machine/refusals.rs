//! Makes the metadata unable to express records, as a history orders: the next records with a certain kind of
//! change.
//!
//! A refused record is refused for every member and at every try. An array that tries it again and again is
//! reported.

use engine::control::record::{MemberState, Record, SlotRecord, SyncKind, VolumeRecord};

/// How often one record may be tried: once for each member, and a few more.
const ASKED_MAX: u32 = 64;

/// A kind of change of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// A member has failed.
    Failed,
    /// A volume is written to.
    Dirty,
    /// A volume is clean.
    Clean,
    /// The checkpoint of background work has advanced.
    Checkpoint,
    /// A rebuild begins.
    RebuildBegin,
    /// A rebuild has ended, complete or not.
    RebuildEnd,
    /// Redundancy has been established.
    SyncEnd,
    /// A drive has been replaced in service.
    Replaced,
    /// The bad-block log has changed.
    BadBlocks,
    /// The generation since which a bitmap's bits may have been cleared has changed.
    Bitmap,
}

impl Update {
    /// All kinds.
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

    /// Whether the step from one record to the other contains this kind of change.
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
    /// Refuses the next `count` records that contain such an update.
    pub fn order(&mut self, update: Update, count: u8) {
        self.wanted = Some((update, count));
    }

    /// Stops refusing records.
    pub fn forget(&mut self) {
        self.wanted = None;
        self.refused = None;
    }

    /// Whether a record that follows `before` is refused.
    ///
    /// # Errors
    /// If the same record has been tried too often.
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
