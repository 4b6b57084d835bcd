"""A running user-mode Linux. Drives are added and removed through its management console, and jobs run one by one."""
import hashlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import time

from .requirement import Failed, NotTried

# Far longer than it takes, even on a busy machine.
BOOT_SECONDS = 120
JOB_SECONDS = 330
# The protocol of UML's management console (mconsole): a request and its answer contain at most TEXT_BYTES of text.
MAGIC, VERSION, TEXT_BYTES = 0xCAFEBABE, 2, 512
CONSOLE_SECONDS = 20
# How init.sh reports that a job took too long, and how much of its output then is kept: it says what waits, and where.
STOPPED = r"^@@DONE (137|143)$"
MOST_WORDS = 4000


class Guest:
    """Boots at once. `place` is a folder for this guest alone."""

    def __init__(self, words, place):
        self.place = place
        self.jobs = 0
        # A session of its own: the machine consists of several processes, which must be killed together.
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, TMPDIR=place))
        self.console = None

    def wait_for_boot(self):
        self.read_until(r"^@@READY", BOOT_SECONDS)
        self.console = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.console.bind(os.path.join(self.place, "client"))
        self.console.connect(os.path.join(self.place, "m/mconsole"))
        self.console.settimeout(CONSOLE_SECONDS)

    def order(self, text):
        """Sends an order to the management console. Returns whether it succeeded, and the answer."""
        self.console.send(struct.pack("<III", MAGIC, VERSION, len(text)) + text.encode().ljust(TEXT_BYTES, b"\0"))
        answer, more = "", 1
        while more:
            packet = self.console.recv(12 + TEXT_BYTES)
            error, more, length = struct.unpack_from("<III", packet)
            answer += packet[12 : 12 + length].decode(errors="replace")
        return not error, answer.strip()

    def plug_in(self, drives):
        for letter, path in drives.items():
            done, answer = self.order(f"config ubd{letter}={path}")
            if not done:
                raise Failed(f"the machine does not take the drive {letter}: {answer}")

    def pull_out(self, letters):
        """Removes drives. A program that has just ended may keep a drive open for a moment."""
        end = time.monotonic() + CONSOLE_SECONDS
        for letter in letters:
            while True:
                done, answer = self.order(f"remove ubd{letter}")
                if done:
                    break
                if time.monotonic() > end:
                    raise NotTried(f"the machine does not give up the drive {letter}: {answer}")
                time.sleep(0.02)

    def do(self, script, name):
        """Runs a job with this script and returns what it prints; `name` is the path of this guest's folder inside the
        machine."""
        self.jobs += 1
        with open(os.path.join(self.place, f"job{self.jobs}"), "w") as file:
            file.write(script)
        self.process.stdin.write(f"{name}/job{self.jobs}\n".encode())
        self.process.stdin.flush()
        text = self.read_until(r"^@@DONE \d+", JOB_SECONDS)
        if re.search(STOPPED, text, flags=re.MULTILINE):
            raise NotTried(f"the job was stopped after 300 s: {text[-MOST_WORDS:]}")
        return re.sub(rf"^SUM {name}/(\S+)$", self.computed_sum, text, flags=re.MULTILINE)

    def computed_sum(self, line):
        """Replaces the name of a file by the sum of its bytes, and deletes the file."""
        path = os.path.join(self.place, line[1])
        with open(path, "rb") as file:
            found = hashlib.md5(file.read()).hexdigest()
        os.remove(path)
        return f"SUM {found}"

    def read_until(self, mark, seconds):
        """Returns everything that the machine prints until a line with `mark`."""
        text, end = "", time.monotonic() + seconds
        output = self.process.stdout.fileno()
        while not re.search(mark, text, flags=re.MULTILINE):
            left = end - time.monotonic()
            ready = left > 0 and select.select([output], [], [], left)[0]
            part = os.read(output, 1 << 16) if ready else b""
            if not part:
                if ready:
                    raise Failed(f"the machine ended: {text[-900:]}")
                raise NotTried(f"the machine said nothing in {seconds} s: {text[-900:]}")
            text += part.decode(errors="replace").replace("\r", "")
        return text

    def end(self):
        """Cuts the power."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout, self.console):
            if end is not None:
                end.close()
        shutil.rmtree(self.place, ignore_errors=True)
