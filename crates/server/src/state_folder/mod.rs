//! The state that an array's server keeps across restarts, in the array's folder below
//! [the program's](container::state_folder).
//!
//! ```text
//! events            what has happened (`event_file`)
//! alerts.json       alerts that have not arrived yet (`alerting`)
//! settings.json     what an operator has set for later starts too, and the array's spares (`settings`)
//! ```
//!
//! None of it is needed to serve an array, or used to decide what is on the drives: without these files the array is
//! the same, and its server has only forgotten something. So a failure here is never more than a
//! warning. One thread writes, the [`keeper`], and another the alerts; neither the data path nor the API waits for it. Only the process
//! that serves the array writes; a lock on the array's folder ensures that.

pub mod event_file;
pub mod keeper;
pub mod settings;

use container::whole_file;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes the folder of an array and locks it for as long as the returned file is open.
///
/// # Errors
/// The folder cannot be made, or another process has locked it.
pub(crate) fn claim(folder: &Path) -> std::io::Result<File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let claimed = File::open(folder)?;
    claimed.try_lock().map_err(|error| match error {
        std::fs::TryLockError::WouldBlock => {
            std::io::Error::other("another process serves this array, or a copy of it")
        }
        std::fs::TryLockError::Error(error) => error,
    })?;
    Ok(claimed)
}

/// As [`whole_file::replace`], for files that only the user of this process may read.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    whole_file::replace(path, content, 0o600)
}
