"""What the lanes written in Python have in common: the folder that one works in, how it ends, and what it says at its end."""
import contextlib
import os
import shutil
import signal
import sys
import tempfile


def end_once(*_):
    """Ends in order. `timeout` sends SIGTERM to the whole group too, so a second signal must not interrupt the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


@contextlib.contextmanager
def working_folder(name, keep):
    """A folder for the time of a lane, in memory if possible. It goes also when the lane is told to end, unless `keep`."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"{name}.", dir=place)
    signal.signal(signal.SIGTERM, end_once)
    try:
        yield folder
    finally:
        if keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def verdict(outcomes, line):
    """Prints the failed outcomes as `line` has them, and the totals. Returns the exit code: a lane in which nothing ran
    has not passed."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    if failed:
        print("\n".join(["", "Failed:", *map(line, failed), ""]))
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not outcomes else 0


def leave_out(reason):
    """Prints why nothing is tested, and tells .ci/run, which must not count that as a success."""
    print(f"skipped: {reason}")
    file = os.environ.get("LANE_LEFT_OUT_FILE")
    if file:
        with open(file, "w", encoding="utf-8") as told:
            told.write(reason + "\n")
