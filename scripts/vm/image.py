"""The guest's root file system: an archive that the kernel unpacks into memory when it boots. Where Debian runs (debian.py),
it only begins.

It has busybox, the programs that the cases run with their libraries, the kernel modules that they need, the fullstripe
binary, and the scripts of this folder. It is built again only when one of these has changed.
"""
import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile

from interop.machine import cpio, find_program

from . import attach
from .programs import OwnPrograms
from .store import hold, remove_unused

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ["guest.sh", "init.sh", "jobs.sh", "debian.sh", "jobs.service"]
PROGRAMS = [
    "blkdiscard", "blockdev", "btrfs", "cryptsetup", "dmsetup", "e2fsck", "fio", "fstrim", "lvm", "mkfs.btrfs", "mkfs.ext4",
    "mkfs.xfs", "nvme", "setpriv", "sgdisk", "xfs_repair"]
# Programs that scripts/setup.sh builds from their crates into this folder of the store.
BUILT = ["fsx"]
BUILT_FOLDER = "tools/bin"
# kmod looks at the name that it is called by. The kernel itself calls modprobe.
MODPROBE = "modprobe"
# Modules that the kernel asks for by another name (checksums, ciphers), and so are nobody's dependency, are listed too.
MODULES = [
    "virtio_pci", "virtio_blk", "9p", "9pnet_virtio", "nvme", "nvme-tcp", "nvmet-tcp", "ext4", "xfs", "btrfs", "vfat", "nls_cp437",
    "nls_ascii", "efivarfs", "loop", "dm-mod", "dm-crypt",
    "raid0", "raid1", "raid10", "raid456", "crc32c_generic",
    "libcrc32c", "xxhash_generic", "blake2b_generic", "sha256_generic", "aes_generic", "xts", "ecb", "cbc",
    "algif_skcipher", "algif_hash", "virtio_net", "drbd"]
FOLDERS = ["bin", "sbin", "proc", "sys", "dev", "run", "etc", "tmp", "mnt", "host", "var/lib"]


def programs(store, kind, source):
    """The guest's programs and where `source` has them: None if it lacks one."""
    found = {name: source.find(name) for name in ["busybox", MODPROBE, *PROGRAMS, *attach.PROGRAMS]}
    built = {} if kind.foreign else {name: os.path.join(store, BUILT_FOLDER, name) for name in BUILT}
    return {**found, **{name: path for name, path in built.items() if os.path.exists(path)}}


def missing(store, built, kind):
    """The programs that this machine lacks; with `built`, those that have to be built are needed too."""
    needed = {name: find_program(name) for name in
              [kind.emulator, *kind.tools, "apt-get", "dpkg-deb", "depmod", "cpio", kind.strip]}
    found = needed if kind.foreign else {**needed, **programs(store, kind, OwnPrograms())}
    return [name for name, path in found.items() if not path] + [name for name in BUILT if built and name not in found]


def module_files(kernel):
    """The files of the wanted modules and of all that they depend on, relative to the kernel's folder of modules. A
    module that is part of this kernel's image has no file."""
    depends, by_name = {}, {}
    with open(os.path.join(kernel.modules, "modules.dep"), encoding="ascii") as file:
        for line in file:
            path, _, words = line.partition(":")
            depends[path] = words.split()
            by_name[os.path.basename(path).split(".")[0].replace("_", "-")] = path
    wanted = [by_name.get(name.replace("_", "-")) for name in MODULES + attach.MODULES]
    return sorted({file for path in wanted if path for file in [path, *depends[path]]})


def parts_sum(kernel, binary, found):
    """A sum over everything that goes into the archive. Programs of the system are known by path, size and time."""
    digest = hashlib.sha256()
    for path in [binary, __file__, attach.__file__, *[os.path.join(HERE, name) for name in SCRIPTS], *attach.SCRIPTS]:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    for path in found.values():
        path = os.path.realpath(path)
        known = os.stat(path)
        digest.update(f"{path} {known.st_size} {known.st_mtime_ns}\n".encode())
    digest.update(kernel.version.encode())
    return digest.hexdigest()[:16]


def copy_modules(kernel, root):
    """Copies the modules, and lists what they depend on. Debian compresses them, which would cost seconds of booting."""
    target = os.path.join(root, "lib/modules", kernel.version)
    for name in module_files(kernel):
        plain = os.path.join(target, name.removesuffix(".xz"))
        os.makedirs(os.path.dirname(plain), exist_ok=True)
        opened = lzma.open if name.endswith(".xz") else open
        with opened(os.path.join(kernel.modules, name), "rb") as source, open(plain, "wb") as file:
            shutil.copyfileobj(source, file)
    for name in ["modules.order", "modules.builtin", "modules.builtin.modinfo"]:
        shutil.copy(os.path.join(kernel.modules, name), target)
    subprocess.run(["depmod", "-b", root, kernel.version], check=True)


def fill(kernel, binary, source, found, kind, root):
    """Makes the guest's root folder with the programs that were found in `source`."""
    for name in FOLDERS:
        os.makedirs(os.path.join(root, name))
    shutil.copy(found["busybox"], os.path.join(root, "bin/busybox"))
    for name, path in found.items():
        if name != "busybox":
            source.copy(name, path, root)
    source.copy("fullstripe", binary, root)
    # Its symbols are most of it, and would be unpacked at every boot.
    subprocess.run([kind.strip, os.path.join(root, "sbin/fullstripe")], check=True)
    copy_modules(kernel, root)
    for path in [*[os.path.join(HERE, name) for name in SCRIPTS], *attach.SCRIPTS]:
        shutil.copy(path, root)
    os.rename(os.path.join(root, "init.sh"), os.path.join(root, "init"))
    for name in ["init", "debian.sh"]:
        os.chmod(os.path.join(root, name), 0o755)


def build(kernel, binary, store, kind, source):
    """Returns the archive's path for machines of this kind. It lies in the folder `store`, and the one before it is removed,
    unless another run uses it."""
    found = programs(store, kind, source)
    path = os.path.join(store, f"root-{kind.name}-{parts_sum(kernel, binary, found)}.cpio")
    if not os.path.exists(path):
        remove_unused(os.path.join(store, f"root-{kind.name}-????????????????.cpio"))
        with tempfile.TemporaryDirectory(dir=store) as root:
            fill(kernel, binary, source, found, kind, root)
            cpio(root, path + ".new")
        os.rename(path + ".new", path)
    return hold(path)
