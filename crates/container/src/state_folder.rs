//! Where the program keeps files of its own between runs: one rule, and a list of these files.
//!
//! ```text
//! $XDG_STATE_HOME/fullstripe/     or /var/lib/fullstripe/ for root, ~/.local/state/fullstripe/ for others
//!   backups/                      copies of metadata from before a change (`backup`)
//!   arrays/CONTAINER-UUID/        what the server of an array keeps across restarts
//! ```
//!
//! None of these files is used to decide what is on the drives.

use anyhow::{Context, Result, bail};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
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
    // The XDG base directory specification says that a relative path is to be ignored.
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

/// The folder of one array, below the program's; `container_uuid` is in the form that mdadm prints.
#[must_use]
pub fn of_array(program_folder: &Path, container_uuid: &str) -> PathBuf {
    program_folder.join("arrays").join(container_uuid)
}

/// Whether a process serves the array with this folder ([`of_array`]): its server keeps the folder locked.
///
/// # Errors
/// The folder exists, but cannot be opened or locked.
pub fn is_served(array_folder: &Path) -> Result<bool> {
    let cannot = || {
        format!(
            "cannot find out whether {} is locked",
            array_folder.display()
        )
    };
    let folder = match File::open(array_folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened.with_context(cannot)?,
    };
    match folder.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_folder_is_that_of_a_served_array() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_served(&folder.path().join("none")).unwrap());
        assert!(!is_served(folder.path()).unwrap());
        let server = File::open(folder.path()).unwrap();
        server.try_lock().unwrap();
        assert!(is_served(folder.path()).unwrap());
        drop(server);
        assert!(!is_served(folder.path()).unwrap());
    }

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
