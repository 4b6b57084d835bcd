"""A Debian with systemd on a disk, for cases that reboot: made once from Debian's packages, by mmdebstrap and without root.

It has nothing of fullstripe. What belongs to this lane is put into it at every boot (debian.sh), onto a layer above the disk
that lasts as long as its case.
"""
import glob
import hashlib
import os
import subprocess
import tempfile

from interop.machine import find_program
from interop.requirement import Failed, require

from . import attach
from .machine import FIRMWARE

SUITE = "bookworm"
PACKAGES = ["systemd", "systemd-sysv", "udev", "e2fsprogs", "xfsprogs", "fdisk", "mdadm", "lvm2", "cryptsetup-bin", "nvme-cli",
            *attach.PACKAGES,
            # For the case that boots from an array: the initramfs, the EFI partition and the boot loader.
            "initramfs-tools", "busybox", "zstd", "dosfstools", "grub2-common", "grub-efi-amd64-bin"]
DISK_BYTES = 1 << 30
BUILD_SECONDS = 900
PROGRAMS = ["mmdebstrap", "fakeroot", "mkfs.ext4", "qemu-img", "tar"]
# Beside root, mmdebstrap needs users of its own for the files of the system that it makes, which Debian gives to every user.
PROGRAMS_WITHOUT_ROOT = ["newuidmap"]
# Unpacks an archive and makes a file system of it. Under fakeroot, so that the files belong to root there.
MAKE_DISK = """
    set -e
    tar -xf "$1" -C "$2" --exclude='./dev/*'
    mkfs.ext4 -q -F -d "$2" "$3"
"""


def missing():
    """The programs and the firmware that this machine lacks."""
    programs = PROGRAMS + (PROGRAMS_WITHOUT_ROOT if os.geteuid() else [])
    firmware = [] if os.path.exists(FIRMWARE) else [FIRMWARE]
    return [name for name in programs if not find_program(name)] + firmware


def mirror():
    """Where this machine gets Debian's packages from."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    require(told, "apt does not say where Debian's packages come from: run 'apt-get update' as root, then this again")
    return told[0]


def make(path, place):
    """Makes the disk's image at `path`. `place` is an empty folder."""
    archive, root = os.path.join(place, "root.tar"), os.path.join(place, "root")
    os.mkdir(root)
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    steps = [["mmdebstrap", "--quiet", "--mode=unshare", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, archive,
              mirror()],
             ["fakeroot", "sh", "-c", MAKE_DISK, "sh", archive, root, path]]
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    for words in steps:
        told = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS, env=environment)
        require(told.returncode == 0, f"{words[0]} could not make a Debian: {(told.stderr + told.stdout).strip()[-2000:]}")


def build(store):
    """Returns the image's path. It lies in the folder `store`, and the one before it is removed."""
    with open(__file__, "rb") as file:
        known = hashlib.sha256(file.read() + " ".join(PACKAGES).encode()).hexdigest()[:16]
    path = os.path.join(store, f"debian-{known}.ext4")
    if not os.path.exists(path):
        for old in glob.glob(os.path.join(store, "debian-*.ext4*")):
            os.remove(old)
        with tempfile.TemporaryDirectory(dir=store) as place:
            try:
                make(path + ".new", place)
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(f"no Debian could be made: {error}") from error
        os.rename(path + ".new", path)
    return os.path.abspath(path)
