//! The programs of the machine that `enable`, `release` and `upgrade` run.

use super::{Report, SiteArgs};
use anyhow::{Result, bail};
use container::machine::Machine;
use std::path::Path;
use std::process::{Command, Stdio};
use words::without_error_number;

const UPDATE_INITRAMFS: &str = "update-initramfs";

/// Renews the initramfs, or says in `report` what to run.
///
/// # Errors
/// The program fails; the sentence says that the files are changed.
pub(super) fn renew_initramfs(args: &SiteArgs, report: &mut Report) -> Result<()> {
    let Some(program) = args.machine().program(UPDATE_INITRAMFS) else {
        report.next.push(
            "if this machine's initramfs has a copy of mdadm's configuration, renew it (like dracut -f).".to_owned(),
        );
        return Ok(());
    };
    if args.no_initramfs {
        let what = "update-initramfs -u -k all renews the copies of these files in the initramfs; run it before the next boot.";
        report.next.push(what.to_owned());
        return Ok(());
    }
    if let Err(why) = run(&program, &["-u", "-k", "all"]) {
        bail!(
            "the files are changed, but the initramfs still has the old files: update-initramfs -u -k all failed ({why}); \
             run it again before the next boot"
        );
    }
    report.done.push("Renewed the initramfs.".to_owned());
    Ok(())
}

/// The version of mdadm on the machine, if it is there and says it.
pub(super) fn mdadm_version(machine: &Machine) -> Option<(u32, u32)> {
    let program = machine.program("mdadm")?;
    let output = Command::new(program).arg("--version").output().ok()?;
    // mdadm prints its version on standard error.
    let text = [output.stderr, output.stdout].concat();
    version_in(&String::from_utf8_lossy(&text))
}

/// The version in `mdadm - v4.2 - 2021-12-30`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace();
    words.find_map(|word| {
        let (major, minor) = word.strip_prefix('v')?.split_once('.')?;
        let digits = minor.len() - minor.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        Some((major.parse().ok()?, minor[..digits].parse().ok()?))
    })
}

/// Tells udev of the drives at `paths` anew, so that its rules decide who gets them, and waits until the rules have
/// run. Says in `report` what was done.
///
/// # Errors
/// The program fails; the sentence says that the files are changed.
pub(super) fn announce(machine: &Machine, paths: &[String], report: &mut Report) -> Result<()> {
    let Some(program) = machine.program("udevadm") else {
        report
            .notes
            .push("udevadm is not installed, so md gets the drives at the next boot.".to_owned());
        return Ok(());
    };
    let begin = ["trigger", "--action=add", "--settle"];
    let words: Vec<&str> = begin
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .collect();
    if let Err(why) = run(&program, &words) {
        bail!(
            "the files are changed, but udev could not be told of the drives ({why}); run: udevadm {}",
            words.join(" ")
        );
    }
    report
        .done
        .push(format!("Told udev of {} anew.", words::and(paths)));
    Ok(())
}

/// Runs a program to its end, and returns what it printed on standard output.
///
/// # Errors
/// How it failed, as a part of a sentence, with the last line that it printed on standard error.
pub fn run(program: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| without_error_number(&format!("it cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(match last {
        Some(last) => format!("{}: {last}", output.status),
        None => output.status.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_mdadm_is_understood() {
        for (text, wanted) in [
            ("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5\n", Some((4, 2))),
            ("mdadm - v4.4-11-gabc - 2024-11-07", Some((4, 4))),
            ("mdadm - v5.0", Some((5, 0))),
            ("no version", None),
            ("", None),
        ] {
            assert_eq!(version_in(text), wanted, "{text}");
        }
    }
}
