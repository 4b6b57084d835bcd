//! The thread that keeps the book of scrubs: it reads the book from the drives when the array starts, looks at the
//! engine's state, gives the orders that are due, and writes the book back to the drives.
//!
//! The book is written as notes by plain system calls beside the data path, by one thread per drive: a drive that
//! hangs blocks only that thread, gets no more notes, and delays no other drive. Failed drives are left out.

use super::book::Look;
use super::every::ScrubEvery;
use super::{NOTES_WITHIN, now_s};
use crate::runtime::{Shared, lock};
use crate::snapshot::Snapshot;
use drives::drive::Drive;
use engine::control::record::MemberState;
use engine::units::MemberId;
use metadata::imsm::notes::{Notes, TEXT_BYTES_MAX, has_room, newer_version};
use metadata::imsm::place::{ByteRange, Placement};
use metadata::imsm::{Mpb, SectorSize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the engine's state is looked at: a fraction of the shortest period of a schedule.
const KEEP_EVERY: Duration = Duration::from_millis(200);
/// How often positions are written to the drives. After a crash, what was scrubbed since is scrubbed again.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// Starts the keeper, with what the settings say about scrubs. It ends when the array has been stopped, after writing what is not on the drives yet; a thread
/// that waits for its end unparks it first.
///
/// # Errors
/// The system starts no more threads.
pub fn start(shared: Arc<Shared>, mpb: Arc<Mpb>, every: ScrubEvery) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("scrub-keeper".to_owned())
        .spawn(move || {
            let mut keeper = Keeper::new(mpb);
            keeper.load(&shared, every);
            while !shared.is_at_rest() {
                keeper.keep(&shared);
                std::thread::park_timeout(KEEP_EVERY);
            }
            keeper.save_if(&shared, &shared.snapshot(), true);
        })
}

/// By member: whether a call is under way that the drive has not answered.
type Busy = BTreeMap<u8, Arc<AtomicBool>>;

struct Keeper {
    /// The container's metadata at the start. The places of volumes do not change, so this thread need not query the
    /// controller's thread, which writes the metadata.
    mpb: Arc<Mpb>,
    container_family: u32,
    sequence: u64,
    /// What the drives have of the book, as the values of its fields `revision` and `turns`.
    saved_revision: u64,
    saved_turn: u64,
    saved_at: Instant,
    began: Instant,
    busy: Busy,
    /// Drives that hold notes of a newer program version, which must not be overwritten.
    left_alone: BTreeSet<u8>,
}

impl Keeper {
    fn new(mpb: Arc<Mpb>) -> Keeper {
        Keeper {
            container_family: mpb.container_family(),
            mpb,
            sequence: 0,
            saved_revision: 0,
            saved_turn: 0,
            saved_at: Instant::now(),
            began: Instant::now(),
            busy: Busy::new(),
            left_alone: BTreeSet::new(),
        }
    }

    /// Loads the newest notes of this container that any drive holds; then the settings count too.
    fn load(&mut self, shared: &Shared, every: ScrubEvery) {
        let drives: Vec<(u8, Arc<Drive>)> = (0u8..)
            .zip(shared.drives())
            .filter_map(|(at, drive)| Some((at, drive?)))
            .collect();
        let found = on_each(&mut self.busy, drives, |drive| newest_on(&drive));
        let ours = |notes: &Notes| notes.container_family == self.container_family;
        let newest = found
            .into_values()
            .flatten()
            .filter(ours)
            .max_by_key(|notes| notes.sequence);
        if let Some(notes) = newest {
            self.sequence = notes.sequence;
            lock(&shared.scrubs.book).load(&notes.text);
        }
        lock(&shared.scrubs.book).set_every(every, now_s());
        shared.scrubs.loaded.store(true, Ordering::Release);
    }

    /// Looks at the engine's state once, and gives and stores what follows from it.
    fn keep(&mut self, shared: &Shared) {
        let snapshot = shared.snapshot();
        if snapshot.number == 0 {
            return;
        }
        let orders = self.look(shared, &snapshot);
        // A pause follows the order that continues its scrub; if that is refused, the pause must not be given.
        if orders.iter().any(|order| shared.command(*order).is_err()) {
            lock(&shared.scrubs.book).refused();
        }
        self.save_if(shared, &snapshot, self.saved_at.elapsed() >= SAVE_EVERY);
    }

    /// Writes the book if it has changed: after a turn at once, after mere progress only if it `is_due`.
    fn save_if(&mut self, shared: &Shared, snapshot: &Snapshot, is_due: bool) {
        let (revision, turn) = {
            let book = lock(&shared.scrubs.book);
            (book.revision, book.turns)
        };
        let volumes = &snapshot.record.volumes;
        let read_only = volumes.iter().all(|volume| volume.read_only);
        if revision != self.saved_revision && (is_due || turn != self.saved_turn) && !read_only {
            self.save(shared, snapshot);
            self.saved_turn = turn;
        }
    }

    fn look(&self, shared: &Shared, snapshot: &Snapshot) -> Vec<engine::control::message::Command> {
        let status = shared.status();
        let name = |member: MemberId| {
            let known = status.members.get(usize::from(member.0));
            known.map_or(String::new(), |member| member.name.clone())
        };
        let slots: Vec<Vec<(Option<MemberId>, String)>> = snapshot
            .record
            .volumes
            .iter()
            .map(|volume| {
                let members = volume.slots.iter().map(|slot| slot.member);
                members
                    .map(|member| (member, member.map_or(String::new(), name)))
                    .collect()
            })
            .collect();
        let jobs: Vec<_> = snapshot.volumes.iter().map(|(_, job)| *job).collect();
        let whole: Vec<bool> = status
            .volumes
            .iter()
            .map(|volume| volume.state == "optimal" && !volume.read_only)
            .collect();
        if whole.len() < jobs.len() {
            return Vec::new();
        }
        lock(&shared.scrubs.book).look(&Look {
            jobs: &jobs,
            whole: &whole,
            slots: &slots,
            now_s: now_s(),
            elapsed_s: self.began.elapsed().as_secs(),
        })
    }

    /// Writes the book to every drive that is in use.
    fn save(&mut self, shared: &Shared, snapshot: &Snapshot) {
        let (revision, text) = {
            let book = lock(&shared.scrubs.book);
            (book.revision, book.text(TEXT_BYTES_MAX))
        };
        self.sequence += 1;
        let notes = Arc::new(Notes {
            container_family: self.container_family,
            sequence: self.sequence,
            text,
        });
        let mpb = self.mpb.clone();
        let is_active = |member: u8| {
            let known = snapshot.record.members.get(usize::from(member));
            let is_active = known.is_some_and(|member| member.state == MemberState::Active);
            is_active && !snapshot.failed.has(MemberId(member))
        };
        let drives: Vec<(u8, Arc<Drive>)> = (0u8..)
            .zip(shared.drives())
            .filter_map(|(at, drive)| Some((at, drive?)))
            .filter(|(at, drive)| is_active(*at) && place_on(drive, &mpb).is_some())
            .filter(|(at, _)| !self.left_alone.contains(at))
            .collect();
        let count = drives.len();
        let written = on_each(&mut self.busy, drives, move |drive| {
            write(&drive, &mpb, &notes)
        });
        self.saved_at = Instant::now();
        let left = written
            .iter()
            .filter(|(_, end)| **end == Written::LeftAlone);
        let left: Vec<u8> = left.map(|(at, _)| *at).collect();
        // If one drive has taken the notes, they are stored. If none has, they are tried again, unless none may be
        // written.
        let is_done = written.values().any(|end| *end == Written::Done);
        let takes_none = left.len() == count;
        self.left_alone.extend(left);
        if is_done || takes_none {
            self.saved_revision = revision;
            shared
                .scrubs
                .saved_revision
                .store(revision, Ordering::Release);
        }
    }
}

fn placement(drive: &Drive) -> Option<(Placement, SectorSize)> {
    let sector = SectorSize::from_bytes(drive.sector_bytes())?;
    Some((Placement::new(drive.size_bytes(), sector).ok()?, sector))
}

/// The place of the notes on a drive; `None` if the structures of `mpb` leave no room for it.
fn place_on(drive: &Drive, mpb: &Mpb) -> Option<([ByteRange; 2], SectorSize)> {
    let (placement, sector) = placement(drive)?;
    has_room(&placement, mpb).then(|| (placement.notes(), sector))
}

/// The newer of the two notes on a drive; `None` if there are none or they cannot be read.
fn newest_on(drive: &Drive) -> Option<Notes> {
    let (placement, _) = placement(drive)?;
    let read = |place: ByteRange| {
        let bytes = drive.read_at(place.offset_bytes, place.length_bytes as usize);
        Notes::decode(&bytes.ok()?)
    };
    let copies = placement.notes().into_iter().filter_map(read);
    copies.max_by_key(|notes| notes.sequence)
}

/// The result of writing notes to a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Written {
    /// They are on the drive, durably.
    Done,
    /// They are not on the drive.
    Failed,
    /// The drive holds notes of a newer program version, which were left as they are.
    LeftAlone,
}

/// Writes notes to a drive.
fn write(drive: &Drive, mpb: &Mpb, notes: &Notes) -> Written {
    let Some((places, sector)) = place_on(drive, mpb) else {
        return Written::Failed;
    };
    for place in &places {
        // The place is read before each write, because a drive may have joined since the start. If it cannot be read,
        // it is not written either: a newer version's notes may be there.
        match drive.read_at(place.offset_bytes, sector.bytes()) {
            Ok(first) if newer_version(&first).is_some() => return Written::LeftAlone,
            Ok(_) => {}
            Err(_) => return Written::Failed,
        }
    }
    let place = places[notes.copy()];
    let written = notes.encode(sector).is_some_and(|bytes| {
        let written = drive.write_at(place.offset_bytes, &bytes);
        written.and_then(|()| drive.flush()).is_ok()
    });
    match written {
        true => Written::Done,
        false => Written::Failed,
    }
}

/// Calls `work` on each drive in parallel and returns the results that came in time. A drive that has not answered an
/// earlier call is left out.
pub(super) fn on_each<T: Send + 'static>(
    busy: &mut Busy,
    drives: Vec<(u8, Arc<Drive>)>,
    work: impl Fn(Arc<Drive>) -> T + Clone + Send + 'static,
) -> BTreeMap<u8, T> {
    let (answer, answers) = channel();
    let mut asked = 0;
    for (at, drive) in drives {
        let is_busy = busy.entry(at).or_default().clone();
        if is_busy.swap(true, Ordering::AcqRel) {
            continue;
        }
        let (answer, work) = (answer.clone(), work.clone());
        let thread = std::thread::Builder::new().name(format!("notes-{at}"));
        let started = thread.spawn({
            let is_busy = is_busy.clone();
            move || {
                // The write path may wait for this thread: its flushes and those of the drive's own threads exclude
                // each other.
                drives::flusher::join();
                let result = work(drive);
                is_busy.store(false, Ordering::Release);
                let _ = answer.send((at, result));
            }
        });
        match started {
            Ok(_) => asked += 1,
            Err(_) => is_busy.store(false, Ordering::Release),
        }
    }
    let deadline = Instant::now() + NOTES_WITHIN;
    let mut found = BTreeMap::new();
    while found.len() < asked {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((at, result)) = answers.recv_timeout(left) else {
            break;
        };
        found.insert(at, result);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::drive::Access;
    use drives::flusher;

    #[test]
    fn whoever_works_on_a_drive_has_joined_those_that_the_kernel_does_not_wait_for() {
        let may_join = std::thread::spawn(flusher::join).join();
        let drive = Drive::open(&"ram:1m".parse().unwrap(), Access::Exclusive).unwrap();
        let drives = vec![(0, Arc::new(drive))];
        let told = on_each(&mut Busy::new(), drives, |_| flusher::has_joined());
        assert_eq!(told.get(&0), Some(&may_join.unwrap()));
    }
}
