"""What a case works with: the drives of a running guest, jobs for it, and files with known contents beside it."""
import os
import random
import shutil

from interop.requirement import require

from . import attach
from .guest import JOB_SECONDS
from .machine import DRIVE_BYTES, drive

MOST_WORDS = 3000


class Bench:
    """For one case: empties the drives and the shared folder, which the guest has as /host."""

    def __init__(self, guest, case):
        self.guest = guest
        self.sector_bytes = case.sector_bytes
        self.way = case.way
        # How the paths of this way's devices begin, if it makes any.
        self.node = attach.NODES.get(case.way, "")
        self.random = random.Random(case.full_name())
        self.share = os.path.join(guest.place, "host")
        for name in os.listdir(self.share):
            path = os.path.join(self.share, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        self.run("begin")

    def run(self, script, seconds=JOB_SECONDS):
        """Runs a job, which has the functions of guest.sh, and returns what it printed. The case fails if the job does."""
        code, printed = self.guest.do(f"way={self.way} node={self.node}\n. /guest.sh\n{script}\n", seconds)
        printed = printed.strip()
        why = "took too long" if code in (137, 143) else f"ended with {code}"
        require(code == 0, f"the job {why}: {printed[-MOST_WORDS:]}")
        return printed

    def bytes(self, count):
        return self.random.randbytes(count)

    def write(self, name, content):
        """Makes a file of the shared folder."""
        path = os.path.join(self.share, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def read(self, name):
        with open(os.path.join(self.share, name), "rb") as file:
            return file.read()

    def tree(self, name, files=24, largest_bytes=1 << 20):
        """Makes a folder of files with random bytes, from empty to large."""
        for number in range(files):
            self.write(f"{name}/{number}", self.bytes(self.random.choice([0, 1, 4096, 70_000, largest_bytes])))

    def stored_bytes(self, number):
        """How many bytes the file behind a drive occupies."""
        return os.stat(os.path.join(self.guest.place, f"drive{number}")).st_blocks * 512

    def fail_everything(self, number):
        """Has a drive answer everything with errors from now on, until it is unplugged."""
        self.guest.fail_everything(f"drive{number}", f"file{number}")

    def unplug(self, number):
        """Has a drive removed in order."""
        self.guest.unplug(f"drive{number}")

    def plug(self, number):
        """Puts the drive, as it was, into the same slot."""
        self.guest.plug(drive(number, self.sector_bytes))

    def plug_new(self, number, new_number, content=None):
        """Puts another drive, whose serial number has `new_number`, into the slot of a drive that was unplugged. It is empty
        except for `content`, which gives bytes by their offsets."""
        with open(os.path.join(self.guest.place, f"drive{number}"), "r+b") as file:
            file.truncate(0)
            file.truncate(DRIVE_BYTES)
            for offset, data in (content or {}).items():
                file.seek(offset)
                file.write(data)
        self.guest.plug({**drive(number, self.sector_bytes), "serial": f"drive{new_number}"})
