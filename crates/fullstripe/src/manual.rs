//! Completions for shells and manual pages, both made from the command line's own definition.
//!
//! For those who package the program: the two commands are not listed by `--help`.

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What users type.
const NAME: &str = "fullstripe";

/// Print the completions for a shell.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write a manual page for each command.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Where to; made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of `command` for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs, command: Command) -> Result<ExitCode> {
    match std::io::stdout().write_all(&completions_text(args.shell, &command)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn completions_text(shell: Shell, command: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut visible_part(command), NAME, &mut text);
    text
}

/// The generators for shells offer hidden commands too, so they get a command that has none.
fn visible_part(command: &Command) -> Command {
    let subcommands = command.get_subcommands();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(subcommands.filter(|one| !one.is_hide_set()).cloned())
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
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn command() -> Command {
        crate::Cli::command()
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

    #[test]
    fn every_shell_offers_every_visible_command_and_its_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions_text(shell, &command())).unwrap();
            for name in visible(&command()).map(Command::get_name) {
                assert!(text.contains(name), "{shell}: {name} is missing");
            }
            // Fish writes long options without their dashes.
            assert!(
                text.contains("shards"),
                "{shell}: options of serve are missing"
            );
            assert!(
                !text.contains("completions"),
                "{shell}: offers a hidden command"
            );
        }
        assert!(visible(&command()).any(|one| one.get_name() == "doctor"));
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
