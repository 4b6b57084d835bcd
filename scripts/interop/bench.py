"""The tools of a case: its drives, fullstripe on them, and jobs for the machine with md."""
import hashlib
import json
import os
import random
import re
import subprocess
import time
from contextlib import contextmanager
from functools import lru_cache

from . import agree
from .machine import find_program
from .requirement import Failed, require
from .volume import MIB, Volume

DRIVE_BYTES = 12 * MIB
# Payload memory of a serving process: enough for the requests that clients here have in flight.
SERVE_MEMORY = "16m"
# Far longer than anything here takes, even on a busy machine.
LIMIT_SECONDS = 300


@lru_cache(maxsize=8)
def pattern(seed, length):
    return random.Random(seed).randbytes(length)


def brief(text):
    """The end of what a job printed, without mdadm's tables."""
    lines = [line for line in text.splitlines() if line.strip() and " : " not in line and "No md superblock" not in line]
    return " | ".join(lines[-90:])


def md5(data):
    return hashlib.md5(data).hexdigest()


class Job:
    """A script to run in the machine. With `cut`, arrays stay running and the power is cut."""

    def __init__(self, script, cut, drives, before):
        self.script = script
        self.cut = cut
        self.drives = drives
        # What fullstripe says of the drives before the job.
        self.before = before


def has_two_families(drives):
    """Whether some members have a record with another family number than the newest record: it changes when a spare is
    taken. If only half of the members have the new number, md does not start the array; a start by fullstripe updates
    the others."""
    records = [drive["record"] for drive in drives if drive["record"] and drive["record"]["volumes"]]
    newest = max(records, key=lambda record: record["generation"])
    serials = [disk["serial"] for disk in newest["disks"]]
    return any(record["family"] != newest["family"] for record in records
               if record["disks"][record["own_row"]]["serial"] in serials)


class Bench:
    """The tools of one case. `letters` are those of its drives in the machine."""

    def __init__(self, lab, letters, sector_bytes, bytes_each=DRIVE_BYTES):
        self.lab = lab
        self.sector_bytes = sector_bytes
        self.folder = os.path.join(lab.folder, "case-" + letters[0] + str(lab.next_number()))
        os.makedirs(self.folder)
        self.letters = letters
        self.paths = [os.path.join(self.folder, f"d{at}.img") for at in range(len(letters))]
        if sector_bytes == 512:
            self.names = [f"/dev/ubd{letter}" for letter in letters]
        else:
            self.names = [f"/dev/loop{ord(letter) - ord('a')}" for letter in letters]
        self.fields_compared = 0
        for path in self.paths:
            with open(path, "wb") as file:
                file.truncate(bytes_each)

    def file(self, name, data):
        """Writes a file with `data`, and returns its path inside the machine."""
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return "/host/" + os.path.relpath(path, self.lab.machine.folder)

    def fill(self, drives=None):
        """Fills drives with an earlier owner's data: parity and copies that nobody computed do not match."""
        for at in range(len(self.paths)) if drives is None else drives:
            with open(self.paths[at], "r+b") as file:
                file.write(pattern(100 + at, os.path.getsize(self.paths[at]) - 6 * MIB))

    def spec(self, drive):
        option = "" if self.sector_bytes == 512 else f",sector={self.sector_bytes}"
        return f"{self.paths[drive]},serial={self.names[drive]}{option}"

    def specs(self, drives=None):
        return [self.spec(at) for at in (range(len(self.paths)) if drives is None else drives)]

    def fullstripe(self, *words, codes=(0,)):
        return self.lab.fullstripe(*words, codes=codes)

    def create(self, name, level, *options, drives=None):
        self.fullstripe("create", name, "--level", str(level), *options, *self.specs(drives))

    def examine(self, drives=None):
        return self.examine_specs(self.specs(drives))

    def examine_specs(self, specs, codes=(0,)):
        """Reports on drives. With code 1 among `codes`, damaged records are accepted too."""
        return json.loads(self.fullstripe("examine", "--json", *specs, codes=codes))["drives"] if specs else []

    def record(self):
        """The newest record on the drives."""
        records = [drive["record"] for drive in self.examine() if drive["record"] and drive["record"]["volumes"]]
        require(records, "no drive has a record of a volume")
        return max(records, key=lambda record: record["generation"])

    def volume(self, index=0):
        return Volume(self.record()["volumes"][index], dict(zip(self.names, self.paths)))

    def open_server(self, *options, drives=None):
        return Server(self, self.specs(drives), options)

    def serve(self, *options, drives=None):
        return self.serve_specs(self.specs(drives), *options)

    @contextmanager
    def serve_specs(self, specs, *options):
        server = Server(self, specs, options)
        try:
            yield server
        except BaseException:
            server.kill()
            raise
        server.stop()

    def job(self, script, cut=False, drives=None):
        """Makes a job on the drives: mdadm examines them before it, and after it unless the power is cut."""
        drives = list(range(len(self.paths))) if drives is None else drives
        names = [self.names[at] for at in drives]
        lines = [". /guest.sh"]
        if self.sector_bytes != 512:
            lines += [f"/sbin/losetup -b {self.sector_bytes} {self.names[at]} /dev/ubd{self.letters[at]}" for at in drives]
        lines += [f"drives='{' '.join(names)}'"] + [f"d{at}={name}" for at, name in enumerate(self.names)]
        lines += ["begin", "examine", "(", script, ")"]
        if not cut:
            lines += ["stop_arrays", "examine"]
            if self.sector_bytes != 512:
                lines += [f"/sbin/losetup -d {name}" for name in names] + ["sync"]
        return Job("\n".join(lines) + "\n", cut, drives, self.examine(drives))

    def heard(self, job, text):
        """Checks what the machine printed: mdadm and fullstripe must agree before and after."""
        looks = re.findall(r"^@@EXAMINE\n(.*?)^@@", text, flags=re.MULTILINE | re.DOTALL)
        require(len(looks) == (1 if job.cut else 2), f"the job did not end: {brief(text)}")
        self.agree("before md", looks[0], job.before)
        volumes = [v for drive in job.before if drive["record"] for v in drive["record"]["volumes"]]
        for detail in re.findall(r"^@@DETAIL \S+\n(.*?)^@@", text, flags=re.MULTILINE | re.DOTALL):
            if volumes:
                self.fields_compared += agree.detailed("md runs", detail, volumes)
        if not job.cut:
            self.agree("after md", looks[1], self.examine(job.drives))

    def agree(self, when, look, drives):
        """Compares mdadm's output about several drives. The output about a drive follows a line with its name; there is
        none about a drive without a record."""
        parts = re.split(r"^(/dev/\S+):\n", look, flags=re.MULTILINE)
        texts = dict(zip(parts[1::2], parts[2::2]))
        for drive in drives:
            name = drive["serial"]
            self.fields_compared += agree.examined(f"{when}, {name}", texts.get(name, ""), drive, self.sector_bytes)


class Server:
    """`fullstripe serve` on the drives of a bench."""

    def __init__(self, bench, specs, options):
        self.bench = bench
        self.socket = f"{bench.folder}/api"
        words = [bench.lab.binary, "serve", "--socket", self.socket, "--nbd", f"unix:{bench.folder}/nbd"]
        words += ["--memory", SERVE_MEMORY]
        self.log = os.path.join(bench.folder, "serve.log")
        self.process = bench.lab.begin(words + list(options) + specs, self.log)
        end = time.monotonic() + LIMIT_SECONDS
        while "nbd+unix://" not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise Failed(f"serve did not start: {self.text()}")
            time.sleep(0.02)

    def text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def uri(self, volume):
        return f"nbd+unix:///{volume}?socket={self.bench.folder}/nbd"

    def order(self, *words):
        return self.bench.fullstripe(words[0], "--socket", self.socket, *words[1:])

    def begin_order(self, *words):
        """Starts an order without waiting for it."""
        return subprocess.Popen(
            [self.bench.lab.binary, words[0], "--socket", self.socket, *words[1:]], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.bench.lab.environment)

    def status(self):
        return json.loads(self.order("status", "--json"))

    def read(self, volume="vol"):
        target = os.path.join(self.bench.folder, "copy")
        subprocess.run(["nbdcopy", "--", self.uri(volume), target], check=True, timeout=LIMIT_SECONDS, capture_output=True)
        with open(target, "rb") as file:
            data = file.read()
        os.remove(target)
        return data

    def write(self, data, at=0, volume="vol"):
        source = os.path.join(self.bench.folder, "source")
        with open(source, "wb") as file:
            file.write(data)
        self.qemu(volume, f"write -q -s {source} {at} {len(data)}", "flush")
        os.remove(source)

    def read_part(self, at, length, volume="vol"):
        """Reads a part of the volume with a client of its own, qemu-img, in blocks of 64 KiB."""
        target = os.path.join(self.bench.folder, "part")
        words = ["qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=65536", f"skip={at >> 16}", f"count={(at + length) >> 16}"]
        subprocess.run([*words, f"if={self.uri(volume)}", f"of={target}"], check=True, timeout=LIMIT_SECONDS, capture_output=True)
        with open(target, "rb") as file:
            return file.read()

    def qemu(self, volume, *commands):
        words = [word for command in commands for word in ("-c", command)]
        done = subprocess.run(["qemu-io", "-f", "raw", *words, self.uri(volume)], timeout=LIMIT_SECONDS,
                              capture_output=True, text=True)
        require(done.returncode == 0 and "failed" not in done.stdout, f"qemu-io: {done.stdout}{done.stderr}")

    def scrub(self, volume="vol"):
        """Scrubs the volume, and fails if anything does not match."""
        self.order("scrub", "--wait", volume)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Failed("serve does not stop") from None


class Lab:
    """A folder, the binary, and a machine to boot."""

    def __init__(self, folder, binary, machine):
        self.folder = folder
        self.binary = binary
        self.machine = machine
        self.number = 0
        self.serving = []
        self.ended = False
        self.environment = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))

    def next_number(self):
        self.number += 1
        return self.number

    def begin(self, words, log):
        """Starts a serving process."""
        require(not self.ended, "the lane ends")
        with open(log, "w") as out:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment)
        self.serving.append(process)
        return process

    def end(self):
        """Ends what still runs, so that an interrupted run leaves nothing behind."""
        self.ended = True
        for process in self.serving:
            process.kill()
        self.machine.end()

    def fullstripe(self, *words, codes=(0,)):
        done = subprocess.run([self.binary, *words], capture_output=True, text=True, env=self.environment,
                              timeout=LIMIT_SECONDS)
        require(done.returncode in codes, f"{' '.join(words[:2])} ended with {done.returncode}: {done.stderr}")
        return done.stdout


def clients():
    """Programs that cases need outside of the machine and that are missing."""
    return [name for name in ["fio", "nbdcopy", "qemu-io"] if not find_program(name)]
