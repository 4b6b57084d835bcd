//! Example command lines for each command, and what each does.

mod planning;

use planning::PLANNING;

/// The path of a command, and its examples: a line as typed, and what it is for.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

/// The examples of the commands for arrays. Those of the others are in [`planning`].
const EXAMPLES: [Examples; 34] = [
    (
        "create",
        &[
            (
                "fullstripe create vol0 --level 5 /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1",
                "a RAID 5 of three drives, as large as possible",
            ),
            (
                "fullstripe create vol0 --level 10 --size 100g d0.img d1.img d2.img d3.img",
                "100 GiB on files",
            ),
        ],
    ),
    (
        "serve",
        &[
            (
                "fullstripe serve d0.img d1.img d2.img --nbd unix:/run/vol0.sock",
                "clients connect to this socket",
            ),
            (
                "fullstripe serve d0.img d1.img --degraded",
                "although a drive is missing",
            ),
            (
                "fullstripe serve --array data",
                "an array of /etc/fullstripe/fullstripe.toml, as systemd does at boot",
            ),
            (
                "fullstripe serve --scratch 5 ram:1g ram:1g ram:1g",
                "a new array in memory, to try things out",
            ),
        ],
    ),
    (
        "stop",
        &[
            ("fullstripe stop --wait", "return when the drives are free"),
            (
                "fullstripe stop --leave-devices",
                "although a volume is mounted, which waits for the next server",
            ),
        ],
    ),
    (
        "assemble",
        &[(
            "fullstripe assemble /dev/nvme0n1 /dev/nvme1n1",
            "what `serve` would do with two of three drives",
        )],
    ),
    (
        "destroy",
        &[
            (
                "fullstripe destroy vol0 d0.img d1.img",
                "show what would be deleted",
            ),
            ("fullstripe destroy vol0 d0.img d1.img --yes", "delete it"),
        ],
    ),
    (
        "write-hole",
        &[(
            "fullstripe write-hole vol0 log d0.img d1.img d2.img",
            "no resync after a crash from now on",
        )],
    ),
    (
        "metadata",
        &[
            (
                "fullstripe metadata save -o before.json d0.img d1.img",
                "a copy before a risky step",
            ),
            (
                "fullstripe metadata restore before.json d0.img d1.img --yes",
                "restore that copy",
            ),
        ],
    ),
    (
        "metadata save",
        &[(
            "fullstripe metadata save -o before.json /dev/nvme0n1 /dev/nvme1n1",
            "a copy before a risky step",
        )],
    ),
    (
        "metadata restore",
        &[
            (
                "fullstripe metadata restore before.json /dev/nvme0n1 /dev/nvme1n1",
                "show what would be overwritten",
            ),
            (
                "fullstripe metadata restore before.json /dev/nvme0n1 /dev/nvme1n1 --yes",
                "restore it",
            ),
        ],
    ),
    (
        "fail",
        &[
            ("fullstripe fail vol0:2", "the drive in slot 2 of vol0"),
            ("fullstripe fail /dev/nvme2n1", "by its path"),
        ],
    ),
    (
        "remove",
        &[(
            "fullstripe remove /dev/nvme2n1",
            "then it can be pulled out",
        )],
    ),
    (
        "attach",
        &[
            (
                "fullstripe attach vol0",
                "makes /dev/fullstripe/vol0, and says how mkfs fits a file system to the array",
            ),
            (
                "fullstripe attach vol0 --nvmet tcp://10.0.0.5 --nvmet-host nqn.HOST",
                "exports it to another machine too, by NVMe over TCP",
            ),
        ],
    ),
    (
        "detach",
        &[
            (
                "fullstripe detach vol0",
                "after umount: a device that is in use stays",
            ),
            (
                "fullstripe detach vol0 --nvmet",
                "ends only the export to other machines",
            ),
            (
                "fullstripe detach vol0 --give-up --yes",
                "its server is gone for good: whatever waits on the device gets errors",
            ),
        ],
    ),
    (
        "add-spare",
        &[(
            "fullstripe add-spare /dev/nvme4n1",
            "rebuilt at once if a volume is degraded, else kept for the next failure",
        )],
    ),
    (
        "replace",
        &[(
            "fullstripe replace vol0:1 --with /dev/nvme5n1",
            "redundancy is kept while the drive is copied",
        )],
    ),
    (
        "rebuild",
        &[
            ("fullstripe rebuild vol0", "start it, or show its progress"),
            (
                "fullstripe rebuild vol0 --wait",
                "show a bar until vol0 has its redundancy back",
            ),
        ],
    ),
    (
        "scrub",
        &[
            (
                "fullstripe scrub vol0 --wait",
                "compare, and fail if anything differs",
            ),
            (
                "fullstripe scrub vol0 --repair",
                "correct redundancy from data",
            ),
            (
                "fullstripe scrub vol0 --every 7d",
                "a week after each has ended",
            ),
            ("fullstripe scrub vol0 --report", "what the last one found"),
        ],
    ),
    (
        "pause",
        &[(
            "fullstripe pause vol0",
            "it stays paused at its position, even after a restart",
        )],
    ),
    (
        "resume",
        &[("fullstripe resume vol0", "continue where it was paused")],
    ),
    (
        "cancel",
        &[(
            "fullstripe cancel vol0",
            "end its scrub or replacement unfinished",
        )],
    ),
    (
        "rate",
        &[
            ("fullstripe rate 200m", "200 MiB of each drive per second"),
            ("fullstripe rate unlimited", "as fast as clients leave room"),
        ],
    ),
    (
        "status",
        &[
            ("fullstripe status", "its state, and what to do"),
            ("fullstripe status --watch", "keep showing it, until Ctrl-C"),
            (
                "fullstripe status --check",
                "for scripts: one line and an exit code",
            ),
        ],
    ),
    (
        "list",
        &[
            ("fullstripe list", "on every drive; needs root"),
            ("fullstripe list d0.img d1.img", "on these files"),
        ],
    ),
    (
        "events",
        &[
            ("fullstripe events", "what has happened"),
            (
                "fullstripe events --follow --json",
                "for programs, as it happens",
            ),
        ],
    ),
    (
        "examine",
        &[(
            "fullstripe examine /dev/nvme0n1",
            "its record, field by field",
        )],
    ),
    (
        "explain",
        &[
            (
                "fullstripe explain --write 4k@1m vol0 d0.img d1.img d2.img",
                "a small write to vol0",
            ),
            (
                "fullstripe explain --read 64k@0 --level 5 --members 4 --failed 2",
                "without drives: a degraded read",
            ),
        ],
    ),
    (
        "enable",
        &[(
            "fullstripe enable fast /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1",
            "adds [array.fast] to the settings file",
        )],
    ),
    (
        "release",
        &[("fullstripe release fast --to md", "after `fullstripe stop`")],
    ),
    (
        "config",
        &[
            ("fullstripe config check", "before the next boot"),
            ("fullstripe config show", "every key with its value"),
        ],
    ),
    (
        "config check",
        &[
            ("fullstripe config check", "the file of this machine"),
            ("fullstripe config check new.toml", "another file"),
        ],
    ),
    (
        "config show",
        &[("fullstripe config show", "every key with its value")],
    ),
    (
        "alert test",
        &[
            ("fullstripe alert test", "by every way in the settings file"),
            (
                "fullstripe alert test --array fast",
                "as if it were of fast",
            ),
        ],
    ),
    (
        "upgrade",
        &[
            (
                "fullstripe upgrade --check",
                "after a new package: which arrays the old program serves",
            ),
            ("fullstripe upgrade", "switch them, one after another"),
            ("fullstripe upgrade fast", "only this one"),
        ],
    ),
    (
        "doctor",
        &[
            ("fullstripe doctor", "the machine and all its drives"),
            (
                "fullstripe doctor /dev/nvme0n1 /dev/nvme1n1",
                "whether these can be served",
            ),
            (
                "fullstripe doctor --bundle fast.tar.gz",
                "all that somebody needs who helps",
            ),
            (
                "fullstripe doctor --advise",
                "also what slow links and shared ones cost an array",
            ),
        ],
    ),
];

/// The examples of all commands.
fn all() -> impl Iterator<Item = &'static Examples> {
    EXAMPLES.iter().chain(&PLANNING)
}

/// The examples of the command with this path below `fullstripe`, as text for the end of its help.
pub(super) fn text(path: &str) -> Option<String> {
    let (_, examples) = all().find(|(of, _)| *of == path)?;
    let longest = examples.iter().map(|(line, _)| line.len()).max()?;
    let lines = examples.iter().map(|(line, what)| {
        // Remark and command line go on two lines where one would be too wide.
        if longest + what.len() > BESIDE_MAX {
            return format!("  # {what}\n  {line}");
        }
        format!("  {line:longest$}   # {what}")
    });
    let lines: Vec<String> = lines.collect();
    Some(format!("Examples:\n{}", lines.join("\n")))
}

/// Most characters of a command line and its remark that are printed on one line.
const BESIDE_MAX: usize = 72;

#[cfg(test)]
mod tests;
