//! `doctor --advise`: what the links, switches and sockets of this machine cost an array of its drives.

use crate::commands::plan::here::most_known;
use crate::commands::platform::discover::machine_below;
use crate::commands::progress::PointsBar;
use anyhow::{Result, ensure};
use doctor::finding::Finding;
use models::platform::{Installed, Machine};
use planner::advice::{Advice, advise};
use planner::discovered::with_bays_of;
use planner::work::Work;
use std::path::Path;

/// From this loss on, a finding is a warning.
const WARNING_PERCENT: f64 = 5.0;

/// Pairs of plans for an array.
pub struct Planned {
    /// The number of its drives.
    count: usize,
    /// The drive that they are planned as.
    drive: String,
    /// The pairs.
    pub advice: Vec<Advice>,
}

/// Plans the drives of the machine below `root`: those of which `specs` name a block device, or if there are none, the drives of
/// which the catalogue knows most; as `drive`, if given.
///
/// # Errors
/// There are no such drives, the catalogue does not know them, or a plan cannot be computed.
pub fn plan(root: &Path, specs: &[String], drive: Option<&str>) -> Result<Planned> {
    let machine = machine_below(root, None)?;
    let chosen = chosen(&machine, specs)?;
    let (drive, names) = match drive {
        Some(drive) => (
            drive.to_owned(),
            chosen.iter().map(|drive| drive.name.as_str()).collect(),
        ),
        None => most_known(&chosen)?,
    };
    let machine = with_bays_of(&machine, &names);
    let work = Work {
        jobs: None,
        remember: true,
    };
    Ok(Planned {
        count: names.len(),
        advice: advise(&machine, &drive, work, &PointsBar::default())?,
        drive,
    })
}

fn chosen(machine: &Machine, specs: &[String]) -> Result<Vec<Installed>> {
    let is_named = |drive: &&Installed| {
        let node = format!("/dev/{}n", drive.name);
        specs.is_empty() || specs.iter().any(|spec| spec.starts_with(&node))
    };
    let chosen: Vec<Installed> = machine.drives.iter().filter(is_named).cloned().collect();
    ensure!(
        !chosen.is_empty(),
        "none of the named drives is an NVMe drive on PCIe"
    );
    Ok(chosen)
}

impl Planned {
    /// What `doctor` says of it.
    pub fn findings(&self) -> Vec<Finding> {
        let Planned {
            count,
            drive,
            advice,
        } = self;
        let array = match count {
            1 => format!("{drive} alone"),
            _ => format!("a RAID 0 of {count} x {drive}"),
        };
        if advice.is_empty() {
            let what = format!("no link, switch or socket holds back {array}");
            return vec![Finding::ok("links", what)];
        }
        advice.iter().map(|one| finding(one, &array)).collect()
    }
}

fn finding(advice: &Advice, array: &str) -> Finding {
    let Advice {
        about,
        what,
        change,
        more_drives,
        ..
    } = advice;
    if !advice.gains() {
        let what = format!("{what}: that costs {array} less than 1 % of any load that was planned");
        return Finding::ok(about, what);
    }
    let most = advice.greatest();
    let gb_per_s = |bytes: f64| words::number(bytes / 1e9);
    if *more_drives > 0 {
        let what = format!(
            "{what}: {} more would raise the {} of {array} from {} to {} GB/s",
            words::count(*more_drives, "drive"),
            most.load,
            gb_per_s(most.now_bytes_per_s),
            gb_per_s(most.then_bytes_per_s),
        );
        return Finding::note(about, what).advise(format!("planned for comparison: {change}"));
    }
    let what = format!(
        "{what}: {array} loses {:.0} % of its {} ({} instead of {} GB/s)",
        most.lost_percent(),
        most.load,
        gb_per_s(most.now_bytes_per_s),
        gb_per_s(most.then_bytes_per_s),
    );
    let finding = match most.lost_percent() >= WARNING_PERCENT {
        true => Finding::warning(about, what),
        false => Finding::note(about, what),
    };
    finding.advise(format!("planned for comparison: {change}"))
}
