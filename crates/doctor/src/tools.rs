//! Programs that are useful together with an array. None is needed to serve.

use super::finding::Finding;
pub use container::machine::search_path;
use std::path::PathBuf;

const TOOLS: [(&str, &str); 5] = [
    ("fio", "measures drives and volumes"),
    ("nbd-client", "makes a volume a device /dev/nbdN"),
    ("nbdcopy", "copies volumes from and to files"),
    (
        "nbdkit",
        "serves files and test patterns by NBD, to compare with",
    ),
    (
        "mdadm",
        "reads and assembles the same arrays with the kernel's md",
    ),
];

/// Finds out which of the programs are in one of `folders`.
pub fn check(folders: &[PathBuf]) -> Vec<Finding> {
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    TOOLS
        .iter()
        .map(|(name, what_for)| {
            if is_there(name) {
                Finding::ok(name, format!("installed ({what_for})"))
            } else {
                Finding::note(name, format!("not installed ({what_for})"))
            }
        })
        .collect()
}
