"""A volume is the virtio disk of a virtual machine: QEMU is a client of the server's vhost-user socket.

Here the server runs beside QEMU, not in the guest, and its drives are files. A file system in the guest is written to while the server
is killed and stopped. QEMU connects to the next one and gives it the memory that says which requests were not answered.
"""
import json
import os
import signal
import subprocess
import tempfile
import time

from interop.requirement import require

from .. import guest as guests
from ..bench import Bench
from ..case import Case
from ..machine import MEMORY
from .load import no_errors

DRIVES, DRIVE_BYTES = 4, 256 << 20
SERVES_WITHIN_SECONDS = 20
# So much that the load lasts longer than both ends of the server.
MIB, MIB_PER_SECOND = 60, 2
BEGIN = """
    modprobe virtio_blk
    disk=/dev/vda
    [ "$(cat /sys/block/vda/size)" = {sectors} ] || fail "the disk has $(cat /sys/block/vda/size) sectors and not {sectors}"
    [ "$(ls /sys/block/vda/mq | wc -l)" = 2 ] || fail "the disk has not two queues: $(ls /sys/block/vda/mq)"
    grep -q 'write back' /sys/block/vda/cache_type || fail "the guest does not flush: $(cat /sys/block/vda/cache_type)"
    blkdiscard $disk
    make_fs ext4 $disk
    mount_fs ext4 $disk /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}"""
ENDS = """
    load_ends
    same_files /host/tree /mnt/kept
    fstrim /mnt
    dmesg > /host/dmesg
    umount /mnt
    check_fs ext4 /dev/vda
    mount_fs ext4 /dev/vda /mnt
    same_files /host/tree /mnt/kept
    umount /mnt"""


class Server:
    """fullstripe on this machine, with its drives and sockets in a folder."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.process = None
        self.starts = 0
        self.drives = [os.path.join(folder, f"d{number}") for number in range(DRIVES)]
        for path in self.drives:
            with open(path, "wb") as file:
                file.truncate(DRIVE_BYTES)
        self.run("create", "vol0", "--level", "5", "--chunk", "64k", *self.drives)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self):
        return dict(os.environ, FULLSTRIPE_SOCKET=self.path("api"), XDG_STATE_HOME=self.path("state"))

    def run(self, *words):
        """Runs a command, which has to succeed, and returns what it printed."""
        done = subprocess.run([self.program, *words], env=self.environment(), capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"fullstripe {words[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self):
        words = [self.program, "serve", "--vhost-user", self.folder, "--nbd", f"unix:{self.path('nbd')}", "--shards", "2",
                 "--memory", "64m", *self.drives]
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.starts += 1
        until = time.monotonic() + SERVES_WITHIN_SECONDS * guests.patience
        while sum(line.startswith("serving") for line in self.log().splitlines()) < self.starts:
            require(self.process.poll() is None and time.monotonic() < until, f"the server does not start: {self.log()}")
            time.sleep(0.05)

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.run("stop", "--wait")
        require(self.process.wait() == 0, f"the server ended otherwise: {self.log()}")

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()


def words(server):
    """QEMU's words for a guest whose memory the server shares, and for the disk."""
    return ["-object", f"memory-backend-memfd,id=ram,size={MEMORY},share=on", "-machine", "memory-backend=ram",
            "-chardev", f"socket,id=vol0,path={server.path('vol0.sock')},reconnect=1",
            "-device", "vhost-user-blk-pci,chardev=vol0,num-queues=2"]


def used(case, machine, server):
    server.start()
    size_bytes = json.loads(server.run("status", "--json"))["volumes"][0]["size_bytes"]
    place = tempfile.mkdtemp(prefix="guest.", dir=machine.folder)
    os.mkdir(os.path.join(place, "host"))
    guest = machine.boot_in(place, 512, more=words(server))
    try:
        # Nothing is attached in the guest, so its scripts need not know of this way.
        bench = Bench(guest, Case(case.group, case.name, None))
        bench.tree("tree", files=12)
        bench.run(BEGIN.format(sectors=size_bytes // 512, mib=MIB, rate=MIB_PER_SECOND), 120)
        for end in (server.kill, server.stop):
            bench.run("load_runs")
            end()
            time.sleep(2)
            server.start()
            bench.run("sleep 3\nload_runs")
        bench.run(ENDS, 200)
        no_errors(bench)
    finally:
        machine.stop(guest)
    server.run("scrub", "vol0", "--wait")
    server.run("status", "--check")
    server.stop()
    require("until its guest resets" not in server.log(), f"the server has given up a queue: {server.log()}")
    return "the server was killed and stopped under a load, no error, 12 files compared"


def as_disk(case, machine):
    with tempfile.TemporaryDirectory(dir=machine.folder) as folder:
        server = Server(machine.program, folder)
        try:
            return used(case, machine, server)
        finally:
            server.end()


def cases():
    return [Case("disk", "a guest's ext4 on RAID 5 of 4", as_disk, way="vhost_user", boots=True)]
