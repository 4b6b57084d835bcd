"""A server of block devices on a core of its own, for comparisons with its peers."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

from common import Failed, pinned

PATIENCE_S = 30


class Server:
    """A server on its core, ready for clients: it has made its socket. What it says goes into a file of the folder."""

    def __init__(self, name, command, socket, core, folder):
        self.log = open(folder / "server.log", "w+b")
        self.process = subprocess.Popen(pinned([core], *command), stdout=self.log, stderr=self.log)
        until = time.monotonic() + PATIENCE_S
        while not socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                self.log.seek(0)
                said = self.log.read().decode("utf-8", "replace").strip().splitlines()
                raise Failed(f"{name} does not serve: {said[0] if said else 'it said nothing'}")
            time.sleep(0.02)

    def processor_s(self):
        """Processor time that the server has used, all threads together."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """Ends the server, and waits for its end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
