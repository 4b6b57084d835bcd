"""Members that are files in memory: fullstripe and SPDK's aio on one core, and btrfs over loop devices on all cores."""
import contextlib
import json
import os
import pathlib
import tempfile
import time

import spdk
from common import (Aim, Column, Comparison, CORE, CORES, MEMORY_FOLDER, Missing, bench, need, once_per_round, pinned,
                    run)

COUNT, FILE_MIB, DATA_MIB, DEPTH = 4, 512, 256, 32
AIO, BTRFS = "over SPDK aio", "over btrfs"


class Files:
    """The member files, created with the object and removed at the end."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fullstripe-files-", dir=MEMORY_FOLDER)
        self.paths = [pathlib.Path(self.folder.name) / f"d{index}.img" for index in range(COUNT)]
        for path in self.paths:
            # Written, not only sized, so that memory is allocated now and not during the measurement.
            with open(path, "wb") as file:
                for _ in range(FILE_MIB):
                    file.write(bytes(1 << 20))


def btrfs(files, level, seconds):
    """A fresh btrfs over the same files, and fio on one file in it: reads and writes per second."""
    def measure():
        if os.geteuid() != 0:
            raise Missing("loop devices and mounts need root")
        need("mkfs.btrfs", "btrfs-progs")
        need("fio", "fio")
        with contextlib.ExitStack() as cleaning:
            loops = []
            for path in files.paths:
                loops.append(run(["losetup", "--find", "--show", path]).strip())
                cleaning.callback(detach, loops[-1], path)
            run(["mkfs.btrfs", "-q", "-f", "-d", f"raid{level}", "-m", "raid1", *loops])
            mounted = cleaning.enter_context(tempfile.TemporaryDirectory(prefix="fullstripe-btrfs-"))
            # Without checksums and copy-on-write, so that it is as similar to a block device as possible.
            run(["mount", "-t", "btrfs", "-o", "noatime,nodatacow", loops[0], mounted])
            cleaning.callback(run, ["umount", mounted])
            file = pathlib.Path(mounted) / "data"
            fio(file, "write", 0, "1m")
            return {rw: fio(file, rw, seconds, "4k") for rw in ("randread", "randwrite")}
    return measure


def detach(loop, path):
    """Detaches a loop device, and waits until the kernel has released its file."""
    run(["losetup", "--detach", loop])
    until = time.monotonic() + 10
    while run(["losetup", "--list", "--noheadings", "--associated", path]).strip() and time.monotonic() < until:
        time.sleep(0.05)


def fio(file, rw, seconds, size):
    """Runs one job and returns requests per second. Without seconds it covers the file once."""
    timing = ["--time_based", f"--runtime={seconds}"] if seconds else ["--end_fsync=1"]
    said = run(pinned(CORES, "fio", "--name=btrfs", "--ioengine=io_uring", "--direct=1", f"--filename={file}",
                      f"--size={DATA_MIB}M", f"--rw={rw}", f"--bs={size}", f"--iodepth={DEPTH}", "--overwrite=1",
                      "--norandommap", "--randrepeat=0", *timing, "--output-format=json"), timeout_s=120)
    job = json.loads(said[said.index("{"):])["jobs"][0]
    return job["read" if "read" in rw else "write"]["iops"]


def comparison(options):
    files, seconds = Files(), options.seconds
    table = Comparison("files", f"{COUNT} files in memory, 4 KiB random, QD {DEPTH}. Ours and SPDK's on one core, "
                       "btrfs on all cores, thousands of requests per second:", options, [
        Column("ours", lambda r: r["ours"]["iops"] / 1e3),
        Column("ours, cores", lambda r: r["ours"]["cores"], 2),
        Column("SPDK aio", lambda r: r["SPDK"]["iops"] / 1e3),
        Column(AIO, lambda r: r["ours"]["iops"] / r["SPDK"]["iops"], 2),
        Column("btrfs", lambda r: r["btrfs"]["iops"] / 1e3),
        Column(BTRFS, lambda r: r["ours"]["iops"] / r["btrfs"]["iops"], 2)])
    member = str(files.paths[0]).replace("d0", "d{}")
    for level in (0, 1, 10, 5):
        count = 2 if level == 1 else COUNT
        both = once_per_round(btrfs(files, level, max(1, seconds)))
        for rw in ("randread", "randwrite"):
            aims = [Aim(BTRFS, least=3.0)]
            peer = None
            if level == 0:
                aims.insert(0, Aim(AIO, least=1.0))
                peer = spdk.bdevperf(seconds, "aio", COUNT, "raid0", rw, depth=DEPTH, files=files.paths)
            table.row(f"RAID {level}, {rw[4:]}", *aims,
                      ours=bench(seconds, cores=[CORE], level=level, member=member, count=count, rw=rw, qd=DEPTH,
                                 overwrite=True),
                      SPDK=peer, btrfs=lambda both=both, rw=rw: {"iops": both()[rw]})
    table.note("btrfs: fio on a file of nodatacow; only its RAID 0 writes go to the members directly, the other "
               "levels' through the page cache.")
    return table
