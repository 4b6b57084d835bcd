//! Every command has examples, and they are understood.

use super::*;
use clap::{Command, Parser};

/// The paths of all commands that can run without a subcommand.
fn paths(prefix: &str, command: &Command) -> Vec<String> {
    // Hidden commands are for programs.
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    let below = shown.flat_map(|one| {
        let path = format!("{prefix}{}", one.get_name());
        let mut all = paths(&format!("{path} "), one);
        if !one.is_subcommand_required_set() {
            all.push(path);
        }
        all
    });
    below.collect()
}

#[test]
fn every_example_is_understood_and_is_one_of_its_command() {
    for (path, examples) in all() {
        for (line, what) in *examples {
            let begin = format!("fullstripe {path}");
            assert!(line.starts_with(&begin), "{line} is no example of {path}");
            assert!(!what.is_empty() && line.len() <= 76, "{line}");
            if let Err(error) = crate::Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }
}

#[test]
fn every_command_has_an_example() {
    // These need no examples: they have no options, or one argument.
    let plain = ["completions", "man", "sim digest"];
    let all = paths("", &super::super::command());
    assert!(all.len() > 30, "{all:?}");
    for path in all.iter().filter(|path| !plain.contains(&path.as_str())) {
        assert!(text(path).is_some(), "{path} has no example");
    }
}
