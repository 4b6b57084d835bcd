"""A machine with systemd reboots in order, or loses its power, while an array is in use.

A power cut loses what the guest had not sent to its drives, no more: the emulated drives have no cache that loses anything
(`make test-real-cuts` is about drives that do). The units are the plainest that are right: systemd stops the file system
first, then the block device, then the server.
"""
import os

from interop.requirement import require

from ..case import Case
from .killed import ENOUGH, PIECES, SYNCED_ARE_THERE, WRITE, make_pieces

# What the lane's way of attaching offers is used by units here. The case starts them; they do not start at boot, so that the
# drives' records can be read before.
UNITS = """
    cat > /etc/systemd/system/fullstripe.service << 'END'
[Service]
Environment=FULLSTRIPE_SOCKET=/run/api.sock
ExecStart=/bin/sh -c '. /guest.sh; exec fullstripe serve $attach_options --memory 32m {names}'
END
    cat > /etc/systemd/system/vol0.service << 'END'
[Unit]
Requires=fullstripe.service
After=fullstripe.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '. /guest.sh; until fullstripe status; do sleep 0.2; done; attach vol0 0'
ExecStop=/bin/sh -c '. /guest.sh; detach 0'
END
    cat > /etc/systemd/system/mnt.mount << END
[Unit]
Requires=vol0.service
After=vol0.service
[Mount]
What=$(device_of 0)
Where=/mnt
Type={kind}
END
    # A power cut that comes soon would leave empty files, which systemd takes for masked units.
    sync -f /etc/systemd/system
    systemctl daemon-reload"""
# What was synced is noted outside of the machine.
NOTED = "/host/synced"
BEGIN = UNITS + """
    create {level} 384m "{drives}"
    systemctl start vol0.service
    make_fs {kind} $(device_of 0)
    systemctl start mnt.mount"""
# What the drives' records say, before anything uses them again.
RECORDS = """
    ! pidof fullstripe > /dev/null || fail "the server runs already"
    fullstripe examine $(drive {drives}) | grep '^    state' | sort -u"""
# Waits until the array has its redundancy again, and compares its copies or its parity.
REDUNDANT = """
    tries=0
    until fullstripe status --check; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "the array has not its redundancy back: $(fullstripe status)"
        sleep 1
    done
    fullstripe scrub vol0 --wait
    healthy"""
END = """
    systemctl stop mnt.mount
    check_fs {kind} $(device_of 0)
    systemctl stop vol0.service
    systemctl stop fullstripe.service
    journalctl -b -u fullstripe.service -o cat > /host/journal"""


def names(drives):
    """The names of drives that udev gives them at every boot."""
    return " ".join(f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_drive{number}" for number in drives.split())


def begin(bench, level, drives, kind):
    bench.run(BEGIN.format(level=level, drives=drives, kind=kind, names=names(drives)), 120)


def records(bench, drives):
    """The different lines in which the drives' records tell of the volume's state."""
    return [line.strip() for line in bench.run(RECORDS.format(drives=drives)).splitlines()]


def rebooted(level, drives, kind):
    """Files are written and not synced; after an orderly reboot the array is clean, and they are there."""
    def run(bench):
        bench.tree("tree", files=12)
        begin(bench, level, drives, kind)
        bench.run("mkdir /mnt/kept; cp /host/tree/* /mnt/kept")
        bench.reboot()
        said = records(bench, drives)
        require(all(", clean" in line for line in said), f"after an orderly reboot the records say {said}")
        found = bench.run("systemctl start mnt.mount\nhealthy\nsame_files /host/tree /mnt/kept" + END.format(kind=kind), 120)
        compared = next(line for line in found.splitlines() if line.endswith("files compared"))
        return f"clean, {compared}"
    return run


def protection(bench, level, said):
    """Fails unless the server did after the power cut what the array's protection against write holes asks for, and no more:
    a RAID 5 with a log has it replayed, an array without protection is resynchronised. Returns which."""
    journal = bench.read("journal").decode(errors="replace")
    resynced = all(words in journal for words in ("resync has begun", "resync finished"))
    replayed = "its write-hole log has corrected parity" in journal
    expected = (False, True) if level == 5 else (True, False)
    require((resynced, replayed) == expected, f"the records said {said}, and the server says {journal}")
    return "resynchronised" if resynced else "its log replayed"


def power_cut(level, drives, kind):
    """The power goes while files are being written and synced one by one."""
    def run(bench):
        make_pieces(bench, NOTED)
        begin(bench, level, drives, kind)
        bench.run(WRITE.format(noted=NOTED))
        bench.cut_power()
        synced = bench.read(os.path.basename(NOTED)).split()
        require(ENOUGH <= len(synced) < PIECES, f"{len(synced)} pieces were written: the power did not go in between")
        said = records(bench, drives)
        require(all(", dirty" in line for line in said), f"after a power cut the records say {said}")
        bench.run("systemctl start mnt.mount" + SYNCED_ARE_THERE.format(noted=NOTED) + REDUNDANT + END.format(kind=kind), 150)
        return f"dirty, {protection(bench, level, said)}, {len(synced)} synced files compared"
    return run


def cases():
    return [
        Case("reboots", "RAID 5 of 4, ext4: an orderly reboot", rebooted(5, "0 1 2 3", "ext4"), reboots=True),
        Case("reboots", "RAID 5 of 4, ext4: a power cut", power_cut(5, "0 1 2 3", "ext4"), reboots=True),
        Case("reboots", "RAID 1 of 2, ext4: a power cut", power_cut(1, "0 1", "ext4"), reboots=True),
    ]
