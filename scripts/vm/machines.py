"""The types of machine that QEMU can be, by the word after --machine: all in which they differ.

A PC's kernel and programs are found as this machine's own are. Those of a 64-bit ARM machine are Debian's, unpacked from their
packages (kernel.py, programs.py). Its kernel takes memory in pages of 4 KiB, or of 16 KiB in the machine arm64-16k.
"""
from . import releases


class Pc:
    """`architecture` is Debian's word for the type of processor. `names` is how the kernel calls the serial lines: of the console,
    and of the jobs. `leaves_out` has the groups of cases that need another machine than this."""

    name = "pc"
    architecture = "amd64"
    emulator = "qemu-system-x86_64"
    type_words = ["-machine", "q35", "-cpu", "max"]
    console, jobs = "ttyS0", "ttyS1"
    # The firmware, of Debian's package ovmf. It knows NVMe drives and EFI partitions, and nothing of RAID.
    firmware = "/usr/share/ovmf/OVMF.fd"
    program = "target/release/fullstripe"
    strip = "strip"
    # What is needed here to make its image beside what every machine needs, and to make a Debian for it.
    tools = ["ldd"]
    debian_programs = []
    boot_packages = ["grub-efi-amd64-bin"]
    releases = list(releases.SUITES)
    kernel_package = "linux-image-amd64"
    # Whether the kernel and the programs are another machine's than this.
    foreign = False
    # The packages that the setup installs: its word for them.
    setup = "vm-long"
    leaves_out = ()

    @staticmethod
    def serial(place):
        """QEMU's words for the two serial lines."""
        return ["-serial", f"file:{place}/console", "-serial", f"unix:{place}/jobs,server=on,wait=off"]

    @classmethod
    def command_line(cls):
        """What the kernel is told. The last word is for jobs.sh."""
        return f"console={cls.console} panic=-1 quiet mitigations=off jobs={cls.jobs}"


class Arm64(Pc):
    """A server with processors as ARM's Neoverse N1, which Graviton 2 and Altra have. It has one serial line of its own, and gets
    another one as a PCI device."""

    name = "arm64"
    architecture = "arm64"
    emulator = "qemu-system-aarch64"
    type_words = ["-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"]
    console, jobs = "ttyAMA0", "ttyS0"
    firmware = None
    program = "target/aarch64-unknown-linux-gnu/release/fullstripe"
    strip = "aarch64-linux-gnu-strip"
    tools = ["mmdebstrap", "readelf"]
    debian_programs = ["qemu-aarch64-static", "arch-test"]
    boot_packages = []
    # Debian 12 has no kernel 6.12 among its own packages.
    releases = ["13"]
    kernel_package = "linux-image-arm64"
    foreign = True
    setup = "vm-arm64"
    # disk: the server runs beside QEMU, on this machine's processor. root: a boot loader for a PC. package, story: the package for
    # a PC. exerciser and drbd: programs of this machine.
    leaves_out = ("disk", "root", "package", "story", "exerciser", "drbd")

    @staticmethod
    def serial(place):
        return ["-serial", f"file:{place}/console", "-chardev", f"socket,id=jobs,path={place}/jobs,server=on,wait=off",
                "-device", "pci-serial,chardev=jobs"]


class Arm64With16KPages(Arm64):
    """The same machine with Debian's kernel whose pages are four times as large."""

    name = "arm64-16k"
    kernel_package = "linux-image-arm64-16k"


KINDS = {kind.name: kind for kind in (Pc, Arm64, Arm64With16KPages)}
DEFAULT = Pc.name
