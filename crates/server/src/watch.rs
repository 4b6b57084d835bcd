//! Watches idle drives: an idle drive that vanishes gives no other sign.
//!
//! Each drive has a thread that checks once a second whether the drive is still there. If a file's file system
//! hangs, only that thread hangs. The watch itself never calls a drive: it starts these threads, and notices
//! which of them have been waiting for too long. That is reported, but is no
//! reason to fail the drive, because no request depends on it: the next I/O will have a deadline. A drive that the
//! array has let go of is not checked any more. If a check of it hangs, the watch still says when the drive answers.
//!
//! A file that is deleted while it serves is reported as well, once, and stays in use. It can be read and written until
//! this process ends, so failing it would only reduce redundancy, and it cannot come back, so waiting does
//! not help. Only an operator can act: `replace` the drive while it still has its data.

use super::runtime::{Shared, lock};
use drives::drive::Drive;
use drives::mailbox::Mail;
use engine::control::message::Message;
use engine::units::MemberId;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often drives are checked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A drive that is silent for this long is reported: far longer than a healthy drive takes, and sooner than an
/// operator would look.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// If a sleep lasts longer than it should by this much, the whole process was stopped.
const STOOD_STILL_AFTER: Duration = Duration::from_millis(500);

/// What the watch reports about a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It has not answered a check for [`SILENT_AFTER`].
    Silent,
    /// It has answered after it was reported as silent.
    AnswersAgain,
    /// It is a file that has been deleted.
    Deleted,
}

/// A drive and the thread that checks it.
struct Watched {
    drive: Weak<Drive>,
    asking: Arc<Asking>,
    is_silent: bool,
    is_deleted: bool,
}

/// The state of that thread.
#[derive(Default)]
struct Asking {
    /// When the check under way began; `None` if there is none.
    since: Mutex<Option<Instant>>,
    /// See [`Drive::is_deleted`].
    is_deleted: AtomicBool,
}

/// Starts the watch over the drives of `shared`; `noticed` is called with each report.
///
/// # Errors
/// The system starts no more threads.
pub fn start(
    shared: Arc<Shared>,
    noticed: impl Fn(MemberId, Notice) + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name("drive-watch".to_owned())
        .spawn(move || {
            let mut watched: Vec<Option<Watched>> = Vec::new();
            while !shared.has_quit() {
                look(&shared, &mut watched, &noticed);
                let began = Instant::now();
                std::thread::sleep(ASK_EVERY);
                if began.elapsed() > ASK_EVERY + STOOD_STILL_AFTER {
                    // The checking threads stood still as well; the answers they wait for may have arrived already.
                    std::thread::sleep(ASK_EVERY);
                }
            }
        })?;
    Ok(())
}

/// Looks at the threads of all drives once.
fn look(
    shared: &Arc<Shared>,
    watched: &mut Vec<Option<Watched>>,
    noticed: &impl Fn(MemberId, Notice),
) {
    let drives = shared.drives();
    watched.resize_with(drives.len(), || None);
    for (at, (drive, place)) in drives.iter().zip(watched).enumerate() {
        let member = MemberId(at as u8);
        let is_same = |one: &Watched, drive| std::ptr::eq(one.drive.as_ptr(), Arc::as_ptr(drive));
        match (drive, &mut *place) {
            (Some(drive), Some(one)) if is_same(one, drive) => one.tell(member, noticed),
            // If no thread can be started, the next look tries again.
            (Some(drive), _) => *place = watch(shared, member, drive).ok(),
            // The drive has been let go of, and a check of it may still be under way.
            (None, Some(one)) => {
                one.tell(member, noticed);
                if !one.asking.is_under_way() {
                    *place = None;
                }
            }
            (None, None) => {}
        }
    }
}

impl Watched {
    /// Reports what has changed about the drive.
    fn tell(&mut self, member: MemberId, noticed: &impl Fn(MemberId, Notice)) {
        let silent = self.asking.silent_for() >= SILENT_AFTER;
        if silent != self.is_silent {
            self.is_silent = silent;
            noticed(
                member,
                if silent {
                    Notice::Silent
                } else {
                    Notice::AnswersAgain
                },
            );
        }
        if !self.is_deleted && self.asking.is_deleted.load(Ordering::Acquire) {
            self.is_deleted = true;
            noticed(member, Notice::Deleted);
        }
    }
}

/// Starts the thread that checks a drive.
fn watch(shared: &Arc<Shared>, member: MemberId, drive: &Arc<Drive>) -> io::Result<Watched> {
    let asking = Arc::new(Asking::default());
    let one = Watched {
        drive: Arc::downgrade(drive),
        asking: asking.clone(),
        is_silent: false,
        is_deleted: false,
    };
    let (shared, drive) = (Arc::downgrade(shared), one.drive.clone());
    let thread = std::thread::Builder::new().name(format!("watch-{}", member.0));
    thread.spawn(move || {
        // This thread keeps neither the array nor the drive alive, unless it hangs.
        while let (Some(shared), Some(drive)) = (shared.upgrade(), drive.upgrade())
            && !shared.has_quit()
        {
            ask(&shared, member, &drive, &asking);
            if !drive.volatile_cache() && drive.volatile_cache_now() {
                // The controller acts on the first such message only.
                let message = Message::CacheTurnedVolatile(member);
                shared.mail()[0].send(Mail::Engine(message));
            }
            drop((shared, drive));
            std::thread::sleep(ASK_EVERY);
        }
    })?;
    Ok(one)
}

/// Checks whether a drive is still there, and fails it if it is not.
fn ask(shared: &Shared, member: MemberId, drive: &Drive, asking: &Asking) {
    *lock(&asking.since) = Some(Instant::now());
    let answer = drive.is_alive();
    asking
        .is_deleted
        .fetch_or(drive.is_deleted(), Ordering::AcqRel);
    *lock(&asking.since) = None;
    if let Err(error) = answer {
        let message = Message::MemberFailed {
            member,
            class: error.class,
            errno: error.errno,
        };
        shared.mail()[0].send(Mail::Engine(message));
    }
}

impl Asking {
    fn silent_for(&self) -> Duration {
        lock(&self.since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn is_under_way(&self) -> bool {
        lock(&self.since).is_some()
    }
}
