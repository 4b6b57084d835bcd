#!/usr/bin/env python3
"""Changes functions that keep data safe, one at a time (cargo-mutants), and shows which changes no test notices.

usage: scripts/mutants.sh [--draw] [--first] [--seconds N] [--shard K/N] [--crate NAME] [--only TEXT] [--again] [--list] [--write]

The functions are listed in functions.toml, in this folder. At most 750 of their mutants form the set: each function
gives its first (by a hash of the mutant's name), then its second, and so on. Names have no line numbers, so that the
set and the page of survivors (docs/mutants.md) stay valid when other parts of a file change.

A mutant is first tried with the fast tests of its own crate. If it survives, it is tried with the slow ones and with
the crates that also guard it (TESTS below). This happens in a copy, target/mutants/tree. The results are kept in
target/mutants/results.json, and with --write in outcomes.json in this folder, so that others can continue.

--draw      mutants that a test has noticed before, in an order that depends on the state of the code, those in files of
            the newest commits first: this shows a test that has become weaker (for CI, whose test lane also runs these
            tests without any change; here they are only built then)
--first     only the fast tests of the mutant's own crate; mutants that they do not notice are printed and stay untried
--seconds N ends this long after the tests have been built, and judges what was tried; with --draw, the first is tried all the same
--shard K/N every N-th mutant of the set, from the K-th on (1/N is the first)
--crate, --only  mutants of one crate; mutants whose name contains TEXT (whether in the set or not)
--again     only mutants that survived before or were not tried
--list      lists the mutants and tries none
--write     writes the table of what was tried into docs/mutants.md, and outcomes.json

Prints each survivor; the last line is 'N passed, N failed'. The exit code is 1 if a mutant survives that is not on the
page, or if the page names a mutant that does not exist.
"""
import argparse
import collections
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_tree  # noqa: E402
import copies  # noqa: E402
import marked  # noqa: E402
from progress import Progress  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ROOT / "scripts" / "mutants" / "functions.toml"
DOCUMENT = ROOT / "docs" / "mutants.md"
MARKS = ("<!-- table: make test-mutants ARGS=--write -->", "<!-- end of table -->")
PLACE = ROOT / "target" / "mutants"
TREE, RESULTS = PLACE / "tree", PLACE / "results.json"
FIRST_FAILURE = ROOT / "scripts" / "mutants" / "first_failure.py"
OUTCOMES = ROOT / "scripts" / "mutants" / "outcomes.json"
MOST = 750
NEWEST_COMMITS = 5
BUILD_SECONDS = 400
# The slowest round takes 60 s on an idle machine.
TEST_SECONDS = 180
BATCH = 12
# By crate, the rounds of tests that a mutant goes through until one notices it: package and arguments of `cargo test`.
TESTS = {
    "engine": [("engine", ["--lib", "--test", "all"]), ("engine", ["--test", "limits"]), ("assembly", ["--lib"]),
               ("sim", ["--lib", "--test", "given_up", "--test", "recorded"])],
    "assembly": [("assembly", ["--lib"]), ("sim", ["--lib"]), ("container", ["--lib"])],
    "metadata": [("metadata", ["--lib"]), ("assembly", ["--lib"])],
    "drives": [("drives", ["--lib"]), ("exports", ["--lib"])],
    "exports": [("exports", ["--lib"])],
    "server": [("server", ["--lib"])],
}
# Their tests leave nothing behind when they are killed. Those of the others have files, mounts and loop devices.
ENDED_EARLY = ["engine", "assembly", "metadata", "sim"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def cargo_mutants(arguments, **options):
    command = ["cargo", "mutants", "--no-config", "--no-shuffle", "--colors", "never", *arguments]
    return subprocess.Popen(command, cwd=TREE, text=True, **options)


def function_of(mutant):
    return (mutant.get("function") or {}).get("function_name", "")


def all_mutants():
    """Every mutant of the crates, with its name for people and pages under "key"."""
    packages = [word for crate in TESTS for word in ("-p", crate)]
    listing = cargo_mutants(["--list", "--json", *packages], stdout=subprocess.PIPE)
    mutants = json.loads(listing.communicate()[0])
    if listing.returncode != 0:
        sys.exit("error: cargo-mutants could not list the mutants, see above")
    times = collections.Counter()
    for mutant in mutants:
        key = re.sub(r"^(\S+?):\d+:\d+:", r"\1:", mutant["name"])
        times[key] += 1
        mutant["key"] = key if times[key] == 1 else f"{key} ({times[key]})"
    return mutants


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()


def chosen(mutants):
    """The set: mutants of the listed functions, taken in turn from each function, up to MOST."""
    by_place = collections.defaultdict(list)
    for mutant in mutants:
        by_place[mutant["file"], function_of(mutant)].append(mutant)
    listed = []
    for group in tomllib.loads(FUNCTIONS.read_text())["group"]:
        for file, names in group.items():
            if file == "why":
                continue
            if names == ["*"]:
                names = [name for where, name in by_place if where == file and name]
            unknown = [name for name in names if (file, name) not in by_place]
            if unknown or not names:
                sys.exit(f"error: functions.toml names {unknown or 'all'} of {file}, where no such function can be "
                         "changed; correct the name")
            listed += [(file, name) for name in names]
    turns = [sorted(by_place[place], key=lambda mutant: hashed(mutant["key"])) for place in listed]
    ranked = [(turn, hashed(mutant["key"]), mutant) for ones in turns for turn, mutant in enumerate(ones)]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda rank: rank[:2])][:MOST]


def touched():
    """Files that the newest commits changed; none if the clone has no history."""
    done = subprocess.run(["git", "log", f"-{NEWEST_COMMITS}", "--no-merges", "--name-only", "--format="], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return set(done.stdout.split())


def drawn(mutants, results):
    """Known caught mutants in an order by the code's hash, those in recently changed files first; only of one crate,
    because each crate costs a build. Untried mutants are left to runs by hand, because a person has to judge their
    results. Mutants that only a hang reveals are left out, because each costs minutes."""
    mutants = [mutant for mutant in mutants if results.get(mutant["key"], "").startswith("caught by")]
    if not mutants:
        sys.exit("error: of these mutants none is known to be noticed; try them by name first")
    seed, files = os.environ.get("MUTANTS_SEED", "0"), touched()
    order = sorted(mutants, key=lambda mutant: (mutant["file"] not in files, hashed(seed + mutant["key"])))
    return [mutant for mutant in order if mutant["package"] == order[0]["package"]]


@functools.cache
def runner_variable():
    """The variable that names the program through which cargo starts tests on this machine."""
    said = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    target = re.search(r"^host: (\S+)$", said, re.M)[1]
    return f"CARGO_TARGET_{target.upper().replace('-', '_')}_RUNNER"


def for_cargo():
    """The environment of builds in the copy. They share the build folder, and so what is built of other projects' crates,
    with those of the tree itself. Thousands of links want no debug information."""
    return {**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target"),
            "CARGO_INCREMENTAL": "1", "CARGO_PROFILE_DEV_DEBUG": "false"}


def try_batch(batch, package, tests, end):
    """Results of the mutants of one crate with one package's tests, by key. Mutants that ran out of time are
    missing."""
    # Filters by name of cargo-mutants 27.1.0 do not exclude mutants that leave out a field.
    fields = any("delete field" in mutant["key"] for mutant in batch)
    places = [] if fields else ["-E", "delete field"]
    places += [word for file in sorted({mutant["file"] for mutant in batch}) for word in ("-f", file)]
    places += [word for mutant in batch for word in ("-F", f"^{re.escape(mutant['name'])}$".replace("\\ ", " "))]
    output = PLACE / "output"
    shutil.rmtree(output, ignore_errors=True)
    environment = {**for_cargo(), "RUST_BACKTRACE": "0", "INSTA_UPDATE": "no"}
    if package in ENDED_EARLY:
        environment[runner_variable()] = str(FIRST_FAILURE)
    arguments = ["--in-place", "--baseline", "skip", "--output", str(output),
                 "--timeout", str(TEST_SECONDS), "--build-timeout", str(BUILD_SECONDS),
                 "-p", batch[0]["package"], "--test-package", package, *places, "--", *tests]
    running = cargo_mutants(arguments, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        with Progress(f"{len(batch)} changes under the tests of {package}"):
            running.wait(timeout=max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGINT)
        try:
            running.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    outcomes = output / "mutants.out" / "outcomes.json"
    if not outcomes.is_file():
        return {}
    keys, found = {mutant["name"]: mutant["key"] for mutant in batch}, {}
    for outcome in json.loads(outcomes.read_text())["outcomes"]:
        if outcome["summary"] == "Failure":
            sys.exit("error: the tests could not be run")
        key = keys.get(outcome["scenario"]["Mutant"]["name"])
        if key:
            found[key] = outcome["summary"]
    return found


def check_baseline(packages, builds_only):
    """Ends the script if the tests fail without any change. Also builds what all later builds share."""
    for package, tests in packages:
        command = ["cargo", "test", "--quiet", "-p", package, *tests]
        command += ["--no-run"] if builds_only else []
        say(" ".join(command))
        with Progress("building the tests" if builds_only else "tests without any change"):
            done = subprocess.run(command, cwd=TREE, env=for_cargo(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nerror: these tests fail without any change")


def run(mutants, results, end, rounds=None):
    """Tries mutants in order until the time is up. Survivors enter the next round at once, up to `rounds`."""
    tried = {}
    for start in batches(mutants):
        batch, crate = start, start[0]["package"]
        for number, (package, tests) in enumerate(TESTS[crate][:rounds]):
            if not batch or time.monotonic() > end:
                break
            found = try_batch(batch, package, tests, end)
            for mutant in batch:
                outcome = found.get(mutant["key"])
                if outcome in ("CaughtMutant", "Timeout"):
                    tried[mutant["key"]] = f"caught by {package}" if outcome == "CaughtMutant" else "caught: hangs"
                elif outcome == "Unviable":
                    tried[mutant["key"]] = "does not build"
                elif outcome == "MissedMutant" and number == len(TESTS[crate]) - 1:
                    tried[mutant["key"]] = "survived"
            batch = [mutant for mutant in batch if found.get(mutant["key"]) == "MissedMutant"]
        for mutant in batch if rounds else []:
            say(f"not noticed by the quick tests: {mutant['key']}")
        for mutant in start:
            if mutant["key"] in tried:
                results[mutant["key"]] = tried[mutant["key"]]
                if tried[mutant["key"]] == "survived":
                    say(f"survived: {mutant['key']}")
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True))
        count = collections.Counter(outcome.split(" ")[0].rstrip(":") for outcome in tried.values())
        say(f"{len(tried)} of {len(mutants)} tried: {dict(count)}")
        if time.monotonic() > end:
            break
    return tried


def batches(mutants):
    """Neighbouring mutants of one crate, at most BATCH."""
    batch = []
    for mutant in mutants:
        if batch and (batch[0]["package"] != mutant["package"] or len(batch) == BATCH):
            yield batch
            batch = []
        batch.append(mutant)
    if batch:
        yield batch


def known_survivors():
    return set(re.findall(r"^- `(crates/.+?)`: \S", DOCUMENT.read_text(), re.M))


def table(mutants, results):
    rows = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        outcome = results.get(mutant["key"], "not tried").split(" ")[0].rstrip(":")
        rows[mutant["file"], function_of(mutant)][outcome] += 1
    lines = ["| function | mutants | caught | do not build | survive | not tried |", "|---|---|---|---|---|---|"]
    total = collections.Counter()
    for (file, function), row in sorted(rows.items()):
        total.update(row)
        short = file.removeprefix("crates/").replace("/src/", "/")
        lines.append(line_of(f"`{short}` `{function}`", row))
    return "\n".join([*lines, line_of("**all**", total)])


def line_of(name, row):
    counts = (row.total(), row["caught"], row["does"], row["survived"], row["not"])
    return f"| {name} | " + " | ".join(str(count) for count in counts) + " |"


def known_outcomes():
    """Results of mutants by key, from this machine or from where the set was run before."""
    files = [file for file in (OUTCOMES, RESULTS) if file.is_file()]
    return {key: outcome for file in files for key, outcome in json.loads(file.read_text()).items()}


def write_down(everything, results):
    """Writes the table of the set, and the outcomes of all mutants that exist: a function that is new to the list takes
    others out of the set, which may come back."""
    keys = sorted(mutant["key"] for mutant in everything if mutant["key"] in results)
    OUTCOMES.write_text(json.dumps({key: results[key] for key in keys}, indent=1) + "\n")
    marked.replace(DOCUMENT, *MARKS, table(chosen(everything), results))


def selected(arguments, everything, results):
    mutants = chosen(everything)
    if arguments.only:
        mutants = [mutant for mutant in everything if arguments.only in mutant["key"]]
    if arguments.crate:
        mutants = [mutant for mutant in mutants if mutant["package"] == arguments.crate]
    if arguments.again:
        mutants = [mutant for mutant in mutants if results.get(mutant["key"], "survived") == "survived"]
    if arguments.shard:
        number, count = (int(word) for word in arguments.shard.split("/"))
        mutants = mutants[number - 1::count]
    return drawn(mutants, results) if arguments.draw else sorted(mutants, key=lambda mutant: (mutant["package"], mutant["file"]))


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    for flag in ("--draw", "--first", "--again", "--list", "--write"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--seconds", type=int, default=24 * 3600)
    parser.add_argument("--shard")
    parser.add_argument("--crate", choices=list(TESTS))
    parser.add_argument("--only")
    arguments = parser.parse_args()
    if arguments.shard and not re.fullmatch(r"[1-9]\d{0,3}/[1-9]\d{0,3}", arguments.shard):
        sys.exit(f"error: SHARD is '{arguments.shard}': K/N is wanted, such as 3/20")
    return arguments


def main():
    arguments = parse()
    TREE.mkdir(parents=True, exist_ok=True)
    copies.renew(ROOT, TREE)
    everything = all_mutants()
    results = known_outcomes()
    mutants = selected(arguments, everything, results)
    if arguments.list:
        print("\n".join(mutant["key"] for mutant in mutants))
        return
    known = known_survivors()
    gone = sorted(known - {mutant["key"] for mutant in everything})
    tried = {}
    if mutants and not arguments.write:
        first = [TESTS[crate][0] for crate in dict.fromkeys(mutant["package"] for mutant in mutants)]
        check_baseline(first, builds_only=arguments.draw)
        end, rounds = time.monotonic() + arguments.seconds, 1 if arguments.first else None
        if arguments.draw:
            # One of them is tried however slow the machine is: with none, the run has shown nothing.
            tried = run(mutants[:1], results, time.monotonic() + BUILD_SECONDS + TEST_SECONDS, rounds)
            mutants = mutants[1:]
        tried |= run(mutants, results, end, rounds)
    if arguments.write:
        clean_tree.require()
        write_down(everything, results)
    survivors = [key for key, outcome in tried.items() if outcome == "survived"]
    unknown = [key for key in survivors if key not in known]
    for key in gone:
        print(f"docs/mutants.md names a mutant that does not exist: {key}")
    for key in unknown:
        print(f"survives and is not in docs/mutants.md: {key}")
    caught = sum(outcome.startswith("caught") for outcome in tried.values())
    print(f"{len(tried)} tried, {caught} caught, {len(survivors)} survived, {len(unknown)} of them unknown")
    passed = len(tried) - len(unknown)
    print(f"{passed} passed, {len(unknown) + len(gone)} failed")
    if unknown or gone or not (tried or arguments.write):
        sys.exit(1)


if __name__ == "__main__":
    main()
