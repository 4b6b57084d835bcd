//! Example command lines of the commands that plan, measure and predict.

use super::Examples;

/// See [`super::EXAMPLES`].
pub(super) const PLANNING: [Examples; 19] = [
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
            (
                "fullstripe lab run loads.toml --target /dev/nvme0n1 -o r.json --resume",
                "the runs that an interrupted session has not made",
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
