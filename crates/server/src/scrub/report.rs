//! What a scrub found, as it is stored on the drives and as people and programs read it.

use engine::layout::{Geometry, Location};
use engine::units::SlotSet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum number of findings stored for each scrub. With two volumes they fit into one copy of the notes on a drive.
pub const FINDINGS_MAX: usize = 200;

const SECTOR_BYTES: u64 = 512;

/// What was found at a place, and what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceOutcome {
    /// The members disagree, and nothing was corrected.
    Mismatch,
    /// The members disagreed, and redundancy was made to match the data.
    Corrected,
    /// A member could not read the place; it was reconstructed from the others and written back.
    Rewritten,
    /// The place can be neither read nor reconstructed.
    Unrecoverable,
}

impl PlaceOutcome {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            PlaceOutcome::Mismatch => "does not match, left as it is",
            PlaceOutcome::Corrected => "did not match, corrected",
            PlaceOutcome::Rewritten => "could not be read, reconstructed and written back",
            PlaceOutcome::Unrecoverable => "can be neither read nor reconstructed",
        }
    }
}

/// One finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// See [`PlaceOutcome`].
    pub outcome: PlaceOutcome,
    /// First byte of each member's extent.
    pub extent_offset_bytes: u64,
    /// Length on each member.
    pub length_bytes: u32,
    /// The slots concerned, as a mask.
    pub slots: u64,
}

/// A scrub and what it found so far, or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFindings {
    /// Whether the scrub corrects redundancy.
    pub repair: bool,
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended.
    pub ended_s: Option<u64>,
    /// Whether it reached the volume's end.
    pub complete: bool,
    /// How many times another process continued it.
    pub continued: u32,
    /// Stripes whose members disagree.
    pub mismatches: u64,
    /// Blocks that were reconstructed and written back.
    pub rewritten: u64,
    /// Places that can be neither read nor reconstructed.
    pub unrecoverable: u64,
    /// The first [`FINDINGS_MAX`] findings, in the order of their offsets.
    pub findings: Vec<Finding>,
    /// Names of the drives by slot, when the scrub began.
    pub members: Vec<String>,
}

impl ScrubFindings {
    /// Number of findings that are counted but not listed.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        (self.mismatches + self.rewritten + self.unrecoverable)
            .saturating_sub(self.findings.len() as u64)
    }

    /// Adds a finding unless it is known; returns whether it is new.
    pub fn add(&mut self, finding: Finding) -> bool {
        let key = |one: &Finding| (one.extent_offset_bytes, one.outcome);
        let Err(at) = self.findings.binary_search_by_key(&key(&finding), key) else {
            return false;
        };
        if self.findings.len() < FINDINGS_MAX {
            self.findings.insert(at, finding);
        }
        *match finding.outcome {
            PlaceOutcome::Mismatch | PlaceOutcome::Corrected => &mut self.mismatches,
            PlaceOutcome::Rewritten => &mut self.rewritten,
            PlaceOutcome::Unrecoverable => &mut self.unrecoverable,
        } += 1;
        true
    }
}

/// Sectors of a volume, first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LbaRange {
    /// The first 512-byte sector.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// A drive's part in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Involved {
    /// Its slot.
    pub slot: u8,
    /// The drive's name when the scrub began.
    pub name: String,
    /// First 512-byte sector on the drive.
    pub member_lba: u64,
}

/// One finding, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceReport {
    /// What was found and done.
    pub outcome: PlaceOutcome,
    /// Number of the stripe in the volume.
    pub stripe: u64,
    /// The sectors of the volume whose redundancy is concerned.
    pub lbas: Vec<LbaRange>,
    /// The drives that disagree, or that could not read.
    pub members: Vec<Involved>,
}

/// The running scrub of a volume, or its last one, and when the next is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubReport {
    /// The volume.
    pub volume: String,
    /// `check` or `repair`.
    pub kind: String,
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended; absent while it is unfinished.
    pub ended_s: Option<u64>,
    /// Whether it got to the volume's end.
    pub complete: bool,
    /// How many times another process took it up again.
    pub continued: u32,
    /// Stripes whose members disagree, or did.
    pub mismatches: u64,
    /// Blocks that were reconstructed and written back.
    pub rewritten: u64,
    /// Places that can be neither read nor reconstructed.
    pub unrecoverable: u64,
    /// What was found, in the order of the volume.
    pub findings: Vec<PlaceReport>,
    /// Findings that are counted above and not listed.
    pub left_out: u64,
}

/// `report` of a volume of this shape.
#[must_use]
pub fn describe(volume: &str, shape: &Geometry, report: &ScrubFindings) -> ScrubReport {
    let place = |finding: &Finding| place(shape, report, finding);
    ScrubReport {
        volume: volume.to_owned(),
        kind: if report.repair { "repair" } else { "check" }.to_owned(),
        started_s: report.started_s,
        ended_s: report.ended_s,
        complete: report.complete,
        continued: report.continued,
        mismatches: report.mismatches,
        rewritten: report.rewritten,
        unrecoverable: report.unrecoverable,
        findings: report.findings.iter().map(place).collect(),
        left_out: report.left_out(),
    }
}

fn place(shape: &Geometry, report: &ScrubFindings, finding: &Finding) -> PlaceReport {
    let stripe = finding.extent_offset_bytes / u64::from(shape.chunk_bytes);
    let member_lba = (shape.start_bytes + finding.extent_offset_bytes) / SECTOR_BYTES;
    let involved = |slot: engine::units::Slot| Involved {
        slot: slot.0,
        name: report
            .members
            .get(usize::from(slot.0))
            .cloned()
            .unwrap_or_default(),
        member_lba,
    };
    PlaceReport {
        outcome: finding.outcome,
        stripe,
        lbas: lbas(shape, finding),
        members: SlotSet(finding.slots).iter().map(involved).collect(),
    }
}

/// The sectors of the volume that belong to a place on the members: those of every data chunk that shares
/// redundancy there with one of the slots.
fn lbas(shape: &Geometry, finding: &Finding) -> Vec<LbaRange> {
    let chunk_bytes = u64::from(shape.chunk_bytes);
    let row = finding.extent_offset_bytes / chunk_bytes;
    let in_chunk_bytes = (finding.extent_offset_bytes % chunk_bytes) as u32;
    let mut ranges: Vec<LbaRange> = Vec::new();
    for data_index in 0..shape.data_members() {
        let shares = shape.parity_slot(row).is_some()
            || shape.data_slots(row, data_index).0 & finding.slots != 0;
        let from = shape.volume_offset_bytes(Location {
            row,
            data_index,
            in_chunk_bytes,
        });
        let end = (from + u64::from(finding.length_bytes)).min(shape.size_bytes);
        if !shares || from >= end {
            continue;
        }
        let (first, last) = (from / SECTOR_BYTES, end / SECTOR_BYTES - 1);
        match ranges.last_mut() {
            Some(before) if before.last + 1 == first => before.last = last,
            _ => ranges.push(LbaRange { first, last }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::layout::Level;

    fn shape(level: Level, members: u8, chunk_bytes: u32) -> Geometry {
        let component_bytes = 64 << 20;
        let mut shape = Geometry {
            level,
            members,
            chunk_bytes,
            start_bytes: 1 << 20,
            component_bytes,
            size_bytes: component_bytes,
            block_bytes: 512,
        };
        shape.size_bytes = component_bytes * u64::from(shape.data_members());
        Geometry::new(shape).unwrap()
    }

    fn finding(extent_offset_bytes: u64, length_bytes: u32, slots: u64) -> Finding {
        Finding {
            outcome: PlaceOutcome::Mismatch,
            extent_offset_bytes,
            length_bytes,
            slots,
        }
    }

    fn ranges(shape: &Geometry, finding: &Finding) -> Vec<(u64, u64)> {
        let both = |range: &LbaRange| (range.first, range.last);
        lbas(shape, finding).iter().map(both).collect()
    }

    #[test]
    fn a_finding_names_the_sectors_that_share_its_redundancy() {
        let raid5 = shape(Level::Raid5, 4, 64 << 10);
        // A whole row is one range; a part of a row is one range in each of its chunks.
        let whole = finding(2 << 16, 64 << 10, 0b1111);
        assert_eq!(ranges(&raid5, &whole), [(768, 1151)]);
        let part = finding((2 << 16) + 4096, 4096, 0b1111);
        assert_eq!(
            ranges(&raid5, &part),
            [(776, 783), (904, 911), (1032, 1039)]
        );
        let raid10 = shape(Level::Raid10, 4, 64 << 10);
        assert_eq!(
            ranges(&raid10, &finding(1 << 16, 64 << 10, 0b1100)),
            [(384, 511)]
        );
        assert_eq!(
            ranges(&raid10, &finding(1 << 16, 64 << 10, 0b0011)),
            [(256, 383)]
        );
        let raid1 = shape(Level::Raid1, 2, 0);
        assert_eq!(
            ranges(&raid1, &finding(1 << 20, 4096, 0b11)),
            [(2048, 2055)]
        );
    }

    #[test]
    fn findings_are_listed_once_in_order_and_counted_beyond_the_limit() {
        let mut report = ScrubFindings::default();
        let count = FINDINGS_MAX as u64 + 50;
        for at in (0..count).rev() {
            assert!(report.add(finding(at << 16, 4096, 3)));
        }
        assert!(
            !report.add(finding((count - 1) << 16, 4096, 3)),
            "a finding was listed twice"
        );
        assert_eq!((report.mismatches, report.left_out()), (count, 50));
        assert!(
            report
                .findings
                .is_sorted_by_key(|one| one.extent_offset_bytes)
        );
        let described = describe("v", &shape(Level::Raid1, 2, 0), &report);
        assert_eq!(described.findings.len(), FINDINGS_MAX);
        assert_eq!(described.left_out, 50);
    }
}
