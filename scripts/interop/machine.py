"""User-mode Linux (Debian's user-mode-linux, no root needed) with mdadm, on the very files that fullstripe uses."""
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

from .requirement import Failed

BOOT_SECONDS = 240
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
    """What this machine lacks."""
    programs = ["linux.uml", "busybox", "cpio", "ldd", *PROGRAMS]
    return [name for name in programs if not find_program(name)] + [
        f"{name}.ko" for name in MODULES if not module_path(name)]


def cpio(root, target):
    names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
    with open(target, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=out, check=True)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Machine:
    """Can be booted as often as needed, also several times at once. `folder` is what guests see as /host."""

    def __init__(self, folder):
        self.folder = folder
        self.base = os.path.join(folder, "base.cpio")
        self.boots = 0
        self.running = set()
        self.build_base()

    def build_base(self):
        root = os.path.join(self.folder, "root")
        for name in ["bin", "sbin", "proc", "sys", "dev", "run", "modules", "etc", "jobs"]:
            os.makedirs(os.path.join(root, name))
        shutil.copy(find_program("busybox"), os.path.join(root, "bin/busybox"))
        for program in PROGRAMS:
            path = find_program(program)
            shutil.copy(path, os.path.join(root, "sbin", program))
            libraries = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
            for word in libraries.split():
                if word.startswith("/"):
                    os.makedirs(os.path.dirname(root + word), exist_ok=True)
                    shutil.copy(word, root + word)
        for module in MODULES:
            shutil.copy(module_path(module), os.path.join(root, "modules"))
        with open(os.path.join(root, "modules/order"), "w") as file:
            file.write("\n".join(MODULES))
        for module, text in MODULE_OPTIONS.items():
            with open(os.path.join(root, f"modules/{module}.options"), "w") as file:
                file.write(text)
        shutil.copy(os.path.join(HERE, "guest.sh"), os.path.join(root, "guest.sh"))
        shutil.copy(os.path.join(HERE, "init.sh"), os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        cpio(root, self.base)

    def boot(self, drives, jobs, then_wait=0.0):
        """Boots with `drives` (letter of the guest's device to file) and does `jobs`, pairs of script and whether
        its arrays are left running. The machine is killed at once `then_wait` seconds after the last job, if one
        is, and stopped otherwise. Returns what each job printed."""
        place = tempfile.mkdtemp(dir=self.folder)
        names = self.write_jobs(place, jobs)
        initrd = os.path.join(place, "initrd")
        with open(initrd, "wb") as whole:
            for part in [self.base, os.path.join(place, "jobs.cpio")]:
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, whole)
        words = [find_program("linux.uml"), "mem=256M", f"uml_dir={place}", "umid=m", f"initrd={initrd}"]
        words += [f"ubd{ord(letter) - ord('a')}={path}" for letter, path in drives.items()]
        words += [f"host_folder={self.folder}", "con=null", "con0=fd:0,fd:1", "console=tty0", "quiet"]
        log = os.path.join(place, "log")
        # One more try for a machine that does not come up; what happens after that counts.
        for _ in range(2):
            self.boots += 1
            self.run(words, place, log, then_wait)
            with open(log, errors="replace") as file:
                text = file.read()
            if "@@READY" in text:
                break
        os.remove(initrd)
        return [self.output_of(name, text) for name in names]

    def write_jobs(self, place, jobs):
        folder = os.path.join(place, "root/jobs")
        os.makedirs(folder)
        names = []
        # Those that leave arrays running come last.
        for at, (script, cut) in enumerate(jobs):
            names.append(f"{'z' if cut else 'a'}{at:02}" + (".cut" if cut else ""))
            with open(os.path.join(folder, names[-1]), "w") as file:
                file.write(script)
        cpio(os.path.join(place, "root"), os.path.join(place, "jobs.cpio"))
        return names

    def run(self, words, place, log, then_wait):
        with open(log, "w") as out:
            # A session of its own: the machine is several processes, and all of them must go at once.
            machine = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env=dict(os.environ, TMPDIR=place))
        self.running.add(machine)
        try:
            end = time.monotonic() + BOOT_SECONDS
            while machine.poll() is None and time.monotonic() < end:
                with open(log, errors="replace") as file:
                    if "@@CUT" in file.read():
                        time.sleep(then_wait)
                        return
                time.sleep(0.02)
        finally:
            kill_group(machine)
            self.running.discard(machine)

    def end(self):
        """Ends what still runs."""
        for machine in list(self.running):
            kill_group(machine)

    def output_of(self, name, text):
        begin = text.find(f"@@JOB {name}")
        end = text.find("@@DONE", begin)
        if begin < 0 or end < 0:
            return Failed(f"the machine did not do it: {text[-900:]}")
        return text[begin:end].replace("\r", "")
