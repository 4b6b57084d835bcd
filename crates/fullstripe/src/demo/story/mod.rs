//! The story: an array is created, used, damaged, repaired, checked, crashed and stopped, with the commands that a user
//! would type.
//!
//! In order: [`making`] an array that mdadm can read and fio can use; [`failing`], where a drive dies and a
//! spare takes its place, both under load; [`crashing`], where the serving process itself is killed and nothing
//! acknowledged is lost. Last, [`planning`] predicts the performance of other drives on other platforms.

mod crashing;
mod failing;
mod making;
mod planning;

use super::checks::Checks;
use super::fio::{self, FioReport, Job, Region};
use super::place::Place;
use super::programs::{Ended, Programs, Running};
use super::screen::Screen;
use super::server::{Meter, SHORTLY, Server};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// How long one fio job may take; the demonstration as a whole should take less.
const FIO_WITHIN: Duration = Duration::from_secs(120);
/// How often the progress line is updated.
const MOVE: Duration = Duration::from_millis(200);

/// Sizes and rates of the story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Size of each drive.
    pub member_bytes: u64,
    /// Limit of background work on each drive per second, so that its progress can be seen.
    pub rate_bytes_per_s: u64,
    /// The region that is filled once and checked repeatedly.
    pub fill: Region,
    /// The region that is written during the rebuild onto the spare.
    pub load: Region,
    /// The region that is written when the server dies.
    pub crash: Region,
    /// How long load runs before a fault, and how long it must continue afterwards.
    pub calm: Duration,
}

impl Sizes {
    /// The sizes of the whole demonstration or the quick one.
    pub fn new(quick: bool) -> Sizes {
        let mib = |offset: u64, length: u64| Region {
            offset_bytes: offset << 20,
            length_bytes: length << 20,
        };
        if quick {
            return Sizes {
                member_bytes: 128 << 20,
                rate_bytes_per_s: 128 << 20,
                fill: mib(0, 32),
                load: mib(64, 32),
                crash: mib(128, 192),
                calm: Duration::from_millis(500),
            };
        }
        Sizes {
            member_bytes: 512 << 20,
            rate_bytes_per_s: 128 << 20,
            fill: mib(0, 160),
            load: mib(256, 64),
            crash: mib(512, 768),
            calm: Duration::from_millis(1500),
        }
    }

    /// Space on disk, if every file were full.
    pub fn needed_bytes(&self) -> u64 {
        5 * self.member_bytes
    }
}

/// The array, and what runs and prints the steps.
pub(super) struct Story<'a> {
    screen: &'a mut Screen,
    checks: &'a mut Checks,
    programs: Programs,
    sizes: Sizes,
    server: Option<Server>,
    number: usize,
    begun: Instant,
}

impl<'a> Story<'a> {
    /// The story of an array in `place`.
    ///
    /// # Errors
    /// The place cannot be used.
    pub fn new(
        screen: &'a mut Screen,
        checks: &'a mut Checks,
        programs: &Programs,
        sizes: Sizes,
    ) -> Story<'a> {
        Story {
            screen,
            checks,
            programs: programs.clone(),
            sizes,
            server: None,
            number: 0,
            begun: Instant::now(),
        }
    }

    /// Runs all steps, and returns the number of the last one.
    ///
    /// # Errors
    /// A claim did not hold, a step could not be carried out, or a signal came.
    pub fn tell(mut self, place: &Place) -> Result<usize> {
        self.make_drives(place)?;
        self.create()?;
        self.let_mdadm_read()?;
        self.serve()?;
        self.fill()?;
        self.lose_a_drive()?;
        self.rebuild()?;
        self.check_everything()?;
        self.crash()?;
        self.stop()?;
        self.plan()?;
        Ok(self.number)
    }

    /// Begins a step.
    fn step(&mut self, title: &str) {
        self.number += 1;
        self.screen.step(self.number, title);
        self.checks.step(title);
        self.begun = Instant::now();
    }

    /// Shows a command line that is about to be carried out.
    fn show(&mut self, line: &str, remark: &str) {
        self.screen.command(line, remark);
        self.begun = Instant::now();
    }

    /// Shows the result of the command that was shown last.
    fn result(&mut self, text: &str) {
        self.screen.result(text, self.begun.elapsed());
    }

    fn claim(&mut self, claim: &str, held: bool, evidence: impl FnOnce() -> String) -> Result<()> {
        self.checks.that(claim, held, evidence)
    }

    /// Runs a command line that must succeed.
    fn run(&mut self, name: &str, line: &str) -> Result<Ended> {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = self.programs.run(name, &words, SHORTLY)?;
        let claim = format!("`{line}` succeeds");
        self.claim(&claim, ended.status.success(), || ended.evidence())?;
        Ok(ended)
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("the array is not served")
    }

    fn start_fio(&self, job: Job) -> Result<Running> {
        let words = job.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.programs.start(job.name(), &words)
    }

    /// Runs a job to its end and shows its progress. `total_bytes` is the number of bytes that it will read and write.
    fn run_fio(&mut self, job: Job, total_bytes: u64) -> Result<FioReport> {
        let running = self.start_fio(job)?;
        let server = self.server.as_ref().context("the array is not served")?;
        let (screen, checks) = (&mut *self.screen, &mut *self.checks);
        let start = super::server::count(&server.status()?, &["read_bytes", "write_bytes"]);
        let (mut meter, mut moved) = (Meter::new(), Instant::now());
        let ended = running.finish(FIO_WITHIN, || {
            if moved.elapsed() > MOVE {
                let status = server.status()?;
                let done = super::server::count(&status, &["read_bytes", "write_bytes"]) - start;
                screen.progress(&format!(
                    "fio {:<30} {:3.0} %  {}",
                    gauge(done, total_bytes),
                    100.0 * (done as f64 / total_bytes.max(1) as f64).min(1.0),
                    meter.words(&status)
                ));
                moved = Instant::now();
            }
            Ok(())
        })?;
        let report = fio::report(&self.programs, job, &ended)?;
        let claim = format!("fio finds no wrong or missing byte ({})", job.name());
        checks.that(&claim, fio::is_fine(&ended, &report), || ended.evidence())?;
        Ok(report)
    }
}

fn gauge(done: u64, total: u64) -> String {
    let bar = super::screen::bar(done as f64 / total.max(1) as f64, 30);
    format!("{bar:░<30}")
}

/// Bytes in whole MiB.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
