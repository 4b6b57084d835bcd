//! The file in which the events of an array outlast its server: one JSON object a line, oldest first.
//!
//! ```text
//! {"number":7,"time_s":1700000000,"kind":"member-failed","volume":null,"member":"/dev/nvme1n1","text":"…","warning":true}
//! ```
//!
//! A line is a [`NumberedEvent`] as the API gives it. Lines are appended. When the file would get too long, a new one
//! is written and renamed to its name: in it, older events of one kind about the same thing are [folded](fold), and
//! the oldest events are left out. A line that this program cannot parse completely, because a newer version has
//! written it or a crash has torn it, is never changed. Such lines are left out only if they alone fill a quarter of
//! the file.

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
/// Maximum size of the file: some six thousand events.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A longer file was not written by any version of this program.
const READ_BYTES_MAX: u64 = 64 << 20;
/// How many of the newest events are left as they are when older ones are folded.
const UNFOLDED: usize = 500;
/// How many numbers are skipped after a process whose end is not in the file: it may have given out numbers whose
/// events were not written. The writing thread is never further behind than this without missing events itself.
const NUMBERS_IN_DOUBT: u64 = crate::api::event_log::KEPT_MAX as u64;
/// The largest integer that all JSON readers accept; no array has so many events.
const NUMBER_MAX: u64 = 1 << 53;
/// The kind of the last event of a process that has ended in order.
const LAST_KIND: &str = "stopped";

/// The open file.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    size_max_bytes: u64,
    /// The file does not end with a complete line.
    is_torn: bool,
}

/// The content of the file when it was opened.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The events that could be parsed, by number.
    pub events: Vec<NumberedEvent>,
    /// The next event's number must be greater.
    pub newest: u64,
    /// The last process did not end in order.
    pub is_cut_short: bool,
}

impl EventFile {
    /// Opens the file in `folder`, or makes it.
    ///
    /// # Errors
    /// The file cannot be read or made, or is not a regular file.
    pub fn open(folder: &Path) -> Result<(EventFile, Earlier)> {
        EventFile::with_limit(folder, FILE_BYTES_MAX)
    }

    fn with_limit(folder: &Path, size_max_bytes: u64) -> Result<(EventFile, Earlier)> {
        let path = folder.join(NAME);
        // Opening a pipe would block until somebody opens its other end.
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

    /// A file on a full disk.
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

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `events`; with `durably`, they are flushed to the disk.
    ///
    /// # Errors
    /// The events are not in the file, or it is not known whether they are.
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
            // A part may have been written. The caller tries again.
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

    /// Replaces the file by a shorter one.
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

/// Parses a line as an event; it may contain unknown fields.
fn event(line: &[u8]) -> Option<NumberedEvent> {
    let event: NumberedEvent = serde_json::from_slice(line).ok()?;
    let span = event.span();
    let is_sound = (1..=NUMBER_MAX).contains(&event.number)
        && (1..=event.number).contains(&span.first_number)
        && span.count > 0;
    is_sound.then_some(event)
}

/// The event number in a line, even if nothing else in it can be parsed.
fn number(line: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value["number"]
        .as_u64()
        .filter(|number| *number <= NUMBER_MAX)
}

/// Whether `line` contains nothing beyond `event`.
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

/// A shorter version of `content`, which has become too long: at most three quarters of `size_max_bytes`.
fn shortened(content: &[u8], size_max_bytes: u64) -> Vec<u8> {
    let mut ours = Vec::new();
    // Each with the number of the event after which it stands.
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

/// The newest of `lines` that fit into `bytes_max` together.
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
