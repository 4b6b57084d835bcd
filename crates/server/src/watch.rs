//! Looks after drives of which nothing is asked: an idle drive that vanishes gives no other sign.
//!
//! Each drive has a thread that asks it once a second whether it is still there. A file whose file system
//! hangs does not answer, and then that thread hangs and nothing else. The watch itself never asks: it
//! starts these threads, and notices which of them have been waiting for too long. That is told, and no
//! reason to fail the drive, because nothing is at stake: the next I/O will have a deadline.
//!
//! A file that is deleted while it serves is told of as well, once, and kept. It can be read and written until this
//! process ends, so to fail it would give up redundancy that is there; and nobody can bring it back, so there is
//! nothing to wait for. What has to be done only an operator can do: `replace` the drive while it still has its data.

use super::runtime::{Shared, lock};
use drives::drive::Drive;
use drives::mailbox::Mail;
use engine::control::message::Message;
use engine::units::MemberId;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often drives are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A drive that is silent for this long is told of: far beyond what a healthy one takes, and before an
/// operator asks.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// A sleep that lasts longer than it should by this means that the whole process was stopped.
const STOOD_STILL_AFTER: Duration = Duration::from_millis(500);

/// What the watch has to say about a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It has not answered for [`SILENT_AFTER`].
    Silent,
    /// It has answered after all.
    AnswersAgain,
    /// It is a file that has been deleted.
    Deleted,
}

/// A drive and the thread that asks it.
struct Watched {
    drive: Weak<Drive>,
    asking: Arc<Asking>,
    is_silent: bool,
    is_deleted: bool,
}

/// What the thread has found out.
#[derive(Default)]
struct Asking {
    /// Since when it has been waiting for an answer.
    since: Mutex<Option<Instant>>,
    /// See [`Drive::is_deleted`].
    is_deleted: AtomicBool,
}

/// Starts the watch over the drives of `shared`; `noticed` hears what is noticed.
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
                    // The threads that ask stood still as well; what they wait for may be there already.
                    std::thread::sleep(ASK_EVERY);
                }
            }
        })?;
    Ok(())
}

/// One look at all drives.
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
            (Some(drive), Some(one)) if is_same(one, drive) => {
                let silent = one.asking.silent_for() >= SILENT_AFTER;
                if silent != one.is_silent {
                    one.is_silent = silent;
                    noticed(
                        member,
                        if silent {
                            Notice::Silent
                        } else {
                            Notice::AnswersAgain
                        },
                    );
                }
                if !one.is_deleted && one.asking.is_deleted.load(Ordering::Acquire) {
                    one.is_deleted = true;
                    noticed(member, Notice::Deleted);
                }
            }
            // Where no thread is to be had, the next look tries again.
            (Some(drive), _) => *place = watch(shared, member, drive).ok(),
            (None, _) => *place = None,
        }
    }
}

/// Starts the thread that asks a drive.
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
        // Neither the array nor the drive stays because of this thread, unless it hangs.
        while let (Some(shared), Some(drive)) = (shared.upgrade(), drive.upgrade())
            && !shared.has_quit()
        {
            ask(&shared, member, &drive, &asking);
            if !drive.volatile_cache() && drive.volatile_cache_now() {
                // The controller takes it up once.
                let message = Message::CacheTurnedVolatile(member);
                shared.mail()[0].send(Mail::Engine(message));
            }
            drop((shared, drive));
            std::thread::sleep(ASK_EVERY);
        }
    })?;
    Ok(one)
}

/// Asks a drive whether it is there, and has it failed when it is not.
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
}
