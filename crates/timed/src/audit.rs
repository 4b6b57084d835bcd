//! Checks the laws that hold in every run, whatever is modelled: see [`super`].

use anyhow::{Result, ensure};
use engine::plan::StepKind;
use engine::stats::Stats;

/// Counts what clients and drives see, independently of the stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    outstanding: u64,
    last_ns: u64,
    /// The integral of `outstanding` over time.
    area_ns: u128,
    latencies_ns: u128,
    issued: u64,
    answered: u64,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    /// Commands of drives, not counting the stack's metadata.
    pub commands: u64,
}

impl Audit {
    fn pass_to(&mut self, now_ns: u64) {
        self.area_ns += u128::from(self.outstanding) * u128::from(now_ns - self.last_ns);
        self.last_ns = now_ns;
    }

    /// Counts a request that a client has issued.
    pub fn issue(&mut self, now_ns: u64) {
        self.pass_to(now_ns);
        self.outstanding += 1;
        self.issued += 1;
    }

    /// Counts an answer to a client.
    pub fn answer(&mut self, issued_ns: u64, now_ns: u64) {
        self.pass_to(now_ns);
        self.outstanding -= 1;
        self.answered += 1;
        self.latencies_ns += u128::from(now_ns - issued_ns);
    }

    /// Counts a command from the stack to a drive.
    #[inline]
    pub fn command(&mut self, kind: StepKind, length_bytes: u64) {
        self.commands += 1;
        match kind {
            StepKind::Read => {
                self.reads += 1;
                self.read_bytes += length_bytes;
            }
            StepKind::Flush => {}
            _ => {
                self.writes += 1;
                self.write_bytes += length_bytes;
            }
        }
    }

    /// Checks a run in which nothing is in flight any more.
    ///
    /// # Errors
    ///
    /// The law that does not hold, with the values of both sides.
    pub fn judge(&self, stack: &Stats) -> Result<()> {
        ensure!(
            self.outstanding == 0 && self.issued == self.answered,
            "{} requests were issued and {} answered",
            self.issued,
            self.answered
        );
        ensure!(
            self.area_ns == self.latencies_ns,
            "Little's law: the requests outstanding add up to {} ns and the latencies to {} ns",
            self.area_ns,
            self.latencies_ns
        );
        let accepted = stack.reads + stack.writes + stack.flushes + stack.trims;
        ensure!(
            accepted == self.issued && stack.request_errors == 0,
            "the stack took {accepted} of {} requests, and answered {} with errors",
            self.issued,
            stack.request_errors
        );
        // A stack counts writes to logs separately.
        let writes = stack.member_writes + stack.log_units;
        let write_bytes = stack.member_write_bytes + stack.log_bytes;
        let sides = [
            ("reads", self.reads, stack.member_reads),
            ("bytes read", self.read_bytes, stack.member_read_bytes),
            ("writes", self.writes, writes),
            ("bytes written", self.write_bytes, write_bytes),
        ];
        for (what, drives, counted) in sides {
            ensure!(
                drives == counted,
                "drives saw {drives} {what} and the stack counted {counted}"
            );
        }
        Ok(())
    }
}
