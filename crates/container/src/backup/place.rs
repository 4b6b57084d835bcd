//! Where backups go when the user names no file.

use super::Backup;
use crate::state_folder;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use words::date;

/// Maximum number of file names tried when names of the same second exist already.
const NAMES_MAX: u32 = 1000;

/// The folder for backups: `chosen`, else `backups` in the [state folder](state_folder).
///
/// # Errors
/// No folder was chosen and there is no home folder.
pub fn folder(chosen: Option<&Path>) -> Result<PathBuf> {
    if let Some(chosen) = chosen {
        return Ok(chosen.to_owned());
    }
    let state = state_folder::choose()
        .context("there is no place for the backup; name a folder with --backup")?;
    Ok(state.join("backups"))
}

/// Writes `backup` to a new file in [`folder`] and returns its path. The name says what was done and when.
///
/// # Errors
/// The folder cannot be made or the file cannot be written; then nothing may be changed.
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
