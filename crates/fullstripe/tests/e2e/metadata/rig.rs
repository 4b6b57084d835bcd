//! A folder with drives, and the binary run in it.

use metadata::imsm::place::{Placement, decode_region, encode_image};
use metadata::imsm::{Mpb, SectorSize};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Size of the drives that [`Rig::drives`] makes.
pub const DRIVE_BYTES: u64 = 32 << 20;

/// A test's own folder, which also holds the backups.
pub struct Rig {
    folder: tempfile::TempDir,
}

/// The exit code and output of a run of the binary.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Rig {
    pub fn new() -> Rig {
        Rig {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A folder with `count` empty drives d0, d1, ….
    pub fn with_drives(count: usize) -> Rig {
        let rig = Rig::new();
        for at in 0..count {
            rig.drive(&format!("d{at}"), DRIVE_BYTES);
        }
        rig
    }

    /// A folder with an array, made by `create` with these words, then the names of its `count` drives.
    pub fn with_array(words: &str, count: usize) -> Rig {
        let rig = Rig::with_drives(count);
        let created = rig.run(&format!("create {words} {}", names(count)));
        assert_eq!(created.code, 0, "{created:?}");
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An empty drive.
    pub fn drive(&self, name: &str, size_bytes: u64) {
        File::create(self.path(name))
            .and_then(|file| file.set_len(size_bytes))
            .unwrap();
    }

    /// Writes bytes somewhere on a drive.
    pub fn put(&self, name: &str, offset_bytes: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
    }

    /// Where the shadow copy of a drive of [`DRIVE_BYTES`] starts.
    pub fn shadow_place(&self) -> u64 {
        let placement = Placement::new(DRIVE_BYTES, SectorSize::Bytes512).unwrap();
        placement.shadow().offset_bytes
    }

    /// Everything on a drive.
    pub fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The first and last 4 MiB of a drive. A metadata command changes nothing else unless it zeroes the whole drive.
    fn ends(&self, name: &str) -> Vec<u8> {
        const END_BYTES: u64 = 4 << 20;
        let file = File::open(self.path(name)).unwrap();
        let size_bytes = file.metadata().unwrap().len();
        let length = END_BYTES.min(size_bytes);
        let mut ends = vec![0; 2 * length as usize];
        let (head, tail) = ends.split_at_mut(length as usize);
        file.read_exact_at(head, 0).unwrap();
        file.read_exact_at(tail, size_bytes - length).unwrap();
        ends
    }

    /// Runs the binary with the words of `line`, in the folder.
    pub fn run(&self, line: &str) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        // No command takes long, but a `serve` that is not refused would never end.
        let output = Command::new("timeout")
            .args(["60", env!("CARGO_BIN_EXE_fullstripe")])
            .args(words)
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let outcome = Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(
            !outcome.stderr.contains("panicked"),
            "{line}: {}",
            outcome.stderr
        );
        outcome
    }

    /// As [`Rig::run`], but the command must succeed.
    pub fn done(&self, line: &str) -> Outcome {
        let outcome = self.run(line);
        assert_eq!(outcome.code, 0, "{line}: {outcome:?}");
        outcome
    }

    /// As [`Rig::run`] with `--json`; the command must end with `code`. Returns the JSON.
    pub fn json(&self, line: &str, code: i32) -> Value {
        let outcome = self.run(&format!("{line} --json"));
        assert_eq!(outcome.code, code, "{line}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// Runs the binary, which must fail with `code` and one sentence that contains `wanted`, and must not
    /// change the named drives.
    pub fn refused(&self, line: &str, code: i32, wanted: &str, drives: &[&str]) {
        let before: Vec<Vec<u8>> = drives.iter().map(|name| self.ends(name)).collect();
        let outcome = self.run(line);
        assert_eq!(outcome.code, code, "{line}: {outcome:?}");
        assert!(
            outcome.stderr.contains(wanted),
            "{line}: {wanted:?} is not in {:?}",
            outcome.stderr
        );
        let sentences = outcome.stderr.lines().count();
        assert_eq!(sentences, 1, "{line}: {}", outcome.stderr);
        for (name, before) in drives.iter().zip(before) {
            assert!(self.ends(name) == before, "{line}: {name} was changed");
        }
    }

    /// The record on a drive.
    pub fn record(&self, name: &str) -> Mpb {
        let (file, placement) = self.open(name);
        let region = placement.region_to_read();
        let mut bytes = vec![0; region.length_bytes as usize];
        file.read_exact_at(&mut bytes, region.offset_bytes).unwrap();
        let found = decode_region(&bytes, SectorSize::Bytes512).unwrap();
        found.unwrap().mpb
    }

    /// Puts a record on a drive.
    pub fn put_record(&self, name: &str, record: &Mpb) {
        let (file, placement) = self.open(name);
        let image = encode_image(record, SectorSize::Bytes512).unwrap();
        let at = placement.image(image.len()).offset_bytes;
        file.write_all_at(&image, at).unwrap();
    }

    /// Changes the record of a drive.
    pub fn change_record(&self, name: &str, change: impl FnOnce(&mut Mpb)) {
        let mut record = self.record(name);
        change(&mut record);
        self.put_record(name, &record);
    }

    fn open(&self, name: &str) -> (File, Placement) {
        let path = self.path(name);
        let file = File::options().read(true).write(true).open(path).unwrap();
        let size_bytes = file.metadata().unwrap().len();
        let placement = Placement::new(size_bytes, SectorSize::Bytes512).unwrap();
        (file, placement)
    }
}

/// `d0 d1 …`.
pub fn names(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|at| format!("d{at}")).collect();
    names.join(" ")
}

/// The program `name` if it is installed; says so if it is not.
pub fn program(name: &str) -> Option<PathBuf> {
    let places = std::env::var("PATH").unwrap_or_default();
    let found = places
        .split(':')
        .chain(["/sbin", "/usr/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: {name} is not installed");
    }
    found
}

/// Runs a program that must succeed.
pub fn run_program(path: &Path, words: &[&str]) -> String {
    let output = Command::new(path).args(words).output().unwrap();
    assert!(output.status.success(), "{path:?} {words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
