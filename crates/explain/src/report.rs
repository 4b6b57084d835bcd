//! A request and its plans, for people and programs.
//!
//! [`explain`] first checks that the request fits the array. An [`Explanation`] serialised is what `--json` prints; of
//! a plan's steps it tells what concerns the drives. The plans themselves lie beside, for callers that show them whole.

use crate::array::Array;
use crate::cut::{Asked, Work, plans};
use crate::why::why;
use engine::plan::{NotEnoughMembers, Plan, Step, StepKind};
use engine::units::Slot;
use serde::Serialize;
use words::{exact_size, typed_size};

/// Longest request that is explained, in bytes; the plans of longer ones only repeat.
pub const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Why a request cannot be explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unexplained {
    /// Its offset or its length is no multiple of the volume's blocks.
    NotInBlocks {
        /// Size of a block.
        block_bytes: u32,
    },
    /// It is longer than [`REQUEST_BYTES_MAX`].
    TooLong,
    /// It ends past the volume.
    PastEnd {
        /// Size of the volume.
        volume_bytes: u64,
    },
    /// The drives that are left cannot carry it out.
    NotEnoughMembers,
}

impl Unexplained {
    /// A sentence about `request`, which is what the user called it, to the volume on `array`.
    #[must_use]
    pub fn in_words(self, request: &str, array: &Array) -> String {
        match self {
            Unexplained::NotInBlocks { block_bytes } => format!(
                "{request}: size and offset must be multiples of the block size, {block_bytes} bytes"
            ),
            Unexplained::TooLong => format!(
                "{request} is too large to explain; ask for at most {}",
                typed_size(REQUEST_BYTES_MAX)
            ),
            Unexplained::PastEnd { volume_bytes } => format!(
                "{request} ends past the volume, which has {}",
                exact_size(volume_bytes)
            ),
            Unexplained::NotEnoughMembers => format!(
                "this request cannot be carried out: {} does not survive the loss of {}",
                array.shape.level,
                array.lost_in_words()
            ),
        }
    }
}

impl From<NotEnoughMembers> for Unexplained {
    fn from(_: NotEnoughMembers) -> Unexplained {
        Unexplained::NotEnoughMembers
    }
}

/// What a request does with the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It reads from the drive's data.
    Read,
    /// It writes to the drive's data.
    Write,
    /// It writes partial parity to the write-hole log on the drive.
    Log,
    /// It computes parity.
    Xor,
}

/// A request and its plans.
#[derive(Serialize, Debug)]
pub struct Explanation {
    /// Version of this schema: 1.
    pub version: u32,
    /// Name of the volume; none for an imaginary array.
    pub volume: Option<String>,
    /// The array's level: 0, 1, 5 or 10.
    pub level: u8,
    /// Number of slots.
    pub members: usize,
    /// 0 for a mirror, which has no chunks.
    pub chunk_bytes: u32,
    /// Whether it reads or writes.
    pub operation: Operation,
    /// First byte in the volume.
    pub offset_bytes: u64,
    /// Length of the request.
    pub length_bytes: u64,
    /// Slots that cannot be used.
    pub failed: Vec<u8>,
    /// In the order in which they are made.
    pub plans: Vec<PlanReport>,
    /// Member I/O of all plans.
    pub totals: Totals,
}

/// A plan.
#[derive(Serialize, Debug)]
pub struct PlanReport {
    /// Row of the volume, where the plan belongs to one.
    pub row: Option<u64>,
    /// Slot with the row's parity.
    pub parity_slot: Option<u8>,
    /// The reason for the plan, a sentence.
    pub why: String,
    /// Its steps, by stage.
    pub steps: Vec<StepReport>,
    /// The engine's own form of the plan, which is not serialised.
    #[serde(skip)]
    pub plan: Plan,
}

/// A step of a plan.
#[derive(Serialize, Debug)]
pub struct StepReport {
    /// Steps of a stage run together, after those of the stage before.
    pub stage: u8,
    /// What the step does.
    pub kind: Kind,
    /// The slot of the drive; absent for `xor`.
    pub slot: Option<u8>,
    /// What the drive is called.
    pub drive: Option<String>,
    /// On the drive; absent for `xor`, and for `log`, whose place the engine chooses when it writes.
    pub offset_bytes: Option<u64>,
    /// How much is read, written or computed.
    pub length_bytes: u64,
}

/// Member I/O of all plans, without what goes to write-hole logs.
#[derive(Clone, Copy, Default, Serialize, Debug)]
pub struct Totals {
    /// Number of reads.
    pub reads: u64,
    /// What they read together.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// What they write together.
    pub write_bytes: u64,
}

/// Explains the request `asked` of the volume on `array`. Nothing is read or written.
///
/// # Errors
/// The request does not fit the volume, is too long, or cannot be carried out by the drives that are left.
pub fn explain(array: &Array, asked: Asked) -> Result<Explanation, Unexplained> {
    let shape = &array.shape;
    check(array, asked)?;
    let works = plans(shape, &array.state, asked)?;
    let plans: Vec<PlanReport> = works
        .into_iter()
        .map(|work| PlanReport::of(array, work))
        .collect();
    Ok(Explanation {
        version: 1,
        volume: array.name.clone(),
        level: shape.level.number(),
        members: usize::from(shape.members),
        chunk_bytes: array.chunk_bytes(),
        operation: if asked.is_write {
            Operation::Write
        } else {
            Operation::Read
        },
        offset_bytes: asked.offset_bytes,
        length_bytes: asked.length_bytes,
        failed: array.state.lost.iter().map(|slot| slot.0).collect(),
        totals: Totals::of(&plans),
        plans,
    })
}

/// Checks that the volume on `array` has the bytes that are `asked` for, and that these are whole blocks.
fn check(array: &Array, asked: Asked) -> Result<(), Unexplained> {
    let block_bytes = array.shape.block_bytes;
    let volume_bytes = array.shape.size_bytes;
    let in_blocks = |bytes: u64| bytes.is_multiple_of(u64::from(block_bytes));
    if !in_blocks(asked.length_bytes) || !in_blocks(asked.offset_bytes) {
        return Err(Unexplained::NotInBlocks { block_bytes });
    }
    if asked.length_bytes > REQUEST_BYTES_MAX {
        return Err(Unexplained::TooLong);
    }
    let end = asked.offset_bytes.checked_add(asked.length_bytes);
    if end.is_none_or(|end| end > volume_bytes) {
        return Err(Unexplained::PastEnd { volume_bytes });
    }
    Ok(())
}

impl PlanReport {
    fn of(array: &Array, work: Work) -> PlanReport {
        let parity_slot = work.row.and_then(|row| array.shape.parity_slot(row));
        PlanReport {
            row: work.row,
            parity_slot: parity_slot.map(|Slot(slot)| slot),
            why: why(array, &work),
            steps: work
                .plan
                .steps()
                .iter()
                .map(|step| StepReport::of(array, step))
                .collect(),
            plan: work.plan,
        }
    }
}

impl StepReport {
    fn of(array: &Array, step: &Step) -> StepReport {
        let kind = match step.kind {
            StepKind::Read => Kind::Read,
            StepKind::Write { .. } => Kind::Write,
            StepKind::Log { .. } => Kind::Log,
            StepKind::Xor { .. } => Kind::Xor,
            other => unreachable!("{other:?} is no step of a read or a write"),
        };
        let on_drive = kind != Kind::Xor;
        StepReport {
            stage: step.stage,
            kind,
            slot: on_drive.then_some(step.slot.0),
            drive: on_drive.then(|| array.drive_name(step.slot)),
            offset_bytes: matches!(kind, Kind::Read | Kind::Write).then_some(step.offset_bytes),
            length_bytes: step.length_bytes,
        }
    }
}

impl Totals {
    fn of(plans: &[PlanReport]) -> Totals {
        let mut totals = Totals::default();
        for step in plans.iter().flat_map(|plan| &plan.steps) {
            match step.kind {
                Kind::Read => {
                    totals.reads += 1;
                    totals.read_bytes += step.length_bytes;
                }
                Kind::Write => {
                    totals.writes += 1;
                    totals.write_bytes += step.length_bytes;
                }
                Kind::Log | Kind::Xor => {}
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::layout::Level;

    const MIB: u64 = 1 << 20;

    fn raid5() -> Array {
        Array::described(Level::Raid5, 4, Some(64 << 10)).unwrap()
    }

    fn write(offset_bytes: u64, length_bytes: u64) -> Asked {
        Asked {
            is_write: true,
            offset_bytes,
            length_bytes,
        }
    }

    #[test]
    fn a_request_must_fit_the_volume() {
        let array = raid5();
        let volume_bytes = array.shape.size_bytes;
        let refusal = |asked| explain(&array, asked).unwrap_err();
        let not_in_blocks = Unexplained::NotInBlocks { block_bytes: 512 };
        assert_eq!(refusal(write(0, 100)), not_in_blocks);
        assert_eq!(refusal(write(100, 512)), not_in_blocks);
        assert_eq!(refusal(write(0, 64 * MIB + 512)), Unexplained::TooLong);
        for offset_bytes in [volume_bytes, volume_bytes - 512, u64::MAX - 511] {
            let past_end = Unexplained::PastEnd { volume_bytes };
            assert_eq!(refusal(write(offset_bytes, 1024)), past_end);
        }
        assert!(explain(&array, write(0, 64 * MIB)).is_ok());
        assert!(explain(&array, write(volume_bytes - 512, 512)).is_ok());
    }

    #[test]
    fn a_write_to_the_log_is_on_a_drive_and_in_no_total() {
        let mut array = raid5();
        let without = explain(&array, write(0, 4096)).unwrap().totals;
        array.state.logged = true;
        let explanation = explain(&array, write(0, 4096)).unwrap();
        let steps = explanation.plans.iter().flat_map(|plan| &plan.steps);
        let mut logs = steps.filter(|step| step.kind == Kind::Log);
        let log = logs.next().unwrap();
        assert!(log.slot.is_some() && log.drive.is_some() && log.offset_bytes.is_none());
        assert!(logs.next().is_none());
        assert_eq!(explanation.totals.writes, without.writes);
    }

    #[test]
    fn lost_drives_may_be_too_many() {
        let mut array = raid5();
        array.fail(0).unwrap();
        assert!(explain(&array, write(0, 4096)).is_ok());
        array.fail(2).unwrap();
        let refusal = explain(&array, write(0, 4096)).unwrap_err();
        assert_eq!(refusal, Unexplained::NotEnoughMembers);
    }

    #[test]
    fn what_is_listed_and_summed_is_what_the_plans_do() {
        let explanation = explain(&raid5(), write(0, 4096)).unwrap();
        assert_eq!(explanation.operation, Operation::Write);
        let [plan] = &explanation.plans[..] else {
            panic!("{explanation:?}");
        };
        assert_eq!((plan.row, plan.parity_slot), (Some(0), Some(3)));
        assert_eq!(plan.steps.len(), plan.plan.steps().len());
        let on_drives = plan.steps.iter().filter(|step| step.kind != Kind::Xor);
        assert!(on_drives.clone().all(|step| step.slot.is_some()));
        let totals = explanation.totals;
        assert_eq!(on_drives.count() as u64, totals.reads + totals.writes);
        assert_eq!((totals.reads, totals.read_bytes), (2, 8192));
        assert_eq!((totals.writes, totals.write_bytes), (2, 8192));
    }
}
