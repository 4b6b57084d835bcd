"""Without a machine: what this system's mdadm, blkid and wipefs say of fullstripe's drives."""
import os
import subprocess

from .. import agree
from ..case import Case
from ..machine import HERE, find_program
from ..requirement import require
from .common import LEVELS

TYPE = "isw_raid_member"


def shim(bench):
    """Builds a library that lets mdadm read files; returns None without a compiler."""
    if not find_program("cc"):
        return None
    library = os.path.join(bench.folder, "blockdevice.so")
    source = os.path.join(HERE, "blockdevice.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=60)
    return library


def output(words, **environment):
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=30, env=dict(os.environ, LC_ALL="C", **environment))
    require(done.returncode == 0, f"{' '.join(words[:2])} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def case(level):
    def run(bench):
        bench.create("vol", level)
        library = shim(bench)
        said = set()
        for drive, path in zip(bench.examine(), bench.paths):
            if library:
                text = output(
                    [find_program("mdadm"), "--examine", path], LD_PRELOAD=library, IMSM_NO_PLATFORM="1",
                    FILE_SERIAL=drive["serial"], FILE_SECTOR_BYTES=str(bench.sector_bytes))
                bench.fields_compared += agree.examined(path, text, drive, bench.sector_bytes)
                said.add("mdadm")
            if bench.sector_bytes != 512:
                # blkid and wipefs take a file for a drive with sectors of 512 bytes.
                continue
            require(f'TYPE="{TYPE}"' in output(["blkid", "-p", path]), "blkid does not recognise it")
            require(TYPE in output(["wipefs", path]), "wipefs does not recognise it")
            said |= {"blkid", "wipefs"}
        return "recognised by " + (", ".join(sorted(said)) or "nobody: there is no compiler")
        yield

    return run


def cases():
    for sector_bytes in (512, 4096):
        for level in LEVELS:
            yield Case("tools", f"RAID {level}, sectors of {sector_bytes} bytes", "ours", LEVELS[level], case(level),
                       sector_bytes)
