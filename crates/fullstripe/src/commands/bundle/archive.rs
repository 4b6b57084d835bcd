//! Writes a `.tar.gz`: entries in the format of POSIX `ustar`, compressed by gzip.
//!
//! ```text
//! one entry: a header of 512 bytes, the content, zeros up to a multiple of 512; at the end two blocks of zeros
//!
//!   offset  length
//!        0     100  name, ended by a zero
//!      100       8  mode, in octal digits, ended by a zero, as all numbers
//!      108       8  user,  116  8  group
//!      124      12  length of the content in bytes
//!      136      12  time, seconds since 1970
//!      148       8  sum of all bytes of the header, with these as blanks
//!      156       1  type: '0' for a file
//!      257       8  "ustar", zero, "00"
//! ```

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of a header, and of the blocks that contents are filled up to.
const BLOCK_BYTES: usize = 512;
/// What the name's field holds beside its zero.
const NAME_BYTES_MAX: usize = 99;
/// Only the owner of the bundle may read it, and its files once they are unpacked.
const MODE: u32 = 0o600;

/// An archive that is about to be written.
pub struct Archive {
    file: File,
    path: PathBuf,
}

impl Archive {
    /// Makes an empty file of mode 0600.
    ///
    /// # Errors
    /// It exists already, or cannot be made.
    pub fn create(path: &Path) -> Result<Archive> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE);
        match options.open(path) {
            Ok(file) => Ok(Archive {
                file,
                path: path.to_owned(),
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{shown} exists already; remove it, or give the bundle another name")
            }
            Err(error) => Err(error).with_context(|| format!("cannot make {shown}")),
        }
    }

    /// Writes the files, each with its name below a folder that is called like the archive.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let folder = folder_of(&self.path);
        let write = || -> Result<()> {
            let mut to = GzEncoder::new(&self.file, Compression::default());
            for (name, content) in files {
                to.write_all(&header(&format!("{folder}/{name}"), content.len())?)?;
                to.write_all(content)?;
                let filled = content.len().next_multiple_of(BLOCK_BYTES);
                to.write_all(&vec![0; filled - content.len()])?;
            }
            to.write_all(&[0; 2 * BLOCK_BYTES])?;
            to.finish()?;
            Ok(self.file.sync_all()?)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Most characters of the folder's name; the names of files need the rest.
const FOLDER_LENGTH_MAX: usize = 40;

/// The name of the archive without its extension.
fn folder_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".tar.gz").unwrap_or(&name);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    name.chars()
        .filter(is_plain)
        .take(FOLDER_LENGTH_MAX)
        .collect()
}

fn header(name: &str, length_bytes: usize) -> Result<[u8; BLOCK_BYTES]> {
    if name.len() > NAME_BYTES_MAX {
        bail!("the name {name} is longer than {NAME_BYTES_MAX} bytes");
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let time_s = since.map_or(0, |since| since.as_secs());
    let mut header = [0; BLOCK_BYTES];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{MODE:07o}"));
    put(108, &format!("{:07o}", 0));
    put(116, &format!("{:07o}", 0));
    put(124, &format!("{length_bytes:011o}"));
    put(136, &format!("{time_s:011o}"));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// Another program reads what is written.
    #[test]
    fn tar_unpacks_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        let files = [
            ("empty".to_owned(), Vec::new()),
            ("sub/block".to_owned(), vec![7; BLOCK_BYTES]),
            ("sub/odd".to_owned(), vec![b'x'; 100_001]),
        ];
        Archive::create(&path).unwrap().write(&files).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let done = Command::new("tar")
            .args(["-xzf", "b.tar.gz"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        for (name, content) in &files {
            let unpacked = std::fs::read(folder.path().join("b").join(name)).unwrap();
            assert_eq!(&unpacked, content, "{name}");
        }
    }

    #[test]
    fn an_existing_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        std::fs::write(&path, "mine").unwrap();
        let error = Archive::create(&path).err().unwrap().to_string();
        assert!(error.ends_with("exists already; remove it, or give the bundle another name"));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
