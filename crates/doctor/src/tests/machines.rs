//! Machines for the tests.
//!
//! A machine is a list of lines: `PATH = TEXT` is a file (with `\n` and `\t` as escapes), `PATH -> TARGET` a link,
//! `PATH/` an empty folder, `#` a comment.

use super::super::Machine;
use super::super::drives::{Content, Looked};
use super::super::granted::{Granted, Need};
use ::drives::ring::{RingMode, RingReport};
use machine::files::Files;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A host whose processor, memory and limits give no reason for a warning.
pub const GOOD_HOST: &str = include_str!("good_host.txt");
pub const VMD_BOX: &str = include_str!("vmd_box.txt");
pub const OLD_BOX: &str = include_str!("old_box.txt");
pub const MD_BOX: &str = include_str!("md_box.txt");

pub fn build(parts: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for line in parts.iter().flat_map(|part| part.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        if let Some((path, target)) = line.split_once(" -> ") {
            symlink(target, at(path)).unwrap();
        } else if let Some((path, text)) = line.split_once(" = ") {
            let text = text.replace("\\n", "\n").replace("\\t", "\t");
            fs::write(at(path), text + "\n").unwrap();
        } else {
            fs::create_dir_all(at(line.trim_end_matches('/'))).unwrap();
        }
    }
    root
}

pub fn machine(root: &TempDir) -> Machine {
    Machine {
        files: Files::below(root.path()),
        granted: Granted {
            ring: Ok(RingReport {
                mode: RingMode::Deferred,
                no_sqarray: true,
                registered_files: true,
                registered_memory: Ok(()),
                restricted: Ok(()),
            }),
            huge_pages: true,
            locked: Ok(true),
            asked_bytes: Need::of_defaults().arena_bytes,
        },
        instructions: "AVX2",
        search_path: vec![root.path().join("usr/bin"), root.path().join("usr/sbin")],
    }
}

pub fn empty_drive() -> Looked {
    Looked {
        size_bytes: 2_000_398_934_016,
        is_direct: true,
        is_writable: true,
        serial: "SERIAL".to_owned(),
        record_checksum: None,
        container: None,
        holders: Vec::new(),
        root: None,
        content: Content::Nothing,
        health: None,
        controller: None,
    }
}

pub fn member(volumes: &[&str], drives: usize) -> Looked {
    Looked {
        content: Content::Array {
            volumes: volumes.iter().map(|name| (*name).to_owned()).collect(),
            drives,
        },
        container: Some("00000000:00000000:00000000:00000001".to_owned()),
        ..empty_drive()
    }
}
