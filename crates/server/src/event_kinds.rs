//! Every kind of event, how grave it is, and what to do next: one list, for alerts and for whoever adds a kind.
//!
//! The sentence of an event says what has happened this time; this list says what holds whenever it happens. Nothing can be
//! reported that is not in it, because a report is made from a [`Kind`].

use crate::events::Told;
use alerts::Severity;

/// What has happened, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A drive is failed.
    MemberFailed,
    /// A drive's write cache loses its content with power from now on.
    CacheTurnedVolatile,
    /// A drive cannot discard.
    DiscardRefused,
    /// The other drives know of a failure.
    FailureRecorded,
    /// A drive has not answered in time.
    MemberOverdue,
    /// A block was reconstructed and written back.
    ReadRepaired,
    /// Blocks are lost.
    BadBlocksRecorded,
    /// Blocks that were lost have been written.
    BadBlocksCleared,
    /// No more lost blocks can be recorded.
    BadBlockLogFull,
    /// The array is stopped.
    Stopped,
    /// A volume has lost too many drives.
    VolumeFailed,
    /// A volume refuses writes.
    WritesStopped,
    /// The metadata cannot record a change.
    NotRecorded,
    /// A spare takes a slot.
    SpareActivated,
    /// Background work has begun.
    JobStarted,
    /// Background work has ended.
    JobEnded,
    /// Redundancy and data differ.
    Mismatch,
    /// A block can be neither read nor reconstructed.
    Unrecoverable,
    /// A volume's dirty mark has changed.
    DirtyMark,
    /// A volume is stopped.
    VolumeStopped,
    /// A note on the start.
    StartNote,
    /// A spare is not taken.
    SpareRefused,
    /// A spare that the array had when it was served last has not come.
    SpareMissing,
    /// A drive that has appeared was taken.
    DriveTaken,
    /// A drive of the array has appeared and is not taken.
    DriveNotTaken,
    /// An empty drive has appeared where a drive of the array was, and waits for an order.
    EmptyDriveAppeared,
    /// A drive does not answer when asked.
    MemberSilent,
    /// A drive answers again.
    MemberAnswers,
    /// The file of a drive has been deleted.
    MemberDeleted,
    /// A drive reports that it is about to fail.
    DriveFailing,
    /// A drive that reports that it is about to fail is being copied.
    FailingDriveCopied,
    /// A drive that reports that it is about to fail cannot be copied to a spare.
    FailingDriveNotCopied,
    /// A drive reports a temperature that it warns of.
    DriveHot,
    /// A drive reports a temperature at which it may stop.
    DriveTooHot,
    /// A drive reports that it does not protect its cache against a loss of power any more.
    DriveUnprotected,
    /// A drive reports the end of its rated life.
    DriveWorn,
    /// A drive reports more errors that it could not correct.
    DriveMediaErrors,
    /// A drive no longer reports what it warned of.
    DriveWarningResolved,
    /// The metadata cannot express a record.
    NotExpressible,
    /// Reports of blocks came too fast.
    ReportsLeftOut,
    /// A process begins to serve the array.
    ServerStarted,
    /// State is not kept across restarts.
    NotRemembered,
    /// Events came too fast to be written.
    EventsNotKept,
    /// The machine's swap lies on a volume.
    SwapOnArray,
    /// An array of the settings does not start.
    ArrayNotStarted,
}

/// What holds for every event of a kind.
struct Facts {
    kind: Kind,
    /// The word in the event, which never changes.
    name: &'static str,
    /// How grave an event is that an operator should look at; others of the kind are `info`.
    severity: Severity,
    next: &'static str,
}

/// In the order of [`Kind`].
#[rustfmt::skip]
const FACTS: [Facts; 45] = [
    Facts { kind: Kind::MemberFailed, name: "member-failed", severity: Severity::Critical,
        next: "replace the drive: `fullstripe replace` or `fullstripe add-spare` puts another in its place, and a spare that is there takes it at once" },
    Facts { kind: Kind::CacheTurnedVolatile, name: "cache-turned-volatile", severity: Severity::Warning,
        next: "nothing at once; replace a drive whose capacitor has failed" },
    Facts { kind: Kind::DiscardRefused, name: "discard-refused", severity: Severity::Warning,
        next: "nothing at once; a drive that cannot discard any more may be failing: look at its SMART log" },
    Facts { kind: Kind::FailureRecorded, name: "failure-recorded", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::MemberOverdue, name: "member-overdue", severity: Severity::Warning,
        next: "look at the drive, its cable and its slot; it is failed if it stays silent" },
    Facts { kind: Kind::ReadRepaired, name: "read-repaired", severity: Severity::Warning,
        next: "nothing at once; a drive with more and more of these is wearing out: replace it" },
    Facts { kind: Kind::BadBlocksRecorded, name: "bad-blocks-recorded", severity: Severity::Critical,
        next: "restore the files in the blocks that `fullstripe status --json` lists from a backup, and write over these blocks" },
    Facts { kind: Kind::BadBlocksCleared, name: "bad-blocks-cleared", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::BadBlockLogFull, name: "bad-block-log-full", severity: Severity::Critical,
        next: "write over the blocks that `fullstripe status --json` lists, from a backup, or replace the drive" },
    Facts { kind: Kind::Stopped, name: "stopped", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::VolumeFailed, name: "volume-failed", severity: Severity::Critical,
        next: "bring the lost drives back and serve the array again, or restore the volume from a backup" },
    Facts { kind: Kind::WritesStopped, name: "writes-stopped", severity: Severity::Critical,
        next: "copy the volume's content to another array, and report what `fullstripe status` gives as the cause" },
    Facts { kind: Kind::NotRecorded, name: "not-recorded", severity: Severity::Warning,
        next: "look at `fullstripe status`, which gives the cause" },
    Facts { kind: Kind::SpareActivated, name: "spare-activated", severity: Severity::Warning,
        next: "add a spare that is well: `fullstripe add-spare DRIVE`. If the array may rebuild, it copies the drive that is about to fail to it" },
    Facts { kind: Kind::JobStarted, name: "job-started", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::JobEnded, name: "job-ended", severity: Severity::Warning,
        next: "look at `fullstripe scrub VOLUME --report` and `fullstripe status`; start the work again if it ended early" },
    Facts { kind: Kind::Mismatch, name: "mismatch", severity: Severity::Warning,
        next: "look at `fullstripe scrub VOLUME --report`; `fullstripe scrub VOLUME --repair` makes redundancy match the data" },
    Facts { kind: Kind::Unrecoverable, name: "unrecoverable", severity: Severity::Critical,
        next: "restore the file that has this block from a backup, and replace the drives that cannot be read" },
    Facts { kind: Kind::DirtyMark, name: "dirty-mark", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::VolumeStopped, name: "volume-stopped", severity: Severity::Warning,
        next: "look at `fullstripe status` after the next start" },
    Facts { kind: Kind::StartNote, name: "start-note", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::SpareRefused, name: "spare-refused", severity: Severity::Warning,
        next: "correct the name of the spare, or give another: `fullstripe add-spare DRIVE`" },
    Facts { kind: Kind::SpareMissing, name: "spare-missing", severity: Severity::Warning,
        next: "look at the drive, its cable and its slot, or give the array another spare: `fullstripe add-spare DRIVE`" },
    Facts { kind: Kind::DriveTaken, name: "drive-taken", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::DriveNotTaken, name: "drive-not-taken", severity: Severity::Warning,
        next: "decide whether the array gets the drive; the event says why it has not, and how to give it" },
    Facts { kind: Kind::EmptyDriveAppeared, name: "empty-drive-appeared", severity: Severity::Warning,
        next: "type the command of the event if the drive is meant for the array; with `same_bay = \"adopt\"` in the settings, the array takes such a drive by itself" },
    Facts { kind: Kind::MemberSilent, name: "member-silent", severity: Severity::Warning,
        next: "look at the drive, its cable and its slot" },
    Facts { kind: Kind::MemberAnswers, name: "member-answers", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::MemberDeleted, name: "member-deleted", severity: Severity::Critical,
        next: "put another drive in its place before the process ends: `fullstripe replace DRIVE --with OTHER`" },
    Facts { kind: Kind::DriveFailing, name: "drive-failing", severity: Severity::Critical,
        next: "if the array has a spare and may rebuild, it copies a member by itself and says so; else `fullstripe replace VOLUME:SLOT --with OTHER` copies it before it fails. A spare is removed: `fullstripe remove DRIVE`" },
    Facts { kind: Kind::FailingDriveCopied, name: "failing-drive-copied", severity: Severity::Warning,
        next: "pull the drive when it has left the array, and add another spare: `fullstripe add-spare DRIVE`" },
    Facts { kind: Kind::FailingDriveNotCopied, name: "failing-drive-not-copied", severity: Severity::Critical,
        next: "copy the drive to one that is large enough before it fails: `fullstripe replace VOLUME:SLOT --with OTHER`" },
    Facts { kind: Kind::DriveHot, name: "drive-hot", severity: Severity::Warning,
        next: "see to the cooling of the drive, which slows down when it is hot" },
    Facts { kind: Kind::DriveTooHot, name: "drive-too-hot", severity: Severity::Critical,
        next: "cool the drive at once, or stop what writes to the array: drives so hot switch themselves off" },
    Facts { kind: Kind::DriveUnprotected, name: "drive-unprotected", severity: Severity::Warning,
        next: "plan to replace the drive: a loss of power may cost what was written just before" },
    Facts { kind: Kind::DriveWorn, name: "drive-worn", severity: Severity::Warning,
        next: "plan to replace the drive: `fullstripe replace VOLUME:SLOT --with OTHER`" },
    Facts { kind: Kind::DriveMediaErrors, name: "drive-media-errors", severity: Severity::Warning,
        next: "scrub the drive's volumes, which repairs what cannot be read: `fullstripe scrub VOLUME`; replace the drive if this comes again" },
    Facts { kind: Kind::DriveWarningResolved, name: "drive-warning-resolved", severity: Severity::Info,
        next: "nothing" },
    Facts { kind: Kind::NotExpressible, name: "not-expressible", severity: Severity::Warning,
        next: "report it with what `fullstripe examine` prints" },
    Facts { kind: Kind::ReportsLeftOut, name: "reports-left-out", severity: Severity::Warning,
        next: "look at the reports before: `fullstripe events`" },
    Facts { kind: Kind::ServerStarted, name: "server-started", severity: Severity::Warning,
        next: "find out why the process or the machine went down: `journalctl -b -1`" },
    Facts { kind: Kind::NotRemembered, name: "not-remembered", severity: Severity::Warning,
        next: "look whether the disk with the program's state folder is full or failing" },
    Facts { kind: Kind::EventsNotKept, name: "events-not-kept", severity: Severity::Warning,
        next: "nothing; older events are in the journal" },
    Facts { kind: Kind::SwapOnArray, name: "swap-on-array", severity: Severity::Warning,
        next: "put swap and the image of hibernation on a drive that the kernel uses without fullstripe" },
    Facts { kind: Kind::ArrayNotStarted, name: "array-not-started", severity: Severity::Critical,
        next: "put right what the sentence names: `fullstripe list` shows the drives of each array, and `systemctl status fullstripe@NAME` and the journal say more. The array then starts by itself, or with `systemctl start fullstripe@NAME`" },
];

impl Kind {
    /// The word in the event, which never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    fn facts(self) -> &'static Facts {
        let found = FACTS.iter().find(|facts| facts.kind == self);
        found.expect("a test compares the list with the kinds")
    }
}

fn of(told: &Told) -> Option<&'static Facts> {
    FACTS.iter().find(|facts| facts.name == told.kind)
}

/// How grave an event is. Of one kind, some may be for information only: a scrub may end well or not.
#[must_use]
pub fn severity(told: &Told) -> Severity {
    match (told.warning, of(told)) {
        (false, _) => Severity::Info,
        (true, Some(facts)) => facts.severity,
        (true, None) => Severity::Warning,
    }
}

/// What to do after such an event.
#[must_use]
pub fn next(told: &Told) -> &'static str {
    match of(told) {
        Some(facts) if told.warning => facts.next,
        _ => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_its_facts_and_a_name_of_its_own() {
        for (at, facts) in FACTS.iter().enumerate() {
            assert_eq!(facts.kind as usize, at, "{}", facts.name);
            assert_eq!(facts.kind.name(), facts.name);
            let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(facts.name.chars().all(is_word), "{}", facts.name);
            assert!(
                !facts.next.is_empty() && !facts.next.ends_with('.'),
                "{}",
                facts.name
            );
        }
        let last = Kind::ArrayNotStarted as usize;
        assert_eq!(FACTS.len(), last + 1);
        let names: BTreeSet<&str> = FACTS.iter().map(|facts| facts.name).collect();
        assert_eq!(names.len(), FACTS.len());
    }

    #[test]
    fn a_kind_for_information_says_that_nothing_is_to_be_done() {
        for facts in &FACTS {
            let told = |warning| Told::of_process(facts.kind, String::new(), warning);
            assert_eq!(severity(&told(false)), Severity::Info);
            assert_eq!(next(&told(false)), "nothing");
            assert_eq!(severity(&told(true)), facts.severity);
        }
    }

    /// A kind is only written as a word where it is read: events are made from [`Kind`] alone, so that this list is whole.
    #[test]
    fn the_severity_of_the_worst_is_critical() {
        for kind in [
            Kind::MemberFailed,
            Kind::VolumeFailed,
            Kind::WritesStopped,
            Kind::ArrayNotStarted,
        ] {
            let told = Told::of_process(kind, String::new(), true);
            assert_eq!(severity(&told), Severity::Critical);
            assert!(next(&told).len() > 20);
        }
    }
}
