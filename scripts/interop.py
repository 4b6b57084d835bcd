#!/usr/bin/env python3
"""Linux md as a judge of what lies on the drives: each side replays the other's write-hole log.

usage: scripts/interop.py [--keep] [--binary FILE]

Boots user-mode Linux (Debian's user-mode-linux, no root needed) on the very files that fullstripe uses, with
mdadm in an initial file system made here. Parity that the newest unit of a log covers is overwritten with
rubbish, so that only a replay can make it right again; the logs are read here with a codec of its own, from
the specification. Prints a table; the last line is 'N passed, N failed'. Exit code 1 if a case fails.

What is missing on the machine is said aloud, and nothing is run.
"""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
DRIVE_BYTES = 48 * MIB
MEMBERS = 4
CHUNK = 64 << 10
BLOCK = 4096
LOG_BYTES = MIB
BOOT_SECONDS = 90
MODULES = ["md-mod", "async_tx", "async_xor", "async_memcpy", "async_pq", "async_raid6_recov", "raid456"]
NAMES = ["/dev/ubd" + letter for letter in "abcdefgh"]

GUEST_INIT = """#!/bin/busybox sh
export PATH=/bin:/sbin IMSM_DEVNAME_AS_SERIAL=1 IMSM_NO_PLATFORM=1 MDADM_NO_UDEV=1
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/md /run/mdadm /tmp
for module in %s; do insmod /modules/$module.ko; done
echo 2000000 > /proc/sys/dev/raid/speed_limit_min
volume() { for path in /sys/block/md*; do [ "$(cat $path/md/level)" = raid5 ] && basename $path; done; }
idle() { while [ "$(cat /sys/block/$1/md/sync_action)" != idle ]; do sleep 0.1; done; }
assemble() { for drive in $*; do mdadm -q -I $drive; done; md=$(volume); }
halt_all() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        grep -q ^md /proc/mdstat || break
        mdadm -q -Ss; sleep 0.2
    done
    while pidof mdmon > /dev/null; do sleep 0.1; done
    sync
    poweroff -f
}
. /job
halt_all
""" % " ".join(MODULES)


class Failed(Exception):
    """A case does not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    rest = 0xFFFFFFFF
    for byte in data:
        rest = rest >> 8 ^ CRC_TABLE[(rest ^ byte) & 0xFF]
    return rest ^ 0xFFFFFFFF


def newest_unit(area):
    """The entries of the last header of a chain: (first sector, partial parity bytes, data bytes, slot)."""
    at, generation, entries = 0, 0, []
    while at + 4096 <= len(area):
        header = bytearray(area[at : at + 4096])
        found_generation, count, checksum = struct.unpack_from("<QII", header, 520)
        struct.pack_into("<I", header, 532, 0)
        if crc32c(header) != checksum or found_generation < generation:
            break
        generation = found_generation
        entries = [struct.unpack_from("<QIIII", header, 536 + 24 * n) for n in range(count)]
        at += 4096 + sum(entry[1] for entry in entries)
    return [entry[:4] for entry in entries]


class Array:
    """Four member files and a RAID 5 over them, left-asymmetric, whose data begins at the files' start."""

    def __init__(self, folder, component_bytes):
        self.folder = folder
        self.component_bytes = component_bytes
        self.paths = [os.path.join(folder, f"d{n}.img") for n in range(MEMBERS)]

    def read(self, slot, at, length):
        with open(self.paths[slot], "rb") as file:
            file.seek(at)
            return file.read(length)

    def write(self, slot, at, data):
        with open(self.paths[slot], "r+b") as file:
            file.seek(at)
            file.write(data)

    def rows(self):
        return self.component_bytes // CHUNK

    def wrong_rows(self):
        wrong = []
        chunks = [self.read(slot, 0, self.component_bytes) for slot in range(MEMBERS)]
        for row in range(self.rows()):
            total = 0
            for chunk in chunks:
                total ^= int.from_bytes(chunk[row * CHUNK : (row + 1) * CHUNK], "little")
            if total:
                wrong.append(row)
        return wrong

    def content(self):
        chunks = [self.read(slot, 0, self.component_bytes) for slot in range(MEMBERS)]
        volume = bytearray()
        for row in range(self.rows()):
            parity = MEMBERS - 1 - row % MEMBERS
            for slot in range(MEMBERS):
                if slot != parity:
                    volume += chunks[slot][row * CHUNK : (row + 1) * CHUNK]
        return bytes(volume)

    def spoil_logged_parity(self, lost=None):
        """Overwrites the parity that newest units cover; of none that changed a chunk of slot `lost`."""
        spoiled = 0
        for slot in range(MEMBERS):
            for sector, partial, data, parity in newest_unit(self.read(slot, self.component_bytes, LOG_BYTES)):
                require(parity == slot, f"an entry in slot {slot} for parity in slot {parity}")
                chunk, offset = divmod(sector * 512, CHUNK)
                row, first = divmod(chunk, MEMBERS - 1)
                require(MEMBERS - 1 - row % MEMBERS == slot, "an entry for another slot's row")
                count = data // partial if partial else MEMBERS - 1
                length = data // count
                slots = [n + (n >= slot) for n in range(first, first + count)]
                if lost in slots or lost == slot:
                    continue
                self.write(slot, row * CHUNK + offset, random.randbytes(length))
                spoiled += 1
        return spoiled


class Lab:
    """A folder with drives, the binary, and a machine to boot."""

    def __init__(self, folder, binary):
        self.folder = folder
        self.binary = binary
        self.base = os.path.join(folder, "base.cpio")
        self.environment = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))
        self.build_base()

    def build_base(self):
        root = os.path.join(self.folder, "root")
        for name in ["bin", "sbin", "proc", "sys", "dev", "run", "modules", "etc"]:
            os.makedirs(os.path.join(root, name))
        shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
        for program in ["mdadm", "mdmon"]:
            path = find_program(program)
            shutil.copy(path, os.path.join(root, "sbin", program))
            libraries = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
            for word in libraries.split():
                if word.startswith("/"):
                    target = root + word
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy(word, target)
        for module in MODULES:
            shutil.copy(module_path(module), os.path.join(root, "modules"))
        with open(os.path.join(root, "init"), "w") as file:
            file.write(GUEST_INIT)
        os.chmod(os.path.join(root, "init"), 0o755)
        cpio(root, self.base)

    def boot(self, drives, job, until=None, then_wait=0.0):
        """Runs `job` on `drives` and returns what it printed. With `until`, the machine is killed `then_wait`
        seconds after that word was printed."""
        place = tempfile.mkdtemp(dir=self.folder)
        os.makedirs(os.path.join(place, "root"))
        with open(os.path.join(place, "root/job"), "w") as file:
            file.write(job)
        cpio(os.path.join(place, "root"), os.path.join(place, "job.cpio"))
        initrd = os.path.join(place, "initrd")
        with open(initrd, "wb") as whole:
            for part in [self.base, os.path.join(place, "job.cpio")]:
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, whole)
        words = [find_program("linux.uml"), "mem=192M", f"uml_dir={place}", "umid=m", f"initrd={initrd}"]
        words += [f"ubd{n}={path}" for n, path in enumerate(drives)]
        words += ["con=null", "con0=fd:0,fd:1", "console=tty0", "quiet"]
        log = os.path.join(place, "log")
        with open(log, "w") as out:
            # A session of its own: the machine is several processes, and all of them must go at once.
            machine = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env=dict(os.environ, TMPDIR=place))
            try:
                self.watch(machine, log, until, then_wait)
            finally:
                kill_group(machine)
        with open(log, errors="replace") as file:
            return file.read()

    def watch(self, machine, log, until, then_wait):
        end = time.monotonic() + BOOT_SECONDS
        while machine.poll() is None:
            with open(log, errors="replace") as file:
                text = file.read()
            if until is not None and until in text:
                time.sleep(then_wait)
                return
            if time.monotonic() > end:
                raise Failed(f"the machine did not end within {BOOT_SECONDS} s: {text[-600:]}")
            time.sleep(0.02)

    def specs(self, array, slots=range(MEMBERS)):
        return [f"{array.paths[slot]},serial={NAMES[slot]}" for slot in slots]

    def fullstripe(self, *words, code=0):
        done = subprocess.run([self.binary, *words], capture_output=True, text=True, env=self.environment, timeout=60)
        require(done.returncode == code, f"{' '.join(words[:2])} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def examine(self, array, slot):
        text = self.fullstripe("examine", "--json", self.specs(array)[slot])
        return json.loads(text)["drives"][0]["record"]["volumes"][0]

    def new_array(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        array = Array(folder, 0)
        for path in array.paths:
            with open(path, "wb") as file:
                file.truncate(DRIVE_BYTES)
        return array

    def create(self):
        array = self.new_array()
        self.fullstripe("create", "vol", "--level", "5", "--chunk", "64k", *self.specs(array))
        array.component_bytes = self.examine(array, 0)["component_bytes"]
        return array

    def serve(self, array, *options, slots=range(MEMBERS)):
        return Server(self, array, self.specs(array, slots), options)


class Server:
    """`fullstripe serve` on an array."""

    def __init__(self, lab, array, specs, options):
        self.uri = f"nbd+unix:///vol?socket={array.folder}/nbd"
        words = [lab.binary, "serve", "--socket", f"{array.folder}/api", "--nbd", f"unix:{array.folder}/nbd"]
        self.log = os.path.join(array.folder, "serve.log")
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                words + list(options) + specs, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=lab.environment)
        end = time.monotonic() + 30
        while "serving " not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise Failed(f"serve did not start: {self.text()}")
            time.sleep(0.05)

    def text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def kill_group(machine):
    try:
        os.killpg(machine.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    machine.wait()


def cpio(root, target):
    names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
    with open(target, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def module_path(name):
    found = glob.glob(f"/usr/lib/uml/modules/*/**/{name}.ko", recursive=True)
    return found[0] if found else None


def pattern(length):
    return random.Random(5).randbytes(length)


def write_and_die(lab, array, sizes):
    """Lets the server die in the middle of random writes."""
    server = lab.serve(array)
    with open(os.path.join(array.folder, "fio.log"), "w") as out:
        writer = subprocess.Popen(
            ["fio", "--name=w", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", f"--bsrange={sizes}",
             "--iodepth=32", "--size=64m", "--time_based", "--runtime=20"],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=array.folder)
        time.sleep(1.5)
        server.kill()
        try:
            writer.wait(timeout=20)
        except subprocess.TimeoutExpired:
            writer.kill()
            writer.wait()


JUDGE = """
assemble %s
[ -n "$md" ] || echo NOT ASSEMBLED
echo STATE $(cat /sys/block/$md/md/sync_action) $(cat /sys/block/$md/md/resync_start) $(cat /sys/block/$md/md/consistency_policy)
[ "$(cat /sys/block/$md/md/array_state)" = read-auto ] && mdadm -w /dev/$md
idle $md
echo check > /sys/block/$md/md/sync_action; idle $md
echo MISMATCHES $(cat /sys/block/$md/md/mismatch_cnt)
"""


def md_judges(lab, array):
    """md assembles the array: no resync, all rows right. What the volume holds stays the same."""
    before = array.content()
    text = lab.boot(array.paths, JUDGE % " ".join(NAMES[:MEMBERS]))
    require("STATE idle none ppl" in text, f"md resyncs, or keeps no log: {text[-600:]}")
    require("MISMATCHES 0\n" in text, f"md finds mismatches: {text[-600:]}")
    require(not array.wrong_rows(), f"rows {array.wrong_rows()[:9]} are wrong")
    require(array.content() == before, "the volume holds something else now")
    for slot in range(MEMBERS):
        volume = lab.examine(array, slot)
        require(not volume["dirty"] and volume["migration"] is None, f"slot {slot} is not clean: {volume}")
        require(volume["write_hole_policy"].startswith("log on"), "the policy has gone")


def ours_clean(lab):
    array = lab.create()
    server = lab.serve(array)
    source = os.path.join(array.folder, "pattern")
    with open(source, "wb") as file:
        file.write(pattern(32 * MIB))
    subprocess.run(["nbdcopy", "--", source, server.uri], check=True, timeout=60)
    server.stop()
    require(array.content()[: 32 * MIB] == pattern(32 * MIB), "the data are not where they belong")
    md_judges(lab, array)
    return "32 MiB"


def ours_crashed(sizes):
    def case(lab):
        array = lab.create()
        write_and_die(lab, array, sizes)
        spoiled = array.spoil_logged_parity()
        require(spoiled > 0, "nothing was in the log")
        require(array.wrong_rows(), "nothing is wrong, so nothing would be proven")
        md_judges(lab, array)
        return f"{spoiled} logged writes spoiled"

    return case


MD_CREATE = """
mdadm -q -C /dev/md/c -e imsm -n4 %s -R
mdadm -q -C /dev/md/vol -l5 -n4 -c64 --size=24M --consistency-policy=ppl %s -R
md=$(volume); idle $md
sleep 0.3
""" % (" ".join(NAMES[:MEMBERS]), " ".join(NAMES[:MEMBERS]))

MD_WRITE = """
echo WRITING
seed=7; count=0
while true; do
    seed=$(( (seed * 1103515245 + 12345) & 0x7fffffff ))
    at=$(( (seed >> 8) %% 16000 )); length=$(( (seed >> 4) %% %d + 1 ))
    dd if=/dev/ubde of=/dev/$md bs=4096 skip=$at seek=$at count=$length conv=fsync,notrunc 2> /dev/null &
    count=$((count + 1)); [ $((count %% 8)) = 0 ] && wait
done
"""


def md_array(lab, job, **killing):
    array = lab.new_array()
    source = os.path.join(array.folder, "pattern")
    with open(source, "wb") as file:
        file.write(pattern(72 * MIB))
    text = lab.boot(array.paths + [source], MD_CREATE + job, **killing)
    try:
        array.component_bytes = lab.examine(array, 0)["component_bytes"]
    except Failed as error:
        raise Failed(f"{error}: {text[-600:]}") from error
    return array


def require_old_or_new(content):
    new = pattern(72 * MIB)
    written = 0
    for at in range(0, len(content), BLOCK):
        block = content[at : at + BLOCK]
        if block == new[at : at + BLOCK]:
            written += 1
        else:
            require(block.count(0) == BLOCK, f"the block at byte {at} is neither old nor new")
    require(written > 10, f"only {written} blocks were written")
    return written


def md_clean(lab):
    job = "dd if=/dev/ubde of=/dev/$md bs=65536 count=512 conv=fsync 2> /dev/null\n"
    array = md_array(lab, job)
    require(array.content()[: 32 * MIB] == pattern(32 * MIB), "md did not write where it should")
    server = lab.serve(array)
    require("not stopped cleanly" not in server.text(), server.text())
    server.stop()
    require(not array.wrong_rows(), "rows are wrong")
    require(array.content()[: 32 * MIB] == pattern(32 * MIB), "the volume holds something else now")
    return "32 MiB"


def md_crashed(blocks):
    def case(lab):
        array = md_array(lab, MD_WRITE % blocks, until="WRITING", then_wait=3.0)
        spoiled = array.spoil_logged_parity()
        require(spoiled > 0, "nothing was in the log")
        before = array.content()
        written = require_old_or_new(before)
        require(lab.examine(array, 0)["dirty"], "the volume is clean")
        server = lab.serve(array)
        text = server.text()
        server.stop()
        require("made parity right" in text, f"no replay: {text}")
        require("optimal" in text, f"a resync follows: {text}")
        require(not array.wrong_rows(), f"rows {array.wrong_rows()[:9]} are wrong")
        require(array.content() == before, "the volume holds something else now")
        md_judges(lab, array)
        return f"{written} blocks written, {spoiled} logged writes spoiled; md agrees"

    return case


def md_crashed_and_degraded(lab):
    array = md_array(lab, MD_WRITE % 1, until="WRITING", then_wait=3.0)
    lost = 1
    spoiled = array.spoil_logged_parity(lost)
    server = lab.serve(array, "--degraded", slots=[slot for slot in range(MEMBERS) if slot != lost])
    try:
        require("made parity right" in server.text(), f"no replay: {server.text()}")
        copy = os.path.join(array.folder, "copy")
        subprocess.run(["nbdcopy", "--", server.uri, copy], check=True, timeout=60)
    finally:
        server.stop()
    with open(copy, "rb") as file:
        written = require_old_or_new(file.read())
    return f"{written} blocks written, {spoiled} logged writes spoiled, slot {lost} computed"


CASES = [
    ("ours, clean", "md", ours_clean),
    ("ours, killed in small writes", "md", ours_crashed("4k-4k")),
    ("ours, killed in all kinds of writes", "md", ours_crashed("4k-256k")),
    ("md's, clean", "us", md_clean),
    ("md's, killed in small writes", "us", md_crashed(1)),
    ("md's, killed in all kinds of writes", "us", md_crashed(64)),
    ("md's, killed, a member lost", "us", md_crashed_and_degraded),
]


def missing():
    programs = ["linux.uml", "mdadm", "mdmon", "busybox", "cpio", "fio", "nbdcopy", "ldd"]
    return [name for name in programs if not find_program(name)] + [
        f"{name}.ko" for name in MODULES if not module_path(name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/fullstripe", help="the fullstripe to test")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the drives")
    options = parser.parse_args()
    if missing():
        print(f"skipped: {', '.join(missing())} not found; scripts/setup.sh test installs them")
        return 0
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="interop.", dir=place)
    failed = 0
    try:
        lab = Lab(folder, os.path.abspath(options.binary))
        print(f"{'ARRAY':<37} {'STARTED BY':<11} {'TIME':>6}  OUTCOME")
        for name, judge, case in CASES:
            begun = time.monotonic()
            try:
                outcome = "holds: " + case(lab)
            except (Failed, subprocess.SubprocessError) as error:
                failed += 1
                outcome = f"FAILED: {error}"
            print(f"{name:<37} {judge:<11} {time.monotonic() - begun:5.1f}s  {outcome}", flush=True)
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
