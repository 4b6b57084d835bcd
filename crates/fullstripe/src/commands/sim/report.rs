//! The result of a campaign, for people and for programs: for each failed seed the failure and the command that runs it
//! again, and for the first ones also a small history that fails in the same way, with the end of its log.

use super::{FaultsArgs, rerun};
use serde::Serialize;
use sim::campaign::{Campaign, FailedSeed, Summary};
use sim::history::{History, Mode};
use sim::run::{Counts, LieCounts};
use sim::ublk::UblkCounts;
use sim::vhost_user::VhostUserCounts;
use std::fmt::Write;

/// The result for programs. It contains no times, so that the same seeds give the same bytes on every machine.
#[derive(Serialize, Debug)]
pub(super) struct FaultsReport {
    /// Version of this schema: 1.
    version: u32,
    /// Every history passed.
    pub(super) passed: bool,
    /// First seed.
    first_seed: u64,
    /// First seed after the last one.
    end_seed: u64,
    /// The only level; null if the seeds decide.
    level: Option<u8>,
    /// The only mode; null if the seeds decide.
    mode: Option<&'static str>,
    /// Each was run twice.
    twice: bool,
    /// Histories run, a repetition not counted. Fewer than seeds if too many failed.
    histories: u64,
    /// Hash of all event logs.
    hash: String,
    counts: ReportCounts,
    failures: Vec<ReportFailure>,
}

#[derive(Serialize, Debug)]
struct ReportCounts {
    requests: u64,
    /// Requests that failed.
    request_errors: u64,
    faults: u64,
    /// Faults that were drawn and left out because the array need not survive them then.
    faults_skipped: u64,
    /// Processes started.
    lives: u64,
    /// Write-hole logs replayed at their starts.
    replays: u64,
    /// Blocks that rebuilds could not read and recorded as bad.
    blocks_recorded: u64,
    /// Records that the metadata was made unable to express.
    inexpressible: u64,
    /// Resyncs at their starts that used a write-intent bitmap.
    resyncs_by_bitmap: u64,
    /// Drives that returned and were rebuilt by a bitmap.
    taken_back: u64,
    /// Drives that were plugged in again while the array served.
    brought_back: u64,
    /// Entries of the event logs.
    happenings: u64,
    virtual_ms: u64,
    ublk: ReportUblk,
    vhost_user: ReportVhostUser,
    lies: ReportLies,
}

/// What the code behind block devices did that it rarely does.
#[derive(Serialize, Debug)]
struct ReportUblk {
    /// Reads that were repeated in other memory, because a hung drive kept theirs.
    held: u64,
    /// Requests whose answer came with other memory.
    exchanged: u64,
    /// Times that there was no memory.
    starved: u64,
    /// Requests that a server which was stopped left to the next one.
    left: u64,
    /// Requests that a server got because the one before had not answered them.
    given_again: u64,
}

/// What the code behind disks of virtual machines did.
#[derive(Serialize, Debug)]
struct ReportVhostUser {
    /// Requests that guests have sent.
    requests: u64,
    /// Reads that were repeated in other memory, because a hung drive kept theirs.
    held: u64,
    /// Times that there was no memory.
    starved: u64,
    /// Requests that a server which was stopped left to the next one.
    left: u64,
    /// Requests that a server found in the areas of requests in flight.
    taken_over: u64,
    /// Servers that were killed while they were answering.
    killed_inside: u64,
    /// Queues whose guest could see answers and was not told of them, because its server was killed.
    untold: u64,
}

impl From<UblkCounts> for ReportUblk {
    fn from(counts: UblkCounts) -> ReportUblk {
        ReportUblk {
            held: counts.held,
            exchanged: counts.exchanged,
            starved: counts.starved,
            left: counts.left,
            given_again: counts.given_again,
        }
    }
}

impl From<VhostUserCounts> for ReportVhostUser {
    fn from(counts: VhostUserCounts) -> ReportVhostUser {
        ReportVhostUser {
            requests: counts.requests,
            held: counts.held,
            starved: counts.starved,
            left: counts.left,
            taken_over: counts.taken_over,
            killed_inside: counts.killed_inside,
            untold: counts.untold,
        }
    }
}

impl ReportVhostUser {
    fn text(&self) -> String {
        if self.requests == 0 {
            return String::new();
        }
        format!(
            "virtual machines: {} of the requests; {} were carried out again by the next server, {} servers were killed \
             while they were answering\n",
            self.requests, self.taken_over, self.killed_inside
        )
    }
}

/// The effects of drives' lies; each lie is counted once in each total. All are zero except in mode `lying`.
#[derive(Serialize, Debug)]
struct ReportLies {
    lost_writes: u64,
    misdirected_writes: u64,
    dropped_flushes: u64,
    /// They made no difference to any sector.
    without_effect: u64,
    /// All wrong bytes were overwritten before a client or a scrub found them.
    overwritten: u64,
    /// A scrub found a mismatch.
    seen_by_scrub: u64,
    /// A client received wrong bytes.
    read: u64,
    /// Of those, lies that no scrub saw.
    read_and_not_seen: u64,
    /// A client received wrong bytes after a scrub with repair.
    read_after_repair: u64,
    /// Bytes were wrong, and neither a client nor a scrub found them.
    unnoticed: u64,
    /// Sectors that clients received with wrong bytes, counted once for each read.
    wrong_sectors: u64,
}

impl From<LieCounts> for ReportLies {
    fn from(lies: LieCounts) -> ReportLies {
        ReportLies {
            lost_writes: lies.lost_writes,
            misdirected_writes: lies.misdirected_writes,
            dropped_flushes: lies.dropped_flushes,
            without_effect: lies.without_effect,
            overwritten: lies.overwritten,
            seen_by_scrub: lies.seen_by_scrub,
            read: lies.read,
            read_and_not_seen: lies.read_and_not_seen,
            read_after_repair: lies.read_after_repair,
            unnoticed: lies.unnoticed,
            wrong_sectors: lies.wrong_sectors,
        }
    }
}

impl ReportLies {
    fn text(&self) -> String {
        let told = self.lost_writes + self.misdirected_writes + self.dropped_flushes;
        if told == 0 {
            return String::new();
        }
        format!(
            "lies of drives: {told} ({} lost writes, {} misdirected writes, {} flushes that did nothing)\n\
             their effects: {} made no difference; of {} the wrong bytes were overwritten before a client or a scrub \
             found them; {} were found by a scrub; {} gave a client wrong bytes ({} of these were found by no scrub, \
             {} did so after a repairing scrub too); {} left wrong bytes that neither a client nor a scrub found\n\
             wrong sectors read by clients: {}\n",
            self.lost_writes,
            self.misdirected_writes,
            self.dropped_flushes,
            self.without_effect,
            self.overwritten,
            self.seen_by_scrub,
            self.read,
            self.read_and_not_seen,
            self.read_after_repair,
            self.unnoticed,
            self.wrong_sectors
        )
    }
}

impl From<Counts> for ReportCounts {
    fn from(counts: Counts) -> ReportCounts {
        ReportCounts {
            requests: counts.requests,
            request_errors: counts.request_errors,
            faults: counts.faults,
            faults_skipped: counts.faults_skipped,
            lives: counts.lives,
            replays: counts.replays,
            blocks_recorded: counts.blocks_recorded,
            inexpressible: counts.inexpressible,
            resyncs_by_bitmap: counts.resyncs_by_bitmap,
            taken_back: counts.taken_back,
            brought_back: counts.brought_back,
            happenings: counts.happenings,
            virtual_ms: counts.virtual_ms,
            ublk: counts.ublk.into(),
            vhost_user: counts.vhost_user.into(),
            lies: counts.lies.into(),
        }
    }
}

#[derive(Serialize, Debug)]
struct ReportFailure {
    seed: u64,
    mode: &'static str,
    /// For example `wrong bytes`.
    kind: &'static str,
    /// What went wrong.
    message: String,
    /// The command that runs it again.
    rerun: String,
    /// The smallest history found that fails in the same way; empty if none was searched for.
    history: Vec<String>,
    /// The end of its event log.
    log: Vec<String>,
}

impl FaultsReport {
    pub(super) fn new(args: &FaultsArgs, campaign: &Campaign, summary: &Summary) -> FaultsReport {
        let failure = |failed: &FailedSeed| {
            let (history, mut log) = match &failed.shrunk {
                Some((history, log)) => (lines_of(history), log.clone()),
                None => (Vec::new(), Vec::new()),
            };
            log.drain(..log.len().saturating_sub(args.log_lines));
            ReportFailure {
                seed: failed.seed,
                mode: mode_name(failed.mode),
                kind: failed.failure.kind(),
                message: failed.failure.to_string(),
                rerun: rerun(args, failed.seed),
                history,
                log,
            }
        };
        FaultsReport {
            version: 1,
            passed: summary.failures.is_empty(),
            first_seed: campaign.seeds.start,
            end_seed: campaign.seeds.end,
            level: args.level.map(engine::layout::Level::number),
            mode: campaign.mode.map(mode_name),
            twice: campaign.twice,
            histories: summary.histories,
            hash: format!("{:016x}", summary.hash),
            counts: summary.counts.into(),
            failures: summary.failures.iter().map(failure).collect(),
        }
    }

    /// The text for people, the verdict first; `core_s` is the processor time of all threads together.
    pub(super) fn text(&self, core_s: f64) -> String {
        let mut text = self.verdict() + "\n";
        for failure in &self.failures {
            failure.write(&mut text);
        }
        text += &self.counts.text();
        let runs = self.histories * (1 + u64::from(self.twice));
        let per_core_minute = runs as f64 * 60.0 / core_s.max(0.001);
        let _ = writeln!(
            text,
            "time: {} s of virtual time in {core_s:.1} s of processor time, {per_core_minute:.0} histories per \
             core-minute\n\
             hash of everything that happened: {}",
            self.counts.virtual_ms / 1000,
            self.hash
        );
        text
    }

    /// The verdict in one line.
    fn verdict(&self) -> String {
        let (all, failed) = (self.histories, self.failures.len());
        let twice = if self.twice { ", each run twice" } else { "" };
        match (failed, all) {
            (0, 1) => format!("the history holds{}", twice.replace("each ", "")),
            (0, _) => format!("all {all} histories hold{twice}"),
            _ => format!("{failed} of {all} histories FAILED{twice}"),
        }
    }
}

impl ReportCounts {
    /// What happened in the histories. None of it is a failure of the test.
    fn text(&self) -> String {
        let back = match self.brought_back + self.taken_back {
            0 => String::new(),
            _ => format!(
                "drives: {} were plugged in again while the array was served, {} were rebuilt by a write-intent bitmap\n",
                self.brought_back, self.taken_back
            ),
        };
        format!(
            "requests: {}, of which {} were answered with an error, which the failures in the array allowed\n\
             faults: {} injected; {} more drawn but left out, because the array need not have survived them at that \
             moment\n\
             starts of the array: {}, with {} write-hole logs replayed and {} resyncs that used a write-intent bitmap\n\
             {back}{}{}",
            self.requests,
            self.request_errors,
            self.faults,
            self.faults_skipped,
            self.lives,
            self.replays,
            self.resyncs_by_bitmap,
            self.vhost_user.text(),
            self.lies.text()
        )
    }
}

impl ReportFailure {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "seed {} ({}) {}", self.seed, self.mode, self.message);
        let _ = writeln!(text, "  again: {}", self.rerun);
        if !self.history.is_empty() {
            text.push_str("  the smallest history found that fails in the same way:\n");
        }
        for line in &self.history {
            let _ = writeln!(text, "    {line}");
        }
        if !self.log.is_empty() {
            text.push_str("  the end of its log:\n");
        }
        for line in &self.log {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
}

/// A history in words: the array, then what is done to it.
fn lines_of(history: &History) -> Vec<String> {
    let topology = format!("{:?}", history.topology);
    let actions = history.actions.iter().map(|action| {
        let (ms, ns) = (action.at_ns / 1_000_000, action.at_ns % 1_000_000);
        format!("{ms:>8}.{ns:06} ms  #{} {:?}", action.number, action.act)
    });
    std::iter::once(topology).chain(actions).collect()
}

/// The value of the option `--mode`.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Calm => "calm",
        Mode::Survivable => "survivable",
        Mode::Beyond => "beyond",
        Mode::Lying => "lying",
        Mode::Returning => "returning",
        Mode::Wide => "wide",
        Mode::WideBeyond => "wide-beyond",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::run::Failure;

    fn args() -> FaultsArgs {
        FaultsArgs {
            seeds: 7..9,
            level: Some(engine::layout::Level::Raid5),
            mode: None,
            jobs: None,
            twice: true,
            log_lines: 1,
            json: false,
        }
    }

    fn report(failures: Vec<FailedSeed>) -> FaultsReport {
        let args = args();
        let campaign = Campaign {
            seeds: args.seeds.clone(),
            level: Some(engine::layout::Level::Raid5),
            mode: None,
            jobs: 1,
            twice: true,
        };
        let summary = Summary {
            histories: 2,
            hash: 0xABC,
            counts: Counts::default(),
            failures,
        };
        FaultsReport::new(&args, &campaign, &summary)
    }

    #[test]
    fn what_holds_is_said_first_and_then_what_happened() {
        insta::assert_snapshot!(report(Vec::new()).text(0.06), @r"
        all 2 histories hold, each run twice
        requests: 0, of which 0 were answered with an error, which the failures in the array allowed
        faults: 0 injected; 0 more drawn but left out, because the array need not have survived them at that moment
        starts of the array: 0, with 0 write-hole logs replayed and 0 resyncs that used a write-intent bitmap
        time: 0 s of virtual time in 0.1 s of processor time, 4000 histories per core-minute
        hash of everything that happened: 0000000000000abc
        ");
    }

    #[test]
    fn a_failure_has_its_seed_its_history_its_log_and_its_command() {
        let mut history = Campaign {
            seeds: 8..9,
            level: None,
            mode: Some(Mode::Calm),
            jobs: 1,
            twice: false,
        }
        .history(8);
        history.actions.truncate(1);
        let log = vec!["before".to_owned(), "the end".to_owned()];
        let report = report(vec![FailedSeed {
            seed: 8,
            mode: Mode::Calm,
            failure: Failure::Stuck("it waits".to_owned()),
            shrunk: Some((history, log)),
        }]);
        assert!(!report.passed);
        let failure = &report.failures[0];
        assert_eq!(
            failure.rerun,
            "fullstripe sim faults --seeds 8 --level 5 --twice"
        );
        assert_eq!(
            (failure.history.len(), &failure.log[..]),
            (2, &["the end".to_owned()][..])
        );
        let text = report.text(1.0);
        assert!(
            text.starts_with(
                "1 of 2 histories FAILED, each run twice\nseed 8 (calm) stuck: it waits\n  again: fullstripe"
            ),
            "{text}"
        );
    }
}
