"""A file system on a volume (nbdfuse, a loop device, a mount), a load of files that are synchronised one by one, and a
group of processes with little memory."""
import os
import random
import subprocess
import sys
import threading

import zlib

from lab import end_process, find_program, run, tied, wait
from ledger import Failed

MIB = 1 << 20
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Disk:
    """The volume of a server as a mounted file system."""

    count = 0

    def __init__(self, lab, server, kind, make):
        Disk.count += 1
        self.lab, self.kind = lab, kind
        self.place = os.path.join(lab.folder, f"disk{Disk.count}")
        self.mounted_at = os.path.join(lab.folder, f"mnt{Disk.count}")
        os.makedirs(self.place)
        os.makedirs(self.mounted_at)
        self.file = os.path.join(self.place, "disk")
        with open(self.file, "wb"):
            pass
        self.loop, self.mounted = None, False
        lab.on_exit(self.tear)
        self.fuse = subprocess.Popen(tied([find_program("nbdfuse"), self.file, server.uri()]), **QUIET)
        wait("nbdfuse serves", lambda: os.stat(self.file).st_size > 0, 20)
        self.loop = run(["losetup", "--find", "--show", self.file]).stdout.strip()
        if make:
            options = ["-q"] if kind == "ext4" else ["-q", "-f"]
            run([f"mkfs.{kind}", *options, self.loop], 90)
        self.mount()

    def mount(self):
        run(["mount", "-t", self.kind, self.loop, self.mounted_at], 90)
        self.mounted = True

    def check(self):
        """Unmounts in order and checks the file system without changing it."""
        run(["umount", self.mounted_at], 90)
        self.mounted = False
        words = ["e2fsck", "-f", "-n"] if self.kind == "ext4" else ["xfs_repair", "-n"]
        run([*words, self.loop], 90)

    def tear(self):
        """Removes it all, in order or not."""
        if self.mounted:
            run(["umount", "--lazy", self.mounted_at], check=False)
            self.mounted = False
        if self.loop:
            run(["losetup", "--detach", self.loop], check=False)
            self.loop = None
        run(["fusermount3", "-u", "-z", self.file], check=False)
        end_process(self.fuse, seconds=60)


class Files:
    """Threads that write files: each file is synchronised and renamed into place, then its folder is synchronised."""

    def __init__(self, seed, threads):
        self.seed, self.count = seed, threads
        # By file name: the version that is durable, and the one being written.
        self.durable, self.doubtful = {}, {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.server_killed = False
        self.threads, self.troubles, self.runs = [], [], 0
        self.written = 0

    def start(self, folder):
        self.stopping.clear()
        self.server_killed = False
        self.troubles = []
        self.runs += 1
        self.threads = [
            threading.Thread(target=self.guarded, args=(folder, number), daemon=True) for number in range(self.count)
        ]
        for thread in self.threads:
            thread.start()

    def guarded(self, folder, number):
        try:
            self.work(folder, number)
        except OSError as error:
            self.troubles.append(error)

    def content(self, name, version):
        chance = random.Random(f"{self.seed} {name} {version}")
        head = f"{name} {version} ".encode()
        return (head + chance.randbytes(chance.randrange(1, 24) * 1500))[: chance.randrange(100, 30000)]

    def work(self, folder, number):
        chance = random.Random(f"{self.seed} {self.runs} {number}")
        home = os.path.join(folder, f"folder{number}")
        os.makedirs(home, exist_ok=True)
        directory = os.open(home, os.O_RDONLY)
        version = self.runs * 1_000_000
        try:
            while not self.stopping.is_set():
                version += 1
                name = f"folder{number}/file{chance.randrange(40)}"
                with self.lock:
                    self.doubtful[name] = version
                fresh = os.path.join(home, "new")
                with open(fresh, "wb") as file:
                    file.write(self.content(name, version))
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(fresh, os.path.join(folder, name))
                os.fsync(directory)
                with self.lock:
                    if self.server_killed:
                        return
                    self.durable[name] = version
                    del self.doubtful[name]
                    self.written += 1
        finally:
            os.close(directory)

    def wait_for(self, files, seconds):
        """Waits until that many more files are durable."""
        target = self.written + files

        def written():
            for trouble in self.troubles:
                raise Failed(f"writing files: {trouble}")
            return self.written >= target

        wait(f"{files} more files written", written, seconds)

    def before_kill(self):
        """From now on no fsync counts: if it returns 0 after the server has died, that says nothing about the array.

        nbdfuse answers EINVAL once its server has gone, the loop driver takes that for success when it answers a flush,
        and ext4 lets an fsync succeed even if another thread's fsync has failed to commit its transaction.
        """
        with self.lock:
            self.server_killed = True

    def stop(self, crashed=False):
        self.stopping.set()
        for thread in self.threads:
            thread.join(90)
            if thread.is_alive():
                raise Failed("a thread that writes files does not come to its end")
        self.threads = []
        for trouble in self.troubles:
            if not crashed:
                raise Failed(f"writing files: {trouble}")

    def verify(self, folder):
        for name in {*self.durable, *self.doubtful}:
            allowed = [self.durable.get(name), self.doubtful.get(name)]
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    found = file.read()
            except FileNotFoundError:
                found = None
            holds = [version for version in allowed if version is not None and found == self.content(name, version)]
            if not holds and not (found is None and allowed[0] is None):
                what = "is gone" if found is None else f"has {len(found)} bytes, CRC {zlib.crc32(found):08x},"
                raise Failed(f"{name} {what} and must be version {allowed[0]} or {allowed[1]}")
            if holds:
                self.durable[name] = holds[0]
        self.doubtful = {}


CAP_SYS_RESOURCE = 24
# What the group of server and hog gets: the server's locked memory and some more. Then what a hog alone gets.
SHARED_BYTES = 160 * MIB
ALONE_BYTES = 64 * MIB


def may_become_io_flusher():
    """Whether a process here may tell the kernel not to wait for the process's own I/O when memory is short. A server
    without that right does wait for itself when memory is short; `doctor` reports that."""
    with open("/proc/self/status") as status:
        words = next(line for line in status if line.startswith("CapEff:")).split()
    return bool(int(words[1], 16) >> CAP_SYS_RESOURCE & 1)


class Group:
    """Processes that share little memory, as far as this machine allows."""

    def __init__(self, lab):
        self.with_server = may_become_io_flusher()
        limit_bytes = SHARED_BYTES if self.with_server else ALONE_BYTES
        self.folder, self.limit_bytes = None, limit_bytes
        name = f"fullstripe-torture-{os.getpid()}"
        for root, file in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]:
            folder = os.path.join(root, name)
            try:
                os.mkdir(folder)
                # A folder that is not a control group has no such file, and would accept any other.
                os.stat(os.path.join(folder, "cgroup.procs"))
                with open(os.path.join(folder, file), "w") as limit:
                    limit.write(str(limit_bytes))
            except OSError:
                if os.path.isdir(folder):
                    os.rmdir(folder)
                continue
            self.folder = folder
            lab.on_exit(self.remove)
            who = "server and hog" if self.with_server else "the hog, no CAP_SYS_RESOURCE for the server"
            self.words = f"{file} of {limit_bytes // MIB} MiB around {who}"
            return
        self.with_server, self.limit_bytes = False, ALONE_BYTES * 4
        limit_bytes = self.limit_bytes
        self.words = f"no memory cgroup here: ulimit -v of {limit_bytes // MIB} MiB on the hog alone"

    def enter(self):
        if self.folder:
            with open(os.path.join(self.folder, "cgroup.procs"), "w") as procs:
                procs.write(str(os.getpid()))

    def limit_me(self):
        if self.folder:
            self.enter()
        else:
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (self.limit_bytes, self.limit_bytes))
        with open("/proc/self/oom_score_adj", "w") as score:
            # The kernel kills the hog first, and if this script may forbid it, the server never.
            score.write("1000")

    def remove(self):
        def gone():
            try:
                os.rmdir(self.folder)
                return True
            except FileNotFoundError:
                return True
            except OSError:
                return False

        wait("the memory group is empty", gone, 20)


HOG = """
import os, sys, time
place, seconds = sys.argv[1], float(sys.argv[2])
end, held, block = time.monotonic() + seconds, [], os.urandom(1 << 20)
print("begins", flush=True)
while time.monotonic() < end:
    with open(os.path.join(place, "hog"), "wb") as file:
        for at in range(32):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    print("wrote", flush=True)
    try:
        held.append(bytearray(os.urandom(1 << 20)) * 8)
    except MemoryError:
        held.clear()
"""


def start_hog(lab, group, place, seconds):
    """Starts a process that dirties pages of the file system and takes the remaining memory."""
    log = open(os.path.join(lab.folder, "hog"), "w")
    words = tied([sys.executable, "-c", HOG, place, str(seconds)])
    hog = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                           preexec_fn=group.limit_me)
    lab.on_exit(lambda: end_process(hog))
    log.close()
    return hog


def hog_rounds(lab):
    with open(os.path.join(lab.folder, "hog")) as log:
        return log.read().count("wrote")


def protect(server):
    """Keeps the kernel from killing the server when memory is short, because the server is what is tested."""
    try:
        with open(f"/proc/{server.process.pid}/oom_score_adj", "w") as score:
            score.write("-1000")
    except OSError:
        pass


