//! The calls by which configfs is changed. Tests have a configfs of their own, because an ordinary folder behaves otherwise:
//! in configfs the kernel makes the files of a folder, and removes them with it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Calls to a file system.
pub trait Calls {
    /// Makes a folder; the kernel fills it.
    ///
    /// # Errors
    /// The kernel's.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with the files that the kernel has put there.
    ///
    /// # Errors
    /// `EBUSY` if a link leads to it, `ENOTEMPTY` if it still has a folder or link that somebody has made.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the link `path` to `target`, both absolute: the kernel looks the target up at once.
    ///
    /// # Errors
    /// The kernel's.
    fn link(&self, target: &Path, path: &Path) -> io::Result<()>;
    /// Removes a link.
    ///
    /// # Errors
    /// The kernel's.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Writes a file that is there.
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Reads a file, without the blanks around its text.
    ///
    /// # Errors
    /// The kernel's.
    fn read(&self, path: &Path) -> io::Result<String> {
        Ok(std::fs::read_to_string(path)?.trim().to_owned())
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// The kernel's.
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// A number that a folder keeps for as long as it is there. The next folder of this name has another one.
    ///
    /// # Errors
    /// There is no such folder, or the kernel's.
    fn identity(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.ino())
    }
}

/// The calls of this machine.
pub struct System;

impl Calls for System {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // A file that is missing is not made.
        OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(text.as_bytes())
    }
}
