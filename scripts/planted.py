#!/usr/bin/env python3
"""Plants bugs one by one and shows who finds each: histories of faults, or the tests of a crate.

usage: scripts/planted.py [--quick] [--seeds N] [--most N] [--write FILE] [BUG...]

The bugs are in crates/planted; one build serves all of them. First the histories: N seeds (240) with each
bug, and if none of them fails, more until one does (--most, 2400). Bugs that no history finds are left to the
tests of the engine, the metadata and the assembly, which run with the bug planted by an environment variable.
--write puts the table into a document, between its two marks. Without a bug everything has to pass, or nothing
of this means anything.

--quick asks only for what the document's table says: the seed, or the test, that finds each bug. A seed that
finds nothing any more (histories are drawn differently now) is looked for anew.

Prints the table; the last line is 'N passed, N failed'. Exit code 1 if a bug is found by nobody.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "planted.md"
MARKS = ("<!-- table: scripts/planted.py --write -->", "<!-- end of table -->")
VARIABLE = "FULLSTRIPE_PLANTED_BUG"
# A bug may make a test wait for ever; that is one way to notice it.
TEST_SECONDS = 300
TESTED = ["engine", "metadata", "assembly"]


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


def build_histories():
    cargo("build", "--profile", "planted", "-p", "sim", "--features", "planted", "--example", "planted")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "planted" / "examples" / "planted"


def build_tests():
    """The test programs of the tested crates, by a name for people."""
    packages = [word for crate in TESTED for word in ("-p", crate)]
    lines = cargo("test", "--profile", "planted", "--no-run", "--features", "planted/armed",
                  "--message-format", "json", *packages, capture=True)
    programs = {}
    for line in lines.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            crate = re.search(r"crates/(\w+)", message["manifest_path"]).group(1)
            target = message["target"]["name"]
            name = crate if target == crate else f"{crate}/{target}"
            programs[name] = message["executable"]
    return programs


def run_histories(program, first, end, how, bugs):
    """By bug: seeds that failed, seeds run, the first that failed, and how it did."""
    done = subprocess.run([program, str(first), str(end), how, *bugs], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True, cwd=ROOT)
    found = {}
    for line in done.stdout.splitlines():
        bug, failed, run, seed, failure = line.split("\t")
        found[bug] = (int(failed), int(run), seed, failure)
    return found


def run_tests(programs, bug, wanted=None):
    """The tests that fail with a bug planted: of all programs, or one test of one program."""
    failed = []
    for name, program in programs.items():
        arguments = []
        if wanted:
            target, _, test = wanted.partition("::")
            if target != name:
                continue
            arguments = ["--exact", test]
        package = ROOT / "crates" / name.split("/")[0]
        environment = {**os.environ, VARIABLE: bug, "RUST_BACKTRACE": "0"}
        try:
            done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, timeout=TEST_SECONDS, env=environment, cwd=package, check=False)
            output, ended = done.stdout, done.returncode in (0, 101)
        except subprocess.TimeoutExpired as late:
            output, ended = (late.stdout or b"").decode(errors="replace"), False
        failed += [f"{name}::{test}" for test in re.findall(r"^test (\S+)(?: - .*)? \.\.\. FAILED", output, re.M)]
        if not ended:
            failed.append(f"{name}::(does not end)")
        if failed and bug:
            # Who else would is not asked: one that finds it is enough.
            break
    return failed


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
    """By bug: who found it when the table was made."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (seed (\d+)|`([^`]+)`)[^|]* \|$", DOCUMENT.read_text(), re.M)
    return {bug: (seed, test) for bug, _, seed, test in rows}


def quick(bugs, most):
    histories, programs = build_histories(), build_tests()
    known, rows, lost = recorded(), {}, []
    for bug in bugs:
        seed, test = known.get(bug, ("", ""))
        if seed:
            failed, run, first, how = run_histories(histories, int(seed), int(seed) + 1, "first", [bug])[bug]
            if not failed:
                failed, run, first, how = run_histories(histories, 0, most, "first", [bug])[bug]
            if failed:
                rows[bug] = (f"{failed} of {run} seeds", f"seed {first}: {how}")
                continue
        failed = run_tests(programs, bug, test or None)
        if failed:
            rows[bug] = ("", f"`{failed[0]}`")
        else:
            lost.append(bug)
    return rows, lost


def whole(bugs, seeds, most):
    histories, programs = build_histories(), None
    rows, missed = {}, []
    failed, run, seed, how = run_histories(histories, 0, seeds, "all", [])["-"] if not bugs else (0, 0, "-", "-")
    if failed:
        sys.exit(f"error: {failed} of {run} seeds fail without any bug; the first is {seed}: {how}")
    for bug in bugs:
        failed, run, seed, how = run_histories(histories, 0, seeds, "all", [bug])[bug]
        if not failed:
            failed, more, seed, how = run_histories(histories, seeds, most, "first", [bug])[bug]
            run += more
        say(f"{bug}: {failed} of {run} seeds")
        if failed:
            rows[bug] = (f"{failed} of {run} seeds", f"seed {seed}: {how.split(':')[0]}")
        else:
            missed.append((bug, run))
    if missed:
        programs = build_tests()
        broken = run_tests(programs, "")
        if broken:
            sys.exit(f"error: tests fail without any bug: {', '.join(broken)}")
    lost = []
    for bug, run in missed:
        failed = run_tests(programs, bug)
        say(f"{bug}: {', '.join(failed) or 'found by no test'}")
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        if failed:
            rows[bug] = (f"0 of {run} seeds", f"`{failed[0]}`{more}")
        else:
            rows[bug] = (f"0 of {run} seeds", "**nobody**")
            lost.append(bug)
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
    rules = sentences()
    unknown = [bug for bug in arguments.bugs if bug not in rules]
    if unknown:
        sys.exit(f"error: {unknown[0]} is no bug; crates/planted/src/lib.rs has the list")
    bugs = arguments.bugs or list(rules)
    if arguments.quick:
        rows, lost = quick(bugs, arguments.most)
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
