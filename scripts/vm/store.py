"""Files that runs of the lane share in one folder: the newest of a kind is kept, and older ones as long as a run uses them."""
import fcntl
import glob
import os

IN_USE = []


def hold(path):
    """Keeps a file from being removed by other runs, until this process ends."""
    file = open(path, "rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    IN_USE.append(file)
    return path


def remove_unused(pattern):
    """Removes files that no run holds."""
    for path in glob.glob(pattern):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            os.remove(path)
