//! Arrays that a release left in a crash are started by every later one: see `releases/README.md`.

mod crash;
mod judge;
mod kept;

use kept::Kept;
use std::path::{Path, PathBuf};

/// Names a folder to keep new images in: that of this version is made there.
const KEEP: &str = "FULLSTRIPE_KEEP_IMAGES";

fn releases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases")
}

#[test]
fn crashed_arrays_of_every_release_start() {
    let mut count = 0;
    for release in kept::folders(&releases()) {
        for kept in Kept::all_in(&release) {
            println!("{}", kept.title());
            judge::judge(&kept);
            count += 1;
        }
    }
    assert!(count >= crash::ALL.len(), "only {count} images are kept");
}

/// What will be kept of this version is made, packed, and judged like what is kept of others.
#[test]
fn crashed_arrays_of_this_version_can_be_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let release = folder.path().join(env!("CARGO_PKG_VERSION"));
    std::fs::create_dir(&release).expect("a folder for the images");
    for crash in crash::ALL {
        crash.keep_in(&release);
    }
    let made = Kept::all_in(&release);
    assert_eq!(made.len(), crash::ALL.len());
    made.iter().for_each(judge::judge);
    if let Some(place) = std::env::var_os(KEEP) {
        kept::move_to(&release, Path::new(&place));
    }
}
