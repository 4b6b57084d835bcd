"""Initial synchronisation and rebuild, begun by one side and continued by the other from the recorded position.

The cases prove that the other side does not begin anew: behind the first side's position, redundancy is still what an
earlier owner left, and before it one row is spoiled. The other side has to repair the former and leave the latter
alone. md may begin a little before the recorded position, but never after it.
"""
import re
import time

from ..case import Case
from ..bench import pattern
from ..difference import require_content
from ..requirement import Failed, NotTried, require
from ..volume import MIB
from .common import (
    JUDGE, REDUNDANT, SLOTS, md_create, md_size, order, require_at_rest, require_consistent, require_rebuilt,
    require_served, require_sum, said, words)

MD_SIZE_MIB = 6
RATE = "4m"
HALF = 0.4
# Longest wait for a job of fullstripe to reach its position.
PATIENCE_SECONDS = 30


class Spoiled:
    """A row before the position: its redundancy is overwritten, and restored later."""

    def __init__(self, bench, row, slot=None):
        self.volume = bench.volume()
        self.row = row
        self.slot = self.volume.redundant_slot(row) if slot is None else slot
        self.at = row * self.volume.chunk
        self.saved = self.volume.read(self.slot, self.at, 4096)
        self.volume.write(self.slot, self.at, pattern(9, 4096))

    def require_sum(self, text, data):
        """Checks what md read, except for mirrors, where a read may return either copy."""
        if self.volume.level == 5:
            require_sum(text, data)

    def require_alone(self):
        """It is the only wrong row: the other side has done the rest, and only the rest."""
        wrong = self.volume.wrong_rows()
        require(self.row in wrong, "the other side began anew")
        require(wrong == [self.row], f"rows {wrong[:9]} are wrong")
        self.volume.write(self.slot, self.at, self.saved)
        require(not self.volume.wrong_rows(), "the row cannot be put right")


def wait_for(server, fraction):
    """Waits until the job of the only volume has done this fraction."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        job = server.status()["volumes"][0]["job"]
        if job and job["done_bytes"] >= fraction * job["total_bytes"]:
            return
        time.sleep(0.05)
    raise Failed(f"the job does not get on: {server.status()['volumes']}")


def begun(bench, kind):
    """The recorded progress of the job, in percent."""
    volume = bench.volume()
    migration = volume.report["migration"]
    require(migration is not None and migration["kind"] == kind, f"the record has no {kind}: {volume.report}")
    percent = migration["done_bytes"] * 100 // volume.component
    require(15 <= percent <= 95, f"the record says {percent} %")
    require(migration["done_bytes"] > 2 * volume.chunk, "the position is too near to the start")
    return percent


def begun_by_md(bench, kind):
    """The same where md was told to halt. In 4 of about 275 such jobs mdmon had recorded that the job was over, or a
    check instead: then there is nothing to continue."""
    report = bench.volume().report
    migration = report["migration"]
    if migration is None or migration["kind"] != kind:
        raise NotTried(f"md has recorded no {kind}: {report}")
    return begun(bench, kind)


def ours_initial(level):
    def run(bench):
        bench.fill()
        chunk = ["--chunk", "16k"] if level != 1 else []
        bench.create("vol", level, *chunk, "--no-zero")
        with bench.serve("--rate", RATE) as server:
            wait_for(server, HALF)
        percent = begun(bench, "initial synchronisation")
        content = bench.volume().content()
        wrong = bench.volume().wrong_rows()
        require(wrong, "everything was right already")
        spoiled = Spoiled(bench, 1)
        text = yield bench.job("speed 10\nassemble $drives\nstarting $md\nspeed 2000000\nsynchronised $md\nsum $md")
        require("STATE resync" in text or re.search(r"STATE idle [1-9]", text), f"md does nothing: {said(text)}")
        spoiled.require_sum(text, content)
        spoiled.require_alone()
        require_content(bench.volume(), content, "the drives hold something else")
        require_served(bench, content)
        return f"md goes on at {percent} %, {len(wrong)} rows were wrong"

    return run


# md accepts a limit only while it does nothing.
FREEZE = """
echo frozen > /sys/block/$md/md/sync_action
until echo %d > /sys/block/$md/md/sync_max; do pause; done 2> /dev/null
echo resync > /sys/block/$md/md/sync_action
"""
# Lets md continue to the limit, and mdmon record that.
UNTIL = """
speed 2000000
until_md sync_completed %d
settle
"""


def md_initial(level):
    def run(bench):
        bench.fill()
        slots = order(len(bench.paths), SLOTS)
        # For RAID 10 md counts sectors of the volume, for the others those of a member.
        sectors = (MD_SIZE_MIB * MIB // 512) * (2 if level == 10 else 1)
        until = int(sectors * HALF) // 1024 * 1024
        script = "speed 10\n" + md_create(level, slots, MD_SIZE_MIB, 16) + FREEZE % until + UNTIL % until
        yield bench.job(script)
        percent = begun_by_md(bench, "initial synchronisation")
        content = bench.volume().content()
        wrong = bench.volume().wrong_rows()
        require(wrong, "everything was right already")
        spoiled = Spoiled(bench, 1)
        with bench.serve() as server:
            server.order("rebuild", "--wait", "vol")
            if level == 5:
                require(server.read() == content, "we read other bytes")
        spoiled.require_alone()
        text = yield bench.job(JUDGE % "$drives")
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, content)
        return f"we go on at {percent} %, {len(wrong)} rows were wrong"

    return run


def spoil_rebuilt(bench, lost_slot):
    """Spoils a row before the position in which the new drive holds redundancy and no data."""
    volume = bench.volume()
    row = next(row for row in range(1, 9) if volume.level != 5 or volume.parity_slot(row) == lost_slot)
    return Spoiled(bench, row, lost_slot)


def ours_rebuild(level):
    lost = 1

    def run(bench):
        spare = len(bench.paths) - 1
        bench.fill([spare])
        slots = order(spare, SLOTS)
        chunk = ["--chunk", "16k"] if level != 1 else []
        bench.create("vol", level, *chunk, drives=slots)
        data = pattern(1, bench.volume().size)
        left = [drive for drive in slots if drive != slots[lost]]
        with bench.serve(drives=slots) as server:
            server.write(data)
            server.order("fail", bench.names[slots[lost]])
            server.order("rate", RATE)
            server.order("add-spare", "--force", bench.spec(spare))
            wait_for(server, HALF)
        percent = begun(bench, "rebuild")
        wrong = bench.volume().wrong_rows()
        require(wrong, "everything was right already")
        spoiled = spoil_rebuilt(bench, lost)
        drives = [*left, spare]
        script = f"speed 10\nassemble {words(drives)}\nstarting $md\nwritable $md\nrebuilt $md\nsum $md"
        text = yield bench.job(script, drives=drives)
        spoiled.require_sum(text, data)
        spoiled.require_alone()
        require_content(bench.volume(), data, "the drives hold something else")
        return f"md goes on at {percent} %, {len(wrong)} rows were wrong" + require_rebuilt(bench, data, drives)

    return run


def md_rebuild(level, cut):
    lost = 1

    def run(bench):
        spare = len(bench.paths) - 1
        bench.fill([spare])
        slots = order(spare, SLOTS)
        data = pattern(3, md_size(level, spare, MD_SIZE_MIB))
        # For a rebuild md counts sectors of the members, at every level.
        until = int(MD_SIZE_MIB * MIB // 512 * HALF) // 1024 * 1024
        script = md_create(level, slots, MD_SIZE_MIB, 16)
        script += f"""
idle $md
echo 0.05 > /sys/block/$md/md/safe_mode_delay
put {bench.file('data', data)} $md 0
until_md array_state clean
speed 10
echo {until} > /sys/block/$md/md/sync_max
mdadm -q -f /dev/$md $d{slots[lost]}
while_md degraded 0
settle
mdadm -q --add /dev/$(container) $d{spare}
until_md sync_action recover
"""
        yield bench.job(script + UNTIL % until, cut=cut)
        percent = begun_by_md(bench, "rebuild")
        wrong = bench.volume().wrong_rows()
        require(wrong, "everything was right already")
        spoiled = spoil_rebuilt(bench, lost)
        drives = [drive for drive in range(len(bench.paths)) if drive != slots[lost]]
        with bench.serve(drives=drives) as server:
            server.order("rebuild", "--wait", "vol")
            if level == 5:
                require(server.read() == data, "we read other bytes")
        spoiled.require_alone()
        text = yield bench.job(JUDGE % words(drives), drives=drives)
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, data)
        return f"we go on at {percent} %, {len(wrong)} rows were wrong"

    return run


def out_of_sync(bench):
    """How many slots are still to be rebuilt according to the record."""
    return sum(not slot["in_sync"] for slot in bench.record()["volumes"][0]["slots"])


def md_rebuilds_two(cut):
    """md rebuilds two drives at once, with one position; fullstripe rebuilds one after the other, and is killed in
    between."""
    def run(bench):
        slots, spares = SLOTS, [4, 5, 6]
        bench.fill(spares)
        data = pattern(3, md_size(10, 4, MD_SIZE_MIB))
        until = int(MD_SIZE_MIB * MIB // 512 * HALF) // 1024 * 1024
        script = md_create(10, slots, MD_SIZE_MIB, 16)
        # mdmon takes no spare while md is frozen, and takes all that it needs when it hears of the next one.
        script += f"""
idle $md
echo 0.05 > /sys/block/$md/md/safe_mode_delay
put {bench.file('data', data)} $md 0
until_md array_state clean
speed 10
echo {until} > /sys/block/$md/md/sync_max
echo frozen > /sys/block/$md/md/sync_action
mdadm -q -f /dev/$md $d{slots[1]}
settle
mdadm -q -f /dev/$md $d{slots[3]}
until_md degraded 2
settle
mdadm -q --add /dev/$(container) $d{spares[0]}
settle
mdadm -q --add /dev/$(container) $d{spares[1]}
settle
echo idle > /sys/block/$md/md/sync_action
settle
mdadm -q --add /dev/$(container) $d{spares[2]}
until_md sync_action recover
"""
        yield bench.job(script + UNTIL % until, cut=cut)
        drives = [slots[0], slots[2], *spares]
        percent = begun_by_md(bench, "rebuild")
        require(out_of_sync(bench) == 2, f"md does not fill both: {bench.volume().report['slots']}")
        server = bench.open_server("--rate", RATE, drives=drives)
        end = time.monotonic() + PATIENCE_SECONDS
        while out_of_sync(bench) == 2:
            require(time.monotonic() < end, f"nothing is filled: {server.text()}")
            time.sleep(0.02)
        server.kill()
        require(out_of_sync(bench) == 1, "the end of one rebuild counts for both")
        with bench.serve(drives=drives) as server:
            server.order("rebuild", "--wait", "vol")
            require(server.read() == data, "we read other bytes")
        text = yield bench.job(JUDGE % words(drives), drives=drives)
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, data)
        return f"we go on at {percent} %, one after the other"

    return run


def cases():
    for level, members in REDUNDANT.items():
        name = f"RAID {level}, initial synchronisation"
        yield Case("midway", name, "ours", members, ours_initial(level))
        yield Case("midway", name, "md's", members, md_initial(level))
        name = f"RAID {level}, rebuild"
        yield Case("midway", name, "ours", members + 1, ours_rebuild(level))
        yield Case("midway", name, "md's", members + 1, md_rebuild(level, False))
        yield Case("midway", f"{name}, power cut", "md's", members + 1, md_rebuild(level, True))
    for cut in (False, True):
        name = "RAID 10, two rebuilds at once" + (", power cut" if cut else "")
        yield Case("midway", name, "md's", 7, md_rebuilds_two(cut))
