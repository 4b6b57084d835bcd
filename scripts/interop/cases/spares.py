"""Spares: their records, who takes them, and the state after a power cut or a crash of the process that takes one."""
import time

from ..case import Case
from ..bench import LIMIT_SECONDS, has_two_families, pattern
from ..requirement import require
from .common import (
    JUDGE, REDUNDANT, SLOTS, md_create, md_size, order, require_at_rest, require_consistent, require_rebuilt,
    require_served, require_sum, said, words)

MD_SIZE_MIB = 6
LOST_SLOT = 1


def require_spare(bench, drive):
    record = bench.examine([drive])[0]["record"]
    require(record is not None and not record["volumes"], f"no spare record: {record}")
    require(record["disks"][record["own_row"]]["state"] == "spare", f"not a spare: {record['disks']}")


def ours_taken_by_md(level):
    """fullstripe writes the spare's record; md loses a drive and takes the spare."""
    def run(bench):
        spare = len(bench.paths) - 1
        slots = order(spare, SLOTS)
        bench.create("vol", level, drives=slots)
        data = pattern(1, bench.volume().size)
        with bench.serve(drives=slots) as server:
            server.order("add-spare", bench.spec(spare))
            server.write(data)
        require_spare(bench, spare)
        script = f"""
assemble {words(slots)}
writable $md
mdadm -q -f /dev/$md $d{slots[LOST_SLOT]}
while_md degraded 0
settle
speed 10
mdadm -q --add /dev/$(container) $d{spare}
rebuilt $md
sum $md
check $md
"""
        text = yield bench.job(script)
        require_sum(text, data)
        require_consistent(text)
        drives = [drive for drive in range(len(bench.paths)) if drive != slots[LOST_SLOT]]
        return "md rebuilds onto it" + require_rebuilt(bench, data, drives)

    return run


def mds_taken_by_us(level):
    """md writes the spare's record; fullstripe takes the spare when a drive fails, and md finds everything in order."""
    def run(bench):
        spare = len(bench.paths) - 1
        slots = order(spare, SLOTS)
        data = pattern(3, md_size(level, spare, MD_SIZE_MIB))
        script = md_create(level, slots, MD_SIZE_MIB, spares=[spare])
        text = yield bench.job(script + f"idle $md\nput {bench.file('data', data)} $md 0")
        require("NOT CREATED" not in text, said(text))
        require_spare(bench, spare)
        with bench.serve("--spare", bench.spec(spare), drives=slots) as server:
            server.order("fail", bench.names[slots[LOST_SLOT]])
            server.order("rebuild", "--wait", "vol")
            require(server.read() == data, "we read other bytes")
            server.scrub()
        drives = [drive for drive in range(len(bench.paths)) if drive != slots[LOST_SLOT]]
        text = yield bench.job(JUDGE % words(drives), drives=drives)
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, data)
        return "we rebuild onto it"

    return run


def ours_killed(level, after_ms):
    """fullstripe's process dies while it takes a spare; md continues with whatever record that left."""
    def run(bench):
        spare = len(bench.paths) - 1
        bench.fill([spare])
        slots = order(spare, SLOTS)
        bench.create("vol", level, drives=slots)
        data = pattern(1, bench.volume().size)
        left = [drive for drive in slots if drive != slots[LOST_SLOT]]
        with bench.serve(drives=slots) as server:
            server.write(data)
            server.order("fail", bench.names[slots[LOST_SLOT]])
        server = bench.open_server("--rate", "8m", drives=left)
        order_under_way = server.begin_order("add-spare", "--force", bench.spec(spare))
        wait_until_looked_at(bench, spare)
        time.sleep(after_ms / 1000)
        server.kill()
        order_under_way.wait(timeout=LIMIT_SECONDS)
        mended = has_two_families(bench.examine([*left, spare]))
        if mended:
            bench.open_server("--rate", "8m", drives=[*left, spare]).stop()
            require(not has_two_families(bench.examine([*left, spare])), "our start leaves records of two families")
        first = "we mend records of two families; " if mended else ""
        record = bench.record()["volumes"][0]
        migration = record["migration"]
        if record["state"] == "normal" and not migration:
            text = yield bench.job(JUDGE % words([*left, spare]), drives=[*left, spare])
            require_at_rest(text)
            require_consistent(text)
            require_sum(text, data)
            return f"{first}the rebuild had ended"
        found = [*left, spare] if migration else left
        script = f"speed 10\nassemble {words(found)}\nwritable $md\n" + ("rebuilt $md\ncheck $md\n" if migration else "")
        text = yield bench.job(script + "sum $md", drives=found)
        require_sum(text, data)
        if migration:
            require_consistent(text)
            percent = migration["done_bytes"] * 100 // record["component_bytes"]
            return f"{first}md goes on with the rebuild at {percent} %" + require_rebuilt(bench, data, found)
        with bench.serve(drives=left) as server:
            require(server.read() == data, "we read other bytes")
        return f"{first}the spare was not taken yet"

    return run


def wait_until_looked_at(bench, drive):
    """Waits until something is written where the spare's record goes."""
    end = time.monotonic() + LIMIT_SECONDS
    before = tail(bench, drive)
    while tail(bench, drive) == before:
        require(time.monotonic() < end, "the spare is not taken")


def tail(bench, drive):
    with open(bench.paths[drive], "rb") as file:
        file.seek(-4096, 2)
        return file.read()


def mds_killed(level, after_s):
    """The power is cut while md takes a spare; fullstripe continues with whatever record that left."""
    def run(bench):
        spare = len(bench.paths) - 1
        bench.fill([spare])
        slots = order(spare, SLOTS)
        data = pattern(3, md_size(level, spare, MD_SIZE_MIB))
        script = md_create(level, slots, MD_SIZE_MIB, 16)
        script += f"""
idle $md
echo 0.05 > /sys/block/$md/md/safe_mode_delay
put {bench.file('data', data)} $md 0
until_md array_state clean
echo 400 > /sys/block/$md/md/sync_speed_max
echo 400 > /sys/block/$md/md/sync_speed_min
mdadm -q -f /dev/$md $d{slots[LOST_SLOT]}
while_md degraded 0
settle
mdadm -q --add /dev/$(container) $d{spare}
sleep {after_s}
"""
        yield bench.job(script, cut=True)
        record = bench.record()["volumes"][0]
        migration = record["migration"]
        lost = slots[LOST_SLOT]
        if record["state"] == "normal" and not migration:
            # The failure is not on record, and nothing was written since; or the rebuild has ended.
            rebuilt = bench.names[spare] in [slot["serial"] for slot in record["slots"]]
            require_served(bench, data, drives=[drive for drive in slots if drive != lost] + [spare if rebuilt else lost])
            return "the rebuild had ended" if rebuilt else "the failure was not on record yet"
        drives = [drive for drive in range(len(bench.paths)) if drive != lost and (migration or drive != spare)]
        with bench.serve(drives=drives) as server:
            if not migration:
                server.order("add-spare", "--force", bench.spec(spare))
            server.order("rebuild", "--wait", "vol")
            require(server.read() == data, "we read other bytes")
            server.scrub()
        drives = [drive for drive in range(len(bench.paths)) if drive != lost]
        text = yield bench.job(JUDGE % words(drives), drives=drives)
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, data)
        return "we go on with the rebuild" if migration else "the spare was not taken yet"

    return run


def cases():
    for level, members in REDUNDANT.items():
        yield Case("spares", f"RAID {level}, a spare", "ours", members + 1, ours_taken_by_md(level))
        yield Case("spares", f"RAID {level}, a spare", "md's", members + 1, mds_taken_by_us(level))
    for level, members in REDUNDANT.items():
        for after_ms in (0, 15, 60, 250):
            yield Case("spares", f"RAID {level}, killed {after_ms} ms into taking it", "ours", members + 1,
                       ours_killed(level, after_ms), long=level == 10 or after_ms in (0, 250))
        yield Case("spares", f"RAID {level}, power cut while it is taken", "md's", members + 1, mds_killed(level, "0.6"))
        for after_s in ("0", "0.05", "0.2"):
            yield Case("spares", f"RAID {level}, power cut {after_s} s into taking it", "md's", members + 1,
                       mds_killed(level, after_s), long=True)
