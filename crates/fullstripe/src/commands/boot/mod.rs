//! Which arrays fullstripe serves at boot: `enable` adds one to the settings file of the machine, `release` gives one
//! back to Linux md.
//!
//! Both change two files, the settings file and mdadm's configuration, and renew the initramfs, which contains copies
//! of such files. mdadm's configuration is changed first: if the settings file then cannot be written, the same command
//! can be given again. At boot [`answers`]
//! tells udev, systemd and the scripts of a package what the settings file says.

pub mod answers;
pub mod enable;
mod hibernation;
pub mod in_use;
mod kernel_log;
pub(super) mod programs;
pub mod release;

use crate::terminal::print::{print_json, print_text};
use anyhow::{Context, Result};
use clap::Args;
use container::machine::Machine;
use container::mdadm_conf::Change;
use container::whole_file;
use serde::Serialize;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The permissions of a new settings file: everybody may read it.
const MODE: u32 = 0o644;

/// Arguments of both commands.
#[derive(Args, Debug)]
struct SiteArgs {
    /// The settings file; default: /etc/fullstripe/fullstripe.toml.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Do not renew the initramfs; say what to run instead.
    #[arg(long)]
    no_initramfs: bool,
    /// For tests: the folder that stands for / of the machine.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    root: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl SiteArgs {
    fn machine(&self) -> Machine {
        Machine::below(&self.root)
    }

    fn file(&self) -> PathBuf {
        let usual = || self.machine().place(settings::PLACE);
        self.file.clone().unwrap_or_else(usual)
    }
}

/// What a command has done.
#[derive(Serialize)]
struct Report {
    /// Version of this schema: 1.
    version: u32,
    /// The name of the array in the settings file.
    array: String,
    /// The UUID of its container.
    container_uuid: String,
    /// The settings file.
    file: PathBuf,
    /// What was done, a sentence each.
    done: Vec<String>,
    /// What the user should know, a sentence each.
    notes: Vec<String>,
    /// What to do next, or what happens next, a sentence each.
    next: Vec<String>,
}

impl Report {
    /// About an array of which something has been done to the settings file.
    fn new(array: &str, container_uuid: String, file: PathBuf, done: String) -> Report {
        Report {
            version: 1,
            array: array.to_owned(),
            container_uuid,
            file,
            done: vec![done],
            notes: Vec::new(),
            next: Vec::new(),
        }
    }

    fn print(&self, json: bool) -> Result<()> {
        if json {
            return print_json(self);
        }
        let parts = [
            ("", &self.done),
            ("Note: ", &self.notes),
            ("Next: ", &self.next),
        ];
        let lines = parts.into_iter().flat_map(|(begin, sentences)| {
            sentences
                .iter()
                .map(move |sentence| format!("{begin}{sentence}\n"))
        });
        print_text(&lines.collect::<String>())
    }

    /// Adds what became of mdadm's configuration. `purpose` says what the change is for.
    fn add(&mut self, change: &Change, purpose: &str) {
        let Change::Changed {
            file,
            copy,
            other_lines,
        } = change
        else {
            return;
        };
        let copy = copy.as_ref().map_or(String::new(), |copy| {
            format!(
                "; {} is the file before fullstripe changed it first",
                copy.display()
            )
        });
        let file = file.display();
        self.done.push(format!("Changed {file}, {purpose}{copy}."));
        for line in other_lines {
            self.notes.push(format!(
                "line {line} of {file} names the container too; remove that line, because mdadm does not say which of \
                 the two it follows."
            ));
        }
    }
}

/// Changes the settings file at `path` durably, and makes it and its folder if they do not exist. Another command that
/// changes the file waits meanwhile. `first` is done when the new content is known to be right, before it is written.
///
/// # Errors
/// `edit` or `first` fails, or the file cannot be read or written; then it is as it was.
fn change_settings<T>(
    path: &Path,
    edit: impl Fn(&str) -> Result<String>,
    first: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let shown = path.display();
    // A symbolic link stays, and the file that it leads to is changed.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    };
    // Tried before anything is made, so that a refusal leaves no empty folder.
    edit(&settings::text_of(&path)?.unwrap_or_default())?;
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let claimed =
        File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    claimed
        .lock()
        .with_context(|| format!("cannot lock {}", folder.display()))?;
    let text = settings::text_of(&path)?.unwrap_or_default();
    let new = edit(&text)?;
    let done = first()?;
    let mode = match fs::metadata(&path) {
        Ok(found) => found.permissions().mode() & 0o7777,
        Err(_) => MODE,
    };
    whole_file::replace(
        &folder.join(path.file_name().unwrap_or_default()),
        new.as_bytes(),
        mode,
    )
    .with_context(|| format!("cannot write {shown}"))?;
    Ok(done)
}
