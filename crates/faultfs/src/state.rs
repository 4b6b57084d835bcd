//! The state of the file system, behind one lock: files, journal, faults, and whether there is power.

use crate::faults::{CutAt, Fault};
use crate::journal::{Entry, Operation, tag};
use crate::media::{Content, Loss, Media};
use crate::mounted::Options;
use repeatable::random::Stream;
use std::time::{Duration, Instant};

/// The errno of every operation after a power cut.
pub(crate) const EIO: i32 = 5;
const SECTOR_BYTES: usize = 512;
/// How long an answer is held back at most.
const HELD_MAX: Duration = Duration::from_micros(1500);

/// A file.
#[derive(Debug)]
pub(crate) struct File {
    pub name: String,
    pub media: Media,
    /// How many times the file is open.
    pub open_count: u32,
}

/// Sends the answer to an operation.
pub(crate) trait Waiting: Send {
    /// Answers with success (0) or an errno.
    fn answer(self: Box<Self>, errno: i32);
}

/// An answer that is held back.
struct Held {
    entry: usize,
    until: Instant,
    /// How many more operations must come before it is sent.
    passing: u64,
    waiting: Box<dyn Waiting>,
}

/// See the module's documentation.
pub(crate) struct State {
    pub options: Options,
    pub files: Vec<File>,
    pub journal: Vec<Entry>,
    pub faults: Vec<Fault>,
    pub cut_at: Option<CutAt>,
    pub is_cut: bool,
    moment: u64,
    random: Stream,
    held: Vec<Held>,
}

impl State {
    pub fn new(options: Options, files: &[(&str, u64)]) -> State {
        let file = |(name, size_bytes): &(&str, u64)| File {
            name: (*name).to_owned(),
            media: Media::new(*size_bytes),
            open_count: 0,
        };
        State {
            files: files.iter().map(file).collect(),
            journal: Vec::new(),
            faults: Vec::new(),
            cut_at: None,
            is_cut: false,
            moment: 0,
            random: Stream::new(options.seed, "faultfs", 0),
            held: Vec::new(),
            options,
        }
    }

    pub fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn arrive(&mut self, file: usize, operation: Operation, offset: u64, length: u64) -> Entry {
        let arrived = self.moment();
        for held in &mut self.held {
            held.passing = held.passing.saturating_sub(1);
        }
        Entry {
            file,
            operation,
            offset_bytes: offset,
            length_bytes: length,
            dsync: false,
            arrived,
            answered: None,
            durable: None,
            errno: 0,
            tags: Vec::new(),
            content: Vec::new(),
        }
    }

    /// What happens to an entry: its errno, whether it is carried out, and whether a failed sync loses its writes.
    fn fate(&mut self, entry: &Entry) -> (i32, bool, bool) {
        if self.is_cut {
            return (EIO, false, false);
        }
        if let Some(cut_at) = &mut self.cut_at
            && cut_at.strikes(entry)
        {
            let is_carried_out = cut_at.is_carried_out;
            self.cut_at = None;
            self.is_cut = true;
            return (EIO, is_carried_out, false);
        }
        // Each fault keeps its own count. Faults are tried in order until one matches.
        let mut faults = self.faults.iter_mut();
        match faults.find_map(|fault| fault.strikes(entry).then_some(fault)) {
            Some(fault) => (fault.errno, false, fault.loses),
            None => (0, true, false),
        }
    }

    /// A read; returns the bytes or an errno.
    pub fn read(&mut self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>, i32> {
        let mut entry = self.arrive(file, Operation::Read, offset, length);
        let (errno, _, _) = self.fate(&entry);
        entry.errno = errno;
        entry.answered = Some(self.moment());
        if self.options.keeps_reads {
            self.journal.push(entry);
        }
        match errno {
            0 => Ok(self.files[file].media.read(offset, length).to_vec()),
            errno => Err(errno),
        }
    }

    /// A write of `data`, answered through `waiting` now or later.
    pub fn write(
        &mut self,
        (file, offset): (usize, u64),
        data: &[u8],
        dsync: bool,
        waiting: Box<dyn Waiting>,
    ) {
        let length = data.len() as u64;
        let mut entry = self.arrive(file, Operation::Write, offset, length);
        entry.dsync = dsync;
        if offset.is_multiple_of(SECTOR_BYTES as u64) {
            entry.tags = data.chunks_exact(SECTOR_BYTES).map(tag).collect();
        }
        let size = self.files[file].media.size_bytes();
        if entry.end_bytes() > size.saturating_sub(self.options.kept_bytes) {
            entry.content = data.to_vec();
        }
        self.take(entry, Content::Bytes(data.to_vec()), waiting);
    }

    /// Zeroes a range.
    pub fn zero(
        &mut self,
        (file, offset): (usize, u64),
        length: u64,
        operation: Operation,
        waiting: Box<dyn Waiting>,
    ) {
        let entry = self.arrive(file, operation, offset, length);
        self.take(entry, Content::Zeros(length), waiting);
    }

    fn take(&mut self, mut entry: Entry, content: Content, waiting: Box<dyn Waiting>) {
        const EFBIG: i32 = 27;
        let file = entry.file;
        let (mut errno, mut is_taken, _) = self.fate(&entry);
        if entry.end_bytes() > self.files[file].media.size_bytes() {
            (errno, is_taken) = (EFBIG, false);
        }
        entry.errno = errno;
        let at = self.journal.len();
        if is_taken {
            self.files[file]
                .media
                .change(at, entry.offset_bytes, content);
        }
        self.journal.push(entry);
        self.answer_or_hold(at, waiting);
    }

    /// A sync. The writes that it covers become durable when it is answered.
    pub fn sync(&mut self, file: usize, waiting: Box<dyn Waiting>) {
        let mut entry = self.arrive(file, Operation::Sync, 0, 0);
        let (errno, is_taken, loses) = self.fate(&entry);
        entry.errno = errno;
        let arrived = entry.arrived;
        self.journal.push(entry);
        let at = self.journal.len() - 1;
        if is_taken && errno != 0 {
            // The power is cut at this sync, which is still carried out.
            self.files[file].media.sync(arrived, false);
        } else if loses {
            self.files[file].media.sync(arrived, true);
        }
        self.answer_or_hold(at, waiting);
    }

    fn answer_or_hold(&mut self, at: usize, waiting: Box<dyn Waiting>) {
        let (times, of) = self.options.held;
        if self.journal[at].errno == 0 && times > 0 && self.random.chance(times, of) {
            let passing = self.random.between(1, 8);
            let until = Instant::now() + HELD_MAX;
            self.held.push(Held {
                entry: at,
                until,
                passing,
                waiting,
            });
        } else {
            self.answer(at, waiting);
        }
        self.release();
    }

    fn answer(&mut self, at: usize, waiting: Box<dyn Waiting>) {
        let moment = self.moment();
        if self.is_cut {
            self.journal[at].errno = EIO;
        }
        let entry = &mut self.journal[at];
        entry.answered = Some(moment);
        let (file, errno, arrived) = (entry.file, entry.errno, entry.arrived);
        let is_heeded = entry.dsync && self.options.heeds_dsync;
        if errno == 0 && entry.operation == Operation::Sync {
            for covered in self.files[file].media.sync(arrived, false) {
                self.journal[covered].durable = Some(moment);
            }
            self.journal[at].durable = Some(moment);
        } else if errno == 0 {
            self.files[file].media.answered(at, moment);
            if is_heeded {
                for settled in self.files[file].media.sync_entry(at) {
                    self.journal[settled].durable = Some(moment);
                }
            }
        }
        waiting.answer(errno);
    }

    /// Sends the answers that have been held back long enough; returns when the next one is due.
    pub fn release(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(at) = self
            .held
            .iter()
            .position(|held| self.is_cut || held.passing == 0 || held.until <= now)
        {
            let held = self.held.swap_remove(at);
            self.answer(held.entry, held.waiting);
        }
        self.held.iter().map(|held| held.until).min()
    }

    /// Cuts the power now.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.cut_at = None;
        self.release();
    }

    /// Restores the power; each file loses what its entry of `losses` says.
    pub fn go_on(&mut self, losses: &[Loss], random: &mut Stream) {
        self.release();
        for (file, loss) in self.files.iter_mut().zip(losses) {
            file.media.lose(*loss, random);
        }
        self.journal.clear();
        self.faults.clear();
        self.cut_at = None;
        self.is_cut = false;
    }
}
