"""A Debian with systemd on a disk, for cases that reboot: made once from Debian's packages, by mmdebstrap and without root.

It has nothing of fullstripe. What belongs to this lane is put into it at every boot (debian.sh), onto a layer above the disk
that lasts as long as its case. Beside the disk lies the list of its packages' versions.
"""
import hashlib
import os
import subprocess
import tempfile

from interop.machine import find_program
from interop.requirement import Failed, require

from . import attach, releases
from .store import hold, remove_unused

PACKAGES = ["systemd", "systemd-sysv", "udev", "e2fsprogs", "xfsprogs", "fdisk", "mdadm", "lvm2", "cryptsetup-bin", "nvme-cli",
            *attach.PACKAGES,
            # For the case that boots from an array: the initramfs, the EFI partition and the boot loader.
            "initramfs-tools", "busybox", "zstd", "dosfstools", "grub2-common"]
# What is part of a package above in Debian 12, and a package of its own later.
MORE_PACKAGES = {"13": ["systemd-cryptsetup"]}
# The packages whose versions are told: what a case depends on.
TOLD = ["mdadm", "systemd", "udev"]
DISK_BYTES = 1 << 30
BUILD_SECONDS = 1800
PROGRAMS = ["mmdebstrap", "fakeroot", "mkfs.ext4", "qemu-img", "tar"]
# Beside root, mmdebstrap needs users of its own for the files of the system that it makes, which Debian gives to every user.
PROGRAMS_WITHOUT_ROOT = ["newuidmap"]
EMULATED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../emulated.sh")
# Unpacks an archive, lists its packages and makes a file system of it. Under fakeroot, so that the files belong to root there.
MAKE_DISK = """
    set -e
    tar -xf "$1" -C "$2" --exclude='./dev/*'
    dpkg-query --admindir="$2/var/lib/dpkg" -W -f '${Package} ${Version}\\n' > "$4"
    mkfs.ext4 -q -F -d "$2" "$3"
"""


def missing(kind, with_firmware):
    """The programs that this machine lacks to make a Debian of a kind of machine; and the firmware, where a case is to boot from its
    drives."""
    programs = PROGRAMS + kind.debian_programs + (PROGRAMS_WITHOUT_ROOT if os.geteuid() else [])
    firmware = [kind.firmware] if with_firmware and kind.firmware and not os.path.exists(kind.firmware) else []
    return [name for name in programs if not find_program(name)] + firmware


def packages(release, kind):
    return PACKAGES + kind.boot_packages + MORE_PACKAGES.get(release, [])


def maker(kind):
    """How mmdebstrap is started. Installing the packages of another type of processor runs their programs."""
    return [EMULATED, "mmdebstrap", "--mode=root"] if kind.foreign else ["mmdebstrap", "--mode=unshare"]


def make(path, listed, place, release, kind):
    """Makes the disk's image at `path`, and the list of its packages at `listed`. `place` is an empty folder."""
    archive, root = os.path.join(place, "root.tar"), os.path.join(place, "root")
    os.mkdir(root)
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    steps = [[*maker(kind), "--quiet", "--variant=minbase", f"--architectures={kind.architecture}",
              f"--include={','.join(packages(release, kind))}", releases.SUITES[release], archive, releases.mirror()],
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


def build(store, release, kind):
    """Returns the image's path. It lies in the folder `store`, and the one of this release and kind before it is removed,
    unless another run uses it."""
    with open(__file__, "rb") as file:
        known = hashlib.sha256(file.read() + " ".join(packages(release, kind)).encode()).hexdigest()[:16]
    path = os.path.join(store, f"debian-{release}-{kind.architecture}-{known}.ext4")
    if not os.path.exists(path):
        remove_unused(os.path.join(store, f"debian-{release}-{kind.architecture}-*"))
        with tempfile.TemporaryDirectory(dir=store) as place:
            try:
                make(path + ".new", listed_beside(path), place, release, kind)
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(f"no Debian {release} could be made: {error}") from error
        os.rename(path + ".new", path)
    hold(listed_beside(path))
    return hold(os.path.abspath(path))
