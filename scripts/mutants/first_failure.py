#!/usr/bin/env python3
"""Runs a test program and ends it at its first failing test: one that notices a mutant is enough.

usage: scripts/mutants/first_failure.py PROGRAM [ARGUMENT...]

Cargo starts test programs through it (CARGO_TARGET_..._RUNNER), because they cannot be told to stop at a failure
themselves. Passes their output on. The exit code is that of the program, 101 after a failure.
"""
import re
import subprocess
import sys

FAILED = re.compile(r"test \S+(?: - .*)? \.\.\. FAILED")
EXIT_FAILED = 101


def main():
    with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True, errors="replace") as running:
        for line in running.stdout:
            print(line, end="", flush=True)
            if FAILED.match(line):
                running.kill()
                sys.exit(EXIT_FAILED)
    # A program that a signal has ended has a negative code here, which no exit code can be.
    sys.exit(running.returncode if running.returncode >= 0 else EXIT_FAILED)


if __name__ == "__main__":
    main()
