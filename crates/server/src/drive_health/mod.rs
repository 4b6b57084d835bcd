//! Watches the health of NVMe members and spares, as their health logs report it, while the array is served.
//!
//! One thread looks every second which drives are to be asked, and asks each about once a minute. It never calls a drive
//! itself: [`asking`] starts a thread for each question, because an admin command of a drive that hangs may stay in the
//! kernel for a minute, or for ever. A drive that has not answered is not asked again until it has, and its health is not
//! known meanwhile. No data thread and no request takes part.
//!
//! [`record`] remembers what each drive has reported, and says what is new; [`told`] makes events of that. The newest
//! state of each drive is in the status. It is never called good unless the drive has said so: the health of files, of
//! drives that are not NVMe, and of all drives of a process without the right to send admin commands is not known.
//!
//! If the array may rebuild by itself, [`prefail`] has a member that reports that it is about to fail copied to a spare. The
//! engine is told which drives do, so that it gives the place of a failed member to another spare.

mod asking;
mod prefail;
mod record;
mod told;

use crate::remembering::Tell;
use crate::runtime::Shared;
use crate::scrub::now_s;
use crate::status::drive_health::DriveHealth;
use anyhow::{Context, Result};
use asking::{Ask, Asked, ask_nvme};
use drives::drive::Drive;
use engine::control::message::Message;
use engine::units::{MemberId, MemberSet, ShardId};
use prefail::Prefail;
use record::Record;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(crate) use told::warning_of;

/// How often it is looked which drives have answered, and which are due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same until all drives have answered for the first time: a rebuild may wait for that.
const LOOK_AT_FIRST_EVERY: Duration = Duration::from_millis(20);
/// The engine is told after this time what is known by then: it waits a little longer, and then takes any spare.
const TOLD_WITHIN: Duration = Duration::from_secs(8);

/// Watches the drives of `shared` as long as the array is served; `tell` gets each event. With `copies`, drives that are about
/// to fail are copied to spares.
///
/// # Errors
/// The system starts no more threads.
pub(super) fn start(shared: Arc<Shared>, tell: Tell, copies: bool) -> Result<()> {
    let mut watch = Watch::new(shared, tell, Arc::new(ask_nvme), copies);
    let thread = std::thread::Builder::new().name("drive-health".to_owned());
    let look = move || {
        while !watch.shared.has_quit() {
            watch.look(Instant::now());
            std::thread::sleep(match watch.is_engine_told {
                true => LOOK_EVERY,
                false => LOOK_AT_FIRST_EVERY,
            });
        }
    };
    thread
        .spawn(look)
        .context("cannot start the thread that watches the health of drives")?;
    Ok(())
}

/// The drives, and what is known of each.
struct Watch {
    shared: Arc<Shared>,
    tell: Tell,
    ask: Ask,
    /// By member; `None` for a drive that has been released.
    drives: Vec<Option<(Asked, Record)>>,
    /// Drives that are about to fail, as the engine knows them.
    about_to_fail: MemberSet,
    /// Drives that cannot be written any more, as the engine knows them.
    not_writable: MemberSet,
    /// Whether the engine knows which drives are about to fail.
    is_engine_told: bool,
    /// When it is told although drives have not answered; `None` before the first look.
    told_by: Option<Instant>,
    /// `None` if drives are not copied.
    prefail: Option<Prefail>,
}

impl Watch {
    fn new(shared: Arc<Shared>, tell: Tell, ask: Ask, copies: bool) -> Watch {
        Watch {
            shared,
            tell,
            ask,
            drives: Vec::new(),
            about_to_fail: MemberSet::default(),
            not_writable: MemberSet::default(),
            is_engine_told: false,
            told_by: None,
            prefail: copies.then(Prefail::default),
        }
    }

    /// Takes the answers that have come, asks the drives that are due, and has a drive copied if one is about to fail.
    fn look(&mut self, now: Instant) {
        let drives = self.shared.drives();
        self.drives.resize_with(drives.len(), || None);
        for (at, drive) in drives.iter().enumerate() {
            match drive {
                Some(drive) => self.look_at(MemberId(at as u8), drive, now),
                None => self.drives[at] = None,
            }
        }
        let told_by = *self.told_by.get_or_insert(now + TOLD_WITHIN);
        if self.is_engine_told || self.are_all_heard() || now >= told_by {
            self.tell_engine();
        }
        let is_one_failing = !self.about_to_fail.is_empty();
        if let Some(prefail) = self.prefail.as_mut().filter(|_| is_one_failing) {
            prefail.look(&self.shared, &self.tell);
        }
    }

    /// The drives whose health is like this.
    fn which(&self, is_wanted: impl Fn(&DriveHealth) -> bool) -> MemberSet {
        let drives = (0u8..).zip(&self.drives);
        let wanted = drives.filter(|(_, one)| {
            let record = one.as_ref().map(|(_, record)| record);
            record.is_some_and(|record| is_wanted(record.health()))
        });
        wanted.map(|(member, _)| MemberId(member)).collect()
    }

    /// Whether every drive has answered.
    fn are_all_heard(&self) -> bool {
        let mut drives = self.drives.iter().flatten();
        drives.all(|(_, record)| record.is_heard())
    }

    /// Tells the engine which drives are about to fail and which cannot be written, for the first time or if others are than
    /// before. After the start it takes no spare before it has been told.
    fn tell_engine(&mut self) {
        let not_writable = self.which(DriveHealth::is_read_only);
        if not_writable != self.not_writable {
            self.not_writable = not_writable;
            let message = Message::NotWritable(not_writable);
            self.shared.send(ShardId(0), message);
        }
        let failing = self.which(|health| health.failing().is_some());
        if failing != self.about_to_fail || !self.is_engine_told {
            self.is_engine_told = true;
            self.about_to_fail = failing;
            self.shared.send(ShardId(0), Message::AboutToFail(failing));
        }
    }

    fn look_at(&mut self, member: MemberId, drive: &Arc<Drive>, now: Instant) {
        let place = &mut self.drives[usize::from(member.0)];
        let known = place.take().filter(|(asked, _)| asked.is_about(drive));
        let (asked, record) =
            place.insert(known.unwrap_or_else(|| (Asked::new(drive, now), Record::default())));
        let Some(answer) = asked.look(member, &self.ask, now) else {
            return;
        };
        let change = record.hear(&answer, now, now_s());
        self.shared
            .set_drive_health(member, record.health().clone());
        if let Ok(report) = answer {
            let events = told::events(drive.name(), &change, &report.health);
            events.into_iter().for_each(&*self.tell);
        }
    }
}

#[cfg(test)]
mod tests;
