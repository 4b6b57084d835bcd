//! The file in which the events of an array outlast its server: one JSON object a line, oldest first.
//!
//! ```text
//! {"number":7,"time_s":1700000000,"kind":"member-failed","volume":null,"member":"/dev/nvme1n1","text":"…","warning":true}
//! ```
//!
//! A line is a [`NumberedEvent`] as the API gives it. Lines are appended. When the file would get too long, a new one
//! is written and takes its name: older events that tell the same of the same thing are [folded](fold), and the oldest
//! left out. A line that this program does not understand whole, because a newer one has written it or a crash has torn
//! it, is never changed. It is left out only when such lines alone fill a quarter of the file.

use super::write_whole;
use crate::api::event_log::fold::fold;
use crate::api::schema::NumberedEvent;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name in the array's folder.
pub const NAME: &str = "events";
/// The file is not longer: some six thousand events.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A longer file is none of ours, whatever the version.
const READ_BYTES_MAX: u64 = 64 << 20;
/// So many of the newest are left as they are when older ones are folded.
const UNFOLDED: usize = 500;
/// After an end that is not on file, numbers that may have been given out and not been written are left out. Whoever
/// writes is not further behind, or has missed events itself.
const NUMBERS_IN_DOUBT: u64 = crate::api::event_log::KEPT_MAX as u64;
/// What JSON readers take for an integer ends here, and no array has so many events.
const NUMBER_MAX: u64 = 1 << 53;
/// The last event of a process that has ended in order.
const LAST_KIND: &str = "stopped";

/// The open file.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    size_max_bytes: u64,
    /// What is there last is not a whole line.
    is_torn: bool,
}

/// What was on file.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The events that could be understood, by number.
    pub events: Vec<NumberedEvent>,
    /// The next event has a greater number.
    pub newest: u64,
    /// The last process left no word of an orderly end.
    pub is_cut_short: bool,
}

impl EventFile {
    /// Opens the file in `folder`, or makes it.
    ///
    /// # Errors
    /// It cannot be read or made, or is something else.
    pub fn open(folder: &Path) -> Result<(EventFile, Earlier)> {
        EventFile::with_limit(folder, FILE_BYTES_MAX)
    }

    fn with_limit(folder: &Path, size_max_bytes: u64) -> Result<(EventFile, Earlier)> {
        let path = folder.join(NAME);
        // Opening a pipe would wait for its other side.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Error::other("it is not a file"));
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)?;
        let content = read(&path)?;
        let earlier = Earlier::of(&content);
        let file = EventFile {
            path,
            file,
            size_bytes: content.len() as u64,
            size_max_bytes,
            is_torn: content.last().is_some_and(|&byte| byte != b'\n'),
        };
        Ok((file, earlier))
    }

    /// One to which nothing can be written.
    #[cfg(test)]
    pub fn of_full_disk() -> EventFile {
        let path = PathBuf::from("/dev/full");
        EventFile {
            file: OpenOptions::new().append(true).open(&path).unwrap(),
            path,
            size_bytes: 0,
            size_max_bytes: FILE_BYTES_MAX,
            is_torn: false,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `events`; with `durably`, they outlast a power cut from now on.
    ///
    /// # Errors
    /// They are not on file, or that is not known.
    pub fn append(&mut self, events: &[NumberedEvent], durably: bool) -> Result<()> {
        let mut lines = Vec::new();
        for event in events {
            lines.extend(line(event)?);
        }
        if self.size_bytes + lines.len() as u64 + 1 > self.size_max_bytes {
            self.turn_over()?;
        }
        if self.is_torn {
            lines.insert(0, b'\n');
        }
        if let Err(error) = self.file.write_all(&lines) {
            // Part of it may be there. It will be tried again.
            self.is_torn |= self.file.set_len(self.size_bytes).is_err();
            return Err(error);
        }
        self.is_torn = false;
        self.size_bytes += lines.len() as u64;
        if durably {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }

    /// Puts a shorter file in its place.
    fn turn_over(&mut self) -> Result<()> {
        let content = shortened(&read(&self.path)?, self.size_max_bytes);
        write_whole(&self.path, &content)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.size_bytes = content.len() as u64;
        self.is_torn = false;
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let size_bytes = path.metadata()?.len();
    if size_bytes > READ_BYTES_MAX {
        let text = format!("it has {size_bytes} bytes; move it away");
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    std::fs::read(path)
}

fn line(event: &NumberedEvent) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(event)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// A line that is an event, whatever else it may say.
fn event(line: &[u8]) -> Option<NumberedEvent> {
    let event: NumberedEvent = serde_json::from_slice(line).ok()?;
    let span = event.span();
    let is_sound = (1..=NUMBER_MAX).contains(&event.number)
        && (1..=event.number).contains(&span.first_number)
        && span.count > 0;
    is_sound.then_some(event)
}

/// The number that a line gives, also where nothing else in it is understood.
fn number(line: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value["number"]
        .as_u64()
        .filter(|number| *number <= NUMBER_MAX)
}

/// Whether `event` is all that `line` says.
fn says_no_more(line: &[u8], event: &NumberedEvent) -> bool {
    let read: Option<Value> = serde_json::from_slice(line).ok();
    read == serde_json::to_value(event).ok()
}

impl Earlier {
    fn of(content: &[u8]) -> Earlier {
        let mut events: Vec<NumberedEvent> = lines(content).filter_map(event).collect();
        let last_is_end = events
            .last()
            .is_some_and(|event| event.event.kind == LAST_KIND);
        events.sort_by_key(|event| event.number);
        events.dedup_by_key(|event| event.number);
        let newest = lines(content).filter_map(number).max().unwrap_or(0);
        let is_cut_short = newest > 0 && !last_is_end;
        Earlier {
            events,
            newest: newest + if is_cut_short { NUMBERS_IN_DOUBT } else { 0 },
            is_cut_short,
        }
    }
}

/// What is left of `content` when it has become too long: at most three quarters of `size_max_bytes`.
fn shortened(content: &[u8], size_max_bytes: u64) -> Vec<u8> {
    let mut ours = Vec::new();
    // With the number after which each stands.
    let mut foreign = Vec::new();
    let mut after = 0;
    for line in lines(content) {
        after = number(line).unwrap_or(after);
        match event(line) {
            Some(event) if says_no_more(line, &event) => ours.push(event),
            _ => foreign.push((after, [line, b"\n"].concat())),
        }
    }
    let newer = ours.split_off(ours.len().saturating_sub(UNFOLDED));
    let ours = fold(ours).into_iter().chain(newer);
    let ours = ours.filter_map(|event| Some((event.number, line(&event).ok()?)));
    let mut kept = newest(ours.collect(), size_max_bytes / 2);
    kept.extend(newest(foreign, size_max_bytes / 4));
    kept.sort_by_key(|(number, _)| *number);
    kept.into_iter().flat_map(|(_, line)| line).collect()
}

/// The newest of `lines` that have together at most `bytes_max`.
fn newest(mut lines: Vec<(u64, Vec<u8>)>, bytes_max: u64) -> Vec<(u64, Vec<u8>)> {
    let mut bytes = 0;
    let too_old = lines.iter().rposition(|(_, line)| {
        bytes += line.len() as u64;
        bytes > bytes_max
    });
    lines.split_off(too_old.map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests;
