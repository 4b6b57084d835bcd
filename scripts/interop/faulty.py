"""A drive with unreadable sectors: nbdkit serves the drive's file, and nbdfuse presents it as a file."""
import os
import shlex
import subprocess
import time
from contextlib import contextmanager

from .machine import find_program
from .requirement import require

PATIENCE_SECONDS = 20


def possible():
    """Whether this machine can have such drives."""
    programs = ["nbdkit", "nbdfuse", "fusermount3"]
    return all(find_program(name) for name in programs) and os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextmanager
def unreadable(path, begin, end):
    """Gives a path to the drive in the file `path` on which the bytes from `begin` to `end` cannot be read."""
    folder = f"{path}.faulty"
    os.makedirs(folder)
    file, socket, shown = shlex.quote(path), f"{folder}/socket", f"{folder}/drive"
    # The plugin's scripts get a handle, a count and an offset after their own name.
    fault = f"if [ $4 -lt {end} ] && [ $(($4 + $3)) -gt {begin} ]; then echo 'EIO unreadable' >&2; exit 1; fi"
    scripts = [
        f"get_size=stat -c %s {file}",
        f"pread={fault}; dd if={file} iflag=skip_bytes,count_bytes skip=$4 count=$3 bs=1M status=none",
        f"pwrite=dd of={file} oflag=seek_bytes seek=$4 bs=1M conv=notrunc status=none",
        "can_write=exit 0", "can_flush=exit 0", "flush=exit 0"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([find_program("nbdkit"), "-f", "-U", socket, "eval", *scripts], **quiet)]
    try:
        wait(lambda: os.path.exists(socket), "nbdkit does not start")
        with open(shown, "wb"):
            pass
        words = [find_program("nbdfuse"), shown, f"nbd+unix:///?socket={socket}"]
        processes.append(subprocess.Popen(words, **quiet))
        wait(lambda: os.path.getsize(shown) == os.path.getsize(path), "nbdfuse does not start")
        yield shown
    finally:
        subprocess.run([find_program("fusermount3"), "-u", "-z", shown], **quiet)
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=PATIENCE_SECONDS)


def wait(holds, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        require(time.monotonic() < end, what)
        time.sleep(0.02)
