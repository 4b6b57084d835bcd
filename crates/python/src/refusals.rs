//! Errors as exceptions. The planner's sentences name options of the command line; callers in Python know them as arguments.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::PyErr;

create_exception!(
    fullstripe,
    Error,
    PyValueError,
    "What was asked for is unknown, malformed or impossible: one sentence that says what, and what to do."
);

/// Options whose arguments have another name than theirs.
const RENAMED: [(&str, &str); 4] = [
    ("afr", "annual_failure_percent"),
    ("chunk", "chunk_kib"),
    ("demand", "demand_iops"),
    ("rebuild-rate", "rebuild_mb_s"),
];

/// An exception with this sentence.
pub fn error(sentence: &str) -> PyErr {
    Error::new_err(in_arguments(sentence))
}

/// An exception for an error of the planner.
pub fn refused(why: anyhow::Error) -> PyErr {
    error(&format!("{why:#}"))
}

/// The same sentence with the names of arguments in place of options: `--engine-cores` is `engine_cores`.
fn in_arguments(sentence: &str) -> String {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        let name = &option[2..];
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        let end = name.find(|letter| !is_name(letter)).unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        text += before;
        match RENAMED.iter().find(|(option, _)| *option == name) {
            Some((_, argument)) => text += argument,
            None if name.is_empty() => text += "--",
            None => text += &name.replace('-', "_"),
        }
        rest = after;
    }
    text + rest
}
