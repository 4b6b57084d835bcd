#!/usr/bin/env python3
"""Plants bugs one by one and shows who finds each: the tests of a crate, and histories of faults.

usage: scripts/planted.py [--quick] [--seeds N] [--most N] [--write FILE] [BUG...]

The bugs are in crates/planted; one build serves all of them. Each is planted, by an environment variable, under
the tests of the engine, the metadata, the assembly and the fault world, until one of them fails; and in N
histories of faults (240). A bug that no test and none of these finds has more histories until one does
(--most, 2400). --write puts the table into a document, between its two marks. Without a bug everything has to
pass, or nothing of this means anything. Who is in the document's table is asked first.

--quick asks only the test that the document's table names for each bug, or where it names none, the seed; each
of them without a bug too. If that finds nothing any more (a test has another name, histories are drawn
differently), whoever does is looked for anew, in N histories at most.

Prints the table; the last line is 'N passed, N failed'. Exit code 1 if a bug is found by nobody.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
from progress import Progress  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "planted.md"
MARKS = ("<!-- table: scripts/planted.py --write -->", "<!-- end of table -->")
VARIABLE = "FULLSTRIPE_PLANTED_BUG"
# A bug may make a test or a history go on for ever; that is one way to notice it.
TEST_SECONDS = 120
HISTORIES_SECONDS = 180
HISTORY_SECONDS = 20
ENDLESS = "(hangs or dies)"
TESTED = ["engine", "metadata", "assembly", "sim"]
# Histories are asked by themselves.
NOT_ASKED = ["sim/histories", "sim/lies"]
# Their tests take longest.
ASKED_LAST = ["metadata", "engine/volume", "engine/bitmap", "engine/log", "engine/limits"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def cargo(*arguments, capture=False):
    """Runs cargo; its lines are returned if wanted, and an error ends the script."""
    locked = ["--locked"] if os.environ.get("CI") else []
    command = ["cargo", *arguments, *locked]
    say(" ".join(command))
    output = subprocess.PIPE if capture else None
    done = subprocess.run(command, cwd=ROOT, stdout=output, text=True, check=False)
    if done.returncode != 0:
        sys.exit("error: cargo failed, see above")
    return done.stdout


def build():
    """The program that runs histories, and by a name for people those of the tests."""
    packages = [word for crate in TESTED for word in ("-p", crate)]
    lines = cargo("test", "--profile", "planted", "--no-run", "--features", "sim/planted",
                  "--message-format", "json", *packages, capture=True)
    histories, tests = None, {}
    for line in lines.splitlines():
        message = json.loads(line)
        if not message.get("executable"):
            continue
        target = message["target"]
        if target["kind"] == ["example"] and target["name"] == "planted":
            histories = message["executable"]
        elif message["profile"]["test"]:
            crate = re.search(r"crates/(\w+)", message["manifest_path"]).group(1)
            name = crate if target["name"] == crate else f"{crate}/{target['name']}"
            tests[name] = message["executable"]
    asked = sorted(set(tests) - set(NOT_ASKED), key=lambda name: (name in ASKED_LAST, name))
    return histories, {name: tests[name] for name in asked}


def run_histories(program, first, end, how, bug):
    """Seeds that failed with a bug (or "-"), seeds run, the first that failed, and how it did."""
    seconds = HISTORIES_SECONDS if end - first > 1 else HISTORY_SECONDS
    try:
        done = subprocess.run([program, str(first), str(end), how, bug], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True, cwd=ROOT, timeout=seconds)
    except subprocess.TimeoutExpired:
        return run_one_by_one(program, range(first, end), how, bug)
    _, failed, run, seed, failure = done.stdout.rstrip("\n").split("\t", 4)
    return int(failed), int(run), seed, failure.split(":")[0]


def run_one_by_one(program, seeds, how, bug):
    """The same where some histories do not end."""
    if len(seeds) == 1:
        return 1, 1, str(seeds[0]), "does not end"
    failed, run, earliest = 0, 0, ("-", "-")
    for seed in seeds:
        more, _, *outcome = run_histories(program, seed, seed + 1, how, bug)
        earliest = tuple(outcome) if more and not failed else earliest
        failed, run = failed + more, run + 1
        if failed and how == "first":
            break
    return failed, run, *earliest


def run_program(name, program, bug, tests=()):
    """The first test that fails in a program with a bug planted (or ""), of all or of some; None if none does."""
    arguments = ["--exact", *tests] if tests else []
    environment = {**os.environ, VARIABLE: bug, "RUST_BACKTRACE": "0"}
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="replace", env=environment, cwd=ROOT / "crates" / name.split("/")[0]) as running:
        late = threading.Timer(TEST_SECONDS, running.kill)
        late.start()
        try:
            for line in running.stdout:
                # Who else would fail is not asked: one that finds it is enough.
                if failed := re.match(r"test (\S+)(?: - .*)? \.\.\. FAILED", line):
                    running.kill()
                    return f"{name}::{failed.group(1)}"
        finally:
            late.cancel()
    return None if running.returncode == 0 else f"{name}::{ENDLESS}"


def find_test(programs, bug, known=""):
    """The first test that fails with a bug planted: the one that is known to, or any."""
    name, _, test = known.partition("::")
    if name in programs and test != ENDLESS and (failed := run_program(name, programs[name], bug, [test])):
        return failed
    for name, program in programs.items():
        if failed := run_program(name, program, bug):
            return failed
    return None


def sentences():
    """The bugs and what each does, from the list in the source."""
    text = (ROOT / "crates" / "planted" / "src" / "lib.rs").read_text()
    body = text[text.index("\nbugs! {"):text.index("\n}\n", text.index("\nbugs! {"))]
    found, rule = {}, []
    for line in body.splitlines()[2:]:
        line = line.strip()
        if line.startswith("///"):
            rule.append(line[3:].strip())
        elif line.endswith(","):
            found[line[:-1]] = " ".join(rule)
            rule = []
    return found


def recorded():
    """By bug: the seed and the test that found it when the table was made; either may be empty."""
    rows = re.findall(r"^\| `(\w+)` \|.*?\| \d+ of \d+ seeds(?: \((\d+):[^|]*)? \| (?:`([^`]+)`)?[^|]* \|$",
                      DOCUMENT.read_text(), re.M)
    return {bug: (seed, test) for bug, seed, test in rows}


def refuse_broken(histories, programs, known):
    """Ends the script if one who is said to find a bug does so without it."""
    tests = {}
    for _, test in known.values():
        name, _, test = test.partition("::")
        tests.setdefault(name, set()).add(test)
    failed = [run_program(name, programs[name], "", sorted(tests[name])) for name in programs if name in tests]
    for seed in {int(seed) for seed, test in known.values() if seed and not test}:
        if run_histories(histories, seed, seed + 1, "all", "-")[0]:
            failed.append(f"seed {seed}")
    if any(failed):
        sys.exit(f"error: without any bug: {', '.join(filter(None, failed))}")


def quick(bugs, seeds):
    histories, programs = build()
    known, rows, lost = recorded(), {}, []
    with Progress("without a bug"):
        refuse_broken(histories, programs, {bug: known[bug] for bug in bugs if bug in known})
    with Progress("bugs planted", len(bugs)) as progress:
        for number, bug in enumerate(bugs):
            progress.at(number, bug)
            row = ask_the_known(bug, known.get(bug, ("", "")), histories, programs)
            if row:
                rows[bug] = row
                continue
            progress.say(f"{bug} is found no more by whom {DOCUMENT.name} names; looking for others")
            has_test = known.get(bug, ("", ""))[1]
            progress.say(add_row(bug, rows, lost, find_test(programs, bug), histories, 0 if has_test else seeds, seeds))
    return rows, lost


def ask_the_known(bug, known, histories, programs):
    """The row of a bug that is found by whom the table names; None if it is not."""
    seed, test = known
    name, _, test = test.partition("::")
    tests = [] if test == ENDLESS else [test]
    found = run_program(name, programs[name], bug, tests) if name in programs else None
    if found:
        return "not asked", f"`{found}`"
    if seed and not test:
        failed, _, first, how = run_histories(histories, int(seed), int(seed) + 1, "first", bug)
        if failed:
            return f"1 of 1 seeds ({first}: {how})", "histories only"
    return None


def add_row(bug, rows, lost, test, histories, seeds, most):
    """Runs histories with a bug, puts it into the table or to those that nobody has found, and says so in a line."""
    failed, run, seed, how = run_histories(histories, 0, seeds, "all", bug) if seeds else (0, 0, "-", "-")
    if not failed and not test:
        failed, more, seed, how = run_histories(histories, seeds, most, "first", bug)
        run += more
    first = f" ({seed}: {how})" if failed else ""
    finder = f"`{test}`" if test else "histories only" if failed else "**nobody**"
    rows[bug] = (f"{failed} of {run} seeds{first}", finder)
    if not failed and not test:
        lost.append(bug)
    return f"{bug}: {rows[bug][0]}, {finder}"


def whole(bugs, seeds, most):
    histories, programs = build()
    with Progress("without a bug"):
        failed, run, seed, how = run_histories(histories, 0, seeds, "all", "-")
        broken = None if failed else find_test(programs, "")
    if failed:
        sys.exit(f"error: {failed} of {run} seeds fail without any bug; the first is {seed}: {how}")
    if broken:
        sys.exit(f"error: a test fails without any bug: {broken}")
    known, rows, lost = recorded(), {}, []
    with Progress("bugs planted", len(bugs)) as progress:
        for number, bug in enumerate(bugs):
            progress.at(number, bug)
            test = find_test(programs, bug, known.get(bug, ("", ""))[1])
            progress.say(add_row(bug, rows, lost, test, histories, seeds, most))
    return rows, lost


def table(rows, rules):
    lines = ["| bug | what it does | histories | found by |", "|---|---|---|---|"]
    for bug, (histories, finder) in rows.items():
        lines.append(f"| `{bug}` | {rules[bug]} | {histories} | {finder} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=240)
    parser.add_argument("--most", type=int, default=2400)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("bugs", nargs="*", metavar="BUG")
    arguments = parser.parse_args()
    if arguments.quick and arguments.write:
        sys.exit("error: --quick asks too few to make a table of it; leave out --quick or --write")
    rules = sentences()
    unknown = [bug for bug in arguments.bugs if bug not in rules]
    if unknown:
        sys.exit(f"error: {unknown[0]} is no bug; crates/planted/src/lib.rs has the list")
    bugs = arguments.bugs or list(rules)
    if arguments.quick:
        rows, lost = quick(bugs, arguments.seeds)
    else:
        rows, lost = whole(bugs, arguments.seeds, arguments.most)
    rows = {bug: rows[bug] for bug in rules if bug in rows}
    text = table(rows, rules)
    print(text)
    if arguments.write:
        document = arguments.write.read_text()
        before, rest = document.split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        arguments.write.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")
    if lost:
        say(f"found by nobody: {', '.join(lost)}")
    print(f"{len(bugs) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
