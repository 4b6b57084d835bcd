//! Completions for shells and manual pages, both made from the command line's own definition.
//!
//! While the user types, the shell runs this program to get completions ([`offer_completions`]), because only a running
//! array knows its drives; `completions` prints the script that makes the shell do so.

use crate::terminal::print::print_text;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// The name of the program as users type it.
const NAME: &str = "fullstripe";
/// The shell sets this environment variable when it runs the program for completions.
const VARIABLE: &str = "FULLSTRIPE_COMPLETE";

/// Print the script that makes a shell complete commands, options and drives.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write a manual page for each command.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Folder for the pages; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the script that makes a shell ask this program for completions.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    print_text(&registration(args.shell)?)?;
    Ok(ExitCode::SUCCESS)
}

fn registration(shell: Shell) -> Result<String> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer = shells
        .completer(&name)
        .with_context(|| format!("the shell {name} is not supported"))?;
    let mut text = Vec::new();
    completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// If a shell asks for completions, prints them and ends the process; otherwise does nothing.
pub fn offer_completions(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Writes the manual pages of `command` and its visible subcommands.
///
/// # Errors
/// The folder cannot be made or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> Result<ExitCode> {
    let folder = args.folder.display();
    fs::create_dir_all(&args.folder).with_context(|| format!("cannot make the folder {folder}"))?;
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write manual pages to {folder}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    fn command() -> Command {
        crate::help::command()
    }

    fn visible(command: &Command) -> impl Iterator<Item = &Command> {
        let subcommands = command.get_subcommands();
        subcommands.filter(|subcommand| !subcommand.is_hide_set())
    }

    /// The file names of the pages of `command` and everything below it.
    fn pages(prefix: &str, command: &Command) -> BTreeSet<String> {
        let name = format!("{prefix}{}", command.get_name());
        let below = visible(command).flat_map(|one| pages(&format!("{name}-"), one));
        below.chain([format!("{name}.1")]).collect()
    }

    /// The completions that a shell offers after these words.
    fn offered(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let at = words.len() - 1;
        let found = clap_complete::engine::complete(&mut command(), words, at, None).unwrap();
        let values = found
            .iter()
            .map(|one| one.get_value().to_string_lossy().into_owned());
        values.collect()
    }

    #[test]
    fn a_shell_offers_every_visible_command_and_its_options() {
        let commands = offered(&[NAME, ""]);
        for name in visible(&command()).map(Command::get_name) {
            assert!(commands.iter().any(|one| one == name), "{name} is missing");
        }
        assert!(commands.iter().any(|one| one == "completions"));
        assert!(offered(&[NAME, "serve", "--"]).contains(&"--shards".to_owned()));
        assert!(visible(&command()).any(|one| one.get_name() == "doctor"));
    }

    #[test]
    fn every_shell_is_told_to_ask_this_program() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = registration(shell).unwrap();
            assert!(
                text.contains(NAME) && text.contains(VARIABLE),
                "{shell}: {text}"
            );
        }
    }

    #[test]
    fn every_visible_command_has_one_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        let args = ManArgs {
            folder: folder.path().join("man1"),
        };
        man(&args, command()).unwrap();
        let written: BTreeSet<String> = fs::read_dir(&args.folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, pages("", &command()));
        assert!(written.len() > visible(&command()).count());
        let page = fs::read_to_string(args.folder.join("fullstripe-doctor.1")).unwrap();
        assert!(
            page.contains(".SH SYNOPSIS") && page.contains("DRIVE"),
            "{page}"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = ManArgs {
            folder: file.path().join("man1"),
        };
        let sentence = format!("{:#}", man(&args, command()).unwrap_err());
        assert!(
            sentence.starts_with("cannot make the folder "),
            "{sentence}"
        );
    }
}
