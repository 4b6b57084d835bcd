"""A machine that runs a Debian with systemd, and keeps its drives and its disk when it reboots or loses its power."""
import os
import subprocess
import tempfile

from .bench import Bench
from .machine import DRIVE_BYTES

# What an orderly reboot may take; systemd gives each service 90 s to end.
REBOOT_SECONDS = 120


class System:
    """Boots in the folder `place` of its own, again and again. `debian` is the image of the disk, which stays as it is. With
    `from_drives` there is no such disk, and the firmware boots what it finds on the drives."""

    def __init__(self, machine, debian, sector_bytes, drive_bytes=DRIVE_BYTES):
        self.machine = machine
        self.sector_bytes = sector_bytes
        self.drive_bytes = drive_bytes
        self.from_drives = False
        self.place = tempfile.mkdtemp(prefix="system.", dir=machine.folder)
        self.disk = os.path.join(self.place, "disk")
        os.mkdir(os.path.join(self.place, "host"))
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", debian, self.disk], check=True)
        self.guest = None
        self.boot()

    def boot(self):
        start, more = ["-bios", self.machine.kind.firmware], []
        if not self.from_drives:
            start = self.machine.starts_kernel("rdinit=/debian.sh")
            more = ["-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={self.disk}",
                    "-device", "virtio-blk-pci,drive=disk"]
        self.guest = self.machine.boot_in(self.place, self.sector_bytes, start, more, self.drive_bytes)

    def go_down(self):
        """Reboots in order, up to the moment at which the guest resets its machine and QEMU ends."""
        self.guest.do("(sleep 1; systemctl reboot) > /dev/null 2>&1 &")
        self.guest.wait_for_end(REBOOT_SECONDS)
        self.machine.stop(self.guest, keep=True)

    def reboot(self):
        """Reboots in order: goes down, and the same machine is started again."""
        self.go_down()
        self.boot()

    def cut_power(self):
        """Ends QEMU at once, and starts the same machine again. What the guest had not sent to its drives is lost. What it
        had sent is kept: these drives have no cache that loses anything."""
        self.machine.stop(self.guest, keep=True)
        self.boot()

    def end(self):
        self.machine.stop(self.guest)


class SystemBench(Bench):
    """For a case that reboots."""

    def __init__(self, system, case):
        self.system = system
        super().__init__(system.guest, case)

    def reboot(self):
        self.system.reboot()
        self.guest = self.system.guest

    def go_down(self):
        self.system.go_down()

    def boot(self):
        self.system.boot()
        self.guest = self.system.guest

    def cut_power(self):
        self.system.cut_power()
        self.guest = self.system.guest
