//! The serving process is killed while it writes, and served again; then the array is stopped.

use super::super::fio::{self, FioReport, Job, WRITERS};
use super::super::screen::grouped;
use super::super::server::{Meter, SHORTLY, Server, count};
use super::{FIO_WITHIN, MOVE, Story, mib};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::time::Instant;

/// Members after the spare has taken d1's place.
const MEMBERS: &str = "d0 d2 d3 d4";

/// The server is killed when the writer has written one part in this many of its region.
const CRASH_AFTER: u64 = 4;

impl Story<'_> {
    pub(super) fn crash(&mut self) -> Result<()> {
        self.step("The server is killed in the middle of writing");
        self.show(
            &format!("{} &", Job::Crash.line()),
            "eight clients; each notes which of its writes were acknowledged",
        );
        let written = self.write_until_killed()?.write;
        self.screen.result(
            &format!(
                "dead with up to {WRITERS} writes under way; {} are acknowledged",
                grouped(written.total_ios)
            ),
            self.begun.elapsed(),
        );
        let rate = self.sizes.rate_bytes_per_s >> 20;
        let line = format!("fullstripe serve {MEMBERS} --nbd unix:nbd.sock --rate {rate}m");
        self.show(&format!("{line} &"), "without d1");
        self.server = Some(Server::start(&self.programs, "serve-2", &line)?);
        self.result("vol0 is served again");
        self.show(&Job::CrashCheck.line(), "the acknowledged writes");
        let read = self.run_fio(Job::CrashCheck, written.io_bytes)?.read;
        // In bytes: fio counts the last read of each writer's region only there.
        let (acknowledged, compared) = (written.io_bytes, read.io_bytes);
        self.claim(
            "every acknowledged write is there",
            compared == acknowledged,
            || format!("{compared} bytes were compared, {acknowledged} had been acknowledged"),
        )?;
        self.result(&format!(
            "{} writes, {}, read back and compared: none is lost",
            grouped(written.total_ios),
            mib(compared)
        ));
        let line = "fullstripe rebuild vol0 --wait";
        self.show(line, "until parity is valid again");
        let words: Vec<&str> = line.split(' ').collect();
        let waiting = self.programs.start("rebuild", &words)?;
        let total = self.wait_until_optimal("resync")?;
        let ended = waiting.finish(SHORTLY, || Ok(()))?;
        self.claim("the wait ends well", ended.status.success(), || {
            ended.evidence()
        })?;
        let how = if total > 0 {
            "resynced"
        } else {
            "repaired from the log"
        };
        self.result(&format!("{how}; the volume is optimal"));
        self.check_fill("")
    }

    /// Kills the server when a part of the region is written, and returns what its clients report.
    fn write_until_killed(&mut self) -> Result<FioReport> {
        let server = self.server.take().context("the array is not served")?;
        let counted =
            |server: &Server| -> Result<u64> { Ok(count(&server.status()?, &["write_bytes"])) };
        let (before, enough) = (
            counted(&server)?,
            self.sizes.crash.length_bytes / CRASH_AFTER,
        );
        let mut writer = self.start_fio(Job::Crash)?;
        let (mut meter, begun) = (Meter::new(), Instant::now());
        while counted(&server)? - before < enough {
            if writer.poll()?.is_some() || begun.elapsed() > FIO_WITHIN {
                bail!(
                    "the writer did not get as far as the crash\n{}",
                    writer.printed()
                );
            }
            let words = meter.words(&server.status()?);
            self.screen.progress(&format!("writing {words}"));
            std::thread::sleep(MOVE / 10);
        }
        let number = server.id();
        self.show(&format!("kill -9 {number}"), "the server");
        server.kill()?;
        let ended = writer.finish(SHORTLY, || Ok(()))?;
        let report = fio::report(&self.programs, Job::Crash, &ended)?;
        self.claim(
            "the server died in the middle of writing",
            report.error != 0,
            || ended.evidence(),
        )?;
        Ok(report)
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.step("Put away");
        self.show("fullstripe stop --wait", "");
        self.run("stop", "fullstripe stop --wait")?;
        let server = self.server.take().context("the array is not served")?;
        let ended = server.ended()?;
        self.claim("the server ends in order", ended.status.success(), || {
            ended.evidence()
        })?;
        self.result("flushed, marked clean, and the drives are free");
        let line = format!("fullstripe examine {MEMBERS}");
        self.show(&line, "");
        let ended = self.run("examine-2", &format!("{line} --json"))?;
        let examined: Value = serde_json::from_str(&ended.stdout)
            .with_context(|| format!("the answer is no JSON\n{}", ended.evidence()))?;
        let drives = examined["drives"].as_array().map_or(&[][..], Vec::as_slice);
        let clean = |drive: &Value| drive["record"]["volumes"][0]["dirty"] == false;
        let all = drives.len() == 4 && drives.iter().all(clean);
        self.claim("every member says that the volume is clean", all, || {
            ended.evidence()
        })?;
        let generation = &drives[0]["record"]["generation"];
        let same = drives
            .iter()
            .all(|drive| drive["record"]["generation"] == *generation);
        self.claim("every member is of the same generation", same, || {
            ended.evidence()
        })?;
        self.result(&format!(
            "clean on all four members, generation {generation}"
        ));
        Ok(())
    }
}
