"""The guest's kernel: the newest of a series that apt knows here, downloaded once and unpacked, not installed.

The series is 6.12, which Debian 12 has in its security archive and Debian 13 as its own kernel, or 6.1, which is Debian 12's own
and has no ublk. `apt-get download` needs no root. The unpacked kernel stays in target/vm until the next version comes.

Where the machines are to have Debian 13, whatever runs here, or are of another type than this machine, the kernel is the one
that mmdebstrap finds for that release and that type. It stays until its folder is removed.
"""
import glob
import os
import re
import shutil
import subprocess

from interop.requirement import Failed, require

from . import programs, releases

# By series, the names of its packages: the version, in it the number that grows, and the end of unsigned packages' names.
PACKAGES = {
    "6.12": re.compile(r"^linux-image-(6\.12\.(\d+)\+deb\d+-amd64)(-unsigned)?$"),
    "6.1": re.compile(r"^linux-image-(6\.1\.0-(\d+)-amd64)(-unsigned)?$"),
}
DEFAULT = "6.12"
DOWNLOAD_SECONDS = 300


class Kernel:
    """An unpacked kernel: `version` as its modules' folder is called, and where its parts are."""

    def __init__(self, folder, version):
        self.folder = folder
        self.version = version
        self.image = os.path.join(folder, "boot", f"vmlinuz-{version}")
        self.modules = os.path.join(folder, "lib/modules", version)

    def has_module(self, name):
        """Whether the kernel has a part as a module."""
        with open(os.path.join(self.modules, "modules.dep"), encoding="ascii") as file:
            return any(os.path.basename(line.partition(":")[0]).split(".")[0] == name for line in file)


def order_of_version(found):
    """The newest version is the largest; of one version, the signed package, which Debian 13 has, is taken first."""
    return int(found[2]), not found[3]


def newest(series, names):
    """The match of the newest package's name of a series, or None."""
    return max(filter(None, map(PACKAGES[series].match, names)), key=order_of_version, default=None)


def offered(series):
    """The names of a series' packages that apt can download."""
    told = subprocess.run(["apt-cache", "pkgnames", f"linux-image-{series}."], capture_output=True, text=True, check=False)
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


def unpack(package, place):
    """Downloads a package and unpacks it."""
    file = download(package, place)
    subprocess.run(["dpkg-deb", "-x", file, place], check=True)
    os.remove(file)


def settle(place):
    """Moves the modules of an unpacked kernel to where they are looked for, and lists what they depend on, which Debian does
    when it installs a kernel."""
    if os.path.isdir(os.path.join(place, "usr/lib/modules")):
        shutil.move(os.path.join(place, "usr/lib"), os.path.join(place, "lib"))
    version, = os.listdir(os.path.join(place, "lib/modules"))
    subprocess.run(["depmod", "-b", place, version], check=True)


def put(folder, fill, what):
    """Makes a folder with a kernel that `fill(folder)` gets. After a failure there is no such folder."""
    fresh = folder + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    try:
        fill(fresh)
        settle(fresh)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Failed(f"{what} could not be unpacked into {fresh}: {error}") from error
    os.rename(fresh, folder)


def newest_known(store, series):
    """The newest kernel of a series that apt knows, from the folder `store` or freshly downloaded."""
    kept = [name.removeprefix("kernel-") for name in os.listdir(store) if name.startswith("kernel-")]
    found = newest(series, offered(series)) or newest(series, (f"linux-image-{version}" for version in kept))
    require(found, f"apt knows no kernel {series}: run 'apt-get update' as root, with Debian 12's archive and its security archive"
                   " among apt's sources, then this again")
    folder = os.path.join(store, f"kernel-{found[1]}")
    if not os.path.isdir(folder):
        put(folder, lambda fresh: unpack(found[0], fresh), f"the package {found[0]}")
        for version in kept:
            if newest(series, [f"linux-image-{version}"]):
                shutil.rmtree(os.path.join(store, f"kernel-{version}"))
    return Kernel(folder, found[1])


def of_suite(store, suite, kind):
    """The kernel of a release for a kind of machine, from the folder `store` or freshly downloaded. Nothing of the other packages
    that it wants is kept."""
    folder = os.path.join(store, f"{suite}-{kind.kernel_package}")
    if not os.path.isdir(folder):
        put(folder, lambda fresh: programs.extract(suite, kind, [kind.kernel_package], fresh, ["./boot/*", "*/lib/modules/*"]),
            f"the kernel of {suite}")
    version, = os.listdir(os.path.join(folder, "lib/modules"))
    return Kernel(folder, version)


def fetch(store, release, series, kind):
    """Returns the kernel for machines of this kind with this release of Debian: of a series, unless the release has only one."""
    if kind.foreign or release != releases.DEFAULT:
        return of_suite(store, releases.SUITES[release], kind)
    return newest_known(store, series)
