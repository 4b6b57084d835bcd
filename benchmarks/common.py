"""The common parts of all comparisons: rounds, spread, tables, kept results, and a description of this machine.

A comparison is a list of rows. A row has subjects: functions that measure once and return figures. Every round measures
every subject of every row once, so that subjects are compared within a short time, and repeatedly. A ratio is computed
within its round. The table prints the median of the rounds, with the least and the greatest.
"""
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(1, str(ROOT / "scripts"))
import clean_tree  # noqa: E402
import marked  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("FULLSTRIPE", ROOT / "target/release/fullstripe"))
KERNEL_SPEED = ROOT / "target/release/examples/kernel_speed"
# A scratch folder in memory for file members and sockets.
MEMORY_FOLDER = pathlib.Path(os.environ.get("BENCH_MEMORY", "/dev/shm"))


class Missing(Exception):
    """Something that a subject needs is missing on this machine; the text says what, and how to get it."""


class Failed(Exception):
    """A program that was measured did not do what it should."""


@dataclasses.dataclass
class Options:
    """Duration and number of measurements. Seconds are per point and round."""
    seconds: float
    rounds: int
    short: bool
    folder: pathlib.Path


# ------------------------------------------------------------------------------------------------ this machine

# The cores that this process may use. One-core figures use the last one, because the first usually handles the
# machine's interrupts; `fullstripe bench` does the same.
CORES = sorted(os.sched_getaffinity(0))
CORE = CORES[-1]


def two_cores():
    """Two cores to measure on."""
    if len(CORES) < 2:
        raise Missing("two cores are needed, and this process may use one")
    return CORES[-2:]


def machine():
    """The circumstances that the figures depend on."""
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always"], capture_output=True,
                            text=True, check=False).stdout.strip()
    if clean_tree.changed():
        commit += "-dirty"
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    memory_kib = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text("utf-8"))[1])
    return {"commit": commit, "cpu": model, "cores_allowed": CORES, "core_of_one_core_figures": CORE, "kernel": platform.release(),
            "memory_gib": round(memory_kib / 2**20, 1), "load_before": os.getloadavg()[0]}


def machine_words():
    """The machine in a sentence, for the head of the tables."""
    where = machine()
    return f"{where['cpu']}, {os.cpu_count()} cores, {where['memory_gib']} GiB, Linux {where['kernel']}"


def processor_ticks():
    """All processor ticks since boot, and those that the host gave to others."""
    ticks = [int(tick) for tick in open("/proc/stat", encoding="utf-8").readline().split()[1:9]]
    return sum(ticks), ticks[7]


def pinned(cores, *command):
    """The command, pinned to the given cores."""
    return ["taskset", "-c", ",".join(map(str, cores)), *map(str, command)]


def run(command, timeout_s=120.0, **more):
    """Runs a program to its end and returns what it printed."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s, **more)
    except FileNotFoundError as error:
        raise Missing(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)}: not done after {timeout_s:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failed(f"{' '.join(command)}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def need(program, package):
    """Raises `Missing` with the package to install if a program is not there."""
    if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
        raise Missing(f"{program} is not installed (apt: {package}; scripts/setup.sh bench)")


# ---------------------------------------------------------------------------------------------------- subjects

def bench(seconds, cores=(), **options):
    """`fullstripe bench` with these options (`rw="read"`, `qd=8`), as a subject; pinned to cores if any are given."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not True]
    words += [f"--{name.replace('_', '-')}" for name, value in options.items() if value is True]

    def measure():
        command = [PROGRAM, "bench", *words, f"--time={max(50, round(seconds * 1000))}ms", "--json"]
        return json.loads(run(pinned(cores, *command) if cores else command, timeout_s=60 + 6 * seconds))
    return measure


def kernel_rates(kernel, length, cache, seconds, cores=(CORE,)):
    """Bytes per second of one of this project's kernels: one figure per core, all cores at the same time."""
    return [float(rate) for rate in run([KERNEL_SPEED, kernel, length, cache, seconds, *cores]).split()]


def two_core_control():
    """How much more two cores do than one right now, of work that shares nothing: 2.0 when each is a whole core.

    The host of a virtual machine can put both cores on one physical core for a while. Then every two-core figure
    of that time says something of the host and nothing of the program."""
    cores = two_cores()
    alone = sum(sum(kernel_rates("xor:4", 4096, "warm", 0.1, [core])) for core in cores) / 2
    return sum(kernel_rates("xor:4", 4096, "warm", 0.1, cores)) / alone


def once_per_round(subject):
    """One measurement that several rows share: it is made at its first use in a round."""
    kept = {}

    def measure():
        if kept.get("round") != Comparison.round_now:
            kept.update(round=Comparison.round_now, figures=subject())
        return kept["figures"]
    return measure


# ------------------------------------------------------------------------------------------------------ tables

@dataclasses.dataclass
class Aim:
    """The aim for the median of a column, compared to two decimals."""
    head: str
    least: float = None
    most: float = None

    def verdict(self, median):
        """The aim in words, and whether it is met."""
        wanted = f"at least {self.least:g}" if self.most is None else f"at most {self.most:g}"
        if median is None:
            return wanted
        reached = round(median, 2) >= self.least if self.most is None else round(median, 2) <= self.most
        return f"{wanted}: {'met' if reached else '**missed**'}"


@dataclasses.dataclass
class Row:
    """A line of the table."""
    name: str
    subjects: dict
    aims: tuple
    results: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Column:
    """A figure from a round's results ({subject: figures}); None if the row has none."""
    head: str
    figure: object
    digits: object = None

    def values(self, row):
        """The figures of all rounds that have one."""
        found = []
        for result in row.results:
            try:
                value = self.figure(result)
            except (KeyError, TypeError, ZeroDivisionError):
                value = None
            if value is not None:
                found.append(value)
        return found


def figure(value, digits=None):
    """Three significant digits, thousands apart, or a fixed number of decimals."""
    if digits is None:
        size = abs(value)
        digits = 0 if size >= 100 else 1 if size >= 10 else 2
        if size >= 1000:
            value = round(value, 3 - len(f"{size:.0f}"))
    return f"{value:,.{digits}f}".replace(",", " ")


def spread(values, digits=None):
    """Median, and in brackets the least and the greatest."""
    if not values:
        return "-"
    middle = figure(statistics.median(values), digits)
    ends = [figure(end, digits) for end in (min(values), max(values))]
    return middle if ends == [middle, middle] else f"{middle} ({ends[0]} to {ends[1]})"


class Comparison:
    """Rows, columns and notes for the reader; prints one table."""
    round_now = 0

    def __init__(self, name, question, options, columns):
        self.name, self.question, self.options, self.columns = name, question, options, columns
        self.rows, self.notes = [], []

    def row(self, name, *aims, **subjects):
        """Adds a row; its subjects are measured in this order in every round. A subject that is None is left out."""
        present = {name: subject for name, subject in subjects.items() if subject is not None}
        self.rows.append(Row(name, present, aims))

    def note(self, text):
        """Adds one sentence below the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    def measure(self):
        """Runs all rounds. If something is missing, a note says so, and its cells stay empty."""
        self.machine = machine()
        begin, (ticks, stolen) = time.monotonic(), processor_ticks()
        for number in range(self.options.rounds):
            Comparison.round_now += 1
            for row in self.rows:
                print(f"  {self.name}: round {number + 1} of {self.options.rounds}: {row.name}",
                      file=sys.stderr, flush=True)
                row.results.append(self.measure_row(row))
        ticks_after, stolen_after = processor_ticks()
        self.machine["load_after"] = os.getloadavg()[0]
        self.machine["stolen_percent"] = round(100 * (stolen_after - stolen) / max(1, ticks_after - ticks), 1)
        self.machine["seconds"] = round(time.monotonic() - begin, 1)

    def measure_row(self, row):
        result = {}
        for name, subject in row.subjects.items():
            try:
                result[name] = subject()
            except Missing as missing:
                self.note(f"Not measured: {name.replace('_', ' ')}: {missing}.")
            except Failed as failed:
                self.note(f"Failed in {row.name}: {failed}.")
        return result

    def table(self):
        """Markdown: the table and its notes."""
        shown = [column for column in self.columns if any(column.values(row) for row in self.rows)]
        aims = any(row.aims for row in self.rows)
        heads = ["", *(column.head for column in shown), *(["aim"] if aims else [])]
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in self.rows:
            cells = [spread(column.values(row), column.digits) for column in shown]
            if aims:
                cells.append(self.verdict(row))
            lines.append(f"| {' | '.join([row.name, *cells])} |")
        return "\n".join([self.question, "", *lines, "", self.circumstances()])

    def verdict(self, row):
        """The row's aims. Each names its column if the row has several aims."""
        cells = []
        for aim in row.aims:
            column = next(column for column in self.columns if column.head == aim.head)
            values = column.values(row)
            text = aim.verdict(statistics.median(values) if values else None)
            cells.append(f"{aim.head} {text}" if len(row.aims) > 1 else text)
        return "; ".join(cells)

    def circumstances(self):
        """The lines below the table: how it was measured, and what was not measured."""
        where = self.machine
        text = (f"fullstripe {where['commit']}, {datetime.date.today().isoformat()}; {self.options.rounds} rounds, "
                f"{self.options.seconds:g} s a point; one-core figures on core "
                f"{where['core_of_one_core_figures']} of {','.join(map(str, where['cores_allowed']))}; load "
                f"{where['load_before']:.2f} before and {where['load_after']:.2f} after; the host kept "
                f"{where['stolen_percent']} % of the processors. `benchmarks/run {self.name}`")
        return "\n\n".join([text, *self.notes])

    def keep(self):
        """Writes the figures of all rounds into one file."""
        kept = {"schema": 1, "name": self.name, "question": self.question,
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "machine": self.machine, "rounds": self.options.rounds, "seconds": self.options.seconds,
                "rows": [{"name": row.name, "aims": self.verdict(row), "results": row.results,
                          "columns": {column.head: column.values(row) for column in self.columns}}
                         for row in self.rows],
                "notes": self.notes, "table": self.table()}
        self.options.folder.mkdir(parents=True, exist_ok=True)
        path = self.options.folder / f"{self.name}.json"
        path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        return path


def write_table(path, marker, table):
    """Replaces the text between the markers of a table in a document."""
    try:
        marked.replace(path, f"<!-- {marker} -->", "<!-- end -->", table)
    except ValueError as error:
        raise Failed(str(error)) from error
