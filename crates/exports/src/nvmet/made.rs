//! Remembers which folders of configfs fullstripe has made: one file for each, which outlives the process, as the folders do.
//!
//! A file has the folder's number ([`Calls::identity`]): if somebody has removed our folder and made another one of the same
//! name, that one is not ours.

use super::tree::Calls;
use anyhow::{Context, Result};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What hosts connect to.
    Subsystem,
    /// An address.
    Port,
    /// A host that is known.
    Host,
}

impl Kind {
    /// The folder of all of this kind.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Subsystem => "subsystems",
            Kind::Port => "ports",
            Kind::Host => "hosts",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Subsystem => "subsystem",
            Kind::Port => "port",
            Kind::Host => "host",
        })
    }
}

/// The notes in a folder.
#[derive(Clone, Debug)]
pub struct Notes(PathBuf);

impl Notes {
    /// Notes in `folder`, which is made when the first one is written.
    #[must_use]
    pub fn new(folder: &Path) -> Notes {
        Notes(folder.to_owned())
    }

    fn file(&self, kind: Kind, name: &str) -> PathBuf {
        self.0.join(format!("{kind}.{name}"))
    }

    /// Notes that the folder `path` is ours.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn add(&self, calls: &dyn Calls, kind: Kind, name: &str, path: &Path) -> Result<()> {
        let file = self.file(kind, name);
        let identity = calls.identity(path);
        let identity = identity.with_context(|| format!("cannot look at {}", path.display()))?;
        std::fs::create_dir_all(&self.0)
            .and_then(|()| std::fs::write(&file, identity.to_string()))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Whether there is a note of this name. The folder may be gone, or may be somebody else's by now.
    #[must_use]
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.file(kind, name).exists()
    }

    /// Whether fullstripe has made the folder `path`.
    ///
    /// # Errors
    /// The note cannot be read.
    pub fn is_ours(&self, calls: &dyn Calls, kind: Kind, name: &str, path: &Path) -> Result<bool> {
        let file = self.file(kind, name);
        let noted = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            read => read.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let identity = calls.identity(path);
        Ok(identity.is_ok_and(|identity| noted == identity.to_string()))
    }

    /// Forgets a folder that is gone.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(&self, kind: Kind, name: &str) -> Result<()> {
        let file = self.file(kind, name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("cannot remove {}", file.display())),
        }
    }
}
