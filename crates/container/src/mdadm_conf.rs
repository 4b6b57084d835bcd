//! mdadm's configuration, as far as it says which arrays md leaves alone.
//!
//! mdadm.conf(5): a line `ARRAY <ignore> UUID=...` makes mdadm leave the array with this UUID to others, also when udev
//! asks it to assemble what has appeared. fullstripe adds such a line for each container that it serves at boot, and
//! removes it when the container is given back:
//!
//! ```text
//! # fullstripe serves the array of the next line as "fast"; `fullstripe release` gives it back to md.
//! ARRAY <ignore> metadata=imsm UUID=3aaa0122:29827cfa:5331ad66:ca767371
//! ```
//!
//! All other lines stay as they are, byte for byte.

use crate::machine::Machine;
use crate::whole_file;
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The places where mdadm looks for its configuration (mdadm.conf(5); distributions use one or the other).
pub const CONFIGURATIONS: [&str; 2] = ["/etc/mdadm.conf", "/etc/mdadm/mdadm.conf"];
/// The folder of Debian's configuration. Where it exists, mdadm may be installed although it has no configuration yet.
const FOLDER: &str = "/etc/mdadm";
/// How the comment above our line begins.
const COMMENT: &str = "# fullstripe serves the array of the next line";
/// What the copy of the old file is called, beside the file.
const COPY: &str = "mdadm.conf.before-fullstripe";

/// What became of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// mdadm has no configuration on this machine.
    NoConfiguration,
    /// It said already what it should say.
    None(PathBuf),
    /// This file was changed.
    Changed {
        /// The file.
        file: PathBuf,
        /// Where the file is kept as it was before fullstripe changed it first; absent if there was no file, or a line
        /// of fullstripe's was removed.
        copy: Option<PathBuf>,
        /// Numbers of other lines that name the container, from 1.
        other_lines: Vec<usize>,
    },
}

/// Has md ignore the container `uuid`, which fullstripe serves as `name`.
///
/// # Errors
/// The configuration cannot be read or written; then it is as it was.
pub fn ignore(machine: &Machine, name: &str, uuid: &str) -> Result<Change> {
    change(machine, uuid, true, |text| with_ignored(text, name, uuid))
}

/// Lets md have the container `uuid` again.
///
/// # Errors
/// The configuration cannot be read or written; then it is as it was.
pub fn no_longer_ignore(machine: &Machine, uuid: &str) -> Result<Change> {
    change(machine, uuid, false, |text| without_ignored(text, uuid))
}

/// Whether `text`, mdadm's configuration, has md leave the container `uuid` to others.
#[must_use]
pub fn leaves(text: &str, uuid: &str) -> bool {
    text.lines().any(|line| ignores(line, uuid))
}

fn change(
    machine: &Machine,
    uuid: &str,
    keeps_copy: bool,
    edit: impl Fn(&str) -> String,
) -> Result<Change> {
    let Some(file) = configuration(machine) else {
        return Ok(Change::NoConfiguration);
    };
    let shown = file.display();
    let old = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.with_context(|| format!("cannot read {shown}"))?),
    };
    let text = old.clone().unwrap_or_default();
    let new = edit(&text);
    if new == text {
        return Ok(Change::None(file));
    }
    let mode = match &old {
        Some(_) => fs::metadata(&file)?.permissions().mode() & 0o7777,
        None => 0o644,
    };
    let copy = match &old {
        Some(old) if keeps_copy => Some(keep_copy(&file, old, mode)?),
        _ => None,
    };
    whole_file::replace(&file, new.as_bytes(), mode)
        .with_context(|| format!("cannot write {shown}"))?;
    let other_lines = lines_about(&new, uuid);
    Ok(Change::Changed {
        file,
        copy,
        other_lines,
    })
}

/// The configuration that is changed: Debian's if it exists, else the other, else Debian's if its folder exists. A
/// symbolic link is followed, so that the link stays.
fn configuration(machine: &Machine) -> Option<PathBuf> {
    let [plain, debian] = CONFIGURATIONS.map(|path| machine.place(path));
    let existing = [&debian, &plain].into_iter().find(|path| path.exists());
    match existing {
        Some(path) => Some(path.canonicalize().unwrap_or_else(|_| path.clone())),
        None => machine.place(FOLDER).is_dir().then_some(debian),
    }
}

/// Keeps `text`, the file before its first change, beside it. A copy that exists already is the older one and stays.
fn keep_copy(file: &Path, text: &str, mode: u32) -> Result<PathBuf> {
    let copy = file.with_file_name(COPY);
    if !copy.exists() {
        whole_file::replace(&copy, text.as_bytes(), mode)
            .with_context(|| format!("cannot write the copy {}", copy.display()))?;
    }
    Ok(copy)
}

fn with_ignored(text: &str, name: &str, uuid: &str) -> String {
    if leaves(text, uuid) {
        return text.to_owned();
    }
    let mut new = text.to_owned();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    new + &format!(
        "{COMMENT} as \"{name}\"; `fullstripe release` gives it back to md.\n\
         ARRAY <ignore> metadata=imsm UUID={uuid}\n"
    )
}

fn without_ignored(text: &str, uuid: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for line in text.split_inclusive('\n') {
        if !ignores(line, uuid) {
            kept.push(line);
        } else if kept.last().is_some_and(|above| above.starts_with(COMMENT)) {
            kept.pop();
        }
    }
    kept.concat()
}

/// The words of a line without its comment.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace()
        .take_while(|word| !word.starts_with('#'))
        .map(str::to_ascii_lowercase)
        .collect()
}

fn is_array_line(words: &[String]) -> bool {
    // Keywords may be abbreviated to no less than three letters.
    let first = words.first();
    first.is_some_and(|first| first.len() >= 3 && "array".starts_with(first.as_str()))
}

fn names(words: &[String], uuid: &str) -> bool {
    let wanted = format!("uuid={}", uuid.to_ascii_lowercase());
    is_array_line(words) && words.contains(&wanted)
}

fn ignores(line: &str, uuid: &str) -> bool {
    let words = words(line);
    names(&words, uuid) && words.get(1).is_some_and(|word| word == "<ignore>")
}

/// Numbers of the lines that name the container without ignoring it.
fn lines_about(text: &str, uuid: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| names(&words(line), uuid) && !ignores(line, uuid))
        .map(|(at, _)| at + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";
    const OTHER: &str = "00000000:00000001:00000002:00000003";

    #[test]
    fn a_line_is_added_once_and_removed_and_the_rest_stays() {
        for text in [
            "",
            "# mine\n",
            "HOMEHOST <system>\nARRAY /dev/md0 UUID=1:2:3:4",
        ] {
            let new = with_ignored(text, "fast", UUID);
            assert!(new.starts_with(text), "{new}");
            assert!(new.ends_with(&format!(
                "# fullstripe serves the array of the next line as \"fast\"; `fullstripe release` gives it back to md.\n\
                 ARRAY <ignore> metadata=imsm UUID={UUID}\n"
            )));
            assert_eq!(with_ignored(&new, "fast", &UUID.to_uppercase()), new);
            let both = with_ignored(&new, "slow", OTHER);
            assert_eq!(without_ignored(&both, OTHER), new);
            assert_eq!(without_ignored(&new, UUID).trim_end(), text.trim_end());
        }
    }

    #[test]
    fn lines_are_understood_as_mdadm_does() {
        for (line, wanted) in [
            (format!("arr <IGNORE> uuid={UUID} # x"), true),
            (format!("ARRAY <ignore> # UUID={UUID}"), false),
            (format!("ARRAY <ignore> UUID={OTHER}"), false),
            (format!("# ARRAY <ignore> UUID={UUID}"), false),
            (format!("ARRAY metadata=imsm UUID={UUID}"), false),
        ] {
            assert_eq!(ignores(&line, UUID), wanted, "{line}");
        }
        let text = format!("ARRAY metadata=imsm UUID={UUID}\nARRAY <ignore> UUID={UUID}\n");
        assert_eq!(lines_about(&text, UUID), [1]);
    }

    #[test]
    fn the_file_that_exists_is_changed_and_the_first_state_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::below(root.path());
        let read = |path: &str| fs::read_to_string(machine.place(path)).unwrap();
        assert_eq!(
            ignore(&machine, "fast", UUID).unwrap(),
            Change::NoConfiguration
        );
        fs::create_dir_all(machine.place("/etc")).unwrap();
        fs::write(machine.place("/etc/mdadm.conf"), "# plain\n").unwrap();
        let permissions = fs::Permissions::from_mode(0o640);
        fs::set_permissions(machine.place("/etc/mdadm.conf"), permissions).unwrap();
        let changed = ignore(&machine, "fast", UUID).unwrap();
        let Change::Changed {
            file,
            copy,
            other_lines,
        } = changed
        else {
            panic!("{changed:?}");
        };
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(file.ends_with("etc/mdadm.conf") && other_lines.is_empty());
        assert_eq!(fs::read_to_string(copy.unwrap()).unwrap(), "# plain\n");
        assert!(matches!(
            ignore(&machine, "fast", UUID).unwrap(),
            Change::None(_)
        ));
        ignore(&machine, "slow", OTHER).unwrap();
        assert_eq!(read("/etc/mdadm.conf.before-fullstripe"), "# plain\n");
        no_longer_ignore(&machine, UUID).unwrap();
        no_longer_ignore(&machine, OTHER).unwrap();
        assert_eq!(read("/etc/mdadm.conf"), "# plain\n");

        // Debian's folder comes first as soon as it has a file; an empty folder is enough if there is no file at all.
        fs::remove_file(machine.place("/etc/mdadm.conf")).unwrap();
        fs::create_dir(machine.place("/etc/mdadm")).unwrap();
        let made = ignore(&machine, "fast", UUID).unwrap();
        assert!(
            matches!(made, Change::Changed { copy: None, .. }),
            "{made:?}"
        );
        assert!(read("/etc/mdadm/mdadm.conf").contains(UUID));
        no_longer_ignore(&machine, UUID).unwrap();
        assert_eq!(read("/etc/mdadm/mdadm.conf"), "");
        let copy = machine.place("/etc/mdadm/mdadm.conf.before-fullstripe");
        assert!(!copy.exists(), "it would not be the file from before");
    }
}
