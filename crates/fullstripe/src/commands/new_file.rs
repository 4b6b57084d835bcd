//! Files that commands write for people, who may have a file of the same name already.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes a text to a file that is not there yet.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn write_new(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let file = File::create_new(path);
    if let Err(error) = &file
        && error.kind() == ErrorKind::AlreadyExists
    {
        bail!(
            "{} exists already: give another name with --output, or remove it",
            path.display()
        );
    }
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(failed)
}
