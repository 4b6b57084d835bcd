//! A folder of its own for each test, with files that serve as drives.

use super::process::{Said, run, tied};
use super::serve::Starting;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with files that serve as drives.
pub struct Bed {
    folder: TempDir,
    drives: Vec<PathBuf>,
}

impl Bed {
    /// `count` sparse files of `size_bytes`, named `d0`, `d1`, ….
    pub fn new(count: usize, size_bytes: u64) -> Bed {
        Bed::within(&std::env::temp_dir(), count, size_bytes)
    }

    /// The same in a folder below `place`.
    pub fn within(place: &Path, count: usize, size_bytes: u64) -> Bed {
        let folder = TempDir::with_prefix_in("fullstripe-e2e-", place).expect("a temporary folder");
        let mut bed = Bed {
            folder,
            drives: Vec::new(),
        };
        for at in 0..count {
            let path = bed.file(&format!("d{at}"), size_bytes);
            bed.drives.push(path);
        }
        bed
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A new sparse file in the folder.
    pub fn file(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path)
            .and_then(|file| file.set_len(size_bytes))
            .expect("room for a file");
        path
    }

    /// Uses the files `d0`, `d1`, … that are already in the folder as drives.
    pub fn adopt_drives(&mut self, count: usize) {
        self.drives = (0..count).map(|at| self.path(&format!("d{at}"))).collect();
    }

    /// The drive with this number.
    pub fn drive(&self, at: usize) -> &Path {
        &self.drives[at]
    }

    /// All drives.
    pub fn drives(&self) -> &[PathBuf] {
        &self.drives
    }

    /// The first `count` drives.
    pub fn first(&self, count: usize) -> &[PathBuf] {
        &self.drives[..count]
    }

    /// Uses another path for a drive.
    pub fn replace_drive(&mut self, at: usize, path: PathBuf) {
        self.drives[at] = path;
    }

    /// A command line of the built binary.
    pub fn fullstripe(&self, arguments: &[&str]) -> Command {
        let mut command = tied(Path::new(env!("CARGO_BIN_EXE_fullstripe")));
        command.args(arguments).current_dir(self.folder.path());
        // Backups and remembered state go into this test's own folder.
        command
            .env("XDG_STATE_HOME", self.folder.path())
            .env("HOME", self.folder.path());
        command
    }

    /// Makes an array of `members` whose one volume is called `name`.
    #[track_caller]
    pub fn create(&self, name: &str, level: u8, members: &[PathBuf], more: &[&str]) -> Said {
        self.try_create(name, level, members, more).ok()
    }

    /// As [`Bed::create`], but the command may be refused.
    #[track_caller]
    pub fn try_create(&self, name: &str, level: u8, members: &[PathBuf], more: &[&str]) -> Said {
        let level = level.to_string();
        let mut command = self.fullstripe(&["create", name, "--level", &level]);
        run(command.args(more).args(members), 60)
    }

    /// Prepares to serve `members`.
    pub fn serve<'a>(&'a self, members: &[PathBuf]) -> Starting<'a> {
        Starting::new(self, members)
    }

    /// Prepares to serve the array `name` of a settings file.
    pub fn serve_array<'a>(&'a self, name: &str, settings: &Path) -> Starting<'a> {
        Starting::of_array(self, name, settings)
    }

    /// Waits until the kernel has released the drives of a killed process, which happens when the last I/O of that
    /// process has ended.
    pub fn wait_released(&self) {
        for path in &self.drives {
            let file = File::open(path).expect("the drive is there");
            file.lock().expect("it can be locked");
        }
    }

    /// Overwrites a range of a drive with `byte`, without the server's knowledge.
    pub fn scribble(&self, at: usize, offset_bytes: u64, length_bytes: usize, byte: u8) {
        let file = OpenOptions::new()
            .write(true)
            .open(&self.drives[at])
            .expect("the drive is there");
        file.write_all_at(&vec![byte; length_bytes], offset_bytes)
            .expect("it can be written");
        file.sync_all().expect("it can be flushed");
    }

    /// Changes the length of a drive's file.
    pub fn set_length(&self, at: usize, size_bytes: u64) {
        let file = OpenOptions::new()
            .write(true)
            .open(&self.drives[at])
            .expect("the drive is there");
        file.set_len(size_bytes).expect("its length can be changed");
    }
}
