//! The load: fio over NBD, every block with a checksum.
//!
//! | job | what |
//! |---|---|
//! | `fill` | writes its region once, at random, in four sizes, and reads everything back |
//! | `fill-check` | reads the same again and compares, in a process that has written nothing |
//! | `load` | writes and reads back at once, again and again until it is stopped |
//! | `crash` | writes until the server dies; records which writes had been acknowledged |
//! | `crash-check` | reads back those writes |
//!
//! Each is a job file in the demonstration's folder. fio's fixed seed determines the content of every block, so that
//! another process knows what to expect. The record of `crash` is fio's "verify state". fio names it after the job, so
//! the job has the same name in both files.

use super::programs::{Ended, Programs};
use anyhow::{Context, Result};
use serde::Deserialize;

/// A region of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

/// Requests that fio keeps outstanding.
const DEPTH: u64 = 16;
/// Writers when the server dies. Each has one request outstanding, so that its writes are acknowledged in order and its
/// record is exact. With more, any number of later writes could be acknowledged before a slow one, and fio's record has
/// room for only as many as it keeps outstanding.
pub(super) const WRITERS: u64 = 8;
/// fio's exit code when a signal stopped it.
const STOPPED_BY_SIGNAL: i32 = 128;

/// A job file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    Fill,
    FillCheck,
    Load,
    Crash,
    CrashCheck,
}

impl Job {
    /// Name of the job file, without its ending.
    pub fn name(self) -> &'static str {
        match self {
            Job::Fill => "fill",
            Job::FillCheck => "fill-check",
            Job::Load => "load",
            Job::Crash => "crash",
            Job::CrashCheck => "crash-check",
        }
    }

    /// The job file.
    pub fn text(self, region: Region, uri: &str) -> String {
        let sizes = match self {
            Job::Fill | Job::FillCheck => "4k/55:16k/20:64k/20:256k/5",
            Job::Load => "4k/70:16k/20:64k/10",
            Job::Crash | Job::CrashCheck => "4k/60:16k/30:64k/10",
        };
        // The name of the section is also that of the verify state.
        let section = match self {
            Job::Fill | Job::FillCheck => "fill",
            Job::Load => "load",
            Job::Crash | Job::CrashCheck => "crash",
        };
        let more = match self {
            Job::Fill => "do_verify=1",
            Job::FillCheck => "verify_only=1",
            Job::Load => "verify_backlog=64\ntime_based=1\nruntime=600",
            Job::Crash => "do_verify=0\nverify_state_save=1",
            Job::CrashCheck => "verify_only=1\nverify_state_load=1",
        };
        let state = if self == Job::Crash {
            ""
        } else {
            "\nverify_state_save=0"
        };
        let (size, depth) = match self {
            Job::Crash | Job::CrashCheck => {
                let share = region.length_bytes / WRITERS;
                let jobs =
                    format!("numjobs={WRITERS}\noffset_increment={share}\ngroup_reporting=1");
                (format!("{share}\n{jobs}"), 1)
            }
            Job::Fill | Job::FillCheck | Job::Load => (region.length_bytes.to_string(), DEPTH),
        };
        format!(
            "[{section}]\nioengine=nbd\nuri={uri}\nthread=1\nrw=randwrite\nbssplit={sizes}\n\
             offset={}\nsize={size}\niodepth={depth}\nverify=crc32c\nverify_interval=4096\n\
             verify_fatal=1\n{more}{state}\n",
            region.offset_bytes
        )
    }

    /// Writes the job file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, programs: &Programs, region: Region, uri: &str) -> Result<()> {
        let path = programs.folder.join(format!("{}.fio", self.name()));
        std::fs::write(&path, self.text(region, uri))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The command line as a user types it.
    pub fn line(self) -> String {
        format!("fio {}.fio", self.name())
    }

    /// Program and arguments. The report goes to a file, because on standard output fio would mix errors into it.
    pub fn words(self) -> [String; 4] {
        [
            "fio".to_owned(),
            "--output-format=json".to_owned(),
            format!("--output=log/{}.json", self.name()),
            format!("{}.fio", self.name()),
        ]
    }
}

/// What fio reports of one direction.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub(super) struct Direction {
    pub io_bytes: u64,
    pub total_ios: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    #[serde(rename = "bw_bytes")]
    pub bytes_per_s: f64,
}

/// What fio reports.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub(super) struct FioReport {
    /// An errno, or 0.
    pub error: i64,
    pub read: Direction,
    pub write: Direction,
}

/// The report of a job that has ended.
///
/// # Errors
/// There is no report, or it cannot be understood.
pub(super) fn report(programs: &Programs, job: Job, ended: &Ended) -> Result<FioReport> {
    let text = programs.read_log(&format!("{}.json", job.name()));
    parse(&text).with_context(|| format!("fio has left no report\n{}", ended.evidence()))
}

/// Whether fio found nothing wrong. It may have been stopped by a signal.
pub(super) fn is_fine(ended: &Ended, report: &FioReport) -> bool {
    let code = ended.status.code();
    report.error == 0 && (code == Some(0) || code == Some(STOPPED_BY_SIGNAL))
}

fn parse(text: &str) -> Result<FioReport> {
    #[derive(Deserialize)]
    struct File {
        jobs: Vec<FioReport>,
    }
    // fio and its engine write some of their messages before the report.
    let from = text.find('{').context("the report is empty")?;
    let file: File = serde_json::from_str(&text[from..]).context("the report is no JSON")?;
    file.jobs
        .into_iter()
        .next()
        .context("the report has no job")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_behind_messages() {
        let direction = |ios: u64| {
            format!(
                r#"{{"io_bytes": {}, "total_ios": {ios}, "iops": 1234.5, "bw_bytes": 99, "bw": 0}}"#,
                ios * 4096
            )
        };
        let text = format!(
            "fio: connected to NBD server\n{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"error\": 0, \
             \"read\": {}, \"write\": {}}}]}}\n",
            direction(7),
            direction(9)
        );
        let report = parse(&text).unwrap();
        assert_eq!((report.read.total_ios, report.write.total_ios), (7, 9));
        assert_eq!(report.write.io_bytes, 9 * 4096);
        assert_eq!(
            (report.write.iops, report.write.bytes_per_s),
            (1234.5, 99.0)
        );
        assert!(parse("fio: connected").is_err());
    }

    #[test]
    fn a_check_expects_what_the_job_wrote() {
        let region = Region {
            offset_bytes: 1 << 20,
            length_bytes: 2 << 20,
        };
        let lines = |job: Job| -> Vec<String> {
            let text = job.text(region, "nbd://x");
            let keys = [
                "[", "rw=", "bssplit=", "offset", "size=", "verify=", "numjobs=",
            ];
            text.lines()
                .filter(|line| keys.iter().any(|key| line.starts_with(key)))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(lines(Job::Fill), lines(Job::FillCheck));
        assert_eq!(lines(Job::Crash), lines(Job::CrashCheck));
        assert_eq!((lines(Job::Fill).len(), lines(Job::Crash).len()), (6, 8));
        assert!(
            Job::Crash
                .text(region, "")
                .contains("\nverify_state_save=1\n")
        );
        assert!(
            Job::CrashCheck
                .text(region, "")
                .contains("\nverify_state_save=0\n")
        );
    }
}
