//! Where the program keeps files of its own from one run to the next: the one rule, and what lies there.
//!
//! ```text
//! $XDG_STATE_HOME/fullstripe/     or /var/lib/fullstripe/ for root, ~/.local/state/fullstripe/ for others
//!   backups/                      copies of metadata from before a change (`commands::backup`)
//!   arrays/CONTAINER-UUID/        what the server of an array still knows after a restart
//!     events                      what has happened (`event_file`)
//!     settings.json               what an operator has ordered for good (`settings`)
//! ```
//!
//! Nothing here is needed to serve an array, and none of it is looked at to decide what is on the drives: without
//! these files the array is the same, and its server has forgotten something. So no failure here is more than a
//! warning. One thread writes, the [`keeper`]; nobody on the data path or in the API waits for it. Only the process
//! that serves the array writes, which a lock on the array's folder sees to.

pub mod event_file;
pub mod keeper;
pub mod settings;

use anyhow::{Result, bail};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The program's folder for such files.
///
/// # Errors
/// There is no home folder to put it in.
pub fn choose() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    choose_in(
        variable("XDG_STATE_HOME"),
        rustix::process::geteuid().is_root(),
        variable("HOME"),
    )
}

fn choose_in(state_home: Option<PathBuf>, is_root: bool, home: Option<PathBuf>) -> Result<PathBuf> {
    const OURS: &str = "fullstripe";
    // A relative path there is to be ignored (XDG base directory specification).
    if let Some(state) = state_home.filter(|path| path.is_absolute()) {
        return Ok(state.join(OURS));
    }
    if is_root {
        return Ok(Path::new("/var/lib").join(OURS));
    }
    match home.filter(|path| path.is_absolute()) {
        Some(home) => Ok(home.join(".local/state").join(OURS)),
        None => bail!("there is no home folder; set HOME or XDG_STATE_HOME"),
    }
}

/// The folder of one array below the program's; `container_uuid` as mdadm prints it.
#[must_use]
pub fn of_array(program_folder: &Path, container_uuid: &str) -> PathBuf {
    program_folder.join("arrays").join(container_uuid)
}

/// Makes the folder of an array and locks it for as long as what is returned lives.
///
/// # Errors
/// It cannot be made, or another process has it.
fn claim(folder: &Path) -> std::io::Result<File> {
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

/// Puts `content` in the place of the file at `path`, for good or not at all.
fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // It takes room of a disk that may be full.
        let _ = std::fs::remove_file(&new);
        return written;
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_environment_and_user() {
        let path = |text: &str| Some(PathBuf::from(text));
        let folder =
            |state, root, home| choose_in(state, root, home).map(|path| path.display().to_string());
        assert_eq!(folder(path("/s"), true, None).unwrap(), "/s/fullstripe");
        assert_eq!(
            folder(path("s"), true, None).unwrap(),
            "/var/lib/fullstripe"
        );
        assert_eq!(
            folder(None, false, path("/h")).unwrap(),
            "/h/.local/state/fullstripe"
        );
        assert!(folder(None, false, None).is_err());
        assert!(folder(None, false, path("h")).is_err());
    }
}
