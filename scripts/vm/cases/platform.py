"""The machine that the emulator makes, as `platform discover` describes it: drives in root ports of different speeds and widths."""
import json

from interop.requirement import require

from ..case import Case
from ..machine import DRIVE_BYTES, DRIVES, SLOTS

# QEMU's words for a speed, and the generation of PCIe that has it.
GENERATIONS = {"5": 2, "8": 3, "16": 4}
# Which slot each drive is in: the number in its serial number.
SERIALS = """
    for drive in /sys/class/nvme/nvme*; do
        echo $(basename $drive) $(cat $drive/serial)
    done"""


def discovered(bench):
    """Every drive is in a bay with the link of its slot, and the file of the machine is read again."""
    serials = dict(line.split() for line in bench.run(SERIALS).splitlines())
    machine = json.loads(bench.run("fullstripe platform discover --json"))["platforms"][0]
    bays = {row["name"]: row["figures"] for row in machine["bays"]}
    require(len(machine["drive"]) == DRIVES, f"{DRIVES} drives are there, and these are described: {machine['drive']}")
    for drive in machine["drive"]:
        require(abs(drive["capacity_gb"] - DRIVE_BYTES / 1e9) < 1e-3, f"{drive} is not of {DRIVE_BYTES} bytes")
        speed, width = SLOTS[int(serials[drive["name"]].removeprefix("drive"))]
        bay = bays[drive["bay"].rpartition("-")[0]]
        found = (bay["generation"]["value"], bay["lanes"]["value"])
        require(found == (GENERATIONS[speed], width), f"{drive} is in a slot of {speed} GT/s and x{width}, and its bay is {bay}")
    for key in ("sockets", "cores_per_socket"):
        require(machine["processor"][key]["use"] == "measured", f"{key} was not read")
    bench.run("fullstripe platform discover --output /tmp/box.toml > /tmp/said\nfullstripe platform show /tmp/box.toml | cmp - /tmp/said")
    return f"{DRIVES} drives in bays of {len(bays)} kinds, as their slots are"


def cases():
    return [Case("platform", "the emulator's ports", discovered)]
