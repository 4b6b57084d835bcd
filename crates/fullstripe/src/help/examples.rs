//! Example command lines for each command, and what each does.

/// The examples of each command: a line as typed, and what it is for.
const EXAMPLES: [(&str, &[(&str, &str)]); 53] = [
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
    (
        "plan",
        &[
            (
                "fullstripe plan --drive p4510-2tb --platform s2600wft-8170 --count 4",
                "four loads on RAID 0, 5 and 10",
            ),
            (
                "fullstripe plan --drive p4510-2tb --platform epyc-9554p-24 --sweep qd=1..8",
                "the effect of the queue depth",
            ),
            (
                "fullstripe plan --here --level 5 --spares 1 --prices prices.toml",
                "what a usable TB and a thousand IOPS cost",
            ),
            (
                "fullstripe plan --here --op randread",
                "the drives of this machine, as arrays",
            ),
        ],
    ),
    (
        "lab compare",
        &[(
            "fullstripe lab compare before/ after/ --margin 3",
            "what differs, what is the same within 3 %, what is undecided",
        )],
    ),
    (
        "lab export",
        &[(
            "fullstripe lab export loads.toml --fio --target /dev/nvme0n1 -o jobs",
            "a job file for each load, and the lines that run them",
        )],
    ),
    (
        "lab read",
        &[
            ("fullstripe lab read randread.json", "what fio measured"),
            (
                "fullstripe lab read results/",
                "all results below this folder; runs of one job together",
            ),
        ],
    ),
    (
        "lab run",
        &[
            (
                "fullstripe lab run loads.toml --target /dev/nvme0n1",
                "five runs of each load of the file; refused if one writes",
            ),
            (
                "fullstripe lab run loads.toml --target null:900g,model=p4510-1tb",
                "the same on a modelled drive, in real time",
            ),
        ],
    ),
    (
        "predict",
        &[("fullstripe predict plan.toml", "the points of this file")],
    ),
    (
        "drive list",
        &[(
            "fullstripe drive list --class qlc --at-least 15",
            "drives with four bits a cell and 15 TB or more",
        )],
    ),
    (
        "drive show",
        &[(
            "fullstripe drive show p4510-2tb",
            "each figure, and the document that gives it",
        )],
    ),
    (
        "drive compare",
        &[(
            "fullstripe drive compare p4510-2tb p4510-8tb",
            "what four times the flash makes faster",
        )],
    ),
    (
        "drive new",
        &[
            (
                "fullstripe drive new example-4tb -o example.toml",
                "asks for the figures of its data sheet",
            ),
            (
                "fullstripe drive new mine --like samsung-pm9a3-3.84tb --write-kiops 200",
                "as another, but faster writes",
            ),
        ],
    ),
    (
        "platform discover",
        &[(
            "fullstripe platform discover --output box.toml",
            "this machine, for plan --platform box.toml",
        )],
    ),
    (
        "platform list",
        &[(
            "fullstripe platform list --json",
            "with the source of each figure",
        )],
    ),
    (
        "platform show",
        &[(
            "fullstripe platform show s2600wft-6154-x8",
            "which drives share a link",
        )],
    ),
    (
        "demo",
        &[(
            "fullstripe demo --quick",
            "a minute, on files that are deleted afterwards",
        )],
    ),
    (
        "sim",
        &[(
            "fullstripe sim faults --seeds 1..100",
            "a hundred histories of faults",
        )],
    ),
    (
        "sim faults",
        &[
            (
                "fullstripe sim faults --seeds 1..100",
                "a hundred histories",
            ),
            (
                "fullstripe sim faults --seeds 42 --twice",
                "one history, run twice",
            ),
        ],
    ),
    (
        "sim cuts",
        &[(
            "fullstripe sim cuts --level 5 --quick",
            "some of the states, in seconds",
        )],
    ),
    (
        "claims",
        &[(
            "fullstripe claims --only V",
            "the rows that count as evidence",
        )],
    ),
    (
        "bench",
        &[(
            "fullstripe bench --level 5 --member ram:256m --count 4 --rw randwrite",
            "with members in memory",
        )],
    ),
];

/// The examples of the command with this path below `fullstripe`, as text for the end of its help.
pub(super) fn text(path: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(of, _)| *of == path)?;
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
