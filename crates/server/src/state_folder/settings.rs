//! What later starts are to know besides events, in a small file: the limit of background work that an operator has set, and the
//! serial numbers of the array's spares, as in `{"rate_bytes_per_s": 209715200, "spares": ["S3X9NX0M404137"]}`.
//!
//! The file is replaced by a new one. Fields that a newer version has put into it are kept.

use super::write_whole;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Name in the array's folder.
pub const NAME: &str = "settings.json";
/// A longer file was not written by this program.
const FILE_BYTES_MAX: u64 = 64 << 10;
const RATE: &str = "rate_bytes_per_s";
const SPARES: &str = "spares";

/// The file of one array.
#[derive(Clone, Debug)]
pub struct Settings {
    path: PathBuf,
}

impl Settings {
    /// The settings in the array's folder.
    #[must_use]
    pub fn within(folder: &Path) -> Settings {
        Settings {
            path: folder.join(NAME),
        }
    }

    /// The limit of background work, if one was ordered: bytes of each member per second, 0 for none.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn rate_bytes_per_s(&self) -> Result<Option<u64>> {
        match self.read()?.get(RATE) {
            None => Ok(None),
            Some(rate) => match rate.as_u64() {
                Some(rate) => Ok(Some(rate)),
                None => bail!("{}: {RATE} is no number", self.path.display()),
            },
        }
    }

    /// Stores the limit of background work.
    ///
    /// # Errors
    /// The file cannot be read, understood or written; then it is left as it was.
    pub fn keep_rate(&self, bytes_per_s: u64) -> Result<()> {
        self.keep(RATE, bytes_per_s.into())
    }

    /// The serial numbers of the spares that the array had when they were stored last.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn spares(&self) -> Result<BTreeSet<String>> {
        let Some(spares) = self.read()?.remove(SPARES) else {
            return Ok(BTreeSet::new());
        };
        let shown = self.path.display();
        serde_json::from_value(spares)
            .with_context(|| format!("{shown}: {SPARES} is no list of serial numbers"))
    }

    /// Stores the serial numbers of the array's spares.
    ///
    /// # Errors
    /// The file cannot be read, understood or written; then it is left as it was.
    pub fn keep_spares(&self, serials: &BTreeSet<String>) -> Result<()> {
        self.keep(SPARES, serials.iter().cloned().collect())
    }

    fn keep(&self, name: &str, value: Value) -> Result<()> {
        let mut all = self.read()?;
        all.insert(name.to_owned(), value);
        let text = serde_json::to_string_pretty(&all)? + "\n";
        write_whole(&self.path, text.as_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn read(&self) -> Result<Map<String, Value>> {
        let shown = self.path.display();
        // Opening a pipe would block until somebody opens its other end.
        match self.path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Map::new()),
            Ok(found) if !found.is_file() => bail!("{shown} is not a file"),
            _ => {}
        }
        let mut text = String::new();
        std::fs::File::open(&self.path)
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
            .with_context(|| format!("cannot read {shown}"))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{shown} is no JSON object; move it away"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_rate_is_kept_and_what_others_wrote_stays() {
        let folder = TempDir::new().unwrap();
        let settings = Settings::within(folder.path());
        assert_eq!(settings.rate_bytes_per_s().unwrap(), None);
        settings.keep_rate(200 << 20).unwrap();
        assert_eq!(settings.rate_bytes_per_s().unwrap(), Some(200 << 20));
        let newer = r#"{"colour": {"of": ["doors"]}, "rate_bytes_per_s": 7}"#;
        std::fs::write(&settings.path, newer).unwrap();
        settings.keep_rate(0).unwrap();
        assert_eq!(settings.rate_bytes_per_s().unwrap(), Some(0));
        let text = std::fs::read_to_string(&settings.path).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["colour"]["of"][0], "doors", "{text}");
    }

    #[test]
    fn spares_are_kept_beside_a_rate() {
        let folder = TempDir::new().unwrap();
        let settings = Settings::within(folder.path());
        let serials = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(settings.spares().unwrap(), serials(&[]));
        settings.keep_spares(&serials(&["S1", "S2"])).unwrap();
        settings.keep_rate(7).unwrap();
        assert_eq!(settings.spares().unwrap(), serials(&["S1", "S2"]));
        settings.keep_spares(&serials(&[])).unwrap();
        assert_eq!(settings.spares().unwrap(), serials(&[]));
        assert_eq!(settings.rate_bytes_per_s().unwrap(), Some(7));
        std::fs::write(&settings.path, "{\"spares\": [3]}").unwrap();
        let error = settings.spares().unwrap_err().to_string();
        assert!(
            error.ends_with("spares is no list of serial numbers"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_understood_is_neither_used_nor_overwritten() {
        let folder = TempDir::new().unwrap();
        let settings = Settings::within(folder.path());
        for text in ["{\"rate_by", "[1]", ""] {
            std::fs::write(&settings.path, text).unwrap();
            let error = settings.rate_bytes_per_s().unwrap_err().to_string();
            assert!(error.contains("is no JSON object; move it away"), "{error}");
            settings.keep_rate(1).unwrap_err();
            assert_eq!(std::fs::read_to_string(&settings.path).unwrap(), text);
        }
        std::fs::write(&settings.path, "{\"rate_bytes_per_s\": \"fast\"}").unwrap();
        let error = settings.rate_bytes_per_s().unwrap_err().to_string();
        assert!(error.ends_with("rate_bytes_per_s is no number"), "{error}");
    }
}
