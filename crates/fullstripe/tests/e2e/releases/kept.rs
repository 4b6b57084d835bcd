//! An array that is kept: its drives, packed, and its ledger, which says what has to be read from them.

use crate::common::{Bed, run, tool};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Largest file that the repository takes.
const FILE_BYTES_MAX: u64 = 512 << 10;

/// What a start has to do, whatever words the program has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duty {
    /// Synchronise everything.
    Resync,
    /// Synchronise the regions that the write-intent bitmap marks.
    ResyncMarked,
    /// Replay the write-hole log, and synchronise nothing.
    Replay,
    /// Take the record from the shadows, and synchronise everything.
    UseShadows,
}

/// A write.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Write {
    /// Its number, from 1.
    pub number: u32,
    pub offset_bytes: u64,
    pub length_bytes: u64,
    /// Whether it was; otherwise each sector may be of this write or of the one before.
    pub acknowledged: bool,
}

/// See the module's prose. Fields are added and never change their meaning: all versions have to read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    /// Version of the program that wrote the drives.
    pub program: String,
    pub level: u8,
    /// Drives, called d0, d1, ….
    pub members: usize,
    pub volume: String,
    pub volume_bytes: u64,
    pub duty: Duty,
    /// In their order; what none of them wrote reads as zeros.
    pub writes: Vec<Write>,
}

/// A kept array.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    pub ledger: Ledger,
}

impl Kept {
    /// All of a release, by name.
    pub fn all_in(release: &Path) -> Vec<Kept> {
        let mut all: Vec<Kept> = entries(release)
            .into_iter()
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .map(|path| {
                let text = std::fs::read_to_string(&path).expect("a ledger");
                let ledger = serde_json::from_str(&text);
                let ledger = ledger.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                Kept { path, ledger }
            })
            .collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }

    /// Packs the drives of `bed`.
    pub fn pack(bed: &Bed, ledger: &Ledger, release: &Path, name: &str) {
        let packed = release.join(format!("{name}.tar.gz"));
        let names: Vec<String> = (0..ledger.members).map(|at| format!("d{at}")).collect();
        // The same drives give the same archive.
        let mut tar = tool("tar");
        tar.args([
            "--create",
            "--gzip",
            "--sparse",
            "--format=gnu",
            "--sort=name",
        ]);
        tar.args(["--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg("--file")
            .arg(&packed)
            .arg("--directory")
            .arg(bed.path("."));
        run(tar.args(names), 60).ok();
        let bytes = std::fs::metadata(&packed).expect("it is made").len();
        assert!(
            bytes <= FILE_BYTES_MAX,
            "{name}: {bytes} bytes are too many"
        );
        let text = serde_json::to_string_pretty(ledger).expect("plain data") + "\n";
        std::fs::write(release.join(format!("{name}.json")), text).expect("room for a ledger");
    }

    /// The drives in a folder of their own, as they were left.
    pub fn unpack(&self) -> Bed {
        let mut bed = Bed::new(0, 0);
        let mut tar = tool("tar");
        tar.args(["--extract", "--gzip", "--file"]);
        tar.arg(self.path.with_extension("tar.gz"));
        run(tar.arg("--directory").arg(bed.path(".")), 60).ok();
        bed.adopt_drives(self.ledger.members);
        bed
    }

    /// For messages.
    pub fn title(&self) -> String {
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        format!("{name} of {}", self.ledger.program)
    }
}

/// What a write brings to a sector: readable, and different in every sector of every write.
pub fn content(number: u32, sector: u64) -> Vec<u8> {
    let text = format!("write {number}, sector {sector}; ");
    text.bytes().cycle().take(SECTOR_BYTES).collect()
}

/// The releases of which something is kept.
pub fn folders(releases: &Path) -> Vec<PathBuf> {
    let mut folders = entries(releases);
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// Keeps what was made; what is kept of a version already stays as it is.
pub fn move_to(release: &Path, releases: &Path) {
    let place = releases.join(release.file_name().expect("a version"));
    assert!(
        !place.exists(),
        "{} is kept already, and is never made anew",
        place.display()
    );
    std::fs::create_dir_all(&place).expect("a folder can be made");
    for path in entries(release) {
        let name = path.file_name().expect("a file");
        std::fs::copy(&path, place.join(name)).expect("room for a copy");
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    entries
        .map(|entry| entry.expect("it can be read").path())
        .collect()
}
