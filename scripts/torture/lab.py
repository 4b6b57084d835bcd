"""The tools of a round: drives that can be hurt, the serving process, and a folder that is removed with both.

Every process is started so that it dies with this one (`setpriv --pdeathsig KILL`), and is ended by its number.
"""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import threading
import time

from ledger import Failed

MIB = 1 << 20


def find_program(name):
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(name, path=path)


def tied(words):
    return [find_program("setpriv"), "--pdeathsig", "KILL", "--", *words]


def run(words, seconds=60, check=True, **more):
    """Runs a program to its end and returns the finished process."""
    words = [find_program(words[0]) or words[0], *words[1:]]
    try:
        done = subprocess.run(
            tied(words), capture_output=True, text=True, timeout=seconds, errors="replace", **more)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(words)} takes more than {seconds} s") from error
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(words)} ends with {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
    return done


def wait(what, holds, seconds):
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def end_process(process, sign=signal.SIGKILL, seconds=30):
    """Ends a process that this script started, and waits for its end."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(sign)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"process {process.pid} does not end within {seconds} s") from error


LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05


def set_loop_limit(device, limit_bytes):
    """Makes a loop device shorter: I/O beyond the limit fails. Truncating its file instead would return zeros, which no
    array without checksums can notice."""
    with open(device, "rb") as file:
        status = bytearray(232)
        fcntl.ioctl(file, LOOP_GET_STATUS64, status)
        status[32:40] = limit_bytes.to_bytes(8, "little")
        fcntl.ioctl(file, LOOP_SET_STATUS64, bytes(status))


class Drive:
    """A drive made of a file: the file itself, or presented by a loop device or FUSE."""

    def __init__(self, folder, number, kind, size):
        self.number, self.kind, self.size = number, kind, size
        self.file = os.path.join(folder, f"d{number}.img")
        with open(self.file, "wb") as file:
            file.truncate(size)
        self.place = os.path.join(folder, f"fuse{number}")
        self.processes, self.loop, self.presented = [], None, 0
        self.attach()

    def attach(self):
        self.path = self.file
        if self.kind == "loop":
            words = ["losetup", "--find", "--show", "--direct-io=on", self.file]
            self.loop = self.path = run(words).stdout.strip()
        elif self.kind == "fuse":
            self.present()

    def present(self):
        os.makedirs(self.place, exist_ok=True)
        self.presented += 1
        socket = os.path.join(self.place, f"socket{self.presented}")
        self.path = os.path.join(self.place, "disk")
        with open(self.path, "wb"):
            pass
        server = [find_program("nbdkit"), "--foreground", "-U", socket, "file", self.file]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(tied(server), **quiet))
        wait("nbdkit listens", lambda: os.path.exists(socket), 20)
        fuse = [find_program("nbdfuse"), self.path, f"nbd+unix:///?socket={socket}"]
        self.processes.append(subprocess.Popen(tied(fuse), **quiet))
        wait("nbdfuse serves", lambda: os.stat(self.path).st_size > 0, 20)

    @property
    def spec(self):
        return f"{self.path},serial=D{self.number}"

    def ways(self):
        """How the drive can be hurt."""
        return {"file": ["fail", "cut"], "loop": ["fail", "shrink"], "fuse": ["fail", "hang", "vanish"]}[self.kind]

    def hurt(self, way):
        if way == "cut":
            os.truncate(self.file, self.size // 8)
        elif way == "shrink":
            set_loop_limit(self.loop, self.size // 8)
        elif way == "hang":
            self.processes[-2].send_signal(signal.SIGSTOP)
        elif way == "vanish":
            end_process(self.processes[-2])

    def release(self):
        """Resumes the drive's processes: a process that waits for its answers cannot end before."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)

    def mend(self, way):
        """Repairs the drive with its content, except for zeros in place of what was cut off."""
        self.release()
        if way == "cut":
            os.truncate(self.file, self.size)
        elif way == "shrink":
            set_loop_limit(self.loop, 0)
        elif way == "vanish":
            self.detach()
            self.attach()

    def detach(self):
        self.release()
        if self.kind == "fuse":
            run(["fusermount3", "-u", "-z", self.path], check=False)
            for process in self.processes:
                end_process(process)
            self.processes = []
        if self.loop:
            run(["losetup", "--detach", self.loop], check=False)
            self.loop = None


class Server:
    """`fullstripe serve`."""

    count = 0

    def __init__(self, lab, drives, more=(), cgroup=None):
        Server.count += 1
        self.lab = lab
        self.nbd = os.path.join(lab.folder, f"nbd{Server.count}")
        self.socket = os.path.join(lab.folder, f"api{Server.count}")
        words = [lab.binary, "serve", "--json", "--memory", "32m", "--nbd", f"unix:{self.nbd}"]
        words += ["--socket", self.socket]
        words += [*more, *(drive.spec for drive in drives)]
        self.said = os.path.join(lab.folder, f"said{Server.count}")
        self.events, self.ready = [], None
        with open(self.said, "w") as out:
            self.process = subprocess.Popen(
                tied(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out, text=True,
                env=lab.environment, cwd=lab.folder, preexec_fn=cgroup.enter if cgroup else None)
        lab.on_exit(lambda: end_process(self.process))
        threading.Thread(target=self.listen, daemon=True).start()
        wait("it serves", lambda: self.ready or self.process.poll() is not None, 40)
        if self.ready is None:
            raise Failed(f"it does not start: {self.words()}")

    def listen(self):
        for line in self.process.stdout:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if "kind" in value:
                self.events.append(value)
            else:
                self.ready = value

    def words(self):
        with open(self.said, errors="replace") as file:
            return file.read()[-1500:]

    def uri(self):
        return f"nbd+unix:///data?socket={self.nbd}"

    def order(self, *words, check=True, seconds=60):
        done = run([self.lab.binary, *words, "--socket", self.socket], seconds, check, env=self.lab.environment)
        if "panicked" in done.stderr:
            raise Failed(done.stderr)
        return done

    def status(self):
        return json.loads(self.order("status", "--json").stdout)

    def volume(self):
        return self.status()["volumes"][0]

    def wait_event(self, kind, words, seconds, since=0):
        def found():
            return [one for one in self.events[since:] if one["kind"] == kind and words in one["text"]]

        try:
            return wait(f"event {kind} \"{words}\"", found, seconds)[0]
        except Failed as error:
            last = [one["text"] for one in self.events[-6:]]
            raise Failed(f"{error}; last: {last}; {self.words()}") from error

    def wait_optimal(self, seconds=60):
        def whole():
            volume = self.volume()
            return volume["state"] == "optimal" and volume["job"] is None

        wait("the volume is whole", whole, seconds)

    def expect_calm(self):
        if "panicked" in self.words():
            raise Failed(self.words())

    def kill(self):
        """Kills the server as a crash would, and waits for its end."""
        end_process(self.process)
        self.expect_calm()

    def stop(self):
        code = end_process(self.process, signal.SIGTERM, 70)
        self.expect_calm()
        if code != 0:
            raise Failed(f"serve ends with {code}: {self.words()}")


class Lab:
    """A folder, the binary, and what has to be undone at the end, in reverse order."""

    def __init__(self, folder, binary):
        self.folder, self.binary = folder, binary
        self.environment = dict(os.environ, XDG_STATE_HOME=folder, HOME=folder)
        self.undo = []

    def on_exit(self, work):
        self.undo.append(work)

    def clean(self):
        """Undoes everything, even if a part fails; returns the failures."""
        troubles = []
        for work in reversed(self.undo):
            try:
                work()
            except Exception as error:  # pylint: disable=broad-except
                troubles.append(str(error))
        self.undo = []
        return troubles

    def protections(self):
        """The policies that `create --write-hole` offers."""
        said = run([self.binary, "create", "--help"], env=self.environment).stdout
        said = said[said.index("--write-hole") :].split("\n      --")[0]
        return [word for word in ["log", "bitmap", "off"] if f"- {word}" in said]

    def drive(self, number, kind, size):
        drive = Drive(self.folder, number, kind, size)
        self.on_exit(drive.detach)
        return drive

    def create(self, level, drives, more):
        words = ["create", "data", "--level", str(level), *more, *(drive.spec for drive in drives)]
        run([self.binary, *words], env=self.environment)

    def wait_released(self, drives):
        """Waits until a killed process has released its drives, which it does when its last I/O has ended."""
        for drive in drives:
            with open(drive.path, "rb") as file:
                def free(file=file):
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        return True
                    except OSError:
                        return False

                wait(f"{drive.path} is let go", free, 30)
