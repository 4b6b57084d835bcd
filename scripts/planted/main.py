#!/usr/bin/env python3
"""Plants bugs one by one and shows which test of a crate and which history of faults finds each.

usage: scripts/planted.sh [--patches] [--quick [--build]] [--seeds N] [--most N] [--write FILE] [--renew BUG] [BUG...]

Each bug is a patch in scripts/planted/patches, and a sentence in scripts/planted/crate. All patches are applied to one
copy of the source, and one build serves all bugs; an environment variable selects the bug that is active. A patch that
no longer applies is an error, and --renew lets you plant its bug anew. With each bug, the tests of the engine, the
metadata, the assembly and the fault world run until one of them fails, and N histories of faults run (240). If neither
finds the bug, more histories run until one does (--most, 2400). --write puts the table into a document, between its two
marks. Without a bug every test and history has to pass; otherwise the results would mean nothing. The test that the
document's table names for a bug runs first.

--quick runs for each bug only the test that the document's table names, or if it names none, the seed; and each
of them without a bug too. If that no longer finds the bug (the test has another name, histories are drawn
differently), all tests run, and at most N histories. With --build it ends when what it runs is built. What it runs is built
as `make test` builds it, which has built most of it already: optimising takes longer than so few histories.

--patches only sees that each bug has a sentence and a patch that applies.

Prints the table; the last line is 'N passed, N failed'. The exit code is 1 if a bug is found by nothing.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_tree  # noqa: E402
import copies  # noqa: E402
import marked  # noqa: E402
from progress import Progress  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATCHES = HERE / "patches"
# The copy of the source that has the bugs.
TREE = ROOT / "target" / "planted-tree"
DOCUMENT = ROOT / "docs" / "planted.md"
MARKS = ("<!-- table: scripts/planted.sh --write -->", "<!-- end of table -->")
VARIABLE = "FULLSTRIPE_PLANTED_BUG"
# A bug may make a test or a history run without end; that counts as finding it.
TEST_SECONDS = 120
HISTORIES_SECONDS = 180
HISTORY_SECONDS = 20
ENDLESS = "(hangs or dies)"
TESTED = ["engine", "metadata", "assembly", "sim"]
# Crates that have bugs. Those of the exports are found by the fault world.
PLANTED = [*TESTED, "exports"]
# Histories are run separately.
NOT_ASKED = ["sim/histories", "sim/lies"]
# These tests take longest.
ASKED_LAST = ["metadata", "engine/all", "engine/limits"]
# How cargo builds what runs thousands of histories.
OPTIMISED = ["--profile", "planted"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def cargo(*arguments):
    """Runs cargo in the copy and returns its lines; an error ends the script."""
    command = ["cargo", *arguments]
    say(" ".join(command))
    target = os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target")
    done = subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "CARGO_TARGET_DIR": target})
    if done.returncode != 0:
        sys.exit("error: cargo failed, see above")
    return done.stdout


def apply(bugs, folder):
    """Applies the patches of the bugs to the files in a folder, one after the other; an error ends the script."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    for bug in bugs:
        patch = PATCHES / f"{bug}.patch"
        done = subprocess.run(["git", "apply", "-C1", str(patch)], cwd=folder, env=environment, check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: {patch.relative_to(ROOT)} does not apply any more:\n{done.stderr}"
                     f"scripts/planted.sh --renew {bug} lets you plant the bug anew")


def patched_files(bugs):
    names = set()
    for bug in bugs:
        names |= set(re.findall(r"^\+\+\+ b/(\S+)$", (PATCHES / f"{bug}.patch").read_text(), re.M))
    return sorted(names)


def with_bugs(bugs):
    """The source files that have bugs, by name, with all of these bugs planted."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "source"
        files = patched_files(bugs)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / file).is_file():
                shutil.copy(ROOT / file, folder / file)
        apply(bugs, folder)
        return {file: (folder / file).read_bytes() for file in files if (folder / file).is_file()}


def what_plants():
    """What the copy has besides the bugs: the crate that tells which bug is active, dependencies on it, and the program
    of histories."""
    files = {f"crates/planted/{file.relative_to(HERE / 'crate')}": file.read_bytes()
             for file in (HERE / "crate").rglob("*") if file.is_file()}
    files["crates/sim/examples/planted.rs"] = (HERE / "histories.rs").read_bytes()
    for crate in PLANTED:
        name = f"crates/{crate}/Cargo.toml"
        text = (ROOT / name).read_text()
        dependency = 'planted = { path = "../planted" }\n'
        if "[dependencies]\n" in text:
            text = text.replace("[dependencies]\n", f"[dependencies]\n{dependency}", 1)
        else:
            text += f"\n[dependencies]\n{dependency}"
        files[name] = text.encode()
    return files


def prepare(bugs):
    copies.renew(ROOT, TREE, {**what_plants(), **with_bugs(bugs)})


def renew(bug, bugs):
    """Lets the user plant a bug anew, on top of those before it in the list, and writes its patch."""
    before = with_bugs(bugs[:bugs.index(bug)])
    folder = ROOT / "target" / "planted-renewed"
    shutil.rmtree(folder, ignore_errors=True)
    old, new = folder / "a", folder / "b"
    for place in (old, new):
        copies.renew(ROOT, place, before)
    print(f"Plant {bug} in {new}, as planted::planted!({bug}); the patch so far:\n")
    print((PATCHES / f"{bug}.patch").read_text() if (PATCHES / f"{bug}.patch").is_file() else "(none)")
    input("Then press enter. ")
    diff = subprocess.run(["diff", "-ru", "a/crates", "b/crates"], cwd=folder, capture_output=True, text=True, check=False)
    lines = [re.sub(r"^(---|\+\+\+) (\S+)\t.*", r"\1 \2", line) for line in diff.stdout.splitlines()
             if not line.startswith("diff ")]
    if not lines:
        sys.exit(f"error: nothing was planted in {new}; the patch is as it was")
    (PATCHES / f"{bug}.patch").write_text("\n".join(lines) + "\n")
    apply(bugs[bugs.index(bug):], old)
    say(f"{PATCHES.relative_to(ROOT)}/{bug}.patch is written, and those behind it apply")


def build(profile=(), asked=()):
    """Builds the program that runs histories, and the test programs by their names for people. If some of these are
    asked for, the programs of other integration tests may be left out."""
    prepare(list(sentences()))
    packages = [word for crate in TESTED for word in ("-p", crate)]
    options = [*profile, "--message-format", "json", *packages]
    targets = ["--lib"] if asked else ["--tests"]
    targets += [word for name in sorted(asked) if "/" in name for word in ("--test", name.split("/")[1])]
    lines = cargo("test", "--no-run", *options, *targets) + cargo("build", *options, "--example", "planted")
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
    """Runs histories with a bug (or "-"): seeds that failed, seeds that ran, the first that failed, and how it
    failed."""
    seconds = HISTORIES_SECONDS if end - first > 1 else HISTORY_SECONDS
    try:
        done = subprocess.run([program, str(first), str(end), how, bug], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True, cwd=TREE, timeout=seconds)
    except subprocess.TimeoutExpired:
        return run_one_by_one(program, range(first, end), how, bug)
    _, failed, run, seed, failure = done.stdout.rstrip("\n").split("\t", 4)
    return int(failed), int(run), seed, failure.split(":")[0]


def run_one_by_one(program, seeds, how, bug):
    """The same, one seed at a time, for when some histories do not end."""
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
    """Runs a program's tests, all or some, with a bug planted (or ""). Returns the first that fails; None if none
    does."""
    arguments = ["--exact", *tests] if tests else []
    environment = {**os.environ, VARIABLE: bug, "RUST_BACKTRACE": "0"}
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="replace", env=environment, cwd=TREE / "crates" / name.split("/")[0]) as running:
        late = threading.Timer(TEST_SECONDS, running.kill)
        late.start()
        try:
            for line in running.stdout:
                # The others need not run: one test that finds the bug is enough.
                if failed := re.match(r"test (\S+)(?: - .*)? \.\.\. FAILED", line):
                    running.kill()
                    return f"{name}::{failed.group(1)}"
        finally:
            late.cancel()
    return None if running.returncode == 0 else f"{name}::{ENDLESS}"


def find_test(programs, bug, known=""):
    """The first test that fails with a bug planted: the known one if it still does, otherwise any."""
    name, _, test = known.partition("::")
    if name in programs and test != ENDLESS and (failed := run_program(name, programs[name], bug, [test])):
        return failed
    for name, program in programs.items():
        if failed := run_program(name, program, bug):
            return failed
    return None


def sentences():
    """The bugs and what each does, from the list in the source."""
    text = (HERE / "crate" / "src" / "lib.rs").read_text()
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
    """By bug: the seed and the test that found it when the table was written; either may be empty."""
    rows = re.findall(r"^\| `(\w+)` \|.*?\| \d+ of \d+ seeds(?: \((\d+):[^|]*)? \| (?:`([^`]+)`)?[^|]* \|$",
                      DOCUMENT.read_text(), re.M)
    return {bug: (seed, test) for bug, seed, test in rows}


def refuse_broken(histories, programs, known):
    """Ends the script if a test or seed that is said to find a bug fails without the bug."""
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


def build_the_known(known):
    """Builds only what has the tests that the document's table names."""
    return build(asked={test.partition("::")[0] for _, test in known.values() if test})


def quick(bugs, seeds):
    known, rows, lost = recorded(), {}, []
    histories, programs = build_the_known(known)
    with Progress("without a bug"):
        refuse_broken(histories, programs, {bug: known[bug] for bug in bugs if bug in known})
    with Progress("bugs planted", len(bugs)) as progress:
        found = ask_all_the_known(bugs, known, histories, programs, progress)
        for bug in bugs:
            if found[bug]:
                rows[bug] = found[bug]
                continue
            progress.say(f"{bug} is found no more by whom {DOCUMENT.name} names; looking for others")
            histories, programs = build()
            has_test = known.get(bug, ("", ""))[1]
            progress.say(add_row(bug, rows, lost, find_test(programs, bug), histories, 0 if has_test else seeds, seeds))
    return rows, lost


def ask_all_the_known(bugs, known, histories, programs, progress):
    """The table row of each bug, or None if it is not found. One bug to a processor: most are asked for by one test, which has
    one thread."""
    def ask(bug):
        return ask_the_known(bug, known.get(bug, ("", "")), histories, programs)

    found = {}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for bug, row in zip(bugs, pool.map(ask, bugs)):
            found[bug] = row
            progress.at(len(found), bug)
    return found


def ask_the_known(bug, known, histories, programs):
    """The table row of a bug that is found by the test or seed in the document's table; None if it is not."""
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
    """Runs histories with a bug, adds the bug to the table or to those that nothing has found, and returns a line about
    it."""
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
    histories, programs = build(OPTIMISED)
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
    parser.add_argument("--patches", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--seeds", type=int, default=240)
    parser.add_argument("--most", type=int, default=2400)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--renew", metavar="BUG")
    parser.add_argument("bugs", nargs="*", metavar="BUG")
    arguments = parser.parse_args()
    if arguments.quick and arguments.write:
        sys.exit("error: --quick asks too few to make a table of it; leave out --quick or --write")
    if arguments.build and not arguments.quick:
        sys.exit("error: --build is for --quick; without it, all is built when it is needed")
    if arguments.write:
        clean_tree.require()
    rules = sentences()
    without = sorted(set(rules) ^ {patch.stem for patch in PATCHES.glob("*.patch")} - {arguments.renew})
    if without and without != [arguments.renew]:
        sys.exit(f"error: {without[0]} has a sentence or a patch, and not the other")
    if arguments.patches:
        with_bugs(list(rules))
        return 0
    unknown = [bug for bug in [*arguments.bugs, *filter(None, [arguments.renew])] if bug not in rules]
    if unknown:
        sys.exit(f"error: {unknown[0]} is no bug; scripts/planted/crate/src/lib.rs has the list")
    if arguments.renew:
        renew(arguments.renew, list(rules))
        return 0
    if arguments.build:
        build_the_known(recorded())
        return 0
    bugs = arguments.bugs or list(rules)
    if arguments.quick:
        rows, lost = quick(bugs, arguments.seeds)
    else:
        rows, lost = whole(bugs, arguments.seeds, arguments.most)
    rows = {bug: rows[bug] for bug in rules if bug in rows}
    text = table(rows, rules)
    print(text)
    if arguments.write:
        marked.replace(arguments.write, *MARKS, text)
    if lost:
        say(f"found by nobody: {', '.join(lost)}")
    print(f"{len(bugs) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
