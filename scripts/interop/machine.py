"""User-mode Linux (Debian's user-mode-linux, no root needed) with mdadm, on the very files that fullstripe uses."""
import glob
import os
import shutil
import subprocess
import tempfile

from .guest import Guest
from .requirement import Failed, require

MODULES = [
    "md-mod", "raid0", "raid1", "raid10", "async_tx", "async_xor", "async_memcpy", "async_pq",
    "async_raid6_recov", "raid456", "loop"]
MODULE_OPTIONS = {"loop": "max_loop=16"}
PROGRAMS = ["mdadm", "mdmon", "losetup"]
HERE = os.path.dirname(os.path.abspath(__file__))


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def module_path(name):
    found = glob.glob(f"/usr/lib/uml/modules/*/**/{name}.ko", recursive=True)
    return found[0] if found else None


def missing():
    """The programs and kernel modules that this machine lacks."""
    programs = ["linux.uml", "busybox", "cpio", "ldd", *PROGRAMS]
    return [name for name in programs if not find_program(name)] + [
        f"{name}.ko" for name in MODULES if not module_path(name)]


def copy_program(name, path, root):
    """Copies a program, and the libraries that it is linked with, into a guest's root folder."""
    shutil.copy(path, os.path.join(root, "sbin", name))
    libraries = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    for word in libraries.split():
        if word.startswith("/"):
            os.makedirs(os.path.dirname(root + word), exist_ok=True)
            shutil.copy(word, root + word)


def cpio(root, target):
    """Packs a folder into an archive that the kernel unpacks at boot."""
    names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
    with open(target, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)


class Machine:
    """Boots guests, also several at once. Guests see `folder` as /host."""

    def __init__(self, folder):
        self.folder = folder
        self.base = os.path.join(folder, "base.cpio")
        self.boots = 0
        self.running = set()
        self.ended = False
        self.build_base()

    def build_base(self):
        root = os.path.join(self.folder, "root")
        for name in ["bin", "sbin", "proc", "sys", "dev", "run", "modules", "etc"]:
            os.makedirs(os.path.join(root, name))
        shutil.copy(find_program("busybox"), os.path.join(root, "bin/busybox"))
        for program in PROGRAMS:
            copy_program(program, find_program(program), root)
        for module in MODULES:
            shutil.copy(module_path(module), os.path.join(root, "modules"))
        with open(os.path.join(root, "modules/order"), "w") as file:
            file.writelines(f"{module} {MODULE_OPTIONS.get(module, '')}\n" for module in MODULES)
        shutil.copy(os.path.join(HERE, "guest.sh"), os.path.join(root, "guest.sh"))
        shutil.copy(os.path.join(HERE, "init.sh"), os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        cpio(root, self.base)
        shutil.rmtree(root)

    def boot(self):
        """Boots a guest and waits until it is ready. A guest that does not come up is booted once more."""
        for last in (False, True):
            guest = self.start()
            try:
                guest.wait_for_boot()
                guest.pull_out("a")
                return guest
            except (Failed, OSError):
                self.stop(guest)
                if last:
                    raise

    def start(self):
        require(not self.ended, "the lane ends")
        place = tempfile.mkdtemp(prefix="guest.", dir=self.folder)
        words = [find_program("linux.uml"), "mem=256M", f"uml_dir={place}", "umid=m", f"initrd={self.base}"]
        # Without a drive user-mode Linux would open one that does not exist; this one is removed after booting.
        words += [f"ubd0r={self.base}"]
        words += [f"host_folder={self.folder}", "con=null", "con0=fd:0,fd:1", "console=tty0", "quiet"]
        self.boots += 1
        guest = Guest(words, place)
        self.running.add(guest)
        return guest

    def stop(self, guest):
        guest.end()
        self.running.discard(guest)

    def do(self, guest, drives, script, cut):
        """Runs a job that has `drives` (letter of the guest's device to file) and returns what it prints. With `cut`,
        arrays stay running and the machine is killed at once; otherwise it can run another job."""
        guest.plug_in(drives)
        text = guest.do(script, f"/host/{os.path.relpath(guest.place, self.folder)}")
        if cut:
            self.stop(guest)
        else:
            guest.pull_out(drives)
        return text

    def end(self):
        """Ends what still runs, and boots no more."""
        self.ended = True
        for guest in list(self.running):
            self.stop(guest)
