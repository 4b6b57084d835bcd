//! Faults that a drive reports, as errors or delays: the second of its two plug-ins. How long commands normally
//! take is in [`super::timing`]; faults that a drive does not report are in [`super::lies`].
//!
//! A drive without faults is [`Faults::default`].

use engine::plan::StepKind;
use std::collections::BTreeSet;

/// The kind of command that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Reads.
    Reads,
    /// Writes of any kind.
    Writes,
    /// Flushes.
    Flushes,
    /// Writes without FUA.
    Plain,
    /// Writes with FUA: the record, logs and bitmaps among them.
    Durable,
    /// Zeroes.
    Zeroes,
    /// Discards.
    Discards,
}

impl Target {
    fn matches(self, kind: StepKind) -> bool {
        let own = match kind {
            StepKind::Read => Target::Reads,
            StepKind::Flush => Target::Flushes,
            StepKind::Write { fua: false } => Target::Plain,
            StepKind::Write { fua: true } => Target::Durable,
            StepKind::Zero { .. } => Target::Zeroes,
            StepKind::Discard => Target::Discards,
            _ => Target::Writes,
        };
        let writes = !matches!(own, Target::Reads | Target::Flushes);
        self == own || (self == Target::Writes && writes)
    }
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    target: Target,
    errno: i32,
    left: u32,
}

/// ENODEV: the drive is not there.
pub const GONE: i32 = 19;
/// EAGAIN: the drive was busy, and has done nothing.
pub const AGAIN: i32 = 11;
/// EIO: the drive cannot read or write this place.
pub const MEDIA: i32 = 5;

/// The longest time of a command on a drive that is not slow, including its wait for others.
pub const SLOWED_MAX_NS: u64 = 30_000_000;

/// The faults of one drive.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    armed: Vec<Armed>,
    /// First bytes of sectors that cannot be read until they are written.
    bad: BTreeSet<u64>,
    /// The drive answers no command before this time.
    hung_until_ns: u64,
    /// Commands take longer by this factor until this time: factor, end.
    slow: (u64, u64),
    /// The drive is out of the machine: every command fails.
    pub gone: bool,
    /// The errno of commands while the drive is gone, if not [`GONE`].
    pub gone_errno: Option<i32>,
    /// Failed commands lose as much as they can: zeroes and discards are done in part, and any errno of a flush
    /// or of a write with FUA stands for a lost write-back.
    pub is_strict: bool,
    /// Some of the unreadable sectors hold metadata.
    pub has_bad_metadata: bool,
    /// The drive refuses to discard, although it reported that it can.
    pub refuses_discards: bool,
    /// A failed flush drops the writes that it was to make durable.
    pub drops: bool,
    /// A flush has failed: the writes that it was to make durable are lost at the next flush.
    pub flush_failed: bool,
}

impl Faults {
    /// Makes the next `count` commands of a kind fail. Failed writes may be carried out in part.
    pub fn arm(&mut self, target: Target, errno: i32, count: u32) {
        self.armed.push(Armed {
            target,
            errno,
            left: count,
        });
    }

    /// Makes sectors unreadable until they are written.
    pub fn spoil(&mut self, offset_bytes: u64, length_bytes: u64) {
        let sectors = (offset_bytes..offset_bytes + length_bytes).step_by(512);
        self.bad.extend(sectors);
    }

    /// Makes the drive answer nothing until `until_ns`.
    pub fn hang(&mut self, until_ns: u64) {
        self.hung_until_ns = until_ns;
    }

    /// Makes commands take `factor` times as long until `until_ns`.
    pub fn slow_down(&mut self, factor: u64, until_ns: u64) {
        self.slow = (factor, until_ns);
    }

    /// Whether some sector cannot be read.
    #[must_use]
    pub fn has_bad_sectors(&self) -> bool {
        !self.bad.is_empty()
    }

    /// Puts the drive back into the machine.
    pub fn come_back(&mut self) {
        self.gone = false;
        self.gone_errno = None;
    }

    /// Whether a fault still waits for its command.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    /// The end of the hang, if the drive hangs now.
    #[must_use]
    pub fn hung_until_ns(&self, now_ns: u64) -> Option<u64> {
        (self.hung_until_ns > now_ns && !self.gone).then_some(self.hung_until_ns)
    }

    /// A time by which all commands received so far have been answered, even if the drive hangs or is slow.
    #[must_use]
    pub fn answers_by_ns(&self) -> u64 {
        let (factor, until_ns) = self.slow;
        self.hung_until_ns
            .max(until_ns + factor * SLOWED_MAX_NS * u64::from(until_ns > 0))
    }

    /// The end of a command that would end at `finish_ns` if the drive were not slow.
    #[must_use]
    pub fn delayed_ns(&self, now_ns: u64, finish_ns: u64) -> u64 {
        let (factor, until_ns) = self.slow;
        if now_ns < until_ns {
            now_ns + (finish_ns - now_ns) * factor
        } else {
            finish_ns
        }
    }

    /// Removes all armed faults.
    pub fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Ends armed faults, hangs and slowness. Unreadable sectors stay unreadable, and a drive that is gone stays
    /// gone.
    pub fn calm(&mut self) {
        self.armed.clear();
        self.hung_until_ns = 0;
        self.slow = (1, 0);
    }

    /// Decides whether a command fails, at the moment when it would be carried out.
    ///
    /// # Errors
    /// The errno with which it fails.
    pub fn verdict(
        &mut self,
        kind: StepKind,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), i32> {
        if self.gone {
            return Err(self.gone_errno.unwrap_or(GONE));
        }
        let waits = |armed: &&mut Armed| armed.target.matches(kind);
        if let Some(armed) = self.armed.iter_mut().find(waits) {
            armed.left -= 1;
            let errno = armed.errno;
            self.armed.retain(|armed| armed.left > 0);
            return Err(errno);
        }
        let range = offset_bytes..offset_bytes + length_bytes;
        match kind {
            StepKind::Read if self.bad.range(range.clone()).next().is_some() => {
                return Err(MEDIA);
            }
            StepKind::Write { .. } | StepKind::Zero { .. } | StepKind::Discard
                if !self.bad.is_empty() =>
            {
                self.bad.retain(|sector| !range.contains(sector));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: StepKind = StepKind::Write { fua: false };
    const EIO: Result<(), i32> = Err(MEDIA);

    #[test]
    fn a_bad_sector_is_healed_by_writing_it() {
        let mut faults = Faults::default();
        faults.spoil(1024, 1024);
        assert_eq!(faults.verdict(StepKind::Read, 0, 1024), Ok(()));
        assert_eq!(faults.verdict(StepKind::Read, 0, 1536), EIO);
        assert_eq!(faults.verdict(WRITE, 1024, 512), Ok(()));
        assert_eq!(faults.verdict(StepKind::Read, 1024, 512), Ok(()));
        assert_eq!(faults.verdict(StepKind::Read, 1024, 1024), EIO);
        assert!(faults.has_bad_sectors());
    }

    #[test]
    fn an_armed_fault_waits_for_its_kind_and_is_used_up() {
        let mut faults = Faults::default();
        faults.arm(Target::Writes, MEDIA, 2);
        assert_eq!(faults.verdict(StepKind::Flush, 0, 0), Ok(()));
        assert_eq!(faults.verdict(WRITE, 0, 512), EIO);
        assert_eq!(faults.verdict(StepKind::Discard, 0, 512), EIO);
        assert_eq!(faults.verdict(WRITE, 0, 512), Ok(()));
        assert!(!faults.is_armed());
    }

    #[test]
    fn a_slow_drive_takes_longer_for_a_while() {
        let mut faults = Faults::default();
        faults.slow_down(10, 1000);
        assert_eq!(faults.delayed_ns(500, 600), 1500);
        assert_eq!(faults.delayed_ns(1000, 1100), 1100);
    }
}
