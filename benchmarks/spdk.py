"""SPDK as a peer: its bdevperf on one core over null, malloc and aio members, and rebuilds in its target.

SPDK_DIR names a tree that was built by SPDK's own instructions, static, with raid5f. Its memory is on huge pages, as
its users run it: free huge pages are used. If there are too few, and this script runs as root, it reserves as many as
needed during the benchmark. If neither is possible, SPDK runs on small pages, and the notes say so.
"""
import atexit
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

from common import CORE, Failed, Missing, run

MEMORY_MIB = 2048
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
# SPDK answers on its socket quickly; its jobs here take a second or two.
PATIENCE_S = 60


def program(path):
    """The path of a program in the tree."""
    tree = os.environ.get("SPDK_DIR")
    if not tree:
        raise Missing("SPDK_DIR does not name a built SPDK tree")
    found = pathlib.Path(tree) / "build" / path
    if not found.exists():
        raise Missing(f"SPDK_DIR has no build/{path}; build it with raid5f and examples")
    return found


class Memory:
    """Where SPDK's memory comes from; decided once."""
    options = None

    @classmethod
    def words(cls):
        """The programs' options for memory."""
        if cls.options is None:
            cls.options = cls.decide()
        return cls.options

    @classmethod
    def decide(cls):
        pages = MEMORY_MIB // 2
        free = int((HUGE_PAGES / "free_hugepages").read_text("ascii")) if HUGE_PAGES.exists() else 0
        mounted = any(line.split()[2] == "hugetlbfs" for line in open("/proc/mounts", encoding="utf-8"))
        if free >= pages and mounted:
            return ["-s", MEMORY_MIB]
        if os.geteuid() == 0 and HUGE_PAGES.exists():
            with contextlib.suppress(OSError, Failed):
                return cls.take(pages)
        return ["--no-huge", "-s", MEMORY_MIB]

    @classmethod
    def take(cls, pages):
        """Reserves huge pages, and gives them back when Python ends."""
        count = HUGE_PAGES / "nr_hugepages"
        before = count.read_text("ascii").strip()
        count.write_text(str(int(before) + pages), "ascii")
        if int((HUGE_PAGES / "free_hugepages").read_text("ascii")) < pages:
            count.write_text(before, "ascii")
            raise Failed("the system has not so many huge pages")
        folder = tempfile.mkdtemp(prefix="fullstripe-huge-")
        atexit.register(cls.give_back, count, before, folder)
        run(["mount", "-t", "hugetlbfs", "none", folder])
        return ["-s", MEMORY_MIB, "--huge-dir", folder]

    @staticmethod
    def give_back(count, before, folder):
        with contextlib.suppress(Failed, OSError):
            run(["umount", folder])
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        count.write_text(before, "ascii")


def note():
    """A note on the memory for the reader."""
    if "--no-huge" in (Memory.options or []):
        return "SPDK ran on small pages (--no-huge); as root, or with 1024 huge pages free, it gets huge ones."
    return None


def common_words():
    """Options that both programs take."""
    return ["-m", hex(1 << CORE), "--no-pci", *map(str, Memory.words())]


def configuration(member, count, level, blocks, files=()):
    """Members M0 and so on, and with a level, the array R over them."""
    calls = []
    for index in range(count):
        more = {"filename": str(files[index])} if member == "aio" else {"num_blocks": blocks}
        calls.append({"method": f"bdev_{member}_create", "params": {"name": f"M{index}", "block_size": 4096, **more}})
    if level:
        strip = {} if level == "raid1" else {"strip_size_kb": 64}
        calls.append({"method": "bdev_raid_create",
                      "params": {"name": "R", "raid_level": level, **strip,
                                 "base_bdevs": [f"M{index}" for index in range(count)]}})
    return {"subsystems": [{"subsystem": "bdev", "config": calls}]}


def bdevperf(seconds, member, count, level, rw, size=4096, depth=32, blocks=65536, files=()):
    """bdevperf on one core, as a subject: requests per second and bytes per second."""
    def measure():
        where = program("examples/bdevperf")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as written:
            json.dump(configuration(member, count, level, blocks, files), written)
            written.flush()
            said = run([where, "-c", written.name, *common_words(), "--no-rpc-server", "-q", depth, "-o", size,
                        "-w", rw, "-t", max(1, round(seconds)), "-T", "R" if level else "M0"],
                       timeout_s=60 + 2 * seconds)
        # Its live line is redrawn with carriage returns; the total at the end is used.
        total = re.search(r"^\s*Total\s*:\s+([0-9.]+)\s+[0-9.]+\s+([0-9.]+)", said.replace("\r", "\n"), re.MULTILINE)
        if total is None or float(total[2]) > 0:
            raise Failed(f"bdevperf of {level or 'a bare'} {member} printed no clean total")
        return {"iops": float(total[1]), "bytes_per_s": float(total[1]) * size}
    return measure


class Target:
    """A running spdk_tgt, controlled over its socket."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "spdk.sock"
        self.log_path = pathlib.Path(folder) / "spdk.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(program("bin/spdk_tgt")), *common_words(), "-r", str(self.path)],
                                            stdout=log, stderr=subprocess.STDOUT)
        self.socket = self.connect()
        self.number = 0

    def connect(self):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(PATIENCE_S)
                connection.connect(str(self.path))
                return connection
            time.sleep(0.05)
        raise Failed(f"spdk_tgt does not answer: {self.log().strip().splitlines()[-1:]}")

    def call(self, method, **parameters):
        """One call of its JSON-RPC."""
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method}
        if parameters:
            asked["params"] = parameters
        self.socket.sendall(json.dumps(asked).encode())
        said = b""
        while True:
            part = self.socket.recv(65536)
            if not part:
                raise Failed(f"spdk_tgt ended during {method}")
            said += part
            with contextlib.suppress(json.JSONDecodeError):
                answer = json.loads(said)
                if "error" in answer:
                    raise Failed(f"spdk_tgt {method}: {answer['error'].get('message')}")
                return answer["result"]

    def log(self):
        """Everything that it has printed."""
        return self.log_path.read_text("utf-8", "replace")

    def stop(self):
        """Ends the target, and waits for its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


STAMP = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)\].*"


def rebuild(level, count, blocks):
    """A rebuild of one member over idle malloc members, as a subject: bytes per second of the new member."""
    def measure():
        with tempfile.TemporaryDirectory(prefix="fullstripe-spdk-") as folder:
            target = Target(folder)
            try:
                return {"bytes_per_s": timed_rebuild(target, level, count, blocks)}
            finally:
                target.stop()
    return measure


def timed_rebuild(target, level, count, blocks):
    for index in range(count + 1):
        target.call("bdev_malloc_create", name=f"M{index}", block_size=4096, num_blocks=blocks)
    strip = {} if level == "raid1" else {"strip_size_kb": 64}
    target.call("bdev_raid_create", name="R", raid_level=level, superblock=True, **strip,
                base_bdevs=[f"M{index}" for index in range(count)])
    target.call("bdev_raid_remove_base_bdev", name="M0")
    target.call("bdev_raid_add_base_bdev", raid_bdev="R", base_bdev=f"M{count}")
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        time.sleep(0.1)
        log = target.log()
        began = re.search(STAMP + "Started rebuild", log, re.MULTILINE)
        ended = re.search(STAMP + "Finished rebuild", log, re.MULTILINE)
        if began and ended:
            moments = [time.strptime(found[1].split(".")[0], "%Y-%m-%d %H:%M:%S") for found in (began, ended)]
            fractions = [float("0." + found[1].split(".")[1]) for found in (began, ended)]
            seconds = time.mktime(moments[1]) - time.mktime(moments[0]) + fractions[1] - fractions[0]
            return blocks * 4096 / seconds
    raise Failed(f"spdk_tgt has not finished a rebuild of {level} after {PATIENCE_S} s")
