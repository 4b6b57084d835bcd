//! `doctor --bundle`: one file with what somebody needs who helps from afar.
//!
//! [`pieces`] lists what is collected: what commands of this program print, what programs of the system print, and a few
//! files. Each piece has a time limit and is collected by a process or thread of its own ([`limited`]), so that a server
//! or a drive that hangs costs time, and only its own piece. What cannot be collected is in the manifest with the
//! reason. [`secrets`] keeps passwords and tokens out, and [`archive`] writes the file.

mod archive;
mod pieces;
mod secrets;

use anyhow::{Context, Result};
use archive::Archive;
use container::serving::{Serving, serving};
use pieces::{Collected, Places};
use secrets::Secrets;
use serde::Serialize;
use settings::Settings;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use words::{count, without_error_number};

/// The name of the list of the other files.
const MANIFEST: &str = "manifest.json";

/// What is in a bundle, and what is not.
#[derive(Serialize)]
pub struct Manifest {
    /// Version of this schema: 1.
    version: u32,
    /// The bundle, as the user named it.
    bundle: String,
    /// The version of this program.
    fullstripe: &'static str,
    /// The architecture and the C library that it was built for.
    build: String,
    host: String,
    /// When the bundle was made, seconds since 1970.
    made_s: u64,
    files: Vec<Listed>,
    missing: Vec<Missing>,
}

/// A file of the bundle.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// What it is.
    about: String,
    length_bytes: usize,
}

/// What could not be collected.
#[derive(Serialize)]
struct Missing {
    about: String,
    reason: String,
}

/// Collects everything and writes it to `file`; `drives` and `settings` are what `doctor` is to look at.
///
/// # Errors
/// The file exists or cannot be written.
pub fn make(file: &Path, drives: &[String], settings: &Path) -> Result<Manifest> {
    // Before anything is collected, because that takes a while.
    let archive = Archive::create(file)?;
    let read = Settings::read(settings);
    let processes = serving(Path::new("/proc"));
    let secrets = Secrets::of(read.as_ref().ok(), processes.iter().map(Serving::words));
    let places = Places {
        settings_file: settings.to_owned(),
        settings: read.ok(),
        drives: drives.to_vec(),
        servers: pieces::servers(&processes),
    };
    let written = manifest_and_files(file, pieces::collect(&places), &secrets)
        .and_then(|(manifest, files)| archive.write(&files).map(|()| manifest));
    written.inspect_err(|_| {
        // A bundle that is cut short helps nobody. If it cannot be removed either, the error says why.
        let _ = std::fs::remove_file(file);
    })
}

/// A name and its content.
type File = (String, Vec<u8>);

fn manifest_and_files(
    bundle: &Path,
    collected: Vec<Collected>,
    secrets: &Secrets,
) -> Result<(Manifest, Vec<File>)> {
    let (mut files, mut listed, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for Collected {
        name,
        about,
        content,
    } in collected
    {
        let about = secrets.left_out_of(&about);
        match content {
            Ok(bytes) => {
                let content = secrets.left_out_of(&String::from_utf8_lossy(&bytes));
                listed.push(Listed {
                    name: name.clone(),
                    about,
                    length_bytes: content.len(),
                });
                files.push((name, content.into_bytes()));
            }
            Err(reason) => missing.push(Missing {
                about,
                reason: without_error_number(&secrets.left_out_of(&reason)),
            }),
        }
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let manifest = Manifest {
        version: 1,
        bundle: bundle.display().to_string(),
        fullstripe: env!("CARGO_PKG_VERSION"),
        build: build(),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        made_s: since.map_or(0, |since| since.as_secs()),
        files: listed,
        missing,
    };
    let text = serde_json::to_vec_pretty(&manifest).context("cannot write the manifest")?;
    files.insert(0, (MANIFEST.to_owned(), text));
    Ok((manifest, files))
}

/// What this program was built for, and how.
fn build() -> String {
    let library = if cfg!(target_env = "musl") {
        "musl"
    } else {
        "gnu"
    };
    let how = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!("{} {library} {how}", std::env::consts::ARCH)
}

impl Manifest {
    /// For people: what was made, and what is missing.
    pub fn in_words(&self) -> String {
        let files = count(self.files.len(), "file");
        let mut text = format!("{}: {files} and {MANIFEST}\n", self.bundle);
        for one in &self.missing {
            text += &format!("not in it: {}: {}\n", one.about, one.reason);
        }
        text + "Passwords and tokens of the settings are left out. Look through it before you send it to anybody.\n"
    }
}
