"""States that a power cut can leave, a sample for each operation and level (`fullstripe sim cuts --keep`): md starts
each and makes it whole, and must read only what fullstripe's oracle allows.

If md makes something else of a state than fullstripe does, the reason must be one of those named here. A state that md
does not start is started by fullstripe, and then handed to md.
"""
import json
import os
import re

from ..case import Case
from ..bench import Server, brief, has_two_families
from ..difference import other_content, wrong_rows
from ..requirement import Failed, require
from ..volume import Volume
from .common import LEVELS, said

SECTOR = 512
STATES_OF_A_JOB = 4
# Samples of each operation: for every change in CI, and in long runs.
SAMPLES = 1
SAMPLES_LONG = 12
OPERATIONS = {
    "writes": ["full-row", "partial", "durable", "zeroes", "bitmap", "degraded"],
    "rebuilds": ["rebuild", "attach", "spare", "metadata"],
    "starts": ["start", "start-degraded", "start-bitmap", "start-update", "start-rebuild", "start-spare",
               "start-return"],
    "records": ["create", "clean"],
}
# Reasons why md may not start an array, or leave copies different.
NOTHING = "no array yet"
BACK = "a failed drive that is back, which md fills at once"
REGIONS = "a bitmap of regions smaller than md takes them for"
TORN = "a torn record, whose drive md leaves out"
EMPTIED = "a log in the middle of being emptied, with which md does not start"
FAMILIES = "records of two families, a spare half taken in, with which md does not start"
# Reasons that fullstripe removes when it starts the array.
MENDED = (TORN, EMPTIED, FAMILIES)

# What a job does with the drives of a state. They are files, to which it gives the names that the records contain.
JUDGE = """
state() {
    name=$1; place=$2; shift 2; at=0; drives=
    for file in $*; do
        losetup /dev/loop$at $place/$file
        drives="$drives /dev/loop$at"; at=$((at + 1))
    done
    begin
    echo "@@STATE $name"
    echo "@@BEFORE"; mdadm -E $drives 2>&1; echo "@@"
    for drive in $drives; do mdadm -q -I $drive; done
    md=$(volume 0)
    if [ -z "$md" ] || md_says array_state inactive; then
        echo "NOT ASSEMBLED"
    else
        look /sys/block/$md/md/degraded
        echo "BEGINS missing ${word:-0}"
        cat /dev/$md > $place/$name/first || echo "NOT READ"
        if ! md_says level raid0; then
            synchronised $md
            # md takes a spare after some time.
            if ! md_says degraded 0; then settle; fi
            check $md
        fi
        cat /dev/$md > $place/$name/last || echo "NOT READ"
    fi
    stop_arrays
    echo "@@AFTER"; mdadm -E $drives 2>&1; echo "@@"
    for drive in $drives; do losetup -d $drive; done
    sync
}
"""


class State:
    """A state from the manifest."""

    def __init__(self, bench, folder, entry):
        self.bench = bench
        self.folder = folder
        self.entry = entry
        self.name = entry["name"]
        self.level = entry["level"]
        self.start = entry["start"]
        self.specs = [f"{folder}/{drive['file']},serial={drive['serial']}" for drive in entry["drives"]]
        self.before = self.examine()

    def examine(self):
        return self.bench.examine_specs(self.specs, (0, 1))

    def line(self):
        place = "/host/" + os.path.relpath(self.folder, self.bench.lab.machine.folder)
        return f"state {self.name} {place} {' '.join(drive['file'] for drive in self.entry['drives'])}"

    def require(self, holds, what):
        require(holds, f"{self.name} (cut {self.entry['cut']}, state {self.entry['state']}): {what}")

    def heard(self, text):
        """Checks what md made of the state; returns the reason if md makes something else of it than fullstripe."""
        looks = re.findall(r"^@@(?:BEFORE|AFTER)\n(.*?)^@@", text, flags=re.MULTILINE | re.DOTALL)
        self.require(len(looks) == 2, f"the job did not end: {brief(text)}")
        self.bench.agree(f"{self.name}, before md", looks[0], self.before)
        after = self.examine()
        self.bench.agree(f"{self.name}, after md", looks[1], after)
        if "NOT ASSEMBLED" in text:
            return self.why_not(text)
        self.require(self.start is not None, "md starts an array that was not made yet")
        self.require("NOT READ" not in text, f"md cannot read it: {said(text)}")
        missing = int(re.search(r"^BEGINS missing (\d+)$", text, flags=re.MULTILINE)[1])
        # The drives of failed members are there, and md may have rebuilt one again by then.
        self.require(missing in (0, self.start["missing"]), f"md misses {missing} drives, and we {self.start}")
        first, last = self.read("first"), self.read("last")
        self.judge("before it is whole", first)
        self.judge("when it is whole", last)
        records = [drive["record"] for drive in after if drive["record"] and drive["record"]["volumes"]]
        record = max(records, key=lambda record: record["generation"])["volumes"][0]
        paths = {drive["serial"]: f"{self.folder}/{drive['file']}" for drive in self.entry["drives"]}
        volume = Volume(record, paths)
        other = other_content(volume, last)
        self.require(other is None, f"the drives hold something else than md reads: {other}")
        if not self.level or "MISMATCHES 0\n" in text:
            wrong = wrong_rows(volume) if all(volume.in_sync) else None
            self.require(wrong is None, f"{wrong}, and md does not see it: {said(text)}")
            return BACK if missing < self.start["missing"] else None
        self.require("bitmap" in self.entry["operation"] and self.level != 5, f"md finds mismatches: {said(text)}")
        return REGIONS

    def read(self, name):
        with open(f"{self.folder}/{self.name}/{name}", "rb") as file:
            return file.read()

    def judge(self, when, found):
        contents = []
        for path in self.start["contents"]:
            with open(f"{self.folder}/{path}", "rb") as file:
                contents.append(file.read())
        self.require(len(found) == len(contents[0]), f"md reads {len(found)} bytes of {len(contents[0])}")
        anything = [range(*pair) for pair in self.start["anything"]]
        for sector in range(len(found) // SECTOR):
            part = slice(sector * SECTOR, (sector + 1) * SECTOR)
            if all(found[part] != content[part] for content in contents):
                allowed = any(sector in sectors for sectors in anything)
                self.require(allowed, f"{when}, md reads in sector {sector} what must not be there")

    def let_us_start_it(self):
        """Puts the records in order, by starting and stopping fullstripe."""
        Server(self.bench, self.specs, ()).stop()
        self.before = self.examine()

    def why_not(self, text):
        if self.start is None:
            return NOTHING
        # mdadm does not accept a record at all that `examine` reports as torn. A drive that has taken a slot comes
        # after the first members.
        if any(drive["damaged"] for drive in self.before):
            return TORN
        if has_two_families(self.before):
            return FAMILIES
        self.require("contains invalid PPL" in text, f"md does not start it: {brief(text)}")
        return EMPTIED


def states_of(bench, level, operations, samples):
    """Makes fullstripe cut the power; returns the states that were kept."""
    states = []
    for operation in operations:
        place = os.path.join(bench.folder, operation)
        bench.fullstripe("sim", "cuts", "--quick", "--jobs", "1", "--level", str(level), "--operation", operation,
                         "--keep", place, "--samples", str(samples))
        with open(os.path.join(place, "kept.json")) as file:
            states += [State(bench, place, entry) for entry in json.load(file)["states"]]
    return states


def judged(bench, states):
    """Yields jobs; returns the states of which md makes something else, with the reasons."""
    reasons, problems = [], []
    for at in range(0, len(states), STATES_OF_A_JOB):
        part = states[at : at + STATES_OF_A_JOB]
        text = yield bench.job(JUDGE + "\n".join(state.line() for state in part), drives=[])
        texts = re.split(r"^@@STATE (\S+)\n", text, flags=re.MULTILINE)
        heard = dict(zip(texts[1::2], texts[2::2]))
        for state in part:
            try:
                reasons.append((state.heard(heard.get(state.name, "")), state))
            except Failed as problem:
                problems.append(str(problem))
    require(not problems, "; ".join(problems))
    return [(reason, state) for reason, state in reasons if reason]


def ours(level, operations, samples):
    def run(bench):
        states = states_of(bench, level, operations, samples)
        reasons = yield from judged(bench, states)
        left = [state for reason, state in reasons if reason in MENDED]
        for state in left:
            state.let_us_start_it()
        if left:
            still = yield from judged(bench, left)
            require(not any(reason in MENDED for reason, _ in still), "md does not start what we have started")
        names = [reason for reason, _ in reasons]
        total = f"{len(states)} state{'s' if len(states) > 1 else ''}"
        return "; ".join([total, *(f"{names.count(name)} with {name}" for name in sorted(set(names)))])

    return run


def cases():
    for level in LEVELS:
        for name, operations in OPERATIONS.items():
            if level or name in ("writes", "records"):
                for samples in (SAMPLES, SAMPLES_LONG):
                    more = "" if samples == SAMPLES else ", many"
                    # A member of RAID 10 is rebuilt and started as one of RAID 1 is, by the same code.
                    long = samples == SAMPLES_LONG or (level == 10 and name in ("rebuilds", "starts"))
                    # These cases bring drives of their own; the number limits how many of them share a machine.
                    yield Case("cuts", f"RAID {level}, power cut in {name}{more}", "ours", 4,
                               ours(level, operations, samples), long=long)
