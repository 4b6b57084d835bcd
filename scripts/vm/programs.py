"""Where the guest's programs come from: they are this machine's own, or for a machine of another type they are Debian's, unpacked
from their packages once and not installed."""
import os
import re
import shutil
import subprocess

from interop.machine import copy_program, find_program
from interop.requirement import Failed, require

from . import attach, releases

# Debian's packages of the programs of image.py.
PACKAGES = ["btrfs-progs", "busybox-static", "cryptsetup-bin", "dmsetup", "e2fsprogs", "fio", "gdisk", "kmod", "lvm2", "nvme-cli",
            "util-linux", "xfsprogs", *attach.PACKAGES]
EXTRACT_SECONDS = 1800
PROGRAM_FOLDERS = ["usr/sbin", "usr/bin", "sbin", "bin"]
LIBRARY_FOLDERS = ["usr/lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu/ceph"]


def extract(suite, kind, packages, place, patterns):
    """Unpacks into the folder `place` what matches the patterns, of these packages of a release and of all that they depend on."""
    archive = os.path.join(place, "system.tar")
    told = subprocess.run(["mmdebstrap", "--quiet", "--mode=unshare", "--variant=extract", f"--architectures={kind.architecture}",
                           f"--include={','.join(packages)}", suite, archive, releases.mirror()],
                          capture_output=True, text=True, check=False, timeout=EXTRACT_SECONDS)
    require(told.returncode == 0,
            f"mmdebstrap could not get {', '.join(packages)} of {suite} for {kind.architecture}: {told.stderr.strip()[-2000:]}")
    subprocess.run(["tar", "-xf", archive, "-C", place, "--wildcards", *patterns], check=True)
    os.remove(archive)


class OwnPrograms:
    """This machine's."""

    find = staticmethod(find_program)
    copy = staticmethod(copy_program)


class DebianPrograms:
    """Those of an unpacked Debian in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def look(self, folders, name):
        paths = [os.path.join(self.folder, folder, name) for folder in folders]
        return next(filter(os.path.isfile, paths), None)

    def find(self, name):
        return self.look(PROGRAM_FOLDERS, name)

    def copy(self, name, path, root):
        """Copies a program, and the libraries that it is linked with, into a guest's root folder."""
        shutil.copy(path, os.path.join(root, "sbin", name))
        self.copy_libraries(path, root)

    def copy_libraries(self, path, root):
        told = subprocess.run(["readelf", "--dynamic", "--program-headers", "--wide", path], check=True, capture_output=True, text=True)
        loaders = re.findall(r"program interpreter: (.*?)\]", told.stdout)
        names = loaders + re.findall(r"\(NEEDED\) +Shared library: \[(.*?)\]", told.stdout)
        for name in names:
            library = self.look(LIBRARY_FOLDERS, os.path.basename(name))
            require(library, f"{path} needs {name}, which {self.folder} has not")
            target = root + name if name in loaders else os.path.join(root, LIBRARY_FOLDERS[0], name)
            if not os.path.exists(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(library, target)
                self.copy_libraries(library, root)


def fetch(store, release, kind):
    """Returns the programs for a machine of this kind: unpacked in the folder `store`, if they are another machine's."""
    if not kind.foreign:
        return OwnPrograms()
    suite = releases.SUITES[release]
    folder = os.path.join(store, f"{suite}-{kind.architecture}-programs")
    if not os.path.isdir(folder):
        fresh = folder + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        try:
            extract(suite, kind, PACKAGES, fresh, ["./usr/*bin/*", "*.so*"])
        except (OSError, subprocess.SubprocessError) as error:
            raise Failed(f"the programs of {suite} for {kind.architecture} could not be unpacked into {fresh}: {error}") from error
        os.rename(fresh, folder)
    return DebianPrograms(folder)
