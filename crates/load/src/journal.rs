//! What a session has measured so far, in a file beside its result, so that an interrupted session goes on where it was.
//!
//! The first line says what is measured, and each further line is one run. A line is on its medium before the next run begins. A last
//! line without an end was cut off by whatever interrupted the session, and is removed.

use super::run::Run;
use super::session::Session;
use anyhow::{Context, Result, bail, ensure};
use container::whole_file::sync_folder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What is measured. Runs of another session do not belong to the same result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// This program with its version: another one may count differently.
    pub program: String,
    /// fio's version, if it runs a load.
    pub fio: Option<String>,
    pub target: String,
    /// What tells a drive or file from another one that has its name by now.
    pub identity: Option<String>,
    pub size_bytes: u64,
    pub session: Session,
    /// Digests of the traces.
    pub traces: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    started: String,
    subject: Subject,
}

/// Something that was measured. Loads are counted from 0, in the order of the session.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// What the target does at most, of a load whose rate is a share of it.
    Maximum { load: usize, iops: f64 },
    /// A run of this program.
    Own {
        load: usize,
        repetition: u32,
        seed: u64,
        run: Box<Run>,
    },
    /// A run of fio, with its result.
    Fio {
        load: usize,
        repetition: u32,
        result: String,
    },
}

/// The file, which this process alone uses.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// A new file.
    ///
    /// # Errors
    ///
    /// It exists, or cannot be written.
    pub fn begin(path: &Path) -> Result<Journal> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path);
        if let Err(error) = &file
            && error.kind() == ErrorKind::AlreadyExists
        {
            bail!(
                "{} holds the runs of a session that has not ended: go on with it with --resume, or remove it",
                path.display()
            );
        }
        let failed = || format!("cannot write {}", path.display());
        let file = file.with_context(failed)?;
        // A power loss must not take the file's name.
        let begun = sync_folder(path)
            .with_context(failed)
            .and_then(|()| Journal::of(path, file));
        if begun.is_err() {
            // It holds no runs. If it cannot be removed either, the next attempt names it.
            let _ = std::fs::remove_file(path);
        }
        begun
    }

    /// The file of a session that was interrupted.
    ///
    /// # Errors
    ///
    /// There is none, or it is in use.
    pub fn resume(path: &Path) -> Result<Journal> {
        let file = File::options().read(true).write(true).open(path);
        if let Err(error) = &file
            && error.kind() == ErrorKind::NotFound
        {
            bail!(
                "{} does not exist, so there is nothing to go on with; leave out --resume",
                path.display()
            );
        }
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Journal::of(path, file)
    }

    fn of(path: &Path, file: File) -> Result<Journal> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!("{} is in use by another session", path.display()),
            other => other.with_context(|| format!("cannot lock {}", path.display()))?,
        }
        Ok(Journal {
            path: path.to_owned(),
            file,
        })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins with `subject`, or reads what an earlier process has measured of it: when that began, and its entries. `None` if
    /// nothing was measured before: then the session begins here.
    ///
    /// # Errors
    ///
    /// The file is of another session, is damaged, or cannot be written.
    pub(crate) fn open(
        &mut self,
        subject: Subject,
        now: String,
    ) -> Result<Option<(String, Vec<Entry>)>> {
        let path = self.path.display().to_string();
        let mut text = String::new();
        let read = self.file.read_to_string(&mut text);
        read.with_context(|| format!("cannot read {path}"))?;
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        let cut = self.file.set_len(whole as u64);
        cut.and_then(|()| self.file.seek(SeekFrom::End(0)))
            .with_context(|| format!("cannot write {path}"))?;
        if whole == 0 {
            self.add(&Head {
                started: now,
                subject,
            })?;
            return Ok(None);
        }
        let mut lines = text[..whole].lines();
        let damaged = |number: usize| {
            format!(
                "{path}: line {number} is damaged; remove this file and the result to begin again"
            )
        };
        let head = lines.next().unwrap_or_default();
        let head: Head = serde_json::from_str(head).with_context(|| damaged(1))?;
        ensure!(
            head.subject == subject,
            "{path} holds runs of other loads or options, of another target, or of another version of this program: name the \
             same ones, or remove this file and the result to begin again"
        );
        let entries = (2..).zip(lines).map(|(number, line)| {
            serde_json::from_str::<Entry>(line).with_context(|| damaged(number))
        });
        Ok(Some((head.started, entries.collect::<Result<_>>()?)))
    }

    /// Adds a line, which is on its medium when this returns.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn add(&mut self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line).context("a run has no form as JSON")?;
        let written = self.file.write_all((text + "\n").as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Removes the file, when the result is written.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn remove(self) -> Result<()> {
        let removed = std::fs::remove_file(&self.path);
        removed.with_context(|| format!("cannot remove {}", self.path.display()))
    }
}
