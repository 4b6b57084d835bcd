//! Asks drives about their health, each question on a thread of its own.

use drives::drive::Drive;
use drives::nvme::{self, Health, Limits, NvmeError};
use engine::policy::MemberKind;
use engine::units::MemberId;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use words::duration;

/// How often a drive is asked: health changes slowly, and a drive that warns of its temperature has minutes.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(60);
/// A drive that has not answered for this long counts as one of unknown health: a healthy drive takes milliseconds.
pub(super) const SILENT_AFTER: Duration = Duration::from_secs(30);

/// What a drive reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Report {
    pub health: Health,
    /// The temperatures at which it warns; they never change.
    pub limits: Limits,
}

/// The health of a drive cannot be found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotKnown {
    /// Why, as a clause.
    pub why: String,
    /// What can change about it.
    pub hope: Hope,
}

/// What can change about a drive whose health is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hope {
    /// The next question may be answered.
    AskAgain,
    /// The process may not ask.
    NotHere,
    /// Such a drive does not report any health.
    Never,
}

pub(super) type Answer = Result<Report, NotKnown>;

/// Asks a drive; may block for as long as the kernel does. The limits are those of its last answer.
pub(super) type Ask = Arc<dyn Fn(&Drive, Option<Limits>) -> Answer + Send + Sync>;

/// Asks a drive by NVMe admin commands.
pub(super) fn ask_nvme(drive: &Drive, limits: Option<Limits>) -> Answer {
    let is_device = drive.kind() == MemberKind::Device;
    let Some(fd) = drive.fd().filter(|_| is_device) else {
        return Err(NotKnown {
            why: "it is a file or memory".to_owned(),
            hope: Hope::Never,
        });
    };
    let not_known = |error: NvmeError| NotKnown {
        hope: match error {
            NvmeError::NotNvme | NvmeError::NotAllowed => Hope::NotHere,
            NvmeError::Status(_) | NvmeError::System(_) => Hope::AskAgain,
        },
        why: match error {
            NvmeError::NotNvme => "it is not an NVMe drive".to_owned(),
            error => error.to_string(),
        },
    };
    let limits = match limits {
        Some(limits) => limits,
        None => Limits::of(&nvme::identify(fd).map_err(not_known)?),
    };
    let health = nvme::health(fd).map_err(not_known)?;
    Ok(Report { health, limits })
}

/// The questions to one drive.
pub(super) struct Asked {
    drive: Weak<Drive>,
    limits: Option<Limits>,
    question: Option<Question>,
    /// When it is to be asked next; `None` if never.
    due: Option<Instant>,
}

/// A question that has not been answered.
struct Question {
    began: Instant,
    answer: Receiver<Answer>,
    /// It has been said that the drive is silent.
    is_silent: bool,
}

impl Asked {
    /// A drive that is to be asked at once.
    pub fn new(drive: &Arc<Drive>, now: Instant) -> Asked {
        Asked {
            drive: Arc::downgrade(drive),
            limits: None,
            question: None,
            due: Some(now),
        }
    }

    /// Whether these are the questions to `drive`.
    pub fn is_about(&self, drive: &Arc<Drive>) -> bool {
        std::ptr::eq(self.drive.as_ptr(), Arc::as_ptr(drive))
    }

    /// Whether the drive has not answered the last question yet.
    #[cfg(test)]
    pub fn is_open(&self) -> bool {
        self.question.is_some()
    }

    /// Returns what has been found out since the call before, and asks the drive if it is due. Never waits.
    pub fn look(&mut self, member: MemberId, ask: &Ask, now: Instant) -> Option<Answer> {
        let Some(question) = &mut self.question else {
            if self.due.is_some_and(|due| due <= now) {
                self.question = self.begin(member, ask, now);
            }
            return None;
        };
        let answer = match question.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return question.silence(now),
            Err(TryRecvError::Disconnected) => Err(NotKnown {
                why: "the thread that asked it has panicked".to_owned(),
                hope: Hope::AskAgain,
            }),
        };
        self.question = None;
        self.due = match &answer {
            Err(NotKnown { hope, .. }) if *hope != Hope::AskAgain => None,
            Ok(_) | Err(_) => Some(now + ASK_EVERY),
        };
        if let Ok(report) = &answer {
            self.limits = Some(report.limits);
        }
        Some(answer)
    }

    /// Asks. If no thread can be started, the next look tries again.
    fn begin(&self, member: MemberId, ask: &Ask, now: Instant) -> Option<Question> {
        let drive = self.drive.upgrade()?;
        let (sender, answer) = channel();
        let (ask, limits) = (ask.clone(), self.limits);
        let thread = std::thread::Builder::new().name(format!("health-{}", member.0));
        let asking = move || {
            let answer = ask(&drive, limits);
            drop(drive);
            // Nobody waits for the answer of a drive that has been released.
            let _ = sender.send(answer);
        };
        thread.spawn(asking).ok()?;
        Some(Question {
            began: now,
            answer,
            is_silent: false,
        })
    }
}

impl Question {
    /// That the drive does not answer, once.
    fn silence(&mut self, now: Instant) -> Option<Answer> {
        if self.is_silent || now.duration_since(self.began) < SILENT_AFTER {
            return None;
        }
        self.is_silent = true;
        Some(Err(NotKnown {
            why: format!(
                "it has not answered for {}",
                duration(SILENT_AFTER.as_secs())
            ),
            hope: Hope::AskAgain,
        }))
    }
}
