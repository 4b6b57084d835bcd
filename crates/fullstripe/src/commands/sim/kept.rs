//! Saves states after a power cut as files, so that another program can judge them: the drives, what the volume may
//! hold, and a manifest that says which files belong together and how fullstripe starts the array.
//!
//! | file | what |
//! |---|---|
//! | `kept.json` | the manifest |
//! | `NAME/drive0`, `NAME/drive1` ... | the drives of a state, sparse |
//! | `NAME/content0`, ... | possible contents of the volume: each sector must equal that of one of these |

use anyhow::{Context, Result, bail};
use serde::Serialize;
use sim::cuts::sample::{KeptDrive, Sample, Start};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The manifest's file.
const MANIFEST: &str = "kept.json";

/// The manifest.
#[derive(Serialize, Default, Debug)]
pub(super) struct Manifest {
    /// Version of this schema: 1.
    version: u32,
    states: Vec<State>,
}

/// A state.
#[derive(Serialize, Debug)]
struct State {
    /// Name of its folder.
    name: String,
    level: u8,
    operation: &'static str,
    /// Instant at which the power was cut, and the state among those of that instant; both count from 1.
    cut: u64,
    state: u64,
    drives: Vec<DriveFile>,
    /// How the array starts; null if it did not exist yet.
    start: Option<Started>,
}

#[derive(Serialize, Debug)]
struct DriveFile {
    /// The drive's path, relative to the manifest's folder.
    file: String,
    serial: String,
}

#[derive(Serialize, Debug)]
struct Started {
    members: u8,
    /// Slots without a drive whose content is current.
    missing: u8,
    /// Redundancy is being established or restored.
    syncs: bool,
    /// Paths of the possible contents of the volume, of which each sector may hold any.
    contents: Vec<String>,
    /// Sectors that may hold anything: first one, and first one after them.
    anything: Vec<(u64, u64)>,
}

/// Makes the folder, which must not exist or be empty.
///
/// # Errors
/// The folder is not empty, or cannot be made.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    let place = || format!("the folder {}", folder.display());
    fs::create_dir_all(folder).with_context(place)?;
    if fs::read_dir(folder).with_context(place)?.next().is_some() {
        bail!("{} is not empty; give a new one to --keep", place());
    }
    Ok(())
}

impl Manifest {
    /// A manifest without states.
    pub(super) fn new() -> Manifest {
        Manifest {
            version: 1,
            states: Vec::new(),
        }
    }

    /// Writes the states that were kept of a level and an operation.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn add(
        &mut self,
        folder: &Path,
        (level, operation): (u8, &'static str),
        samples: &[Sample],
    ) -> Result<()> {
        for (sample, number) in samples.iter().zip(1..) {
            let name = format!("raid{level}-{operation}-{number}");
            fs::create_dir(folder.join(&name)).with_context(|| name.clone())?;
            let drives = sample.drives.iter().enumerate();
            let drives = drives.map(|(at, drive)| {
                let file = format!("{name}/drive{at}");
                write_drive(&folder.join(&file), drive).with_context(|| file.clone())?;
                let serial = drive.serial.clone();
                Ok(DriveFile { file, serial })
            });
            let drives = drives.collect::<Result<Vec<_>>>()?;
            let start = sample.start.as_ref();
            let start = start.map(|start| write_contents(folder, &name, start));
            self.states.push(State {
                level,
                operation,
                cut: sample.cut,
                state: sample.state,
                drives,
                start: start.transpose()?,
                name,
            });
        }
        Ok(())
    }

    /// Writes the manifest itself.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(folder.join(MANIFEST), text + "\n").context(MANIFEST)
    }
}

fn write_drive(path: &Path, drive: &KeptDrive) -> Result<()> {
    let file = File::create_new(path)?;
    file.set_len(drive.size_bytes)?;
    for (at, page) in &drive.pages {
        file.write_all_at(&page[..], *at)?;
    }
    Ok(())
}

fn write_contents(folder: &Path, name: &str, start: &Start) -> Result<Started> {
    let contents = start.contents.iter().enumerate();
    let contents = contents.map(|(at, content)| {
        let file = format!("{name}/content{at}");
        fs::write(folder.join(&file), content).with_context(|| file.clone())?;
        Ok(file)
    });
    let anything = start.anything.iter();
    Ok(Started {
        members: start.members,
        missing: start.missing,
        syncs: start.syncs,
        contents: contents.collect::<Result<_>>()?,
        anything: anything.map(|range| (range.start, range.end)).collect(),
    })
}
