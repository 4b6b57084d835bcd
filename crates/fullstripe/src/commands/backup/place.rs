//! Where backups go when the user names no file: a folder of the user's, or the system's for root.

use super::super::words::date;
use super::Backup;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Most files tried when names of the same second are taken.
const NAMES_MAX: u32 = 1000;

/// The folder for backups: `chosen`, else `$XDG_STATE_HOME/fullstripe/backups`, else
/// `/var/lib/fullstripe/backups` for root and `~/.local/state/fullstripe/backups` for others.
///
/// # Errors
/// There is neither a choice nor a home folder.
pub fn folder(chosen: Option<&Path>) -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    choose_folder(
        chosen,
        variable("XDG_STATE_HOME"),
        rustix::process::geteuid().is_root(),
        variable("HOME"),
    )
}

fn choose_folder(
    chosen: Option<&Path>,
    state_home: Option<PathBuf>,
    is_root: bool,
    home: Option<PathBuf>,
) -> Result<PathBuf> {
    const BELOW: &str = "fullstripe/backups";
    if let Some(chosen) = chosen {
        return Ok(chosen.to_owned());
    }
    // A relative path there is to be ignored (XDG base directory specification).
    if let Some(state) = state_home.filter(|path| path.is_absolute()) {
        return Ok(state.join(BELOW));
    }
    if is_root {
        return Ok(Path::new("/var/lib").join(BELOW));
    }
    match home.filter(|path| path.is_absolute()) {
        Some(home) => Ok(home.join(".local/state").join(BELOW)),
        None => bail!("there is no home folder for the backup; name a folder with --backup"),
    }
}

/// Writes `backup` to a new file in [`folder`] and returns its path. The name says what was done and when.
///
/// # Errors
/// The folder cannot be made or the file not be written; then nothing may be changed.
pub fn keep(backup: &Backup, chosen: Option<&Path>) -> Result<PathBuf> {
    let folder = folder(chosen)?;
    std::fs::create_dir_all(&folder).with_context(|| {
        format!(
            "cannot make the folder {} for the backup; name another with --backup",
            folder.display()
        )
    })?;
    let when: String = date(backup.header.created_unix_s)
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    for attempt in 0..NAMES_MAX {
        let extra = if attempt == 0 {
            String::new()
        } else {
            format!("-{attempt}")
        };
        let path = folder.join(format!("{}-{when}{extra}.backup", backup.header.reason));
        if !path.exists() {
            backup.write_new(&path)?;
            return Ok(path);
        }
    }
    bail!(
        "{} has too many backups of this second; try again",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_choice_environment_and_user() {
        let path = |text: &str| Some(PathBuf::from(text));
        let folder = |chosen, state, root, home| {
            choose_folder(chosen, state, root, home).map(|path| path.display().to_string())
        };
        assert_eq!(
            folder(Some(Path::new("b")), path("/s"), true, None).unwrap(),
            "b"
        );
        assert_eq!(
            folder(None, path("/s"), true, None).unwrap(),
            "/s/fullstripe/backups"
        );
        assert_eq!(
            folder(None, path("s"), true, None).unwrap(),
            "/var/lib/fullstripe/backups"
        );
        assert_eq!(
            folder(None, None, false, path("/h")).unwrap(),
            "/h/.local/state/fullstripe/backups"
        );
        assert!(folder(None, None, false, None).is_err());
    }

    #[test]
    fn two_backups_of_one_second_get_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("new");
        let backup = Backup::new("test");
        let first = keep(&backup, Some(&below)).unwrap();
        let second = keep(&backup, Some(&below)).unwrap();
        assert_ne!(first, second);
        assert_eq!(Backup::read(&second).unwrap(), backup);
    }
}
