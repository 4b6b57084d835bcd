//! Events as sentences and as data, for the log, the hook and the API.

use super::event_kinds::Kind;
use super::status::{DriveName, job_name};
use super::watch::Notice;
use container::persist::Inexpressible;
use engine::control::bad_blocks::BadRange;
use engine::event::{Event, JobName, NotRecorded, VolumeEnd};
use engine::policy::{ErrorClass, MemberKind};
use engine::units::MemberId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use words::{count_of, size, without_error_number};

/// An event for people and programs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Told {
    /// Seconds since 1970.
    pub time_s: u64,
    /// A word that never changes: `member-failed`, `spare-activated`, ….
    pub kind: String,
    /// The volume concerned.
    pub volume: Option<String>,
    /// The drive concerned.
    pub member: Option<String>,
    /// One sentence.
    pub text: String,
    /// Whether an operator should look at it.
    pub warning: bool,
}

/// Names for the numbers in events.
pub struct Names<'a> {
    /// By volume.
    pub volumes: &'a [String],
    /// By member.
    pub drives: &'a [DriveName],
}

impl Names<'_> {
    fn member(&self, member: MemberId) -> String {
        self.drives.get(member.0 as usize).map_or_else(
            || format!("member {}", member.0),
            |drive| drive.name.clone(),
        )
    }

    fn kind(&self, member: MemberId) -> MemberKind {
        let drive = self.drives.get(usize::from(member.0));
        drive.map_or(MemberKind::Device, |drive| drive.kind)
    }

    fn volume(&self, volume: engine::units::VolumeId) -> String {
        self.volumes
            .get(volume.0 as usize)
            .cloned()
            .unwrap_or_default()
    }
}

/// Puts an event into words; `None` for answers to commands, which are handled elsewhere.
#[must_use]
pub fn tell(event: &Event, names: &Names<'_>) -> Option<Told> {
    let mut told = Told::now();
    match *event {
        Event::MemberFailed {
            member,
            class,
            errno,
        } => {
            let name = names.member(member);
            told.set(
                Kind::MemberFailed,
                format!(
                    "{name} is failed: {}",
                    reason(names.kind(member), class, errno)
                ),
                true,
            );
            told.member = Some(name);
        }
        Event::CacheTurnedVolatile(member) => {
            let name = names.member(member);
            let text = format!(
                "the write cache of {name} does not survive the loss of power any more: it is flushed from now \
                 on; what was acknowledged as flushed in the second before may still be in it"
            );
            told.set(Kind::CacheTurnedVolatile, text, true);
            told.member = Some(name);
        }
        Event::DiscardRefused(member) => {
            let name = names.member(member);
            let text = format!(
                "{name} cannot discard: zeros were written instead, and trims of its volumes change \
                 nothing from now on"
            );
            told.set(Kind::DiscardRefused, text, true);
            told.member = Some(name);
        }
        Event::FailureRecorded(member) => {
            let name = names.member(member);
            told.set(
                Kind::FailureRecorded,
                format!("the failure of {name} is on record on all other members"),
                false,
            );
            told.member = Some(name);
        }
        Event::MemberOverdue(member) => {
            let name = names.member(member);
            told.set(
                Kind::MemberOverdue,
                format!("{name} has not answered within its deadline"),
                true,
            );
            told.member = Some(name);
        }
        Event::ReadRepaired {
            member,
            offset_bytes,
            length_bytes,
        } => {
            let name = names.member(member);
            let lba = offset_bytes / 512;
            told.set(
                Kind::ReadRepaired,
                format!(
                    "{name}: {} at LBA {lba} could not be read; reconstructed and written back",
                    size(length_bytes.into())
                ),
                true,
            );
            told.member = Some(name);
        }
        Event::Answered { .. } | Event::Inspectable { .. } | Event::InspectionEnded { .. } => {
            return None;
        }
        Event::BadBlocksRecorded(range) => {
            let text = "cannot be rebuilt and are recorded as lost; reads of them fail";
            told.set_range(Kind::BadBlocksRecorded, &range, text, names);
            told.warning = true;
        }
        Event::BadBlocksCleared(range) => {
            let text = "have been written and are no longer recorded as bad";
            told.set_range(Kind::BadBlocksCleared, &range, text, names);
        }
        Event::BadBlockLogFull(member) => {
            let name = names.member(member);
            let text = format!(
                "{name}: the bad-block log has no room for what has to be recorded; write over the blocks that `status --json` lists as bad"
            );
            told.set(Kind::BadBlockLogFull, text, true);
            told.member = Some(name);
        }
        Event::Stopped => told.set(
            Kind::Stopped,
            "no request is served any more".to_owned(),
            false,
        ),
        _ => tell_volume(event, names, &mut told),
    }
    Some(told)
}

fn tell_volume(event: &Event, names: &Names<'_>, told: &mut Told) {
    let (volume, kind, text, warning) = match *event {
        Event::VolumeFailed(volume) => (
            volume,
            Kind::VolumeFailed,
            "has lost more members than it survives; I/O ends with errors".to_owned(),
            true,
        ),
        Event::WritesStopped(volume) => (
            volume,
            Kind::WritesStopped,
            "refuses writes from now on, because metadata that they need cannot be recorded; reads continue. \
             Copy its content to another array, and report what `status` gives as the cause"
                .to_owned(),
            true,
        ),
        Event::NotRecorded { volume, change } => {
            (volume, Kind::NotRecorded, not_recorded(change).to_owned(), true)
        }
        Event::SpareActivated {
            volume,
            slot,
            member,
            about_to_fail,
        } => {
            let name = names.member(member);
            let mut text = format!("{name} takes slot {} and will be rebuilt", slot.0);
            if about_to_fail {
                text += ", although it reports that it is about to fail, because no other spare fits; add one that is \
                         well: `fullstripe add-spare DRIVE`";
            }
            told.member = Some(name);
            (volume, Kind::SpareActivated, text, about_to_fail)
        }
        Event::SpareNotWritable {
            volume,
            slot,
            member,
        } => {
            let name = names.member(member);
            let text = format!(
                "the spare {name} does not take slot {}, because it reports that it cannot be written any more, and no other \
                 spare fits; add one that is well: `fullstripe add-spare DRIVE`",
                slot.0
            );
            told.member = Some(name);
            (volume, Kind::SpareRefused, text, true)
        }
        Event::JobStarted {
            volume,
            job,
            slot,
            member,
        } => {
            let onto = slot.zip(member).map(|(slot, member)| {
                format!(" of slot {} onto {}", slot.0, names.member(member))
            });
            let text = format!("{}{} has begun", job_name(job), onto.unwrap_or_default());
            (volume, Kind::JobStarted, text, false)
        }
        Event::JobEnded {
            volume,
            job,
            complete,
            mismatches,
            failures,
        } => {
            let how = if complete {
                "finished"
            } else {
                "ended early"
            };
            let mut text = format!("{} {how}", job_name(job));
            if mismatches > 0 {
                text += &format!(", {} did not match", count_of(mismatches, "stripe"));
            }
            match (job, mismatches) {
                (JobName::Repair, 1) => text += " and was corrected",
                (JobName::Repair, 2..) => text += " and were corrected",
                _ => {}
            }
            if failures > 0 {
                text += &format!(", {} could not be processed", count_of(failures, "stripe"));
            }
            (
                volume,
                Kind::JobEnded,
                text,
                !complete || mismatches + failures > 0,
            )
        }
        Event::Mismatch {
            volume,
            offset_bytes,
            member_offset_bytes,
            repaired,
            ..
        } => {
            let how = if repaired {
                "corrected"
            } else {
                "left as it is"
            };
            let text = format!(
                "redundancy does not match at volume LBA {} (member LBA {} of each extent); {how}",
                offset_bytes / 512,
                member_offset_bytes / 512
            );
            (volume, Kind::Mismatch, text, true)
        }
        Event::Unrecoverable {
            volume,
            offset_bytes,
        } => (
            volume,
            Kind::Unrecoverable,
            format!(
                "LBA {} can be neither read nor reconstructed",
                offset_bytes / 512
            ),
            true,
        ),
        Event::DirtyMark { volume, dirty } => {
            let word = if dirty { "dirty" } else { "clean" };
            (volume, Kind::DirtyMark, format!("is marked {word}"), false)
        }
        Event::VolumeStopped { volume, end } => {
            let fine = [VolumeEnd::Clean, VolumeEnd::Flushed, VolumeEnd::OnlyRead];
            let warning = !fine.contains(&end);
            (volume, Kind::VolumeStopped, ending(end).to_owned(), warning)
        }
        _ => return,
    };
    let name = names.volume(volume);
    told.set(kind, format!("volume {name}: {text}"), warning);
    told.volume = Some(name);
}

/// The kind of all notes on the start, whatever a note says.
pub const START_NOTE: &str = "start-note";

/// A note on something that was found, or had to be done, before the array could start.
#[must_use]
pub fn tell_start_note(note: &str) -> Told {
    Told::of_process(Kind::StartNote, note.to_owned(), false)
}

/// The event that a drive named by `--spare` was not taken, and why; the array works without it.
#[must_use]
pub fn tell_spare_refused(drive: &str, why: &str) -> Told {
    let mut told = Told::now();
    let text = format!("the spare {drive} is not taken: {why}");
    told.set(Kind::SpareRefused, text, true);
    told
}

/// The state in which a volume was left at the end.
fn ending(end: VolumeEnd) -> &'static str {
    match end {
        VolumeEnd::Clean => "is flushed and marked clean",
        VolumeEnd::Flushed => "is flushed",
        VolumeEnd::StaysDirty => {
            "is flushed and stays marked dirty, because a crash has put its redundancy in doubt and a drive \
             is missing"
        }
        VolumeEnd::CleanNotRecorded => {
            "is flushed and stays marked dirty, because the metadata cannot express that it is clean"
        }
        VolumeEnd::WritesStopped => {
            "had stopped its writes, because the metadata cannot express what they need; it is flushed, and its \
             dirty mark is unchanged"
        }
        VolumeEnd::OnlyRead => "was only read, and is left as it was",
        VolumeEnd::Failed => {
            "had failed, and is neither flushed nor marked clean; what was written after its last flush may be \
             lost"
        }
    }
}

/// Puts into words what the watch noticed about a drive.
#[must_use]
pub fn tell_notice(member: MemberId, notice: Notice, names: &Names<'_>) -> Told {
    let mut told = Told::now();
    let name = names.member(member);
    match notice {
        Notice::Silent => told.set(
            Kind::MemberSilent,
            format!("{name} does not answer when asked whether it is still there; its next I/O may hang"),
            true,
        ),
        Notice::AnswersAgain => {
            told.set(Kind::MemberAnswers, format!("{name} answers again"), false);
        }
        Notice::Deleted => told.set(
            Kind::MemberDeleted,
            format!(
                "the file of {name} has been deleted; it is used until this process ends, and its content is \
                 gone then: `replace` it before that"
            ),
            true,
        ),
    }
    told.member = Some(name);
    told
}

/// The event that the metadata cannot express a record. The engine's events say what that means for a volume.
#[must_use]
pub fn tell_not_expressible(error: &Inexpressible) -> Told {
    let text = format!("{error}; what is on the drives stays as it is");
    Told::of_process(Kind::NotExpressible, text, true)
}

fn not_recorded(change: NotRecorded) -> &'static str {
    match change {
        NotRecorded::Checkpoint => {
            "the progress of its background work cannot be recorded; after a restart the work continues from the \
             last checkpoint on record"
        }
        NotRecorded::Clean => {
            "it cannot be marked clean; it stays dirty, and its redundancy is established anew at the next start"
        }
        NotRecorded::SyncEnd => {
            "its redundancy is established, but that cannot be recorded; `resume` establishes it once more"
        }
        NotRecorded::RebuildBegin => {
            "a rebuild cannot be recorded and does not begin; `rebuild` tries it again"
        }
    }
}

/// The event that reports of blocks came faster than they could be passed on.
#[must_use]
pub fn tell_left_out(count: u64) -> Told {
    let text =
        format!("{count} reports of single blocks were left out because there were too many");
    Told::of_process(Kind::ReportsLeftOut, text, true)
}

impl Told {
    /// An event about no drive or volume in particular.
    #[must_use]
    pub fn of_process(kind: Kind, text: String, warning: bool) -> Told {
        let mut told = Told::now();
        told.set(kind, text, warning);
        told
    }

    pub(super) fn now() -> Told {
        Told {
            time_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            kind: String::new(),
            volume: None,
            member: None,
            text: String::new(),
            warning: false,
        }
    }

    fn set_range(&mut self, kind: Kind, range: &BadRange, text: &str, names: &Names<'_>) {
        let name = names.member(range.member);
        let (lba, length) = (range.offset_bytes / 512, size(range.length_bytes));
        self.set(kind, format!("{name}: {length} at LBA {lba} {text}"), false);
        self.member = Some(name);
    }

    pub(super) fn set(&mut self, kind: Kind, text: String, warning: bool) {
        kind.name().clone_into(&mut self.kind);
        self.text = text;
        self.warning = warning;
    }
}

/// Why a drive has failed, in words.
pub(super) fn reason(kind: MemberKind, class: ErrorClass, errno: i32) -> String {
    const ENODEV: i32 = 19;
    const ENOSPC: i32 = 28;
    let class = match (kind, class, errno) {
        (_, _, 0) => return "an operator asked for it".to_owned(),
        // The text of the errno would add nothing.
        (MemberKind::Device, _, ENODEV) => {
            return "it is gone: the kernel has removed it".to_owned();
        }
        // The capacity of the device is still the same, so this may also be a thin volume whose pool is full.
        (MemberKind::Device, _, ENOSPC) => "it is gone, or what it stores data on is full",
        (_, ErrorClass::Retryable, _) => "it stays busy",
        (_, ErrorClass::Media, _) => "it cannot store data",
        (_, ErrorClass::Path, _) => "the path to it failed",
        (_, ErrorClass::Gone, _) => "it is gone",
        (_, ErrorClass::Misuse, _) => "it refuses valid commands",
        (_, ErrorClass::NotSupported, _) => "it does not support an operation",
    };
    let error = std::io::Error::from_raw_os_error(errno).to_string();
    format!("{class} ({})", without_error_number(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_space_is_gone_and_a_file_without_space_is_not() {
        use MemberKind::{Device, File};
        let words = |kind, errno| {
            let class = engine::policy::MemberError::from_errno(errno).class;
            reason(kind, class, errno)
        };
        assert_eq!(words(Device, 19), "it is gone: the kernel has removed it");
        assert_eq!(
            words(Device, 28),
            "it is gone, or what it stores data on is full (No space left on device)"
        );
        assert_eq!(
            words(File, 28),
            "it cannot store data (No space left on device)"
        );
        assert_eq!(words(File, 19), "it is gone (No such device)");
        assert_eq!(
            words(Device, 5),
            "it cannot store data (Input/output error)"
        );
        assert_eq!(words(Device, 0), "an operator asked for it");
    }
}
