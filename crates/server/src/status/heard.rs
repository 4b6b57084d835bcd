//! Updates the facts beside the engine's record from events: why drives and rebuilds have failed.

use super::{Facts, job_name};
use crate::events::reason;
use crate::news::News;
use crate::watch::Notice;
use engine::event::{Event, JobName};
use engine::units::{MemberId, VolumeId};

impl Facts {
    /// Takes account of `news`.
    pub(crate) fn hear(&mut self, news: &News) {
        match news {
            News::Watch(MemberId(member), Notice::Deleted) => {
                if let Some(drive) = self.drives.get_mut(usize::from(*member)) {
                    drive.is_deleted = true;
                }
            }
            News::Engine(Event::MemberFailed {
                member,
                class,
                errno,
            }) => {
                if let Some(drive) = self.drives.get_mut(usize::from(member.0)) {
                    drive.failure = Some(reason(drive.kind, *class, *errno));
                }
            }
            News::Engine(Event::BadBlockLogFull(member)) => self.bad_block_log_full = Some(*member),
            News::Engine(Event::JobStarted {
                volume,
                job: JobName::Rebuild,
                ..
            }) => {
                self.bad_block_log_full = None;
                self.note_given_up(*volume, None);
            }
            News::Engine(Event::JobEnded {
                volume,
                job: job @ JobName::Rebuild,
                complete: false,
                failures,
                ..
            }) => {
                let why = self.why_given_up(*job, *failures);
                self.note_given_up(*volume, why);
            }
            News::NotExpressible(error) => self.not_expressible = Some(error.to_string()),
            News::Engine(_) | News::Watch(..) => {}
        }
    }

    fn note_given_up(&mut self, volume: VolumeId, why: Option<String>) {
        let at = usize::from(volume.0);
        if self.given_up.len() <= at {
            self.given_up.resize(at + 1, None);
        }
        self.given_up[at] = why;
    }

    /// Why a rebuild was given up; `None` if it met no unreadable block. Then an order ended it, or a drive's failure,
    /// which has a cause of its own.
    fn why_given_up(&self, job: JobName, failures: u64) -> Option<String> {
        let job = job_name(job);
        let full = self.bad_block_log_full.and_then(|member| {
            let name = &self.drives.get(usize::from(member.0))?.name;
            Some(format!(
                "its {job} was given up: more blocks cannot be read than the bad-block log of {name} has room for; \
                 write over the blocks that `status --json` lists as bad, then `fullstripe rebuild`"
            ))
        });
        let plural = if failures == 1 { "" } else { "s" };
        let unread = (failures > 0).then(|| {
            format!(
                "its {job} was given up: {failures} stripe{plural} could not be read; `fullstripe events` says where, \
                 write over them, then `fullstripe rebuild`"
            )
        });
        full.or(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{DriveHealth, DriveName};
    use drives::drive::IoPath;
    use engine::policy::MemberKind;

    const VOLUME: VolumeId = VolumeId(0);

    fn facts() -> Facts {
        let drive = |name: &str| DriveName {
            name: name.to_owned(),
            serial: name.to_owned(),
            io_path: IoPath::Ring,
            kind: MemberKind::File,
            is_deleted: false,
            failure: None,
            health: DriveHealth::default(),
        };
        Facts {
            drives: ["d0", "d1"].map(drive).to_vec(),
            ..Facts::default()
        }
    }

    fn ended(complete: bool, failures: u64) -> News {
        News::Engine(Event::JobEnded {
            volume: VOLUME,
            job: JobName::Rebuild,
            complete,
            mismatches: 0,
            failures,
        })
    }

    #[test]
    fn a_rebuild_that_is_given_up_is_remembered_until_the_next_begins() {
        let mut facts = facts();
        facts.hear(&ended(true, 0));
        assert_eq!(facts.given_up.first().cloned().flatten(), None);
        facts.hear(&ended(false, 2));
        let why = facts.given_up[0].clone().expect("a cause");
        assert!(why.contains("2 stripes could not be read"), "{why}");
        facts.hear(&News::Engine(Event::BadBlockLogFull(MemberId(1))));
        facts.hear(&ended(false, 0));
        let why = facts.given_up[0].clone().expect("a cause");
        assert!(why.contains("the bad-block log of d1"), "{why}");
        facts.hear(&News::Engine(Event::JobStarted {
            volume: VOLUME,
            job: JobName::Rebuild,
            slot: None,
            member: None,
        }));
        assert_eq!(
            (facts.bad_block_log_full, facts.given_up[0].clone()),
            (None, None)
        );
    }
}
