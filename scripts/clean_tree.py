#!/usr/bin/env python3
"""Refuses a tree with uncommitted changes, so that a table of figures belongs to a known commit.

usage: scripts/clean_tree.py     (or `require()` from Python, before anything is measured)

Changes of documents do not count, nor those of the counts and outcomes that belong to them, because the tables are
written there, one after the other.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def changed():
    """The files that differ from the last commit or are not in it; None if git cannot tell."""
    said = subprocess.run(["git", "status", "--porcelain", "-z", "--no-renames", "--", ".", ":!docs", ":!*.md",
                           ":!benchmarks/instructions.json", ":!scripts/mutants/outcomes.json"],
                          cwd=ROOT, capture_output=True, check=False, text=True)
    if said.returncode != 0:
        return None
    return [line[3:] for line in said.stdout.split("\0") if line]


def require():
    """Ends the program with a sentence if a file has changed."""
    files = changed()
    if files is None:
        sys.exit("error: git does not say whether anything differs from the last commit, so nobody could tell which build a "
                 "table is of: use a clone of the repository, or leave out what writes the table.")
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        sys.exit(f"error: the last commit lacks the present content of {files[0]}{more}, so nobody could tell which build a table "
                 "is of: commit first, or leave out what writes the table.")


if __name__ == "__main__":
    require()
