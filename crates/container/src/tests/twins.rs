//! Two names with one serial number.

use super::*;

/// Probes the array's first drive and `other`, and returns the refusal.
fn refusal(bench: &Bench, other: &str) -> String {
    let path = |name: &str| bench.folder.path().join(name).display().to_string();
    let error = probe_all(&[path("d0.img"), path(other)], Access::ReadOnly).unwrap_err();
    error.to_string().replace(&path(""), "")
}

#[test]
fn a_drive_that_is_seen_twice_is_told_from_drives_with_equal_serials() {
    let bench = Bench::new(Level::Raid1, 2, 1);
    let at = |name: &str| bench.folder.path().join(name);
    std::fs::create_dir_all(at("copy")).unwrap();
    std::fs::copy(at("d0.img"), at("copy/d0.img")).unwrap();
    let sentence = refusal(&bench, "copy/d0.img");
    assert!(
        sentence.starts_with(
            "d0.img and copy/d0.img have the same serial number d0.img and the same record, so they are two paths"
        ),
        "{sentence}"
    );
    // Without a record, nothing says that it is the same drive.
    let file = std::fs::File::create(at("copy/d0.img")).unwrap();
    file.set_len(64 * MIB).unwrap();
    let sentence = refusal(&bench, "copy/d0.img");
    assert!(
        sentence.ends_with("so give one of them another with ,serial=NAME"),
        "{sentence}"
    );
}
