//! `doctor --advise`: what the links, switches and sockets of this machine cost an array of its drives.

use crate::commands::plan::here::most_known;
use crate::commands::progress::PointsBar;
use anyhow::{Result, bail};
use doctor::finding::Finding;
use drives::spec::{MemberSpec, Target};
use models::platform::{Installed, Machine};
use planner::advice::{Advice, advise};
use planner::discovered::with_bays_of;
use planner::work::Work;

/// From this loss on, a finding is a warning.
const WARNING_PERCENT: f64 = 5.0;

/// Pairs of plans for an array.
pub struct Planned {
    /// The number of its drives.
    count: usize,
    /// Drives whose link the kernel does not show.
    unknown: Vec<String>,
    /// The drive that they are planned as.
    drive: String,
    /// The pairs.
    pub advice: Vec<Advice>,
}

/// Plans the drives of `machine`: those of which `specs` name a block device, or if there are none, the drives of
/// which the catalogue knows most; as `drive`, if given.
///
/// # Errors
/// There are no such drives, the catalogue does not know them, or a plan cannot be computed.
pub fn plan(machine: Machine, specs: &[String], drive: Option<&str>) -> Result<Planned> {
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
    let unknown = machine.drives.iter().filter(|drive| drive.lanes.is_none());
    Ok(Planned {
        count: names.len(),
        unknown: unknown.map(|drive| drive.name.clone()).collect(),
        advice: advise(&machine, &drive, work, &PointsBar::default())?,
        drive,
    })
}

/// The drives that `specs` name by their block devices, or all.
fn chosen(machine: &Machine, specs: &[String]) -> Result<Vec<Installed>> {
    if specs.is_empty() {
        return Ok(machine.drives.clone());
    }
    let mut chosen: Vec<Installed> = Vec::new();
    for spec in specs {
        let path = match spec.parse::<MemberSpec>()?.target {
            Target::Path(path) => path,
            Target::Ram { .. } | Target::Null { .. } => {
                bail!("{spec} is no drive of this machine; name block devices")
            }
        };
        // A link such as those in /dev/disk; a drive of another machine is not here.
        let node = path.canonicalize().unwrap_or(path);
        let node = node
            .strip_prefix("/dev")
            .unwrap_or(&node)
            .display()
            .to_string();
        let is_it = |drive: &&Installed| {
            drive
                .namespaces
                .iter()
                .any(|namespace| is_of(&node, namespace))
        };
        let Some(drive) = machine.drives.iter().find(is_it) else {
            bail!(
                "{spec} is no NVMe drive on PCIe of this machine; \"fullstripe platform discover\" lists those that are"
            );
        };
        if !chosen.contains(drive) {
            chosen.push(drive.clone());
        }
    }
    Ok(chosen)
}

/// Whether a block device is this namespace, or a partition of it.
fn is_of(node: &str, namespace: &str) -> bool {
    let rest = node.strip_prefix(namespace);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
}

impl Planned {
    /// What `doctor` says of it.
    pub fn findings(&self) -> Vec<Finding> {
        let Planned {
            count,
            unknown,
            drive,
            advice,
        } = self;
        let array = match count {
            1 => format!("{drive} alone"),
            _ => format!("a RAID 0 of {count} x {drive}"),
        };
        let mut findings: Vec<Finding> = advice.iter().map(|one| finding(one, &array)).collect();
        if !unknown.is_empty() {
            let what = format!(
                "the kernel does not show those of {}, as in a virtual machine",
                words::and(unknown)
            );
            findings.push(Finding::note("links", what));
        } else if findings.is_empty() {
            let what = format!("no link, switch or socket holds back {array}");
            findings.push(Finding::ok("links", what));
        }
        findings
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
