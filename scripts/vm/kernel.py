"""The guest's kernel: Debian's newest 6.12, downloaded once and unpacked, not installed.

Debian 12 has it in its security archive, Debian 13 as its own kernel. `apt-get download` needs no root. The unpacked
kernel stays in target/vm until the next version comes.
"""
import glob
import os
import re
import shutil
import subprocess

from interop.requirement import Failed, require

PACKAGE = re.compile(r"^linux-image-(6\.12\.(\d+)\+deb\d+-amd64)(-unsigned)?$")
DOWNLOAD_SECONDS = 300


class Kernel:
    """An unpacked kernel: `version` as its modules' folder is called, and where its parts are."""

    def __init__(self, folder, version):
        self.folder = folder
        self.version = version
        self.image = os.path.join(folder, "boot", f"vmlinuz-{version}")
        self.modules = os.path.join(folder, "lib/modules", version)


def order_of_version(found):
    """The newest version is the largest; of one version, the signed package, which Debian 13 has, is taken first."""
    return int(found[2]), not found[3]


def newest(names):
    """The match of the newest package's name, or None."""
    return max(filter(None, map(PACKAGE.match, names)), key=order_of_version, default=None)


def offered():
    """The names of the kernel packages that apt can download."""
    told = subprocess.run(["apt-cache", "pkgnames", "linux-image-6.12."], capture_output=True, text=True, check=False)
    return told.stdout.split()


def download(package, place):
    """Lets apt download a package into the folder `place`, and returns the file."""
    told = subprocess.run(
        ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package], cwd=place, capture_output=True,
        text=True, check=False, timeout=DOWNLOAD_SECONDS)
    files = glob.glob(os.path.join(place, "*.deb"))
    require(told.returncode == 0 and files,
            f"apt could not download {package}: run 'apt-get update' as root, then this again ({told.stderr.strip()})")
    return files[0]


def unpack(file, place):
    """Unpacks a package and lists what its modules depend on, which Debian does when it installs a kernel."""
    subprocess.run(["dpkg-deb", "-x", file, place], check=True)
    if os.path.isdir(os.path.join(place, "usr/lib/modules")):
        shutil.move(os.path.join(place, "usr/lib"), os.path.join(place, "lib"))
    version, = os.listdir(os.path.join(place, "lib/modules"))
    subprocess.run(["depmod", "-b", place, version], check=True)


def fetch(store):
    """Returns the newest kernel, from the folder `store` or freshly downloaded."""
    found = newest(offered())
    if not found:
        kept = [name.removeprefix("kernel-") for name in os.listdir(store) if name.startswith("kernel-")]
        found = newest(f"linux-image-{version}" for version in kept)
        require(found, "apt knows no kernel 6.12: run 'apt-get update' as root, with Debian's security archive among"
                       " apt's sources, then this again")
    folder = os.path.join(store, f"kernel-{found[1]}")
    if not os.path.isdir(folder):
        fresh = folder + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        try:
            file = download(found[0], fresh)
            unpack(file, fresh)
            os.remove(file)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise Failed(f"the package {found[0]} could not be unpacked into {fresh}: {error}") from error
        for old in glob.glob(os.path.join(store, "kernel-*")):
            if old != fresh:
                shutil.rmtree(old)
        os.rename(fresh, folder)
    return Kernel(folder, found[1])
