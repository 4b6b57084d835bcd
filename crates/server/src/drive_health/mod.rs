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
//! If the array may rebuild by itself, [`prefail`] has a member that reports that it is about to fail copied to a spare.

mod asking;
mod prefail;
mod record;
mod told;

use crate::remembering::Tell;
use crate::runtime::Shared;
use crate::scrub::now_s;
use anyhow::{Context, Result};
use asking::{Ask, Asked, ask_nvme};
use drives::drive::Drive;
use engine::units::MemberId;
use prefail::Prefail;
use record::Record;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked which drives have answered, and which are due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
            std::thread::sleep(LOOK_EVERY);
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
        let mut records = self.drives.iter().flatten();
        let is_one_failing = records.any(|(_, record)| record.health().failing().is_some());
        if let Some(prefail) = self.prefail.as_mut().filter(|_| is_one_failing) {
            prefail.look(&self.shared, &self.tell);
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
