"""A Debian with systemd on a disk, for cases that reboot: made once from Debian's packages, by mmdebstrap and without root.

It has nothing of fullstripe. What belongs to this lane is put into it at every boot (debian.sh), onto a layer above the disk
that lasts as long as its case. Beside the disk lies the list of its packages' versions.
"""
import glob
import hashlib
import os
import subprocess
import tempfile

from interop.machine import find_program
from interop.requirement import Failed, require

from . import attach, releases
from .machine import FIRMWARE

PACKAGES = ["systemd", "systemd-sysv", "udev", "e2fsprogs", "xfsprogs", "fdisk", "mdadm", "lvm2", "cryptsetup-bin", "nvme-cli",
            *attach.PACKAGES,
            # For the case that boots from an array: the initramfs, the EFI partition and the boot loader.
            "initramfs-tools", "busybox", "zstd", "dosfstools", "grub2-common", "grub-efi-amd64-bin"]
# What is part of a package above in Debian 12, and a package of its own later.
MORE_PACKAGES = {"13": ["systemd-cryptsetup"]}
# The packages whose versions are told: what a case depends on.
TOLD = ["mdadm", "systemd", "udev"]
DISK_BYTES = 1 << 30
BUILD_SECONDS = 900
PROGRAMS = ["mmdebstrap", "fakeroot", "mkfs.ext4", "qemu-img", "tar"]
# Beside root, mmdebstrap needs users of its own for the files of the system that it makes, which Debian gives to every user.
PROGRAMS_WITHOUT_ROOT = ["newuidmap"]
# Unpacks an archive, lists its packages and makes a file system of it. Under fakeroot, so that the files belong to root there.
MAKE_DISK = """
    set -e
    tar -xf "$1" -C "$2" --exclude='./dev/*'
    dpkg-query --admindir="$2/var/lib/dpkg" -W -f '${Package} ${Version}\\n' > "$4"
    mkfs.ext4 -q -F -d "$2" "$3"
"""


def missing(with_firmware):
    """The programs that this machine lacks; and the firmware, where a case is to boot from its drives."""
    programs = PROGRAMS + (PROGRAMS_WITHOUT_ROOT if os.geteuid() else [])
    firmware = [FIRMWARE] if with_firmware and not os.path.exists(FIRMWARE) else []
    return [name for name in programs if not find_program(name)] + firmware


def packages(release):
    return PACKAGES + MORE_PACKAGES.get(release, [])


def make(path, listed, place, release):
    """Makes the disk's image at `path`, and the list of its packages at `listed`. `place` is an empty folder."""
    archive, root = os.path.join(place, "root.tar"), os.path.join(place, "root")
    os.mkdir(root)
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    steps = [["mmdebstrap", "--quiet", "--mode=unshare", "--variant=minbase", f"--include={','.join(packages(release))}",
              releases.SUITES[release], archive, releases.mirror()],
             ["fakeroot", "sh", "-c", MAKE_DISK, "sh", archive, root, path, listed]]
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    for words in steps:
        told = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS, env=environment)
        require(told.returncode == 0, f"{words[0]} could not make a Debian: {(told.stderr + told.stdout).strip()[-2000:]}")


def listed_beside(path):
    """Where the list of packages of a disk lies."""
    return f"{path.removesuffix('.ext4')}.packages"


def versions(path):
    """The versions of the packages of a disk that a case depends on, in words."""
    with open(listed_beside(path), encoding="ascii") as file:
        found = dict(line.split() for line in file)
    return ", ".join(f"{name} {found[name]}" for name in TOLD)


def build(store, release):
    """Returns the image's path. It lies in the folder `store`, and the one of this release before it is removed."""
    with open(__file__, "rb") as file:
        known = hashlib.sha256(file.read() + " ".join(packages(release)).encode()).hexdigest()[:16]
    path = os.path.join(store, f"debian-{release}-{known}.ext4")
    if not os.path.exists(path):
        for old in glob.glob(os.path.join(store, f"debian-{release}-*")):
            os.remove(old)
        with tempfile.TemporaryDirectory(dir=store) as place:
            try:
                make(path + ".new", listed_beside(path), place, release)
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(f"no Debian {release} could be made: {error}") from error
        os.rename(path + ".new", path)
    return os.path.abspath(path)
