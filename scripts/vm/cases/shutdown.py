"""The machine reboots in order while LVM or LUKS lies between the array and its file system, another mount lies above that, or
something keeps the mount busy.

Boot cases have a file system directly on the array's device. Here, too, it is mounted at boot, and the array is left clean.
"""
from interop.requirement import require

from ..case import Case
from .boot import DEVICE, HERE, SERVICE, SETTINGS, THERE, has, install

# The rest of this lane has no udev, and says so to LVM.
BEGIN = HERE + "unset DM_DISABLE_UDEV\n"
MOUNTED = """
    mkfs.ext4 -q -E nodiscard {device}
    udevadm settle
    mkdir -p /mnt
    echo "{device} /mnt ext4 defaults 0 2" >> /etc/fstab
    systemctl daemon-reload
    systemctl start mnt.mount
    mkdir /mnt/kept
    cp /host/tree/* /mnt/kept"""
# As docs/using.md says: the first member begins as the volume does.
LVM = """
    mkdir -p /etc/lvm
    echo 'devices {{ md_component_checks = "full" }}' > /etc/lvm/lvm.conf
    pvcreate -q {volume}
    vgcreate -q group {volume}
    lvcreate -q -y -W n -L 200m -n data group
    udevadm settle"""
LUKS = """
    echo secret > /etc/key; chmod 600 /etc/key
    cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {volume} /etc/key
    echo "safe {volume} /etc/key luks" >> /etc/crypttab
    systemctl daemon-reload
    systemctl start systemd-cryptsetup@safe.service"""
# A file of the file system is the disk of another one, which is mounted in a folder of the first.
INNER = """
    mkdir /mnt/inner
    truncate -s 100m /mnt/image
    mkfs.ext4 -q /mnt/image
    echo "/mnt/image /mnt/inner ext4 loop 0 0" >> /etc/fstab
    systemctl daemon-reload
    systemctl start mnt-inner.mount || fail "$(journalctl -b -u mnt-inner.mount -o cat; ls -l /dev/loop*)"
    mkdir /mnt/inner/kept
    cp /host/tree/* /mnt/inner/kept"""
INNER_IS_THERE = """
    tries=0
    until systemctl is-active mnt-inner.mount > /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "/mnt/inner is not mounted: $(systemctl status mnt-inner.mount)"
        sleep 1
    done
    same_files /host/tree /mnt/inner/kept
    [ "$(cat /sys/block/loop*/loop/backing_file)" = /mnt/image ] || fail "loop devices: $(losetup)" """
# It is no part of any shutdown: only the last thing that systemd does ends it. It writes all the time, so the volume is not clean by
# itself.
BUSY = """
    cat > /etc/systemd/system/busy.service << 'END'
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'exec 3> /mnt/open; while :; do echo more >&3; sync /mnt/open; sleep 0.2; done'
END
    systemctl daemon-reload
    systemctl start busy.service
    sync"""
# What the server did when the machine went down.
BEFORE = """
    journalctl -b -1 -u {service} -o cat > /host/before""".format(service=SERVICE)


def begin(bench):
    install(bench, 5, "0 1 2 3")
    bench.run(SETTINGS, 120)


def stopped_in_order(bench):
    """Fails unless the server left the volume clean."""
    before = bench.read("before").decode(errors="replace")
    require("marked clean" in before, f"when the machine went down, the server said {before}")
    for words in ("resync", "corrected parity", "recorded no end"):
        has(bench, words, there=False)


def above(between, device):
    """The file system lies on what `between` makes of the volume, and is there after reboots."""
    def run(bench):
        begin(bench)
        bench.run(BEGIN + between.format(volume=DEVICE) + MOUNTED.format(device=device), 120)
        for _ in range(2):
            bench.reboot()
            bench.run(BEGIN + THERE.format(service=SERVICE) + BEFORE + "\nhealthy", 200)
            stopped_in_order(bench)
        return "mounted and clean after two reboots"
    return run


def nested(bench):
    """The mount above and its loop device end before the array's file system, and that before the server."""
    begin(bench)
    bench.run(BEGIN + MOUNTED.format(device=DEVICE) + INNER, 120)
    for _ in range(2):
        bench.reboot()
        bench.run(BEGIN + THERE.format(service=SERVICE) + INNER_IS_THERE + BEFORE + "\nhealthy", 200)
        stopped_in_order(bench)
    bench.run(BEGIN + """
        systemctl stop mnt-inner.mount mnt.mount
        check_fs ext4 """ + DEVICE, 120)
    return "both mounted and clean after two reboots"


def busy(bench):
    """The server goes on until systemd has ended what keeps the mount busy, and has unmounted it. By then the journal has ended, so the
    drives show that the array was left clean: nothing is repaired at the next start."""
    begin(bench)
    bench.run(BEGIN + MOUNTED.format(device=DEVICE) + BUSY, 120)
    bench.reboot()
    bench.run(BEGIN + THERE.format(service=SERVICE) + BEFORE + "\nhealthy", 200)
    before = bench.read("before").decode(errors="replace")
    words = f"the machine goes down while volume vol0 ({bench.node}0) is in use by the file system mounted at /mnt"
    require(words in before, f"when the machine went down, the server said {before}")
    for words in ("resync", "corrected parity"):
        has(bench, words, there=False)
    bench.run(BEGIN + """
        systemctl stop busy.service mnt.mount
        check_fs ext4 """ + DEVICE, 120)
    return "mounted again, and the array was left clean"


def cases():
    return [Case("shutdown", f"RAID 5 of 4: {name}", run, reboots=True, way="ublk") for name, run in (
        ("LVM on the array", above(LVM, "/dev/group/data")),
        ("LUKS on the array", above(LUKS, "/dev/mapper/safe")),
        ("a mount above the mount, by a loop device", nested),
        ("a mount that stays busy", busy))]
