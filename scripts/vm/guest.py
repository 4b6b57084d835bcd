"""A running virtual machine as its cases see it: jobs go in, their output and exit code come back, drives come and go.

A job is a script in the folder that the guest sees as /host, and so is what it prints. The second serial line carries
only short lines: the number of the job one way, `READY`, `ALIVE` and `DONE` the other. The guest says `ALIVE` every
second. When it has not done so for SILENCE_SECONDS, or a job takes longer than it may, the case has failed.
"""
import errno
import os
import re
import select
import shutil
import socket
import subprocess
import time

from interop.requirement import Failed

from .qmp import Qmp

BOOT_SECONDS = 90
SILENCE_SECONDS = 45
# What a job may take unless its case says otherwise, and what its own end may take after that.
JOB_SECONDS = 50
END_SECONDS = 10
REMOVAL_SECONDS = 30
CONSOLE_BYTES = 3000
# How much slower than a real machine the emulated one may be.
SLOWNESS = 5
# How many times as long as usual everything may take: more than 1 on a machine that does other work too (--patience).
patience = 1


def failing_node(device):
    """The name of the node through which a drive answers with errors."""
    return f"failing-{device}"


class Guest:
    """Starts QEMU at once. `place` is a folder for this guest alone, with the folder `host` in it."""

    def __init__(self, words, place):
        self.place = place
        self.jobs = 0
        self.text = ""
        self.failing = set()
        self.line = self.qmp = None
        with open(os.path.join(place, "qemu.log"), "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def wait_for_boot(self):
        """Waits until the guest takes jobs."""
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connect(self.line, "jobs")
        self.qmp = Qmp(os.path.join(self.place, "qmp"))
        self.read_until(r"^READY", BOOT_SECONDS * patience, BOOT_SECONDS * patience)

    def connect(self, end, name):
        """Connects to a socket that QEMU makes when it starts."""
        until = time.monotonic() + END_SECONDS
        while True:
            try:
                return end.connect(os.path.join(self.place, name))
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Failed(f"QEMU did not start: {self.end_of('qemu.log')}") from error
                time.sleep(0.05)

    def do(self, script, seconds=JOB_SECONDS):
        """Runs a job. Returns its exit code and what it printed."""
        self.jobs += 1
        seconds = round(seconds * patience)
        path = os.path.join(self.place, "host", f"job{self.jobs}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        self.line.sendall(f"{self.jobs} {seconds}\n".encode())
        done = self.read_until(rf"^DONE {self.jobs} (\d+)$", seconds + END_SECONDS, SILENCE_SECONDS * patience)
        with open(path + ".out", encoding="utf-8", errors="replace") as file:
            return int(done[1]), file.read()

    def read_until(self, mark, seconds, silence_seconds):
        """Returns the match of `mark` in what the second serial line says."""
        now = time.monotonic()
        end, heard = now + seconds, now
        while True:
            found = re.search(mark, self.text, flags=re.MULTILINE)
            if found:
                self.text = self.text[found.end():]
                return found
            now = time.monotonic()
            if now > heard + silence_seconds:
                raise Failed(f"the guest has said nothing for {silence_seconds} s{self.console()}")
            if now > end:
                raise Failed(f"the guest runs, but its job has not ended in {seconds} s{self.console()}")
            if select.select([self.line], [], [], 1)[0]:
                part = self.line.recv(1 << 16)
                if not part:
                    raise Failed(f"the virtual machine ended{self.console()}")
                heard = time.monotonic()
                self.text += part.decode(errors="replace").replace("\r", "")

    def end_of(self, name):
        """The end of a file of this guest's folder."""
        try:
            with open(os.path.join(self.place, name), "rb") as file:
                return file.read()[-CONSOLE_BYTES:].decode(errors="replace").strip()
        except OSError as error:
            return str(error)

    def console(self):
        return f"\n--- the end of its console ---\n{self.end_of('console')}\n---"

    def fail_everything(self, device, node):
        """Puts a node that answers with errors between a drive and `node`, the file behind it."""
        errors = [{"event": "none", "iotype": kind, "errno": errno.EIO, "immediately": True}
                  for kind in ("read", "write", "write-zeroes", "discard", "flush")]
        self.qmp.order("blockdev-add", driver="blkdebug", **{"node-name": failing_node(device)}, image=node,
                       **{"inject-error": errors})
        self.qmp.order("qom-set", path=f"/machine/peripheral/{device}", property="drive", value=failing_node(device))
        self.failing.add(device)

    def unplug(self, device):
        """Has a drive removed in order: the guest is asked to let go of it, and does. Put in again it works again."""
        self.qmp.order("device_del", id=device)
        self.qmp.wait_for_removal(device, REMOVAL_SECONDS * patience)
        if device in self.failing:
            self.qmp.order("blockdev-del", **{"node-name": failing_node(device)})
            self.failing.remove(device)

    def plug(self, properties):
        self.qmp.order("device_add", **properties)

    def wait_for_end(self, seconds):
        """Waits until the guest has switched itself off or reset itself, at which QEMU ends."""
        try:
            self.process.wait(seconds * patience)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"the guest has not ended in {seconds} s{self.console()}") from error

    def end(self, keep):
        """Cuts the power. With `keep`, the guest's folder stays."""
        self.process.kill()
        self.process.wait()
        if self.qmp:
            self.qmp.close()
        if self.line:
            self.line.close()
        if not keep:
            shutil.rmtree(self.place, ignore_errors=True)
