"""Functions that several groups of cases use."""
import re

from ..bench import md5
from ..difference import require_content, require_no_wrong_rows
from ..requirement import require
from ..volume import MIB

# Level and number of members.
LEVELS = {0: 4, 1: 2, 10: 4, 5: 4}
REDUNDANT = {1: 2, 10: 4, 5: 4}
# By level and number of members: how many members' worth of data a volume holds.
COLUMNS = {(0, 2): 2, (0, 4): 4, (1, 2): 1, (10, 4): 2, (5, 4): 3, (5, 3): 2}
# Neither the slots nor the order in which md finds drives follow the drives' names.
SLOTS = [2, 0, 3, 1]
FOUND = [3, 1, 0, 2]


def order(count, whole):
    return [at for at in whole if at < count]


def words(drives):
    return " ".join(f"$d{at}" for at in drives)


def overwrite(data, part, at):
    return data[:at] + part + data[at + len(part):]


def require_sum(text, data):
    require(f"SUM {md5(data)}" in text, f"md reads other bytes: {said(text)}")


def said(text):
    """The lines of a job's output that describe its result."""
    lines = [line for line in text.splitlines() if re.match("(STATE|SUM|MISMATCHES|mdadm|NOT|[A-Z]+ )", line)]
    return "; ".join(line for line in lines if "No md superblock" not in line)


def require_consistent(text):
    require("MISMATCHES 0\n" in text, f"md finds mismatches: {said(text)}")


def require_at_rest(text):
    require("STATE idle none" in text, f"md does not start it clean: {said(text)}")


def require_volume(bench, data, index=0, by="us", earlier=()):
    """The drives hold what fullstripe or md wrote, with matching parity."""
    volume = bench.volume(index)
    require_content(volume, data, f"the drives do not hold what was written by {by}", earlier)
    require_no_wrong_rows(volume)


def require_served(bench, data, name="vol", more=None, **serving):
    """fullstripe reads everything, scrubs it to zero mismatches, and perhaps writes."""
    with bench.serve(**serving) as server:
        require("optimal" in server.text(), f"not optimal: {server.text()}")
        require(server.read(name) == data, "we read other bytes")
        if bench.volume().level != 0:
            server.scrub(name)
        if more is not None:
            server.write(more[1], more[0], name)


def require_rebuilt(bench, data, drives=None):
    """After a rebuild by md, fullstripe finds everything in order. Sometimes mdmon does not record the end of a rebuild
    (docs/interop.md): then fullstripe rebuilds once more. Returns what to add to the outcome."""
    migration = bench.record()["volumes"][0]["migration"]
    is_recorded = migration is None or migration["kind"] != "rebuild"
    if not is_recorded:
        with bench.serve(drives=drives) as server:
            server.order("rebuild", "--wait", "vol")
    require_served(bench, data, drives=drives)
    return "" if is_recorded else ", its end not on record"


def md_create(level, slots, size_mib, chunk_kib=64, policy="", spares=()):
    """The lines of a job that create a container and a volume; `spares` go into the container only."""
    chunk = f"-c{chunk_kib}" if level != 1 else ""
    drives = words(list(slots) + list(spares))
    return f"""
mdadm -q -C /dev/md/c$$ -e imsm -n{len(slots) + len(spares)} {drives} -R
mdadm -q -C /dev/md/vol -l{level} -n{len(slots)} {chunk} --size={size_mib}M {policy} {words(slots)} -R
md=$(volume 0)
if [ -z "$md" ]; then echo "NOT CREATED"; exit 1; fi
"""


def md_size(level, members, size_mib):
    """Bytes of a volume with `size_mib` on each member."""
    return COLUMNS[level, members] * size_mib * MIB


# Starts the array, prints what md is about to do, reads everything and compares it.
JUDGE = """
speed 10
assemble %s
starting $md
speed 2000000
sum $md
check $md
"""
