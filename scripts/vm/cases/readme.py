"""The README's ten lines to a file system, as they stand there, on files in the guest's memory."""
import os

from interop.requirement import require

from ..case import Case

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../README.md")
HEADING = "\n## Ten lines to a file system\n"
# In between, files are written, and compared at the end.
WRITTEN = "put_files /host/tree mnt/kept\n"
COMPARED = "same_files /host/tree mnt/kept\n"
BEGIN = """
    mkdir -p /run/readme
    mount -t tmpfs readme /run/readme
    cd /run/readme
"""
# The array is stopped a moment before its server has ended.
END = """
    wait
    cd /
    umount /run/readme
    [ -z "$(left_over)" ] || fail "there still is $(left_over) after the server has ended in order"
"""


def ten_lines():
    with open(README, encoding="utf-8") as file:
        _, _, rest = file.read().partition(HEADING)
    lines = rest.split("```")[1].strip().splitlines()
    require(len(lines) == 10, f"the README's ten lines are {len(lines)}")
    return lines


def changed(line):
    """The guest has the drives' files in its memory, so they are small, and its mount does not find the type of a file system."""
    in_path = line.replace("$PWD/target/release", "/sbin")
    return in_path.replace("-s 1G", "-s 64M").replace("mount /dev/", "mount -t ext4 /dev/")


def run_lines(bench):
    bench.tree("tree", files=12)
    lines = ten_lines()
    lines = [changed(line) for line in lines]
    mounted = next(number for number, line in enumerate(lines) if "/dev/fullstripe/vol0 mnt" in line)
    script = lines[:mounted + 1] + [WRITTEN] + lines[mounted + 1:-1] + [COMPARED] + lines[-1:]
    said = bench.run(BEGIN + "\n".join(script) + END, 120).splitlines()
    require(any("slot 3  d3.img  in sync" in line for line in said), f"the lines say {said}")
    require("the array is stopped" in said, f"the lines say {said}")
    return next(line for line in said if line.endswith("files compared"))


def cases():
    return [Case("readme", "ten lines to a file system", run_lines, way="ublk")]
