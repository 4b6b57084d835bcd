"""Stands for systemd: starts a server, keeps the sockets that the server sends it, and starts the next server with them.

    python3 manager.py FOLDER PROGRAM ARGUMENT...

Orders come on standard input, a line each: "restart" ends the server in order and starts the next one, "kill" ends it without
a word, "damage" does what "restart" does but gives the note another version in between. On standard output it says, a line each,
what happens: "ready PID", "stored NAME", "forgotten NAME", "ended". What the servers say is in FOLDER/said.
"""

import ctypes
import fcntl
import os
import select
import signal
import socket
import sys
import time

DIE_WITH_PARENT = 1
FIRST = 3
# Above the descriptors of a server and below 1024, the most that many systems allow at first.
ABOVE_ALL = 500

folder, program = sys.argv[1], sys.argv[2:]
place = os.path.join(folder, "notify")
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(place)
kept = []


def say(text):
    print(text, flush=True)


def start():
    """Starts a server with all that is kept and still connected, and returns its number."""
    for name, descriptor in list(kept):
        watched = select.poll()
        watched.register(descriptor, 0)
        if watched.poll(0):
            forget(name)
    pid = os.fork()
    if pid > 0:
        return pid
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    safe = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, ABOVE_ALL) for _, descriptor in kept]
    said = os.open(os.path.join(folder, "said"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    for number, descriptor in enumerate(safe):
        os.dup2(descriptor, FIRST + number)
    os.closerange(FIRST + len(safe), 2 * ABOVE_ALL)
    if safe:
        names = ":".join(name for name, _ in kept)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(safe)), LISTEN_FDNAMES=names)
    os.environ["NOTIFY_SOCKET"] = place
    os.execv(program[0], program)


def forget(name):
    for pair in [pair for pair in kept if pair[0] == name]:
        os.close(pair[1])
        kept.remove(pair)
        say(f"forgotten {name}")


def hear(pid):
    text, descriptors, _, _ = socket.recv_fds(heard, 4096, 4)
    lines = text.decode().split("\n")
    name = next((line[7:] for line in lines if line.startswith("FDNAME=")), "stored")
    if "FDSTORE=1" in lines:
        kept.extend((name, descriptor) for descriptor in descriptors)
        say(f"stored {name}")
        return
    for descriptor in descriptors:
        os.close(descriptor)
    if "FDSTOREREMOVE=1" in lines:
        forget(name)
    elif "READY=1" in lines:
        say(f"ready {pid}")


def wait_end(pid):
    """Hears the server until it has ended, and what it has said before."""
    while True:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        while select.select([heard], [], [], 0)[0]:
            hear(pid)
        if ended:
            return say("ended")
        time.sleep(0.002)


def damage():
    note = next(descriptor for name, descriptor in kept if name == "nbd-note")
    os.pwrite(note, b"\xff", 9)


server = start()
while True:
    ready, _, _ = select.select([heard, sys.stdin], [], [])
    if heard in ready:
        hear(server)
    if sys.stdin in ready:
        order = sys.stdin.buffer.raw.read(64).decode().strip()
        if not order:
            sys.exit(0)
        os.kill(server, signal.SIGKILL if order == "kill" else signal.SIGTERM)
        wait_end(server)
        if order == "damage":
            damage()
        server = start()
