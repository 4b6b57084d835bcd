//! Answers of the simulator that are already on disk: the same question to the same program has the same answer.
//!
//! A question is everything that an answer depends on ([`Virtual::question`]): the configuration, the figures wanted,
//! all numbers of its drive, platform and host. An answer also depends on the program, so answers lie in a folder named
//! by a digest of the running program. If a model, a stack or a price changes, the old answers are therefore not read.
//!
//! ```text
//! $XDG_CACHE_HOME/fullstripe/predictions/      or ~/.cache/fullstripe/predictions/
//!   DIGEST-OF-THE-PROGRAM/
//!     DIGEST-OF-THE-QUESTION                   first line: digest of the rest, which is JSON
//! ```
//!
//! A file that cannot be read or does not match its digest is reported, and its answer is computed again. An answer
//! that cannot be written is not remembered, without further consequence.

use crate::predict::{Answer, digest};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Most answers of one build. No more are written.
const ANSWERS_MAX: usize = 20_000;
/// Builds whose answers are kept besides those of the running program; the oldest are removed.
const OTHER_BUILDS_MAX: usize = 3;
/// A longer file was not written by this program.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The folder of remembered answers; `None` if there is no such folder or remembering is off.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    folder: Option<PathBuf>,
}

/// An answer, and the time that computing it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The answer.
    pub answer: Answer,
    /// User time spent on computing it, if the kernel reports it.
    pub user_cpu_seconds: Option<f64>,
}

/// The content of a file. It includes the question, so that two questions with the same digest can be told apart.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    question: String,
    kept: Kept,
}

/// The folder for all builds, according to these environment variables.
fn home(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The XDG base directory specification says to ignore a relative path.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let cache = cache_home.and_then(absolute);
    let cache = cache.or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    Some(cache?.join("fullstripe/predictions"))
}

fn name(digest: u128) -> String {
    format!("{digest:032x}")
}

fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

impl Remembered {
    /// Answers of the running program, in the user's cache folder.
    #[must_use]
    pub fn open() -> Remembered {
        let builds = home(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        /// Computed once: the program is long, and does not change while it runs.
        static PROGRAM: OnceLock<Option<u128>> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let program = std::env::current_exe().and_then(fs::read).ok()?;
            Some(digest(&program))
        });
        match (builds, program) {
            (Some(builds), Some(program)) => Remembered::below(&builds, *program),
            _ => Remembered::default(),
        }
    }

    /// Answers of one build, in a subfolder of `builds`.
    fn below(builds: &Path, build: u128) -> Remembered {
        let folder = builds.join(name(build));
        if !folder.is_dir() {
            // Old builds are removed when a new build first runs.
            forget_old(builds);
        }
        let count = fs::read_dir(&folder).map_or(0, Iterator::count);
        Remembered {
            folder: (count < ANSWERS_MAX).then_some(folder),
        }
    }

    /// The answer to a question, if it is there.
    ///
    /// # Errors
    /// If there is an answer and it is damaged: a sentence.
    pub fn recall(&self, question: &str) -> Result<Option<Kept>> {
        let Some(path) = self.path(question) else {
            return Ok(None);
        };
        let Ok(file) = fs::metadata(&path) else {
            return Ok(None);
        };
        match read(&path, file.len()) {
            Ok(entry) if entry.question == question => Ok(Some(entry.kept)),
            // This is another question with the same digest.
            Ok(_) => Ok(None),
            Err(error) => {
                let path = path.display();
                bail!(
                    "The cached prediction {path} cannot be used and is computed anew: {error:#}."
                )
            }
        }
    }

    /// Stores an answer, if possible.
    pub fn keep(&self, question: &str, kept: &Kept) {
        let Some(path) = self.path(question) else {
            return;
        };
        let entry = Entry {
            question: question.to_owned(),
            kept: kept.clone(),
        };
        let written = write(&path, &entry);
        // A failure has no consequence but that the answer is computed again, so it is not reported.
        drop(written);
    }

    fn path(&self, question: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(name(digest(question.as_bytes()))))
    }
}

fn read(path: &Path, length_bytes: u64) -> Result<Entry> {
    ensure!(length_bytes <= ANSWER_BYTES_MAX, "it is too long");
    let text = fs::read_to_string(path).context("it cannot be read")?;
    let (sum, json) = text.split_once('\n').context("it is cut short")?;
    let is_whole = sum == name(digest(json.as_bytes()));
    ensure!(is_whole, "it is damaged");
    serde_json::from_str(json).context("it has another form")
}

/// Writes a file atomically: it is there as a whole or not at all.
fn write(path: &Path, entry: &Entry) -> Result<()> {
    let json = serde_json::to_string(entry)?;
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    let thread = std::thread::current().id();
    let unfinished = path.with_extension(format!("{}-{thread:?}", std::process::id()));
    fs::write(
        &unfinished,
        format!("{}\n{json}", name(digest(json.as_bytes()))),
    )?;
    Ok(fs::rename(unfinished, path)?)
}

/// Removes the answers of the builds that were used longest ago.
fn forget_old(builds: &Path) {
    let Ok(entries) = fs::read_dir(builds) else {
        return;
    };
    let ours = entries.flatten().filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().to_str().is_some_and(is_name)
    });
    let used_at = |path: &Path| {
        let metadata = fs::metadata(path).and_then(|metadata| metadata.modified());
        metadata.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut folders: Vec<(SystemTime, PathBuf)> = ours
        .map(|entry| (used_at(&entry.path()), entry.path()))
        .collect();
    folders.sort_unstable();
    let surplus = folders.len().saturating_sub(OTHER_BUILDS_MAX);
    for (_, folder) in &folders[..surplus] {
        // A folder that cannot be removed stays.
        drop(fs::remove_dir_all(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::CoresByBook;
    use crate::predict::point::Rebuild;
    use lab::claims::predictor::{Prediction, Samples};
    use lab::schema::metric::Metric;
    use lab::schema::results::Value;
    use lab::statistics::interval::Interval;
    use std::collections::BTreeMap;

    /// An answer with numbers that only an exact encoding restores.
    fn answer() -> Kept {
        let value = Value {
            interval: Some(Interval::new(0.1 + 0.2, f64::INFINITY)),
            ..Value::new(Metric::Iops, 1.0 / 3.0)
        };
        let answer = Answer {
            prediction: Prediction {
                metrics: BTreeMap::from([(Metric::Iops, Samples::Runs(vec![1e9 / 7.0, 5e-324]))]),
                limited_by: None,
            },
            summary: BTreeMap::from([(Metric::Iops, value)]),
            seeds: vec![u64::MAX],
            notes: vec!["a note".to_owned()],
            commands: 7,
            digest: 9,
            cores: Some(CoresByBook {
                raid: 0.1,
                ..CoresByBook::default()
            }),
            size_bytes: u64::MAX,
            rebuild: Some(Rebuild {
                bytes_per_s: 2.0 / 3.0,
                total_bytes: 11,
            }),
            read_per_written: Some(1.0 / 3.0),
            written_per_written: Some(7.0 / 3.0),
            limits: None,
        };
        Kept {
            answer,
            user_cpu_seconds: Some(0.1),
        }
    }

    #[test]
    fn an_answer_comes_back_to_the_last_bit_and_to_its_own_question_and_build_only() {
        let place = tempfile::tempdir().expect("a folder");
        let remembered = Remembered::below(place.path(), 1);
        assert_eq!(remembered.recall("how fast?").expect("no damage"), None);
        remembered.keep("how fast?", &answer());
        assert_eq!(
            remembered.recall("how fast?").expect("no damage"),
            Some(answer())
        );
        assert_eq!(remembered.recall("how slow?").expect("no damage"), None);
        assert_eq!(
            Remembered::below(place.path(), 2)
                .recall("how fast?")
                .expect("no damage"),
            None
        );
        assert_eq!(
            Remembered::default()
                .recall("how fast?")
                .expect("no damage"),
            None
        );
        let files = fs::read_dir(place.path().join(name(1))).expect("a folder");
        assert_eq!(files.count(), 1, "no unfinished file stays behind");
    }

    #[test]
    fn a_damaged_answer_is_an_error() {
        let place = tempfile::tempdir().expect("a folder");
        let remembered = Remembered::below(place.path(), 1);
        remembered.keep("how fast?", &answer());
        let path = remembered.path("how fast?").expect("a place");
        let whole = fs::read(&path).expect("it is there");
        let mut damaged = whole.clone();
        damaged[60] ^= 1;
        let long = vec![b'0'; ANSWER_BYTES_MAX as usize + 1];
        for bytes in [
            &damaged,
            &whole[..20],
            &whole[..whole.len() - 1],
            b"",
            &[0xff; 80],
            &long,
        ] {
            fs::write(&path, bytes).expect("it is written");
            let refused = remembered.recall("how fast?").unwrap_err().to_string();
            assert!(
                refused.contains("cannot be used and is computed anew: it "),
                "{refused}"
            );
        }
        // A file with the digest of another question is no answer.
        let other = remembered.path("how slow?").expect("a place");
        fs::write(&other, &whole).expect("it is written");
        assert_eq!(remembered.recall("how slow?").expect("no damage"), None);
        remembered.keep("how fast?", &answer());
        assert_eq!(
            remembered.recall("how fast?").expect("no damage"),
            Some(answer())
        );
    }

    #[test]
    fn answers_of_old_programs_go_and_other_files_stay() {
        let place = tempfile::tempdir().expect("a folder");
        fs::create_dir(place.path().join("mine")).expect("a folder");
        for build in 0..8 {
            let remembered = Remembered::below(place.path(), build);
            remembered.keep("how fast?", &answer());
            let used = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(build as u64 + 1);
            let folder = fs::File::open(place.path().join(name(build))).expect("a folder");
            folder.set_modified(used).expect("a time");
        }
        let mut left: Vec<String> = fs::read_dir(place.path())
            .expect("a folder")
            .map(|entry| entry.expect("one").file_name().into_string().expect("text"))
            .collect();
        left.sort_unstable();
        let mut expected: Vec<String> = (4..8).map(name).collect();
        expected.push("mine".to_owned());
        assert_eq!(left, expected);
    }

    #[test]
    fn the_place_follows_the_environment() {
        let place = |cache: Option<&str>, user: Option<&str>| {
            home(cache.map(OsString::from), user.map(OsString::from))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(
            place(Some("/c"), Some("/h")),
            path("/c/fullstripe/predictions")
        );
        assert_eq!(
            place(Some("c"), Some("/h")),
            path("/h/.cache/fullstripe/predictions")
        );
        assert_eq!(place(None, None), None);
    }
}
