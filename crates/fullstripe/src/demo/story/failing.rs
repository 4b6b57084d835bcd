//! A drive dies under load; a spare takes its place; everything is checked.

use super::super::fio::{self, Job};
use super::super::programs::Running;
use super::super::screen::grouped;
use super::super::server::{Meter, SHORTLY, count, progress, rates, volume};
use super::{MOVE, Story, mib};
use ::server::status::Status;
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::time::{Duration, Instant};

/// How long an array may take to notice that a drive in use is dead.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);
/// How long a rebuild or scrub may take.
pub(super) const JOB_WITHIN: Duration = Duration::from_secs(60);
/// The drive that dies.
const VICTIM: &str = "d1";

impl Story<'_> {
    pub(super) fn lose_a_drive(&mut self) -> Result<()> {
        self.step("A drive dies under load");
        let line = format!("while {}; do :; done", Job::FillCheck.line());
        self.show(&format!("{line} &"), "reads and compares, again and again");
        let looped = format!("while {}; do :; done", Job::FillCheck.words().join(" "));
        let mut readers = self.programs.start("readers", &["sh", "-c", &looped])?;
        self.watch_load(&mut readers, self.sizes.calm)?;
        self.wait_until_clean(&mut readers)?;
        self.show(&format!("truncate -s 0 {VICTIM}"), "what it held is gone");
        let died = Instant::now();
        OpenOptions::new()
            .write(true)
            .open(self.programs.folder.join(VICTIM))
            .and_then(|file| file.set_len(0))
            .with_context(|| format!("cannot truncate {VICTIM}"))?;
        self.server()?
            .wait_for("the volume to be degraded", NOTICED_WITHIN, |status| {
                Ok((volume(status)?.state == "degraded").then_some(()))
            })?;
        let noticed = died.elapsed();
        let status = self.server()?.status()?;
        let failed: Vec<&str> = status
            .members
            .iter()
            .filter(|member| member.state == "failed")
            .map(|member| member.name.as_str())
            .collect();
        let right = failed.len() == 1 && failed[0].ends_with(VICTIM);
        self.claim("just that drive is failed", right, || {
            format!("{:?}", status.members)
        })?;
        let before = count(&status, &["reads"]);
        self.watch_load(&mut readers, self.sizes.calm)?;
        let status = self.server()?.status()?;
        let served = count(&status, &["reads"]) - before;
        self.claim("the array goes on", served > 0, || {
            format!("{:?}", status.counters)
        })?;
        let errors = count(&status, &["request_errors"]);
        self.claim("no request got an error", errors == 0, || {
            format!("{errors} requests were answered with an error")
        })?;
        let reading = readers.poll()?.is_none();
        self.claim("fio saw neither an error nor a wrong byte", reading, || {
            readers.printed()
        })?;
        self.result(&format!(
            "degraded within {:.1} s; no read failed or was wrong, {} since then",
            noticed.as_secs_f64(),
            grouped(served)
        ));
        Ok(())
    }

    /// Waits until all writes have ended, including the one that marks the volume clean. A later write would extend the
    /// truncated file to its old length with zeros, which are read without an error. No real drive fails like that, and
    /// no RAID could notice it.
    fn wait_until_clean(&mut self, readers: &mut Running) -> Result<()> {
        self.watch_until(readers, |status, elapsed| {
            if elapsed > NOTICED_WITHIN {
                bail!("the volume is not marked clean although nobody writes");
            }
            Ok(!volume(status)?.dirty)
        })
    }

    pub(super) fn rebuild(&mut self) -> Result<()> {
        self.step("Writing goes on, and a spare takes its place");
        self.show(
            &format!("{} &", Job::Load.line()),
            "writes and reads back at once, again and again",
        );
        let mut load = self.start_fio(Job::Load)?;
        self.watch_load(&mut load, self.sizes.calm)?;
        self.show("fullstripe add-spare d4", "");
        self.run("add-spare", "fullstripe add-spare d4")?;
        let total = self.wait_until_optimal("rebuild")?;
        self.claim("a rebuild ran", total > 0, || {
            "the volume was optimal without one".to_owned()
        })?;
        let took = self.begun.elapsed();
        let running = load.poll()?.is_none();
        self.claim("the load ran all the time", running, || load.printed())?;
        load.signal(Signal::INT);
        let ended = load.finish(SHORTLY, || Ok(()))?;
        let report = fio::report(&self.programs, Job::Load, &ended)?;
        let fine = fio::is_fine(&ended, &report) && report.read.total_ios > 0;
        self.claim("fio saw neither an error nor a wrong byte", fine, || {
            ended.evidence()
        })?;
        self.screen.result(
            &format!(
                "rebuilt onto d4: {} of parity and data, volume optimal",
                mib(total)
            ),
            took,
        );
        self.screen.result(
            &format!(
                "fio meanwhile: {}; {} reads compared, all right",
                rates(report.write.iops, report.write.bytes_per_s),
                grouped(report.read.total_ios)
            ),
            self.begun.elapsed(),
        );
        Ok(())
    }

    pub(super) fn check_everything(&mut self) -> Result<()> {
        self.step("Is everything still there?");
        self.check_fill("")?;
        self.show(
            "fullstripe scrub vol0 --wait",
            "compares all data with parity",
        );
        let mut scrub = self
            .programs
            .start("scrub", &["fullstripe", "scrub", "vol0", "--wait"])?;
        let (mut moved, mut total) = (Instant::now(), 0);
        while scrub.poll()?.is_none() {
            if self.begun.elapsed() > JOB_WITHIN {
                bail!("the scrub does not end\n{}", scrub.printed());
            }
            if moved.elapsed() > MOVE {
                let status = self.server()?.status()?;
                if let Some(job) = &volume(&status)?.job {
                    total = job.total_bytes;
                    self.screen.progress(&progress(job));
                }
                moved = Instant::now();
            }
            std::thread::sleep(MOVE / 10);
        }
        let ended = scrub.finish(SHORTLY, || Ok(()))?;
        let status = self.server()?.status()?;
        let mismatches = count(&status, &["mismatches"]);
        let clean = ended.status.success() && mismatches == 0;
        self.claim("data and parity match everywhere", clean, || {
            format!("{mismatches} mismatches\n{}", ended.evidence())
        })?;
        self.result(&format!(
            "{} of each drive compared: no mismatch",
            mib(total)
        ));
        Ok(())
    }

    /// Reads back what `fill` wrote.
    pub(super) fn check_fill(&mut self, remark: &str) -> Result<()> {
        self.show(&Job::FillCheck.line(), remark);
        let length = self.sizes.fill.length_bytes;
        let report = self.run_fio(Job::FillCheck, length)?;
        let whole = report.read.io_bytes == length;
        self.claim("everything written before is read back", whole, || {
            format!("{report:?}")
        })?;
        self.result(&format!("all {} of the first data are right", mib(length)));
        Ok(())
    }

    /// Shows the load for a while.
    fn watch_load(&mut self, load: &mut Running, time: Duration) -> Result<()> {
        self.watch_until(load, |_, elapsed| Ok(elapsed >= time))
    }

    /// Shows the load until `is_done`, which gets the status and how long it has been.
    fn watch_until(
        &mut self,
        load: &mut Running,
        mut is_done: impl FnMut(&Status, Duration) -> Result<bool>,
    ) -> Result<()> {
        let (mut meter, begun) = (Meter::new(), Instant::now());
        loop {
            if load.poll()?.is_some() {
                bail!("the load has ended\n{}", load.printed());
            }
            let status = self.server()?.status()?;
            if is_done(&status, begun.elapsed())? {
                return Ok(());
            }
            let (words, vol0) = (meter.words(&status), volume(&status)?);
            let mark = if vol0.dirty { "dirty" } else { "clean" };
            self.screen.progress(&format!(
                "load {words}; the volume is {}, {mark}",
                vol0.state
            ));
            std::thread::sleep(MOVE);
        }
    }

    /// Shows background work until there is none and the volume is optimal. Returns how many bytes of each
    /// member the work of `kind` went through, 0 if there was none.
    pub(super) fn wait_until_optimal(&mut self, kind: &str) -> Result<u64> {
        let (mut meter, mut total, mut moved) = (Meter::new(), 0, None::<Instant>);
        let server = self.server.as_ref().context("the array is not served")?;
        let screen = &mut *self.screen;
        server.wait_for("the volume to be optimal", JOB_WITHIN, |status| {
            let vol0 = volume(status)?;
            if let Some(job) = vol0.job.as_ref().filter(|job| job.kind == kind) {
                total = total.max(job.total_bytes);
                if moved.is_none_or(|moved| moved.elapsed() > MOVE) {
                    let rates = meter.words(status);
                    screen.progress(&format!("{}   {rates}", progress(job)));
                    moved = Some(Instant::now());
                }
            }
            Ok((vol0.state == "optimal" && vol0.job.is_none()).then_some(()))
        })?;
        Ok(total)
    }
}
