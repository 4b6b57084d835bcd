//! Reads what the kernel and the system's configuration show, below a root that tests can choose.
//!
//! Every path is given as on a running machine, like `/sys/class/nvme`. A file that cannot be read counts as absent:
//! kernels differ in the files they have, and a check that finds none says so or reports nothing.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree with `sys`, `proc`, `etc`, `usr` and `lib` in it.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// The tree below `root`; `/` is this machine.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Files {
        Files { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text without white space at its ends; `None` when it is empty or cannot be read.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let text = self.bytes(path)?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The file's bytes; `None` when it cannot be read.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    /// The number in the file; `None` if there is anything else.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Whether there is such a file or folder.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted with numbers in them ordered by value.
    #[must_use]
    pub fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_by(|left, right| by_number(left, right));
        names
    }

    /// Where the tree is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path with all links followed, relative to the root.
    #[must_use]
    pub fn real(&self, path: &str) -> Option<String> {
        let root = self.root.canonicalize().ok()?;
        let real = self.path(path).canonicalize().ok()?;
        let inside = real.strip_prefix(root).ok()?;
        Some(format!("/{}", inside.to_string_lossy()))
    }
}

/// The last part of a path.
#[must_use]
pub fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path without its last part.
#[must_use]
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Orders `nvme2` before `nvme10`.
fn by_number(left: &str, right: &str) -> Ordering {
    let key = |text: &str| {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (head, number) = text.split_at(digits);
        (head.to_owned(), number.parse::<u64>().ok())
    };
    key(left).cmp(&key(right)).then_with(|| left.cmp(right))
}

/// The number of values in a list of ranges like `0-3,8`.
#[must_use]
pub fn range_count(text: &str) -> Option<u64> {
    text.split(',').try_fold(0u64, |sum, part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        sum.checked_add(to.checked_sub(from)?.checked_add(1)?)
    })
}

/// The values of a list of ranges like `0-3,8`; `None` for more than any machine has processors.
#[must_use]
pub fn range_values(text: &str) -> Option<Vec<u64>> {
    const MOST: u64 = 1 << 16;
    if range_count(text)? > MOST {
        return None;
    }
    let parts = text.split(',').map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<u64>().ok()?..=to.trim().parse::<u64>().ok()?)
    });
    let parts: Option<Vec<_>> = parts.collect();
    Some(parts?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted() {
        assert_eq!(range_count("0"), Some(1));
        assert_eq!(range_count("0-3,8"), Some(5));
        assert_eq!(range_values("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(range_values("0-99999"), None);
        for nonsense in ["", "3-1", "a", "0-18446744073709551615"] {
            assert_eq!(range_count(nonsense), None, "{nonsense}");
            assert_eq!(range_values(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvme10", "nvme2", "sda", "loop0"] {
            fs::write(folder.path().join(name), " 7 \n").unwrap();
        }
        let files = Files::below(folder.path());
        assert_eq!(files.list("/"), ["loop0", "nvme2", "nvme10", "sda"]);
        assert_eq!(files.number("/nvme2"), Some(7));
        assert_eq!(files.text("/absent"), None);
        assert_eq!(files.real("/sda").as_deref(), Some("/sda"));
    }
}
