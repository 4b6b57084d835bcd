//! Files of results: those of this program and those of fio, alone or in folders.

use anyhow::{Context, Result, ensure};
use lab::compare::{Comparable, joined, of_fio, of_results};
use lab::fio::{FioPoint, points};
use lab::schema::results::Results;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What files hold.
pub struct Found {
    /// Points of fio; runs of the same job are put together.
    pub of_fio: Vec<FioPoint>,
    /// Results of this program, each with the name of its file.
    pub own: Vec<(String, Results)>,
}

/// How results of this program say who has written them.
const WRITTEN_BY: &str = "\"program\": \"fullstripe ";

/// Only results of this program say which program has written them.
#[derive(Deserialize)]
struct Head {
    program: Option<String>,
}

impl Found {
    /// Reads files, and folders of them.
    ///
    /// # Errors
    /// There is no such file or folder, a folder has no results, or a file is no result.
    pub fn read(from: &[PathBuf]) -> Result<Found> {
        let mut paths = BTreeSet::new();
        for path in from {
            collect(path, &mut paths)?;
        }
        let (mut texts, mut own) = (Vec::new(), Vec::new());
        for path in paths {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {name}"))?;
            ensure!(
                !text.trim().is_empty(),
                "{name} is empty; if \"lab run\" was interrupted, it goes on with --resume"
            );
            // A result of this program that is cut off is no JSON, but should not be called a bad result of fio.
            let head = serde_json::from_str(&text);
            let is_own = matches!(head, Ok(Head { program: Some(_) })) || text.contains(WRITTEN_BY);
            if is_own {
                let results = Results::from_json(&name, &text)?;
                own.push((name, results));
            } else {
                texts.push((name, text));
            }
        }
        let of_fio = points(&texts)?;
        Ok(Found { of_fio, own })
    }

    /// The points that were measured, as they are compared.
    pub fn comparable(&self) -> Vec<Comparable> {
        let of_fio = self.of_fio.iter().map(of_fio);
        let own = self.own.iter().flat_map(|(_, results)| of_results(results));
        joined(of_fio.chain(own).collect())
    }
}

/// Adds the file `path`, or all files of results in the folder `path` and below it.
fn collect(path: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        all.insert(path.to_owned());
        return Ok(());
    }
    let before = all.len();
    below(path, all)?;
    ensure!(
        all.len() > before,
        "{} has no file that ends with .json: name a folder with results",
        path.display()
    );
    Ok(())
}

fn below(folder: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        // A link to a folder may lead back to where it is.
        if path.is_dir() && !path.is_symlink() {
            below(&path, all)?;
        } else if path.extension().is_some_and(|ending| ending == "json") {
            all.insert(path);
        }
    }
    Ok(())
}
