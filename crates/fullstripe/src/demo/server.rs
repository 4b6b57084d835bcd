//! The serving process of the story, and its status.

use super::programs::{Ended, Programs, Running};
use ::server::status::{JobStatus, Status, VolumeStatus};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// How long a command that only queries or orders something may take.
pub(super) const SHORTLY: Duration = Duration::from_secs(20);
/// How long a server may take until clients can connect.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How often the status is polled while waiting.
const LOOK: Duration = Duration::from_millis(50);

/// `fullstripe serve` in the background.
#[derive(Debug)]
pub(super) struct Server {
    programs: Programs,
    process: Running,
}

impl Server {
    /// Starts it and waits until clients can connect. It prints to `log`.
    ///
    /// # Errors
    /// It ends, or does not get ready in time.
    pub fn start(programs: &Programs, log: &str, line: &str) -> Result<Server> {
        let words: Vec<&str> = line.split(' ').collect();
        let process = programs.start(log, &words)?;
        let mut server = Server {
            programs: programs.clone(),
            process,
        };
        let deadline = Instant::now() + START_WITHIN;
        // The server prints the addresses last, when it is ready.
        while !server.process.printed().contains("nbd+unix://") {
            programs.guard.check()?;
            if let Some(status) = server.process.poll()? {
                bail!("`{line}` ended: {status}\n{}", server.process.printed());
            }
            if Instant::now() > deadline {
                bail!("`{line}` is not ready\n{}", server.process.printed());
            }
            std::thread::sleep(LOOK / 5);
        }
        Ok(server)
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What `fullstripe status` says.
    ///
    /// # Errors
    /// The command fails, or its answer cannot be understood.
    pub fn status(&self) -> Result<Status> {
        let words = ["fullstripe", "status", "--json"];
        let ended = self.programs.run("status", &words, SHORTLY)?;
        if !ended.status.success() {
            bail!("the array cannot be asked\n{}", ended.evidence());
        }
        serde_json::from_str(&ended.stdout)
            .with_context(|| format!("the status cannot be understood\n{}", ended.evidence()))
    }

    /// Polls the status until `find` returns a value.
    ///
    /// # Errors
    /// As [`Server::status`] and `find`; or `find` returns nothing in time.
    pub fn wait_for<T>(
        &self,
        what: &str,
        within: Duration,
        mut find: impl FnMut(&Status) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + within;
        loop {
            let status = self.status()?;
            if let Some(found) = find(&status)? {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let text = serde_json::to_string_pretty(&status)?;
                bail!("waited {} s in vain for {what}\n{text}", within.as_secs());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills the server, as a crash would.
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(mut self) -> Result<Ended> {
        self.process.signal(Signal::KILL);
        self.process.finish(SHORTLY, || Ok(()))
    }

    /// Waits for the server's end after `stop`.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn ended(self) -> Result<Ended> {
        self.process.finish(2 * START_WITHIN, || Ok(()))
    }
}

/// The only volume.
///
/// # Errors
/// There is none.
pub(super) fn volume(status: &Status) -> Result<&VolumeStatus> {
    status.volumes.first().context("the status names no volume")
}

/// The rates of work since an earlier status.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    looked: Instant,
    requests: u64,
    bytes: u64,
    /// Smoothed rates: requests and bytes per second.
    rates: Option<(f64, f64)>,
}

impl Meter {
    /// Starts to count.
    pub fn new() -> Meter {
        Meter {
            looked: Instant::now(),
            requests: 0,
            bytes: 0,
            rates: None,
        }
    }

    /// The smoothed rates up to this status, in words.
    pub fn words(&mut self, status: &Status) -> String {
        let (requests, bytes) = (
            count(status, &["reads", "writes"]),
            count(status, &["read_bytes", "write_bytes"]),
        );
        let seconds = self.looked.elapsed().as_secs_f64().max(1e-3);
        let fresh = (
            requests.saturating_sub(self.requests) as f64 / seconds,
            bytes.saturating_sub(self.bytes) as f64 / seconds,
        );
        let first = self.requests == 0;
        (self.looked, self.requests, self.bytes) = (Instant::now(), requests, bytes);
        if first {
            return String::new();
        }
        let (old, weight) = self.rates.map_or((fresh, 1.0), |rates| (rates, 0.2));
        let mix = |old: f64, fresh: f64| old + (fresh - old) * weight;
        let (iops, bytes_per_s) = (mix(old.0, fresh.0), mix(old.1, fresh.1));
        self.rates = Some((iops, bytes_per_s));
        rates(iops, bytes_per_s)
    }
}

/// Requests and bytes per second in words.
pub(super) fn rates(iops: f64, bytes_per_s: f64) -> String {
    let iops = super::screen::grouped(iops.round() as u64);
    format!("{iops} IOPS, {:.0} MB/s", bytes_per_s / 1e6)
}

/// The sum of some of the work counters.
pub(super) fn count(status: &Status, names: &[&str]) -> u64 {
    names
        .iter()
        .filter_map(|&name| status.counters.get(name))
        .sum()
}

/// A job in words, with a bar.
pub(super) fn progress(job: &JobStatus) -> String {
    const WIDTH: usize = 30;
    let share = job.done_bytes as f64 / job.total_bytes.max(1) as f64;
    let bar = super::screen::bar(share, WIDTH);
    let left = job
        .remaining_s
        .map_or(String::new(), |left| format!(", {left} s left"));
    format!(
        "{} {bar:░<WIDTH$} {:3.0} %  {:.0} MB/s{left}",
        job.kind,
        share * 100.0,
        job.rate_bytes_per_s as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(requests: u64) -> Status {
        Status {
            counters: [("writes", requests), ("write_bytes", requests * 4096)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..Status::default()
        }
    }

    #[test]
    fn rates_begin_with_the_second_look() {
        let mut meter = Meter::new();
        assert_eq!(meter.words(&status(100)), "");
        std::thread::sleep(Duration::from_millis(20));
        let words = meter.words(&status(200));
        assert!(words.contains(" IOPS, "), "{words}");
        let iops = meter.rates.unwrap().0;
        assert!(iops > 0.0 && iops <= 100.0 / 0.020, "{iops}");
        assert_eq!(rates(12_345.4, 5e7), "12 345 IOPS, 50 MB/s");
    }

    #[test]
    fn jobs_in_words() {
        let job = JobStatus {
            kind: "rebuild".to_owned(),
            slot: Some(1),
            member: Some(4),
            running: true,
            paused: false,
            done_bytes: 50,
            total_bytes: 100,
            rate_bytes_per_s: 128_000_000,
            remaining_s: Some(2),
            mismatches: 0,
            failures: 0,
        };
        let half = "█".repeat(15) + &"░".repeat(15);
        assert_eq!(
            progress(&job),
            format!("rebuild {half}  50 %  128 MB/s, 2 s left")
        );
        assert!(volume(&Status::default()).is_err());
    }
}
