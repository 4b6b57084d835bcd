//! Writes a `.tar.gz`.

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tar::{Builder, Header};

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
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_s = since.map_or(0, |since| since.as_secs());
        let write = || -> Result<()> {
            let mut to = Builder::new(GzEncoder::new(&self.file, Compression::default()));
            for (name, content) in files {
                let mut header = Header::new_gnu();
                header.set_mode(MODE);
                header.set_mtime(time_s);
                header.set_size(content.len() as u64);
                to.append_data(&mut header, format!("{folder}/{name}"), &content[..])?;
            }
            to.into_inner()?.finish()?;
            Ok(self.file.sync_all()?)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// The name of the archive without its extension.
fn folder_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".tar.gz").unwrap_or(&name);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    name.chars().filter(is_plain).collect()
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
            ("sub/block".to_owned(), vec![7; 512]),
            (format!("sub/{}", "long".repeat(50)), vec![b'x'; 100_001]),
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
