//! Measures whether speed scales: every level over 1 to 8 members, compared with its roofline.
//!
//! Members are memory with the speed of a modest drive, so that they and not this machine's cores set the limit; the
//! engine and its loop are those that serve. The roofline is what a perfect array of such members would reach, by the
//! formulas of [`bench`]. A point below [`SHARE_MIN`] or above [`SHARE_MAX`] is measured again, for longer, because
//! other work on the machine may have disturbed it.

mod table;

use super::checks::Checks;
use super::guard::Guard;
use super::screen::Screen;
use anyhow::{Context, Result};
use bench::config::{Config, Workload};
use bench::measure;
use drives::completion::CompletionMode;
use engine::layout::Level;
use metadata::imsm::WriteHolePolicy;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Part of the roofline that each point has to reach.
const SHARE_MIN: f64 = 0.9;
/// A point above this is wrong: the members had saved up idle time before the measurement and spent it within.
const SHARE_MAX: f64 = 1.03;
/// Most measurements of a point.
const ATTEMPTS_MAX: u32 = 3;
/// 4 KiB reads of one member per second.
const MEMBER_READS_PER_S: u32 = 20_000;
/// 4 KiB writes of one member per second.
const MEMBER_WRITES_PER_S: u32 = 10_000;
/// Large enough that successive stripes use different chunks.
const MEMBER_MIB: u32 = 17;
/// Small, so that enough stripes pass in a short time to count them.
const CHUNK_BYTES: u32 = 16 << 10;
/// Reads outstanding per member. A closed loop of D requests over N members reaches about D / (D + N) of
/// its limit.
const READS_PER_MEMBER: u32 = 64;
/// Writes outstanding per member. With more, the reads and the writes of a parity array would alternate in phases as
/// long as a measurement.
const WRITES_PER_MEMBER: u32 = 24;
/// Full stripes outstanding, of which each uses all members.
const STRIPES: u32 = 16;

/// Kinds of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Reads,
    Writes,
    Stripes,
}

const KINDS: [Kind; 3] = [Kind::Reads, Kind::Writes, Kind::Stripes];

/// One measured point.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub level: String,
    pub members: u8,
    pub workload: &'static str,
    pub block_bytes: u32,
    /// Requests per second.
    pub iops: f64,
    pub bytes_per_s: f64,
    pub roofline_iops: f64,
    /// The measured rate divided by the roofline.
    pub share: f64,
    /// The roofline's formula.
    pub roofline: String,
    /// How often it was measured.
    pub attempts: u32,
}

/// What is measured, and for how long.
pub(super) struct Plan {
    rows: Vec<(Level, u8)>,
    time: Duration,
}

impl Plan {
    /// The whole table, or some rows of it.
    pub fn new(quick: bool) -> Plan {
        let counts: [(Level, &[u8]); 3] = if quick {
            [
                (Level::Raid0, &[1, 4, 8]),
                (Level::Raid10, &[4, 8]),
                (Level::Raid5, &[3, 8]),
            ]
        } else {
            [
                (Level::Raid0, &[1, 2, 3, 4, 5, 6, 7, 8]),
                (Level::Raid10, &[4, 6, 8]),
                (Level::Raid5, &[3, 4, 5, 6, 7, 8]),
            ]
        };
        Plan {
            rows: counts
                .into_iter()
                .flat_map(|(level, counts)| counts.iter().map(move |&count| (level, count)))
                .collect(),
            time: Duration::from_millis(if quick { 250 } else { 400 }),
        }
    }

    /// Measures and shows every point; `points` gets them.
    ///
    /// # Errors
    /// A point stays below [`SHARE_MIN`], cannot be measured, or a signal came.
    pub fn run(
        &self,
        screen: &mut Screen,
        checks: &mut Checks,
        guard: &Guard,
        points: &mut Vec<Point>,
    ) -> Result<()> {
        let begun = Instant::now();
        table::head(screen);
        let total = self.rows.len() * KINDS.len();
        for (at, &(level, members)) in self.rows.iter().enumerate() {
            let mut cells = Vec::new();
            for kind in KINDS {
                guard.check()?;
                screen.progress(&format!(
                    "{level} of {members}, {}: point {} of {total}",
                    kind.name(),
                    points.len() + 1
                ));
                let point = self.point(level, members, kind, guard)?;
                cells.push(table::cell(screen, kind, &point));
                points.push(point);
            }
            let is_first = at == 0 || self.rows[at - 1].0 != level;
            let name = if is_first {
                level.to_string()
            } else {
                String::new()
            };
            if is_first && at > 0 {
                screen.line("");
            }
            screen.line(&format!("    {name:<8}{members:>3}  {}", cells.join("  ")));
        }
        screen.line("");
        for point in points.iter() {
            let claim = format!(
                "{} of {} reaches {:.0} % of its roofline ({})",
                point.level,
                point.members,
                SHARE_MIN * 100.0,
                point.workload
            );
            checks.that(&claim, point.share >= SHARE_MIN, || format!("{point:#?}"))?;
        }
        let least = points.iter().map(|point| point.share).fold(1.0, f64::min);
        screen.result(
            &format!(
                "{} points, each at {:.0} % or more of what its members allow",
                points.len(),
                (least * 100.0).floor()
            ),
            begun.elapsed(),
        );
        Ok(())
    }

    /// Measures a point, again if it was disturbed.
    fn point(&self, level: Level, members: u8, kind: Kind, guard: &Guard) -> Result<Point> {
        // The longest measurement counts, whatever it says.
        let mut last: Option<Point> = None;
        for attempt in 1..=ATTEMPTS_MAX {
            let config = kind.config(level, members, self.time * attempt);
            let outcome = measure(&config)
                .with_context(|| format!("{level} of {members} cannot be measured"))?;
            guard.check()?;
            let possible = outcome.roofline_iops.context("members set no limit")?;
            let point = Point {
                level: level.to_string(),
                members,
                workload: kind.name(),
                block_bytes: config.block_bytes,
                iops: outcome.array.iops,
                bytes_per_s: outcome.array.bytes_per_s,
                roofline_iops: possible,
                share: outcome.array.iops / possible,
                roofline: outcome.roofline,
                attempts: attempt,
            };
            let undisturbed = (SHARE_MIN..=SHARE_MAX).contains(&point.share);
            last = Some(point);
            if undisturbed {
                break;
            }
        }
        last.context("nothing was measured")
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Reads => "4 KiB random reads",
            Kind::Writes => "4 KiB random writes",
            Kind::Stripes => "full-stripe writes",
        }
    }

    fn config(self, level: Level, members: u8, time: Duration) -> Config {
        let data_members = level.data_members(members);
        let (read_percent, random, block_bytes, queue_depth) = match self {
            Kind::Reads => (100, true, 4096, READS_PER_MEMBER * u32::from(members)),
            Kind::Writes => (0, true, 4096, WRITES_PER_MEMBER * u32::from(members)),
            Kind::Stripes => (0, false, CHUNK_BYTES * u32::from(data_members), STRIPES),
        };
        Config {
            level,
            member: format!(
                "ram:{MEMBER_MIB}m,read-iops={MEMBER_READS_PER_S},write-iops={MEMBER_WRITES_PER_S}"
            ),
            count: members,
            workload: Workload {
                read_percent,
                random,
            },
            block_bytes,
            queue_depth,
            shards: 1,
            failed: None,
            chunk_bytes: CHUNK_BYTES,
            write_hole: WriteHolePolicy::Off,
            time,
            completion: CompletionMode::Interrupt,
            overwrite: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_can_be_measured() {
        let plan = Plan::new(false);
        assert_eq!(plan.rows.len(), 17);
        for (level, members) in plan.rows {
            for kind in KINDS {
                let config = kind.config(level, members, plan.time);
                config.check().unwrap();
                assert!(config.block_bytes <= 8 * CHUNK_BYTES, "{config:?}");
            }
        }
        let stripe = Kind::Stripes.config(Level::Raid5, 8, plan.time);
        assert_eq!(stripe.block_bytes, 7 * CHUNK_BYTES);
    }
}
