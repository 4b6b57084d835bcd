"""A client that knows what every block must hold.

It writes 4 KiB blocks through several NBD connections, each with many requests in flight. For each block it remembers
the newest acknowledged write and the one in flight. After a crash a block must hold one of the two, and once it has
been read it must not change. Each thread has a connection of its own. A block belongs to one connection, so that no two
writes of it are in flight at once.
"""
import random
import socket
import struct
import threading
import time

BLOCK = 4096
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
SOCKET_SECONDS = 40


class Lost(Exception):
    """The server has gone, as after a crash."""


class Failed(Exception):
    """A promise was broken."""


class Connection:
    """A raw NBD connection, fixed newstyle, simple replies."""

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(SOCKET_SECONDS)
        self.socket.connect(path)
        magic, option, _ = struct.unpack(">8s8sH", self.take(18))
        if (magic, option) != (b"NBDMAGIC", b"IHAVEOPT"):
            raise Failed("the server does not speak NBD")
        name = export.encode()
        body = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        # NBD_OPT_GO; flags: fixed newstyle, no zeroes.
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 7, len(body)) + body)
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            reply = self.take(length)
            if kind == 1:
                break
            if kind & 0x80000000:
                raise Failed(f"the export is refused: {reply}")
            if kind == 3 and struct.unpack(">H", reply[:2])[0] == 0:
                self.size = struct.unpack(">Q", reply[2:10])[0]

    def take(self, length):
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self.socket.recv(length - len(parts))
            except socket.timeout as error:
                raise Failed(f"a request was not answered within {SOCKET_SECONDS} s") from error
            except OSError as error:
                raise Lost(str(error)) from error
            if not part:
                raise Lost("the connection has ended")
            parts += part
        return bytes(parts)

    def ask(self, command, handle, offset, length, data=b""):
        header = struct.pack(">IHHQQI", 0x25609513, 0, command, handle, offset, length)
        try:
            self.socket.sendall(header + data)
        except socket.timeout as error:
            raise Failed(f"a request was not taken within {SOCKET_SECONDS} s") from error
        except OSError as error:
            raise Lost(str(error)) from error

    def answer(self):
        _, error, handle = struct.unpack(">IIQ", self.take(16))
        return handle, error

    def read(self, offset, length):
        self.ask(READ, 1, offset, length)
        _, error = self.answer()
        if error:
            raise Failed(f"reading {length} bytes at {offset} ends with error {error}")
        return self.take(length)

    def close(self):
        self.socket.close()


def content(seed, block, sequence):
    """The content of a block after its write with this sequence number; zeros before its first write."""
    if sequence == 0:
        return bytes(BLOCK)
    word = struct.pack("<QQQ", seed & 0xFFFFFFFFFFFFFFFF, block, sequence)
    return (word * (BLOCK // len(word) + 1))[:BLOCK]


class Ledger:
    """The client of blocks `first` to `first + count` of a volume."""

    def __init__(self, seed, first, count, connections, depth):
        self.seed, self.first, self.count = seed, first, count
        self.connections, self.depth = connections, depth
        self.acknowledged = [0] * count
        # By block: the sequence number of a write of which it is unknown whether it reached the drives.
        self.doubtful = {}
        self.sequence = 0
        self.writes = 0
        self.stopping = threading.Event()
        self.threads, self.troubles = [], []
        self.lock = threading.Lock()
        self.runs = 0

    def start(self, path, export):
        """Writes until it is stopped, or until the server ends."""
        self.stopping.clear()
        self.troubles = []
        self.runs += 1
        self.threads = [
            threading.Thread(target=self.guarded, args=(path, export, number), daemon=True)
            for number in range(self.connections)
        ]
        for thread in self.threads:
            thread.start()

    def guarded(self, path, export, number):
        try:
            self.work(path, export, number)
        except Lost as error:
            self.troubles.append(error)
        except (Failed, OSError, struct.error) as error:
            self.troubles.append(Failed(str(error)))

    def work(self, path, export, number):
        connection = Connection(path, export)
        chance = random.Random(f"{self.seed} {self.runs} {number}")
        mine = range(number, self.count, self.connections)
        flying = {}
        while not self.stopping.is_set() or flying:
            while len(flying) < self.depth and not self.stopping.is_set():
                block = mine[chance.randrange(len(mine))]
                if block in flying or block in self.doubtful:
                    break
                with self.lock:
                    self.sequence += 1
                    sequence = self.sequence
                    self.doubtful[block] = sequence
                flying[block] = sequence
                place = self.first + block
                data = content(self.seed, place, sequence)
                connection.ask(WRITE, block, place * BLOCK, BLOCK, data)
            if not flying:
                continue
            block, error = connection.answer()
            if error:
                raise Failed(f"writing block {self.first + block} ends with error {error}")
            with self.lock:
                self.acknowledged[block] = flying.pop(block)
                del self.doubtful[block]
                self.writes += 1
        connection.close()

    def wait_for(self, writes, seconds):
        """Waits until that many more writes are acknowledged."""
        target, end = self.writes + writes, time.monotonic() + seconds
        while self.writes < target:
            self.raise_failure()
            if time.monotonic() > end:
                raise Failed(f"{writes} writes took more than {seconds} s")
            time.sleep(0.005)

    def raise_failure(self):
        for trouble in list(self.troubles):
            raise Failed(f"a client: {trouble}")

    def stop(self):
        """Ends the load; all requests must have been answered."""
        self.stopping.set()
        self.join()
        self.raise_failure()
        if self.doubtful:
            raise Failed("writes were not answered")

    def crashed(self):
        """Ends the load after the server was killed: writes in flight stay doubtful."""
        self.stopping.set()
        self.join()
        for trouble in self.troubles:
            if not isinstance(trouble, Lost):
                raise Failed(f"before the crash, a client: {trouble}")

    def join(self):
        for thread in self.threads:
            thread.join(SOCKET_SECONDS + 20)
            if thread.is_alive():
                raise Failed("a client does not come to its end")
        self.threads = []

    def verify(self, path, export):
        """Reads and checks every block. This resolves doubtful writes."""
        connection = Connection(path, export)
        step = 256
        for low in range(0, self.count, step):
            length = min(step, self.count - low)
            data = connection.read((self.first + low) * BLOCK, length * BLOCK)
            for at in range(length):
                self.check(low + at, data[at * BLOCK : (at + 1) * BLOCK])
        connection.close()

    def check(self, block, found):
        place = self.first + block
        if found == content(self.seed, place, self.acknowledged[block]):
            self.doubtful.pop(block, None)
            return
        doubtful = self.doubtful.pop(block, None)
        if doubtful is not None and found == content(self.seed, place, doubtful):
            self.acknowledged[block] = doubtful
            return
        holds = struct.unpack("<QQQ", found[:24])
        raise Failed(
            f"block {place} must hold write {self.acknowledged[block]} or {doubtful}, and holds "
            f"{holds[2]} of block {holds[1]}"
            + ("" if found == content(self.seed, holds[1], holds[2]) else " in part")
        )
