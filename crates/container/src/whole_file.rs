//! Replaces a whole file, so that a crash or a full disk leaves either the old content or the new one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Replaces the content of the file at `path` durably, or leaves the file as it is. The file gets the permissions
/// `mode`. The new content is first written to a file beside it whose name ends with `.new`.
///
/// # Errors
/// The new file cannot be written or renamed, or the folder cannot be flushed.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let new = path.with_extension("new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)
        .and_then(|mut file| {
            // The mode at the creation is limited by the user's umask.
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The unfinished file takes space on a disk that may be full.
        let _ = std::fs::remove_file(&new);
        return written;
    }
    sync_folder(path)
}

/// Flushes the folder of a file, so that the file's name is on its medium.
///
/// # Errors
/// The folder cannot be opened or flushed.
pub fn sync_folder(path: &Path) -> Result<()> {
    // The parent of a bare name is no folder that could be opened.
    let path = std::path::absolute(path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        for (content, mode) in [("one", 0o644), ("two", 0o600)] {
            replace(&path, content.as_bytes(), mode).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                mode
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // What cannot be renamed over a folder leaves nothing behind.
        let taken = folder.path().join("b");
        fs::create_dir(&taken).unwrap();
        replace(&taken, b"three", 0o644).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
