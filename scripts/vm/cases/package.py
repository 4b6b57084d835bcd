"""The Debian package, and the commands of docs/install.md as they stand there, in a Debian with systemd and real block devices.

`scripts/deb_test.sh` looks at the package's files in a folder; here arrays are served and mounted while the package is upgraded and
removed.
"""
import os
import re
import subprocess

from interop.machine import copy_program, find_program
from interop.requirement import require

from .. import guest
from ..case import Case
from .boot import COLDPLUG, MD_TAKES_IT
from .load import longest_request_s

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PAGE = os.path.join(ROOT, "docs/install.md")
NBD_DEVICE = "upgrade of an NBD device"
# How the volume becomes a block device, if not by ublk.
WAYS = {NBD_DEVICE: "kernel_nbd"}
TEN_MINUTES = "Ten minutes to an array on real drives"
# Commands find the socket of the array as they do for a user.
BEGIN = "unset FULLSTRIPE_SOCKET\n"
SERVICE = "fullstripe@data.service"
FILES = """
    mkdir -p /data/kept
    cp /host/tree/* /data/kept
    sync"""
SAME_FILES = """
    same_files /host/tree /data/kept"""
MOUNTED_AT_BOOT = """
    tries=0
    until systemctl is-active data.mount > /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "/data is not mounted: $(systemctl status data.mount {service}; journalctl -b -u {service} -o cat)"
        sleep 1
    done""".format(service=SERVICE)
REFUSED = """
    ! dpkg --remove fullstripe > /run/said 2>&1 || fail "a package was removed while its array was mounted: $(cat /run/said)"
    grep -q "volume vol0 (${{node}}0) is in use by the file system mounted at /data; release it first: umount /data" /run/said ||
        fail "the removal was refused with other words: $(cat /run/said)"
    dpkg -s fullstripe | grep -q '^Status: .* ok installed' || fail "$(dpkg -s fullstripe)"
    systemctl is-active {service}""".format(service=SERVICE)
# fio and its libraries lie beside the guest, because with all that it needs it is larger than the rest of this Debian.
FIO = """
    printf '#!/bin/sh\\nexec %s --library-path %s %s "$@"\\n' /host/fio/lib64/ld-linux-x86-64.so.2 \\
        /host/fio/lib/x86_64-linux-gnu:/host/fio/usr/lib/x86_64-linux-gnu/ceph /host/fio/sbin/fio > /usr/sbin/fio
    chmod 755 /usr/sbin/fio
    fio --version"""
# A new package leaves the process alone; the command switches to the new program while the file system is written to.
SERVER = f"systemctl show -P MainPID {SERVICE}"
INSTALL = """
    before=$({server})
    dpkg --install /host/deb/*-{revision}_amd64.deb > /run/said 2>&1 || fail "$(cat /run/said)"
    [ "$({server})" = "$before" ] || fail "the new package has started another server"
    case $(readlink /proc/$before/exe) in *deleted*) ;; *) fail "the old program is not replaced" ;; esac"""
UPGRADED = INSTALL.format(server=SERVER, revision=2) + f"""
    grep -q "'fullstripe upgrade' switches" /run/said || fail "the package says nothing of the server: $(cat /run/said)"
    ! /sbin/fullstripe upgrade > /run/said 2>&1 || fail "a program was accepted that the service does not start"
    grep -q "would start /usr/bin/fullstripe, which is not this program" /run/said || fail "$(cat /run/said)"
    [ "$(/usr/bin/fullstripe upgrade --check)" = "data: another program serves it; this one can." ] || fail "$(/usr/bin/fullstripe upgrade --check)"
    load /data 24 2
    /usr/bin/fullstripe upgrade > /run/said 2>&1 || fail "$(cat /run/said; journalctl -b -u {SERVICE} -o cat)"
    load_runs
    load_ends
    [ "$(readlink /proc/$({SERVER})/exe)" = /usr/bin/fullstripe ] || fail "the new program does not serve"
    [ "$(/usr/bin/fullstripe upgrade)" = "data: this program serves it." ] || fail "$(/usr/bin/fullstripe upgrade)"
    cat /run/said"""
# The old package again, whose server cannot start: what is to be done is said, and done.
FAILS = INSTALL.format(server=SERVER, revision=1) + f"""
    mkdir -p /run/systemd/system/{SERVICE}.d
    printf '[Service]\\nExecStartPre=/bin/false\\n' > /run/systemd/system/{SERVICE}.d/fails.conf
    systemctl daemon-reload
    ! /usr/bin/fullstripe upgrade > /run/said 2>&1 || fail "a server that cannot start was accepted"
    grep -q 'array data is not as before .* What uses its devices waits, and goes on' /run/said || fail "$(cat /run/said)"
    rm /run/systemd/system/{SERVICE}.d/fails.conf
    systemctl daemon-reload
    systemctl restart {SERVICE}
    echo more > /data/more; sync"""
ON_NBD = """
    leads=$(readlink -f /dev/fullstripe/vol0)
    [ "$leads" = /dev/nbd0 ] || fail "vol0 is $leads"
    """
KERNEL_CALM = """
    ! dmesg | grep -E 'block nbd0: (Receive|Send|Connection|Dead|Other)' || fail "the kernel has lost a connection" """
# What the server said, for the message if the case fails.
LAST_WORDS = f"""
    journalctl -b -u {SERVICE} -o short-monotonic | tail -n 20
    """
REMOVED = """
    umount /data
    dpkg --remove fullstripe > /run/said 2>&1 || fail "$(cat /run/said)"
    ! systemctl is-active {service} || fail "the server runs, and its program is gone"
    [ ! -e /usr/bin/fullstripe ] && [ -e /etc/fullstripe/fullstripe.toml ] || fail "$(cat /run/said)"
    /sbin/fullstripe examine /dev/nvme0n1 | grep '^    state' > /run/state
    grep -q ', clean' /run/state || fail "the volume is not clean: $(cat /run/state)"
    dpkg --purge fullstripe > /run/said 2>&1 || fail "$(cat /run/said)"
    left=$(ls -d /etc/fullstripe /var/lib/fullstripe/arrays /run/fullstripe 2> /dev/null || true)
    [ -z "$left" ] || fail "purging has left $left"
    /sbin/fullstripe assemble /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1""".format(service=SERVICE)


def blocks(heading):
    """The blocks of commands of a section of the page."""
    with open(PAGE, encoding="utf-8") as file:
        _, _, rest = file.read().partition(f"\n## {heading}\n")
    require(rest, f"docs/install.md has no section '{heading}'")
    found, inside = [], False
    for line in rest.partition("\n## ")[0].splitlines():
        if line.startswith("    ") and not inside:
            found.append("")
        inside = line.startswith("    ")
        if inside:
            found[-1] += line + "\n"
    return found


def run(bench, script, seconds=150):
    return bench.run(BEGIN + script, seconds)


def build(bench):
    """Makes the package and its next revision beside the guest."""
    for revision in "12":
        subprocess.run([os.path.join(ROOT, "packaging/deb.sh"), bench.system.machine.program, os.path.join(bench.share, "deb")],
                       env=dict(os.environ, DEB_REVISION=revision), check=True, capture_output=True)


def begin(bench, changed=lambda use: use, settings="", use=True):
    """What the page's first section does, with files on the array. `changed` may change how the file system is made, and
    `settings` are added to the array's own. Without `use` there is a block device, and no file system."""
    build(bench)
    bench.tree("tree", files=12)
    install, make, used = blocks(TEN_MINUTES)
    # What is found in this machine does not matter here, only that the program looks.
    run(bench, "cd /host/deb\n" + install.replace("fullstripe doctor", "fullstripe doctor || [ $? = 1 ]"))
    run(bench, "! systemctl list-units --all | grep fullstripe@ || fail 'installing has started a server'")
    add = f"sed -i '/^uuid/a {settings}' /etc/fullstripe/fullstripe.toml\n" if settings else ""
    run(bench, make.replace("systemctl daemon-reload\n", f"systemctl daemon-reload\n{add}", 1))
    if use:
        run(bench, changed(used) + FILES)


def put_fio(bench):
    """Puts fio into this Debian."""
    root = os.path.join(bench.share, "fio")
    os.makedirs(os.path.join(root, "sbin"))
    copy_program("fio", find_program("fio"), root)
    run(bench, FIO)


def upgraded_and_removed(bench):
    begin(bench)
    run(bench, REFUSED)
    put_fio(bench)
    upgraded = run(bench, UPGRADED + SAME_FILES, 240)
    longest_s = longest_request_s(bench)
    require(longest_s < 2 * guest.SLOWNESS * guest.patience, f"a request took {longest_s:.1f} s: {upgraded}")
    run(bench, FAILS + SAME_FILES)
    run(bench, REMOVED)
    waited = re.search(r"waited for ([0-9.]+ s) at most", upgraded)
    require(waited, f"upgrade says {upgraded}")
    return (f"not removed while mounted; switched in {waited[1]}, the longest request took {longest_s:.1f} s; removed, and "
            "the drives kept")


def upgraded_by_nbd(bench):
    """The kernel's NBD client keeps its connections: had they been cut, requests would have waited for its timeout, 30 s."""
    begin(bench, settings='attach = "nbd"')
    run(bench, ON_NBD)
    put_fio(bench)
    upgraded = run(bench, UPGRADED + KERNEL_CALM + LAST_WORDS + SAME_FILES, 240)
    longest_s = longest_request_s(bench)
    require(longest_s < 2 * guest.SLOWNESS * guest.patience, f"a request took {longest_s:.1f} s: {upgraded}")
    require("connect again" not in upgraded, f"upgrade says {upgraded}")
    waited = re.search(r"waited for ([0-9.]+ s) at most", upgraded)
    require(waited, f"upgrade says {upgraded}")
    return f"switched in {waited[1]}, the longest request took {longest_s:.1f} s; the kernel has lost no connection"


def reboots(bench):
    """A replaced drive, a failed one, a reboot and a power cut, as on the page."""
    begin(bench)
    replaced, failed = blocks("Replace a drive")
    run(bench, replaced + "\nfullstripe status --check")
    # The spare drive is now the one that was replaced, which has been in an array.
    run(bench, failed.replace("/dev/nvme4n1", "/dev/nvme1n1 --force") + "\nfullstripe status --check")
    bench.reboot()
    run(bench, MOUNTED_AT_BOOT + SAME_FILES)
    bench.cut_power()
    run(bench, MOUNTED_AT_BOOT + SAME_FILES + "\n" + blocks("After a power failure")[0])
    return "mounted after a replacement, a rebuild, a reboot and a power cut"


# Something writes until it gets an error. fsync has every error told at once.
WRITES = """
    setsid sh -c 'while dd if=/dev/zero of=/data/other bs=1M count=4 conv=fsync,notrunc; do :; done; echo > /run/wrote' \\
        > /dev/null 2>&1 &
    until [ -s /data/other ]; do sleep 0.1; done"""
HEALTH_IS = """
    tries=0
    until code=0; fullstripe status --check > /run/status || code=$?; [ $code = {code} ]; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "the health is not {code}: $(fullstripe status)"
        sleep 0.5
    done"""
# What the page says of a file system whose volume has failed: no file can be made, and the kernel says why. Each try makes another
# file: one that was made in memory before the volume failed can be touched again.
GAVE_UP = """
    tries=0
    until [ -e /run/wrote ] && ! touch /data/new$tries 2> /run/touch && grep -q '{error}' /run/touch; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "a file is made, or the error is another one: $(cat /run/touch; dmesg | tail -20)"
        sleep 0.5
    done
    dmesg | grep '{kernel}' || fail "the kernel says something else: $(dmesg | tail -20)" """
IS_BACK = """
    until (drive {number}) > /run/back 2>&1; do sleep 0.2; done
    udevadm settle
    [ "$(cat /run/back)" = {name} ] || fail "{name} has come back as $(cat /run/back)" """
FAILED_UNDER = "A volume that failed under ext4 or xfs"
# Of each kind of file system: how it is made, the error of programs, and the kernel's words.
FILE_SYSTEMS = {
    "ext4": ("mkfs.ext4 -q", r"Read-only file system\|Input/output error", "EXT4-fs.*emounting filesystem read-only"),
    "xfs": ("mkfs.xfs -q -K", "Input/output error", "XFS.*[Ss]hut.*down"),
}


def failed_under(kind, at_once):
    """Two drives of four give errors under a mounted file system, at once or one after the other, and come back as they were.
    The way back is that of the page."""
    def run_case(bench):
        make, error, kernel = FILE_SYSTEMS[kind]
        begin(bench, lambda use: use.replace("mkfs.ext4 -q", make).replace(" ext4 ", f" {kind} "))
        names = ["/dev/nvme1n1", "/dev/nvme2n1"]
        # The kernel's names are not in the order of the slots.
        serials = run(bench, "cat /sys/block/nvme1n1/device/serial /sys/block/nvme2n1/device/serial").split()
        numbers = [int(serial.removeprefix("drive")) for serial in serials]
        run(bench, WRITES)
        bench.fail_everything(numbers[0])
        if not at_once:
            run(bench, HEALTH_IS.format(code=3))
        bench.fail_everything(numbers[1])
        run(bench, HEALTH_IS.format(code=5) + GAVE_UP.format(error=error, kernel=kernel))
        let_go, start, of_ext4, of_xfs, rebuild = blocks(FAILED_UNDER)
        run(bench, let_go)
        for number in numbers:
            bench.unplug(number)
        for number, name in zip(numbers, names):
            bench.plug(number)
            run(bench, IS_BACK.format(number=number, name=name))
        # Exit code 3: it starts, without full redundancy.
        run(bench, start.replace("/dev/nvme3n1\n", "/dev/nvme3n1 || [ $? = 3 ]\n"))
        # Of two drives that fail at once, one may be recorded as failed before the other one fails too.
        is_missing = not at_once or run(bench, "fullstripe status | grep -c missing || :") != "0"
        run(bench, HEALTH_IS.format(code=3 if is_missing else 0))
        run(bench, of_ext4 if kind == "ext4" else of_xfs)
        run(bench, SAME_FILES)
        if is_missing:
            run(bench, rebuild)
        run(bench, HEALTH_IS.format(code=0) + "\nfullstripe scrub vol0 --wait" + SAME_FILES)
        return f"{kind} gave up, and its files are there again{', after a rebuild' if is_missing else ''}"
    return run_case


def to_md(bench):
    begin(bench)
    run(bench, MD_TAKES_IT + COLDPLUG + "\n" + blocks("Leaving to md")[0] + """
    udevadm settle
    grep '^md.* active .*raid5' /proc/mdstat || fail "md does not take the array: $(cat /proc/mdstat)"
    """)
    return "md took the array"


# An array of md with Intel's metadata, and a file system on it that fstab names by its UUID, as the page says.
OF_MD = """
    export IMSM_NO_PLATFORM=1
    mdadm --create /dev/md127 --metadata=imsm --raid-devices=4 /dev/nvme[0-3]n1 --run
    mdadm --create /dev/md126 --level=5 --chunk=64 --raid-devices=4 /dev/nvme[0-3]n1 --size=96M --run
    mdadm --wait /dev/md126 || [ $? = 1 ]
    udevadm settle
    mkfs.ext4 -q -E nodiscard /dev/md126
    udevadm settle
    mkdir -p /data
    echo "UUID=$(blkid -o value -s UUID /dev/md126) /data ext4 defaults,nofail 0 2" >> /etc/fstab
    systemctl daemon-reload
    mount /data""" + FILES
TAKEN_OVER = """
    ! grep '^md' /proc/mdstat || fail "md still has an array"
    [ "$(readlink -f /dev/fullstripe/*)" = ${node}0 ] || fail "there is $(ls -l /dev/fullstripe)"
    [ "$(findmnt -n -o SOURCE /data)" = ${node}0 ] || fail "mounted is $(findmnt -n /data)"
    fullstripe status --check"""


def from_md(bench):
    """An array of md becomes one of fullstripe, in place, and md does not take it back at the next boot."""
    build(bench)
    bench.tree("tree", files=12)
    run(bench, MD_TAKES_IT + COLDPLUG + OF_MD, 240)
    run(bench, "dpkg --install /host/deb/*-1_amd64.deb > /run/said 2>&1 || fail \"$(cat /run/said)\"\n" +
        blocks("Coming from md")[0] + "mount /data" + TAKEN_OVER + SAME_FILES, 240)
    bench.reboot()
    run(bench, MOUNTED_AT_BOOT + TAKEN_OVER + SAME_FILES + "\nfullstripe scrub --wait" + SAME_FILES, 240)
    return "fullstripe took the array, also after a reboot"


def cases():
    return [Case("package", f"docs/install.md: {name}", run_case, reboots=True, way=WAYS.get(name, "ublk")) for name, run_case in (
        ("upgrade and removal", upgraded_and_removed),
        (NBD_DEVICE, upgraded_by_nbd),
        ("rebuilds, reboot, power cut", reboots),
        ("to md", to_md),
        ("from md", from_md),
        ("ext4, two drives at once", failed_under("ext4", at_once=True)),
        ("xfs, two drives in turn", failed_under("xfs", at_once=False)))]
