//! Finds the place for the demonstration's files: a new folder on a disk with enough room, or else in memory.
//!
//! `$TMPDIR` is used if it has room, because the user chose it. Otherwise `/tmp`, `/var/tmp` and `/dev/shm` are tried
//! in this order, and a disk is preferred to memory.

use super::guard::Guard;
use anyhow::{Context, Result, bail};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Free space required beyond the files' size: full file systems are slow, and other programs fail on them.
const SPARE_BYTES: u64 = 256 << 20;
/// Most names that are tried for the folder.
const NAMES_MAX: u32 = 100;
/// "TEMPFS" (linux/magic.h), the file system type of memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A folder that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    folder: PathBuf,
    free_bytes: u64,
    in_memory: bool,
    /// The user chose it with `$TMPDIR`.
    named: bool,
}

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub folder: PathBuf,
    /// Whether it is memory.
    pub in_memory: bool,
}

/// Makes a new folder where `needed_bytes` fit, and registers it with `guard`.
///
/// # Errors
/// There is no room anywhere, or the folder cannot be made.
pub(super) fn make(guard: &Guard, needed_bytes: u64) -> Result<Place> {
    let candidates = candidates();
    let chosen = choose(&candidates, needed_bytes + SPARE_BYTES)?;
    for attempt in 0..NAMES_MAX {
        let name = format!("fullstripe-demo-{}-{attempt}", std::process::id());
        let folder = chosen.folder.join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {
                guard.add_folder(&folder);
                let in_memory = chosen.in_memory;
                return Ok(Place { folder, in_memory });
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", folder.display()));
            }
        }
    }
    bail!(
        "{} is full of folders of earlier demonstrations; remove fullstripe-demo-* there",
        chosen.folder.display()
    )
}

/// Makes a sparse file.
///
/// # Errors
/// The file cannot be made.
pub(super) fn make_file(path: &Path, length_bytes: u64) -> Result<()> {
    File::create_new(path)
        .and_then(|file| file.set_len(length_bytes))
        .with_context(|| format!("cannot make {}", path.display()))
}

fn candidates() -> Vec<Candidate> {
    let named = std::env::var_os("TMPDIR").map(|folder| (PathBuf::from(folder), true));
    let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(|folder| (PathBuf::from(folder), false));
    named
        .into_iter()
        .chain(usual)
        .filter(|(folder, _)| folder.is_absolute())
        .filter_map(|(folder, named)| {
            let (system, space) = (
                rustix::fs::statfs(&folder).ok()?,
                rustix::fs::statvfs(&folder).ok()?,
            );
            Some(Candidate {
                free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
                in_memory: u64::try_from(system.f_type) == Ok(TMPFS_MAGIC),
                folder,
                named,
            })
        })
        .collect()
}

fn choose(candidates: &[Candidate], needed_bytes: u64) -> Result<&Candidate> {
    let roomy = || {
        candidates
            .iter()
            .filter(move |candidate| candidate.free_bytes >= needed_bytes)
    };
    let named = roomy().find(|candidate| candidate.named);
    let on_disk = || roomy().find(|candidate| !candidate.in_memory);
    let Some(chosen) = named.or_else(on_disk).or_else(|| roomy().next()) else {
        let looked_at: Vec<String> = candidates
            .iter()
            .map(|candidate| candidate.folder.display().to_string())
            .collect();
        bail!(
            "the demonstration's files need {} MiB, which none of {} has free; name a folder with room \
             in TMPDIR, or run `fullstripe demo --quick`",
            needed_bytes >> 20,
            looked_at.join(", ")
        );
    };
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(folder: &str, free_mib: u64, in_memory: bool) -> Candidate {
        Candidate {
            folder: folder.into(),
            free_bytes: free_mib << 20,
            in_memory,
            named: false,
        }
    }

    #[test]
    fn a_named_folder_goes_before_all_others_if_it_has_room() {
        let mut all = [
            candidate("/here", 500, true),
            candidate("/tmp", 9000, false),
        ];
        all[0].named = true;
        let chosen = |needed_mib: u64| choose(&all, needed_mib << 20).unwrap().folder.clone();
        assert_eq!(chosen(400), Path::new("/here"));
        assert_eq!(chosen(501), Path::new("/tmp"));
    }

    #[test]
    fn disks_go_before_memory_and_the_first_with_room_is_taken() {
        let all = [
            candidate("/tmp", 9000, true),
            candidate("/var/tmp", 10, false),
            candidate("/data", 9000, false),
        ];
        let chosen = |needed_mib: u64, count: usize| {
            choose(&all[..count], needed_mib << 20).map(|one| one.folder.display().to_string())
        };
        assert_eq!(chosen(5, 3).unwrap(), "/var/tmp");
        assert_eq!(chosen(2000, 3).unwrap(), "/data");
        assert_eq!(chosen(2000, 2).unwrap(), "/tmp");
        let error = chosen(9999, 2).unwrap_err().to_string();
        assert!(
            error.contains("9999 MiB, which none of /tmp, /var/tmp has free"),
            "{error}"
        );
    }

    #[test]
    fn the_folder_is_entered_and_new() {
        let guard = Guard::default();
        let (one, two) = (make(&guard, 0).unwrap(), make(&guard, 0).unwrap());
        assert_ne!(one.folder, two.folder);
        make_file(&two.folder.join("d0"), 1 << 20).unwrap();
        assert!(make_file(&two.folder.join("d0"), 1 << 20).is_err());
        guard.clear();
        assert!(!two.folder.exists());
        std::fs::remove_dir(&one.folder).unwrap();
    }
}
