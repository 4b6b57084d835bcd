//! `doctor`: prints what the crate `doctor` has found out about this machine, and what to change; or puts it into a
//! file for somebody who helps ([`bundle`]). [`advise`] adds what links, switches and sockets cost.

mod advise;

use super::boot::enable::ALERT_LINES;
use super::bundle;
use super::platform::discover::machine_below;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::{Paper, Tone};
use anyhow::Result;
use clap::Args;
use doctor::examine_this_machine;
use doctor::finding::{Diagnosis, Finding, WORD_COLUMNS};
use planner::advice::Advice;
use planner::files::machine_in;
use serde::Serialize;
use settings::sound::Sound;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check whether this machine suits an array, and say what to change.
#[derive(Args, Debug)]
#[command(
    after_help = "Each line is ok, note, warning or problem, and says what to do.\n\n\
    Exit codes:\n  0  nothing prevents serving\n  1  something prevents it: a line says problem"
)]
pub struct DoctorArgs {
    /// Drives that are meant for an array: PATH[,serial=S][,sector=N]. Without any: every block device.
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Write a new file with these findings and everything else that helps somebody to find what is wrong: settings,
    /// events, journal, status of each server, records on each drive. Passwords and tokens of the settings are left out.
    #[arg(long, value_name = "FILE.tar.gz", value_parser = parse_bundle)]
    bundle: Option<PathBuf>,
    /// The settings file that goes into the bundle
    #[arg(long, value_name = "FILE", requires = "bundle", default_value = settings::PLACE)]
    settings: PathBuf,
    /// Say also what the links, switches and sockets between drives and engine cost an array, as pairs of plans: this machine
    /// as it is, and with one thing changed. Takes some seconds.
    #[arg(long, conflicts_with = "bundle")]
    advise: bool,
    /// With --advise, plan as if the drives were these: an id or a file, as for `plan`.
    #[arg(long, value_name = "ID|FILE", requires = "advise")]
    drive: Option<String>,
    /// With --advise, look for links below this folder, with copies of /sys and /proc of another machine; all other findings
    /// are of this one.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "advise",
        default_value = "/",
        hide_default_value = true
    )]
    root: PathBuf,
    /// With --advise, the machine is the one in this file, which `platform discover` has written and you may have completed: its
    /// slots, say. All other findings are of this machine.
    #[arg(
        long,
        value_name = "FILE",
        requires = "advise",
        conflicts_with = "root"
    )]
    platform: Option<PathBuf>,
    /// Print JSON; with --bundle, the list of its files and of what could not be collected.
    #[arg(long)]
    json: bool,
}

fn parse_bundle(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".tar.gz") {
        true => Ok(PathBuf::from(text)),
        false => Err(
            "the bundle is a compressed archive; give it a name that ends with .tar.gz".to_owned(),
        ),
    }
}

/// Runs `doctor`.
///
/// # Errors
/// A drive's specification is not understood, the bundle cannot be written, nothing can be planned for `--advise`, or standard
/// output cannot be written.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(file) = &args.bundle {
        let manifest = bundle::make(file, &args.drives, &args.settings)?;
        if args.json {
            print_json(&manifest)?;
        } else {
            print_text(&manifest.in_words())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings = examine_this_machine(&args.drives)?.findings;
    findings.extend(nobody_is_told(&args.settings));
    let mut advice = None;
    if args.advise {
        let machine = match &args.platform {
            Some(file) => machine_in(file)?,
            None => machine_below(&args.root, None)?,
        };
        let planned = advise::plan(machine, &args.drives, args.drive.as_deref())?;
        findings.extend(planned.findings());
        advice = Some(planned.advice);
    }
    let report = Report {
        diagnosis: Diagnosis::new(findings),
        advice,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&text(&report.diagnosis, Paper::output()))?;
    }
    Ok(ExitCode::from(u8::from(!report.diagnosis.can_serve)))
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    diagnosis: Diagnosis,
    /// With `--advise`, the pairs of plans behind its findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<Vec<Advice>>,
}

/// That the settings in `file` have arrays started, and name nobody who is told of a drive that fails.
fn nobody_is_told(file: &Path) -> Option<Finding> {
    let found = Sound::read(file).ok()?;
    let is_so = !found.names().is_empty() && found.settings.alerts.tells_nobody();
    is_so.then(|| {
        let advice = format!(
            "add the two lines {ALERT_LINES} to {}, have them read by `systemctl reload 'fullstripe@*'`, and try it with \
             `fullstripe alert test`",
            file.display()
        );
        Finding::warning("alerts", "nobody is told of a drive that fails, except the journal").advise(advice)
    })
}

/// The report in the colours of its levels, folded to the terminal.
fn text(report: &Diagnosis, paper: Paper) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let word = finding.level.word();
        let blanks = " ".repeat(WORD_COLUMNS - word.len());
        let line = format!("{}{blanks}{}", paper.state(word), finding.sentence());
        text += &paper.fold(&line, WORD_COLUMNS);
        text.push('\n');
    }
    let (verdict, rest) = report.sum();
    let tone = if report.can_serve {
        Tone::Good
    } else {
        Tone::Bad
    };
    text + &paper.paint(tone, verdict) + &rest + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_without_alerts_are_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fullstripe.toml");
        assert_eq!(nobody_is_told(&file), None, "there is no file");
        let array = "[array.data]\nuuid = \"3aaa0122:29827cfa:5331ad66:ca767371\"\n";
        std::fs::write(&file, array).unwrap();
        let said = nobody_is_told(&file).unwrap().to_string();
        assert!(
            said.starts_with("warning  alerts: nobody is told"),
            "{said}"
        );
        assert!(
            said.contains("`[alerts]` and `mail = [\"root\"]`"),
            "{said}"
        );
        std::fs::write(&file, format!("{array}[alerts]\nmail = ['root']\n")).unwrap();
        assert_eq!(nobody_is_told(&file), None);
    }

    #[test]
    fn colours_and_folding_change_no_word() {
        let long = "it has not said for how many hours it will go on working";
        let findings = vec![Finding::ok("a", "b"), Finding::problem("nvme0", long)];
        let report = Diagnosis::new(findings);
        let text = text(
            &report,
            Paper {
                colours: true,
                columns: Some(40),
            },
        );
        assert!(text.contains("\x1b[32mok\x1b[0m       a: b\n"), "{text:?}");
        insta::assert_snapshot!(console::strip_ansi_codes(&text), @r"
        ok       a: b
        problem  nvme0: it has not said for how
                 many hours it will go on
                 working
        Serving is prevented: 1 problem, 0 warnings, 0 notes.
        ");
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace();
            words.map(str::to_owned).collect()
        };
        let plain = report.to_string();
        assert_eq!(words(&console::strip_ansi_codes(&text)), words(&plain));
    }
}
