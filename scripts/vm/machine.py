"""The virtual machine: QEMU without hardware support (no KVM), with one emulated NVMe drive in each PCIe slot.

The drives are sparse files in the lane's folder. A machine has drives of one sector size. The cases of that size share
it, one after the other; after a failed case a new one is booted.
"""
import os
import tempfile

from interop.machine import find_program
from interop.requirement import Failed, require

from .guest import Guest

DRIVES = 5
# Speed and width of each slot, in QEMU's words: a drive in the last two has less than it could use.
SLOTS = [("16", 4), ("16", 4), ("8", 4), ("8", 2), ("5", 1)]
DRIVE_BYTES = 512 << 20
MEMORY = "1536M"
# What the console says when the emulator is to blame for a boot that failed, before anything of ours has run. Then the guest is
# booted again.
EMULATOR_FAULTS = [
    # The kernel changes its own code while it boots. An emulated processor that executes such a place at that moment may see half of
    # the change, which no real one does.
    "Oops: int3",
    # A drive of an emulated ARM machine has not answered the kernel's first command within a minute, and is left out. These are the
    # words for a drive in a slot, and not for one over TCP, which fullstripe may have to answer.
    "probe with driver nvme failed",
]
BOOTS_MAX = 3


def drive(number, sector_bytes):
    """QEMU's properties of a drive; its serial number is how the guest finds it again under another name."""
    return {"driver": "nvme", "id": f"drive{number}", "bus": f"slot{number}", "drive": f"file{number}",
            "serial": f"drive{number}", "logical_block_size": sector_bytes, "physical_block_size": max(4096, sector_bytes)}


def port(number):
    """QEMU's words for the root port that is a drive's slot."""
    speed, width = SLOTS[number]
    return f"pcie-root-port,id=slot{number},chassis={number},slot={number},x-speed={speed},x-width={width}"


def emulator_faults(place):
    """The faults of the emulator that the console of the guest in this folder tells of."""
    with open(os.path.join(place, "console"), encoding="utf-8", errors="replace") as console:
        said = console.read()
    return [fault for fault in EMULATOR_FAULTS if fault in said]


class Machine:
    """Boots guests of one kind (machines.py), one at a time. `program` is the fullstripe program that is tested, which the image has
    too."""

    def __init__(self, kind, folder, kernel, image, program, keep):
        self.kind = kind
        self.folder = folder
        self.program = program
        self.keep = keep
        self.kernel = kernel
        self.image = image
        self.boots = 0
        self.running = set()
        self.ended = False

    def starts_kernel(self, kernel_words):
        """QEMU's words for a machine that starts the lane's kernel and image at once, with more words for the kernel."""
        return ["-kernel", self.kernel.image, "-initrd", self.image, "-append", f"{self.kind.command_line()} {kernel_words}"]

    def words(self, place, sector_bytes, start, more, drive_bytes):
        """QEMU's command line, with the words `start` for what it starts, and more words. Drives that are in the folder already
        stay."""
        words = [find_program(self.kind.emulator), *self.kind.type_words, "-accel", "tcg,thread=multi", "-smp", "2", "-m", MEMORY,
                 "-nodefaults", "-display", "none", "-no-reboot", *start, *self.kind.serial(place),
                 "-qmp", f"unix:{place}/qmp,server=on,wait=off",
                 "-virtfs", f"local,path={place}/host,mount_tag=host,security_model=none"]
        for number in range(DRIVES):
            path = os.path.join(place, f"drive{number}")
            with open(path, "ab") as file:
                file.truncate(drive_bytes)
            words += ["-blockdev", f"driver=raw,node-name=file{number},discard=unmap,file.driver=file,file.filename={path}",
                      "-device", port(number),
                      "-device", ",".join(f"{key}={value}" for key, value in drive(number, sector_bytes).items())]
        return words + more

    def boot(self, sector_bytes):
        """Boots a guest with empty drives and waits until it is ready."""
        place = tempfile.mkdtemp(prefix="guest.", dir=self.folder)
        os.mkdir(os.path.join(place, "host"))
        return self.boot_in(place, sector_bytes)

    def boot_in(self, place, sector_bytes, start=None, more=(), drive_bytes=DRIVE_BYTES):
        """Boots a guest with the drives in the folder `place`, if there are any yet. `start` has QEMU's words for what is started, if
        not the lane's own system."""
        words = self.words(place, sector_bytes, start or self.starts_kernel(""), list(more), drive_bytes)
        for _ in range(BOOTS_MAX - 1):
            try:
                return self.boot_once(place, words)
            except Failed:
                if not emulator_faults(place):
                    raise
        return self.boot_once(place, words)

    def boot_once(self, place, words):
        require(not self.ended, "the lane ends")
        self.boots += 1
        guest = Guest(words, place)
        self.running.add(guest)
        try:
            guest.wait_for_boot()
            faults = emulator_faults(place)
            require(not faults, f"the guest has booted after a fault of the emulator: {faults}")
        except (Failed, OSError):
            self.stop(guest, keep=True)
            raise
        return guest

    def stop(self, guest, keep=False):
        """Cuts the guest's power. Its folder stays with `keep`, and if everything is kept."""
        guest.end(keep or self.keep)
        self.running.discard(guest)

    def end(self):
        """Ends what still runs, and boots no more."""
        self.ended = True
        for guest in list(self.running):
            self.stop(guest)
