//! Predicts the performance of drives that are not present, from their data sheet: the same engine in virtual time, over modelled
//! drives and platforms.

use super::super::screen::WIDTH;
use super::Story;
use crate::commands::plan::plots;
use anyhow::{Context, Result};
use catalogue::draw::DRAWS;
use lab::schema::metric::Metric;
use planner::plan::report::{PlanPoint, PlannedReport};
use std::time::Duration;

/// The drive as its data sheet has it: the figures of the 2 TB P4510, by the table in AnandTech's review of February 2018.
/// In two lines, as it is shown.
const SHEET: [&str; 2] = [
    "fullstripe drive new P4510 --capacity 2tb --generation 3 --read-kiops 624 --write-kiops 79",
    "--read-mb-s 3200 --write-mb-s 2000 --output p4510.toml",
];
/// The plan to compare with, as a user would write it.
const WIDE: &str = r#"schema = 1
[setup.x16]
drive = "p4510.toml"
count = 4
level = 0
platform = "s2600wft-6154-x16"
host = "linux-6.12"
stack = "fullstripe"
"#;
/// Sequential reads must gain at least this factor in an x16 slot, which has twice the lanes of an x8 switch's uplink.
const WIDER_MIN: f64 = 1.5;
/// A prediction above this multiple of the ideal figure is more than drives and links can do.
const IDEAL_MAX: f64 = 1.02;
/// Time limit of the plan, which takes half a minute, and longer in a build that is not optimised.
const WITHIN: Duration = Duration::from_secs(600);
/// The names of the two setups.
const X8: &str = "x8 switch";
const X16: &str = "x16 slot";
/// Loads as a plan names them.
const IN_ORDER: &str = "read 128k";
const AT_RANDOM: &str = "randread 4k";

impl Story<'_> {
    pub(super) fn plan(&mut self) -> Result<()> {
        self.step(
            "Before buying: four drives of a data sheet, behind an x8 switch or in an x16 slot",
        );
        let [first, second] = SHEET;
        self.show(&format!("{first} \\"), "");
        self.screen.line(&format!("        {second}"));
        self.run("drive", &SHEET.join(" "))?;
        self.result(
            "what the sheet does not say is in the file as ranges that are usual of such drives",
        );
        let path = self.programs.folder.join("x16.toml");
        std::fs::write(&path, WIDE).with_context(|| format!("cannot write {}", path.display()))?;
        let line = "fullstripe plan --drive p4510.toml --level 0 --platform s2600wft-6154-x8 --compare x16.toml";
        self.show(line, "");
        self.screen.progress(
            "the engine runs in virtual time, over 20 drives that the sheet may describe",
        );
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let ended = self.programs.run("plan", &words, WITHIN)?;
        self.claim("the plan is made", ended.status.success(), || {
            ended.evidence()
        })?;
        let mut report: PlannedReport = serde_json::from_str(&ended.stdout)
            .with_context(|| format!("the answer is no plan\n{}", ended.evidence()))?;
        for point in &mut report.points {
            let slot = if point.is_other { X16 } else { X8 };
            slot.clone_into(&mut point.setup);
        }
        for line in plots(&report, WIDTH - 4).trim_end().lines() {
            self.screen.line(&format!("    {line}"));
        }
        for (claim, held) in claims(&report) {
            self.claim(claim, held, || ended.evidence())?;
        }
        let told = conclusion(&report);
        self.result(&told);
        Ok(())
    }
}

/// A figure of a load in one of the two slots.
fn rate(report: &PlannedReport, slot: &str, load: &str) -> f64 {
    let mut points = report.points.iter();
    let point = points.find(|point| point.setup == slot && point.load == load);
    let rate = point.and_then(|point| point.figure(Metric::Iops));
    rate.unwrap_or(f64::NAN)
}

/// How many times as much the wide slot gives.
fn gain(report: &PlannedReport, load: &str) -> f64 {
    rate(report, X16, load) / rate(report, X8, load)
}

/// What has to hold of any such plan.
fn claims(report: &PlannedReport) -> [(&'static str, bool); 4] {
    let is_uplink = |point: &PlanPoint| point.limit().contains("uplink");
    let mut in_order = report.points.iter().filter(|one| one.load == IN_ORDER);
    let is_possible = |point: &PlanPoint| {
        let ideal = point.ideal.as_ref().map_or(0.0, |ideal| ideal.iops);
        let predicted = point.figure(Metric::Iops).unwrap_or(f64::NAN);
        predicted <= ideal * IDEAL_MAX
    };
    let is_drawn = |point: &PlanPoint| {
        let draws = point
            .drawn
            .as_ref()
            .and_then(|drawn| drawn.metrics.get(&Metric::Iops));
        draws.is_some_and(|draws| draws.len() == DRAWS as usize)
    };
    [
        (
            "each figure is one of every drive that was drawn",
            report.points.iter().all(is_drawn),
        ),
        (
            "nothing is predicted that drives and links cannot do",
            report.points.len() == 8 && report.points.iter().all(is_possible),
        ),
        (
            "the switch's uplink limits reads in order, and only there",
            in_order.all(|point| is_uplink(point) != point.is_other),
        ),
        (
            "the x16 slot gives them room",
            gain(report, IN_ORDER) >= WIDER_MIN,
        ),
    ]
}

fn conclusion(report: &PlannedReport) -> String {
    format!(
        "reads in order: {:.1} times as much on x16; small random reads: {:.1} times",
        gain(report, IN_ORDER),
        gain(report, AT_RANDOM),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn point(is_other: bool, load: &str, iops: f64, ideal: f64, limit: &str) -> Value {
        json!({
            "setup": if is_other { X16 } else { X8 },
            "load": load,
            "is_other": is_other,
            "configuration": {
                "setup": {
                    "drive": "p4510.toml", "count": 4, "level": 0, "platform": "any", "host": "any", "stack": "any"
                },
                "state": "steady",
                "workload": { "op": "read", "bs": load.rsplit(' ').next(), "threads": 1, "qd": 1 }
            },
            "seeds": [],
            "usable_bytes": 1,
            "drawn": { "metrics": { "iops": vec![iops; 20], "bytes_per_s": vec![iops * 131_072.0; 20] }, "bands": { "iops": [iops, iops], "bytes_per_s": [iops * 131_072.0, iops * 131_072.0] } },
            "metrics": {
                "iops": { "value": iops, "unit": "1/s" },
                "bytes_per_s": { "value": iops * 131_072.0, "unit": "B/s" }
            },
            "limits": { "first": { "name": limit } },
            "ideal": { "iops": ideal, "bytes_per_s": ideal * 131_072.0, "watts": 1.0, "limited_by": "drives" }
        })
    }

    fn report(wide: f64, limit: &str) -> PlannedReport {
        let mut points = Vec::new();
        for load in ["randread 4k", "randwrite 4k", "write 128k"] {
            points.push(point(false, load, 5.0, 10.0, "drives"));
            points.push(point(true, load, 5.0, 10.0, "drives"));
        }
        points.push(point(false, IN_ORDER, 4.0, 4.0, limit));
        points.push(point(true, IN_ORDER, wide, 8.0, "drives"));
        let simulator = json!({ "commands": 1 });
        let whole =
            json!({ "schema": 1, "program": "any", "points": points, "simulator": simulator });
        serde_json::from_value(whole).expect("a report")
    }

    #[test]
    fn a_plan_has_to_be_possible_and_name_the_switch() {
        let held = |report: &PlannedReport| claims(report).map(|(_, held)| held);
        let right = report(7.2, "uplink of \"switch\"");
        assert_eq!(held(&right), [true; 4]);
        assert_eq!(
            conclusion(&right),
            "reads in order: 1.8 times as much on x16; small random reads: 1.0 times"
        );
        let mut alone = report(7.2, "uplink");
        alone.points[0].drawn = None;
        assert_eq!(held(&alone), [false, true, true, true]);
        assert_eq!(held(&report(9.0, "uplink")), [true, false, true, true]);
        assert_eq!(held(&report(7.2, "drives")), [true, true, false, true]);
        assert_eq!(held(&report(4.1, "uplink")), [true, true, true, false]);
    }

    #[test]
    fn both_slots_are_drawn_up_to_the_ideal_with_their_limits() {
        let text = plots(&report(7.2, "uplink"), 80);
        let expected = "\
read 128k: bytes a second
x8 switch  ████████████████████▌                      524.3 k of 524.3 k  uplink
 x16 slot  ████████████████████████████████████▉····  943.7 k of 1.049 M  drives
█ predicted  · up to the ideal
";
        assert!(text.ends_with(&format!("{expected}\n")), "{text}");
    }
}
