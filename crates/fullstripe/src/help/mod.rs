//! What `--help` says beyond the options: commands in groups, and examples with each command.
//!
//! Both are added to clap's definition of the command line, from which manual pages and completions are made too.

mod examples;

use crate::terminal::Paper;
use clap::{Command, CommandFactory};
use std::fmt::Write as _;

/// The groups of commands, in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 10] = [
    (
        "Arrays",
        &[
            "create",
            "serve",
            "attach",
            "detach",
            "stop",
            "assemble",
            "destroy",
            "write-hole",
            "metadata",
        ],
    ),
    (
        "At boot",
        &["enable", "release", "config", "alert", "upgrade"],
    ),
    ("Drives", &["fail", "remove", "add-spare", "replace"]),
    (
        "Background work",
        &["rebuild", "scrub", "pause", "resume", "cancel", "rate"],
    ),
    (
        "Look",
        &["status", "list", "events", "examine", "explain", "doctor"],
    ),
    ("Measure", &["lab"]),
    ("Plan", &["plan", "predict", "drive", "platform"]),
    ("Prove", &["demo", "sim", "claims"]),
    ("Develop", &["bench"]),
    ("This program", &["completions", "man", "help"]),
];

/// Blanks before a command's name, and between the longest name and its description.
const GAP: usize = 2;

/// The whole command line, with groups and examples.
#[must_use]
pub fn command() -> Command {
    arranged(Paper::output())
}

fn arranged(paper: Paper) -> Command {
    let command = with_examples(crate::Cli::command(), "");
    let groups = groups(&command, paper);
    let header = command.get_styles().get_header();
    let options = format!("{header}Options:{header:#}");
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{options}\n{{options}}{{after-help}}"
    ))
}

/// The groups as text, folded here because clap does not fold it.
fn groups(command: &Command, paper: Paper) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{header}{group}:{header:#}");
        for name in names {
            let about = about(command, name);
            let line = format!("{literal}{name:<width$}{literal:#}");
            let line = format!("{:GAP$}{line}{:GAP$}{about}", "", "");
            let _ = writeln!(text, "{}", paper.fold(&line, width + 2 * GAP));
        }
        text.push('\n');
    }
    text
}

/// The one-line description of a command; `help` has a fixed one, because clap adds that command later.
fn about(command: &Command, name: &str) -> String {
    if name == "help" {
        return "Print this help, or the help of a command".to_owned();
    }
    let command = command.find_subcommand(name);
    let about = command.and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

/// Appends the examples to the help of each command below `command`, whose path is `path`.
fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        let path = format!("{path}{name}");
        command.mut_subcommand(name, |one| {
            let one = with_examples(one, &format!("{path} "));
            let before = one.get_after_help().map(|text| format!("{text}\n\n"));
            match examples::text(&path) {
                Some(text) => one.after_help(before.unwrap_or_default() + &text),
                None => one,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_command_is_in_one_group() {
        let command = command();
        let visible = command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .map(Command::get_name);
        let known: BTreeSet<&str> = visible.chain(["help"]).collect();
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(listed.len(), known.len(), "a command is listed twice");
    }

    #[test]
    fn the_help_lists_commands_in_groups() {
        let at = |columns| {
            let paper = Paper {
                colours: false,
                columns,
            };
            arranged(paper).render_help().to_string()
        };
        // clap folds the options that follow by itself.
        let narrow = at(Some(80));
        let (groups, _) = narrow.split_once("Options:").unwrap();
        let is_narrow = |line: &str| line.chars().count() <= 80;
        assert!(groups.lines().all(is_narrow), "{groups}");
        let text = at(None);
        insta::assert_snapshot!(text, @r"
        RAID on the CPU for NVMe drives, in userspace, with no licence key

        Usage: fullstripe [OPTIONS] <COMMAND>

        Arrays:
          create       Create a volume on drives
          serve        Serve an array until SIGTERM, SIGINT or `fullstripe stop`
          attach       Make a volume a block device of this machine: /dev/fullstripe/NAME
          detach       Remove the block device of a volume
          stop         Stop the serving process: flush, mark volumes clean, release the drives
          assemble     Say what `serve` would do with these drives, without doing it
          destroy      Delete a volume
          write-hole   Change the write-hole protection of a volume that is not being served
          metadata     Save the metadata of drives to a file, or restore it

        At boot:
          enable       Have fullstripe serve an array at boot, and Linux md leave it alone
          release      Give an array that fullstripe serves at boot back to Linux md
          config       Check or show the settings file: the arrays that this machine serves at boot
          alert        Try the alerts of the settings file: whom this machine tells of a failed drive
          upgrade      Switch the arrays that systemd serves to this program, while what uses their devices waits

        Drives:
          fail         Stop using a drive, as if it had failed
          remove       Remove a failed drive or a spare from the array
          add-spare    Add a drive as a spare; a degraded volume takes it at once
          replace      Replace a drive by copying it to another one while it stays in service

        Background work:
          rebuild      Restore redundancy: rebuild onto a spare, or resume paused work
          scrub        Read everything and compare data with redundancy
          pause        Pause the background work of a volume
          resume       Resume the paused background work of a volume
          cancel       Cancel the scrub or replacement of a volume
          rate         Limit background work

        Look:
          status       Show the running array: volumes, drives, background work
          list         Show the arrays on this machine's drives
          events       Show what has happened to the running array
          examine      Show what the metadata of drives says
          explain      Show the plan of one request: what is read and written, in which order, and why
          doctor       Check whether this machine suits an array, and say what to change

        Measure:
          lab          Run loads on drives, read what fio has measured, and say how far to trust it

        Plan:
          plan         Plan an array: predict its performance on a platform, and what limits it
          predict      Predict the performance of the setups in a file, in virtual time
          drive        List, show and compare drives that are on sale, or describe another by its data sheet
          platform     List and show the machines that plans know, and how drives are connected in them

        Prove:
          demo         Show, on files, that data survives failed drives and crashes, and that speed scales
          sim          Test the engine in virtual time against every kind of drive failure
          claims       Score predictions against published measurements

        Develop:
          bench        Measure the engine's speed in this process, on newly created members

        This program:
          completions  Print the script that makes a shell complete commands, options and drives
          man          Write a manual page for each command
          help         Print this help, or the help of a command

        Options:
              --color <WHEN>  Colours: always, never, or auto (on terminals, unless NO_COLOR is set)
          -h, --help          Print help
          -V, --version       Print version

        Exit codes:
          0  done
          1  failed; the message says what and where
          2  the command line was not understood;
             serve --array: nor the settings of the array
          3  assemble: it can start, but not every volume is writable and redundant;
             status --check: a volume lacks redundancy
          4  refused, because data could be lost or wrong; nothing was changed
          5  status --check: a volume has failed, is not started or refuses writes
        ");
    }

    #[test]
    fn the_help_of_a_command_ends_with_examples() {
        let mut command = command();
        let fail = command.find_subcommand_mut("fail").unwrap();
        let text = fail.render_help().to_string();
        let (_, examples) = text.split_once("Examples:\n").unwrap();
        insta::assert_snapshot!(examples, @r"
        fullstripe fail vol0:2         # the drive in slot 2 of vol0
        fullstripe fail /dev/nvme2n1   # by its path
        ");
        let doctor = command.find_subcommand_mut("doctor").unwrap();
        let text = doctor.render_help().to_string();
        assert!(
            text.contains("Exit codes:") && text.contains("Examples:"),
            "{text}"
        );
    }
}
