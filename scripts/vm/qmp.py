"""QEMU's own socket (QMP): one JSON object a line, by which drives are pulled out and put in while the guest runs."""
import json
import socket
import time

from interop.requirement import Failed

ANSWER_SECONDS = 20


class Qmp:
    """Connected to a running QEMU."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.events = []
        self.next("QMP")
        self.order("qmp_capabilities")

    def next(self, key):
        """Returns the value of the next message with this key, and keeps the events before it."""
        while True:
            line = self.lines.readline()
            if not line:
                raise Failed("QEMU closed its socket")
            message = json.loads(line)
            if "event" in message:
                self.events.append(message)
            if "error" in message:
                raise Failed(f"QEMU refuses: {message['error']['desc']}")
            if key in message:
                return message[key]

    def order(self, command, **arguments):
        """Has a command carried out and returns its answer."""
        message = {"execute": command}
        if arguments:
            message["arguments"] = arguments
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        return self.next("return")

    def wait_for_removal(self, device, seconds):
        """Waits until QEMU says that the guest has let go of a device."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in self.events:
                if event["event"] == "DEVICE_DELETED" and event["data"].get("device") == device:
                    self.events.remove(event)
                    return
            # Every answer brings the events before it.
            self.order("query-status")
            time.sleep(0.1)
        raise Failed(f"the guest did not let go of {device} in {seconds} s")

    def close(self):
        self.lines.close()
        self.socket.close()
