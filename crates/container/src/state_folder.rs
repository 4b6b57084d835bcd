//! Where the program keeps files of its own between runs: one rule, and a list of these files.
//!
//! ```text
//! $XDG_STATE_HOME/fullstripe/     or /var/lib/fullstripe/ for root, ~/.local/state/fullstripe/ for others
//!   backups/                      copies of metadata from before a change (`backup`)
//!   arrays/CONTAINER-UUID/        what the server of an array keeps across restarts
//! ```
//!
//! None of these files is used to decide what is on the drives.
//!
//! Arrays start before file systems are mounted. If `/etc/fstab` mounts one at `/var`, or elsewhere above `/var/lib/fullstripe`, a
//! server that starts at boot would find another folder there than one that starts later. Then root's folder is
//! `/etc/fullstripe/state`, which is on the root file system at all times.

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
    let root = rustix::process::geteuid().is_root();
    choose_in(
        variable("XDG_STATE_HOME"),
        root.then(|| of_root(&fstab())),
        variable("HOME"),
    )
}

/// The machine's table of file systems; without one, nothing is mounted by it.
fn fstab() -> String {
    std::fs::read_to_string("/etc/fstab").unwrap_or_default()
}

/// Root's folder on a machine with this table of file systems.
fn of_root(fstab: &str) -> PathBuf {
    const USUAL: &str = "/var/lib/fullstripe";
    const ON_ROOT_FILE_SYSTEM: &str = "/etc/fullstripe/state";
    let is_above = |line: &str| {
        let is_entry = !line.trim_start().starts_with('#');
        let mount_point = line.split_whitespace().nth(1).filter(|_| is_entry);
        mount_point.is_some_and(|at| at != "/" && Path::new(USUAL).starts_with(at))
    };
    PathBuf::from(if fstab.lines().any(is_above) {
        ON_ROOT_FILE_SYSTEM
    } else {
        USUAL
    })
}

fn choose_in(
    state_home: Option<PathBuf>,
    of_root: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Result<PathBuf> {
    const OURS: &str = "fullstripe";
    // The XDG base directory specification says that a relative path is to be ignored.
    if let Some(state) = state_home.filter(|path| path.is_absolute()) {
        return Ok(state.join(OURS));
    }
    if let Some(folder) = of_root {
        return Ok(folder);
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
        assert_eq!(
            folder(path("/s"), path("/r"), None).unwrap(),
            "/s/fullstripe"
        );
        assert_eq!(folder(path("s"), path("/r"), None).unwrap(), "/r");
        assert_eq!(
            folder(None, None, path("/h")).unwrap(),
            "/h/.local/state/fullstripe"
        );
        assert!(folder(None, None, None).is_err());
        assert!(folder(None, None, path("h")).is_err());
    }

    #[test]
    fn what_is_mounted_over_the_folder_after_the_start_is_evaded() {
        let usual = Path::new("/var/lib/fullstripe");
        for fstab in [
            "",
            "# /dev/sda2 /var ext4 defaults 0 2",
            "/dev/sda1 / ext4 defaults 0 1\n/dev/sda3 none swap sw 0 0\n/dev/sda4 /var/log ext4 defaults 0 2",
            "/dev/sda1 /variable ext4 defaults 0 2",
        ] {
            assert_eq!(of_root(fstab), usual, "{fstab}");
        }
        for above in ["/var", "/var/", "/var/lib", "/var/lib/fullstripe"] {
            let fstab =
                format!("UUID=1\t/\text4\tdefaults\t0 1\n  UUID=2 {above}\text4 defaults 0 2");
            let folder = of_root(&fstab);
            assert_eq!(folder, Path::new("/etc/fullstripe/state"), "{fstab}");
        }
    }
}
