"""An array that is in the settings file is there after a reboot, with what fstab mounts from it.

The machine runs a Debian with systemd and udev, into which `packaging/install.sh` puts what fullstripe's package will have:
units, rules of udev, a generator. Nothing is started by hand after the reboots.
"""
import os
import shutil

from interop.requirement import require

from ..case import Case

PACKAGING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../packaging")
SERVICE = "fullstripe@data.service"
HERE = "export FULLSTRIPE_SOCKET=/run/fullstripe/arrays/data/api.sock\n"
INSTALLED = """
    sh /host/packaging/install.sh /usr/sbin/fullstripe
    create {level} 384m "{drives}"
    mkdir -p /etc/fullstripe"""
# What udev does for every device at boot.
COLDPLUG = """
    udevadm control --reload
    udevadm trigger --action=add --subsystem-match=block --settle"""
SETTINGS = """
    cat > /etc/fullstripe/fullstripe.toml << END
[array.data]
uuid = "$(fullstripe examine $(drive 0) | sed -n 's/^  container: //p')"
memory = "32m"
degraded_after_s = 5
END""" + COLDPLUG + """
    systemctl daemon-reload
    systemctl start """ + SERVICE + """
    systemctl is-active """ + SERVICE
# {what} is what stands in fstab: a link, or the file system's UUID. A service that still waits for drives counts as started, so the
# device may come later.
MOUNTED = """
    tries=0
    until [ -b {device} ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "{device} is not there: $(systemctl status {service}; journalctl -b -u {service} -o cat)"
        sleep 0.1
    done
    mkfs.ext4 -q -E nodiscard {device}
    udevadm settle
    what={what}
    mkdir -p /mnt
    echo "$what /mnt ext4 defaults 0 2" >> /etc/fstab
    systemctl daemon-reload
    systemctl start mnt.mount
    mkdir /mnt/kept
    cp /host/tree/* /mnt/kept"""
THERE = """
    tries=0
    until systemctl is-active mnt.mount > /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "/mnt is not mounted: $(systemctl status mnt.mount {service}; journalctl -b -u {service} -o cat)"
        sleep 1
    done
    systemctl is-active {service} > /dev/null || fail "$(systemctl status {service})"
    same_files /host/tree /mnt/kept
    journalctl -b -u {service} -o cat > /host/journal"""


def has(bench, words, *, there):
    """Fails unless the server's messages since the boot have these words, or have them not."""
    journal = bench.read("journal").decode(errors="replace")
    require((words in journal) == there, f"the server says {journal}")


DEVICE = "/dev/fullstripe/vol0"
BY_UUID = "UUID=$(blkid -p -s UUID -o value {device})"


def install(bench, level, drives):
    shutil.copytree(PACKAGING, os.path.join(bench.share, "packaging"))
    bench.tree("tree", files=12)
    bench.run(INSTALLED.format(level=level, drives=drives), 120)


def mount(bench, what, device=DEVICE):
    bench.run(MOUNTED.format(what=what.format(device=device), device=device, service=SERVICE), 120)


def begin(bench, what=DEVICE):
    install(bench, 5, "0 1 2 3")
    bench.run(SETTINGS, 120)
    mount(bench, what)


# systemd has the server read its settings anew, and the server goes on.
RELOADED = """
    before=$(systemctl show -P MainPID {service})
    printf '[alerts]\\nexec = "true"\\n' >> /etc/fullstripe/fullstripe.toml
    systemctl reload {service}
    tries=0
    until journalctl -b -u {service} -o cat | grep 'alerts are sent as the settings say now$'; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "$(systemctl status {service}; journalctl -b -u {service} -o cat)"
        sleep 0.5
    done
    [ "$(systemctl show -P MainPID {service})" = "$before" ] || fail "the reload has started another server" """
# systemd has the reason from the package's drop-in, and nothing is written to disk.
NOT_HIBERNATED = """
    ! systemctl start systemd-hibernate.service 2> /dev/null || fail "the machine hibernates while an array is mounted"
    journalctl -b -u systemd-hibernate -o cat > /run/said
    grep -q "the machine cannot hibernate while volume vol0 is the block device ${node}0" /run/said || fail "$(cat /run/said)" """


# udev knows the volume by its UUID, as programs that ask for a serial number do.
IDENTIFIED = """
    serial=$(lsblk -dno SERIAL {device})
    fullstripe examine $(drive 0) | grep -F "uuid $serial" || fail "the serial number is '$serial': $(fullstripe examine $(drive 0))"
    udevadm info {device} | grep -x "E: ID_SERIAL=$serial" || fail "$(udevadm info {device})"
    [ "$(readlink -f /dev/disk/by-id/fullstripe-$serial)" = "$(readlink -f {device})" ] || fail "$(ls -l /dev/disk/by-id)"
    [ "$(lsblk -dno ROTA {device} | tr -d ' ')" = 0 ] || fail "the device is said to be rotational" """.format(device=DEVICE)


def reboot(what, times):
    """The file system is mounted at each of so many boots, and the array was stopped in order before. The machine does not hibernate
    meanwhile."""
    def run(bench):
        begin(bench, what)
        bench.run(RELOADED.format(service=SERVICE))
        for _ in range(times):
            bench.reboot()
            bench.run(HERE + THERE.format(service=SERVICE) + "\nhealthy", 150)
            for words in ("resync", "corrected parity"):
                has(bench, words, there=False)
        bench.run(IDENTIFIED + f"\nmemory_without_io $(systemctl show -P MainPID {SERVICE})" + NOT_HIBERNATED)
        return f"mounted and clean after each reboot ({times})"
    return run


def power_cut(bench):
    """The power goes while the file system is mounted and a file is written."""
    begin(bench)
    bench.run("sync; setsid dd if=/dev/zero of=/mnt/other bs=64k count=2048 conv=notrunc oflag=direct > /dev/null 2>&1 & sleep 2")
    bench.cut_power()
    bench.run(HERE + THERE.format(service=SERVICE), 150)
    has(bench, "its write-hole log has corrected parity", there=True)
    bench.run(HERE + "until fullstripe status --check; do sleep 1; done; fullstripe scrub vol0 --wait; healthy", 150)
    return "mounted after a power cut"


NO_UBLK = "/etc/systemd/system/fullstripe@data.service.d/no-ublk.conf"


def without_ublk(bench):
    """After a change of kernels there is no ublk, as far as a program can see: the same file system is mounted by the kernel's
    NBD client, and by ublk again when that is back."""
    begin(bench)
    bench.run(f"""
        mkdir -p $(dirname {NO_UBLK})
        printf '[Service]\\nExecStartPre=/bin/rm -f /dev/ublk-control\\n' > {NO_UBLK}""")
    for ublk, node in (("! [ -e /dev/ublk-control ]", "/dev/nbd"), ("[ -e /dev/ublk-control ]", "/dev/ublkb")):
        bench.reboot()
        bench.run(HERE + THERE.format(service=SERVICE) + f"""
            {ublk} || fail "ublk: $(ls /dev/ublk*)"
            case $(readlink -f {DEVICE}) in {node}*) ;; *) fail "{DEVICE} is $(readlink -f {DEVICE})" ;; esac
            healthy
            rm -f {NO_UBLK}""", 150)
    return "mounted by nbd without ublk, and by ublk again"


IS_BACK = """
    tries=0
    until fullstripe status --check; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "$(fullstripe status; journalctl -b -u fullstripe@data -o cat)"
        sleep 1
    done"""


def late_member(bench):
    """A member is not there when the array is started: it starts without it, and what is mounted is there. The member is
    taken back when it comes, and again after it was pulled out while the file system is in use."""
    begin(bench)
    bench.run("systemctl stop mnt.mount\nsystemctl stop " + SERVICE)
    bench.unplug(3)
    bench.run("systemctl start " + SERVICE)
    bench.run(HERE + "systemctl start mnt.mount\n" + THERE.format(service=SERVICE), 150)
    has(bench, "waits for its other drives: 3 are there", there=True)
    said = bench.run(HERE + "fullstripe status --check || true")
    require("degraded" in said, f"status says {said}")
    bench.plug(3)
    bench.run(HERE + IS_BACK, 150)
    bench.unplug(3)
    bench.run("cp /host/tree/0 /mnt/other; sync\n" + HERE + "until fullstripe status --check | grep degraded; do sleep 1; done", 60)
    bench.plug(3)
    bench.run(HERE + IS_BACK + "\n" + THERE.format(service=SERVICE) + "\nhealthy", 150)
    journal = bench.read("journal").decode(errors="replace")
    count = journal.count("has appeared: ")
    require(count == 2, f"{count} drives were taken back: {journal}")
    return "started without the drive that was missing, and took it back twice"


def watched(bench):
    """A process of which systemd hears nothing is started again, and nobody notices but by the pause."""
    begin(bench)
    bench.run("""
        mkdir -p /run/systemd/system/fullstripe@data.service.d
        printf '[Service]\\nWatchdogSec=6\\n' > /run/systemd/system/fullstripe@data.service.d/test.conf
        systemctl daemon-reload
        systemctl stop mnt.mount
        systemctl restart """ + SERVICE + """
        systemctl start mnt.mount
        sleep 15
        [ "$(systemctl show -P NRestarts """ + SERVICE + """)" = 0 ] || fail "an idle server was ended"
        kill -STOP $(systemctl show -P MainPID """ + SERVICE + """)""", 120)
    bench.run(HERE + THERE.format(service=SERVICE), 150)
    count = bench.run("""
        cp /host/tree/0 /mnt/other; sync
        systemctl show -P NRestarts """ + SERVICE)
    require(int(count.split()[-1]) >= 1, f"systemd says that it was started again {count} times")
    return "an idle server was left alone, one that stood still was started again"


# The first partition of the volume, which the kernel sees on both members too. The service counts as started while it waits for
# members, which md may have held a moment before.
PARTITIONED = """
    tries=0
    until [ -b /dev/fullstripe/vol0 ]; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "there is no device: $(journalctl -b -u """ + SERVICE + """ -o cat)"
        sleep 1
    done
    printf 'label: gpt\\nsize=200MiB\\n' | sfdisk -q /dev/fullstripe/vol0
    udevadm settle"""
# Without Intel's platform md takes IMSM arrays only if this is in the environment of the mdadm that udev runs.
MD_TAKES_IT = """
    echo 'SUBSYSTEM=="block", ENV{IMSM_NO_PLATFORM}="1"' > /etc/udev/rules.d/10-test.rules"""
# Everything that could have taken the members or what is on them.
ALONE = """
    ! grep '^md' /proc/mdstat || fail "md has taken members"
    for path in $(drive 0 1); do
        ! ls -d /sys/block/${path##*/}/${path##*/}p* 2> /dev/null || fail "the kernel shows partitions of $path:
            $(journalctl -b -o short-monotonic | grep -e udev -e "${path##*/}"; udevadm info "$path")"
        udevadm info "$path" | grep -q '^E: SYSTEMD_READY=0' || fail "$(udevadm info "$path")"
        udevadm info "$path" | grep -q '^E: FULLSTRIPE_ARRAY=data' || fail "$(udevadm info "$path")"
    done"""


def one_owner(bench):
    """md would take the array, and does while the settings do not name it; then it does not, also after reboots."""
    install(bench, 1, "0 1")
    bench.run(MD_TAKES_IT + COLDPLUG + """
        grep '^md' /proc/mdstat || fail "md does not take an array that is not in the settings: this case would prove nothing"
        IMSM_NO_PLATFORM=1 mdadm --stop --scan""")
    bench.run(SETTINGS + PARTITIONED, 120)
    mount(bench, BY_UUID, DEVICE + "-part1")
    for _ in range(2):
        bench.run(HERE + THERE.format(service=SERVICE) + ALONE, 150)
        bench.reboot()
    bench.run(HERE + THERE.format(service=SERVICE) + ALONE + "\nhealthy", 150)
    return "md took it without settings, and left it alone with them, and its partitions too"


# What stands beside the array of the settings: an array of md, on the other drives.
MD_HAS_ITS_OWN = """
    tries=0
    until grep -q '^md.* active .*raid5' /proc/mdstat; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "md has not its array: $(cat /proc/mdstat)"
        sleep 1
    done
    for path in $(drive 2 3 4); do
        grep -q "^md.*${path##*/}" /proc/mdstat || fail "md has not $path: $(cat /proc/mdstat)"
    done
    for path in $(drive 0 1); do
        ! grep -q "${path##*/}" /proc/mdstat || fail "md has $path: $(cat /proc/mdstat)"
    done"""
# The drives of md's array, and the drive that the root file system is on, are refused in words that say why.
REFUSED = """
    unset FULLSTRIPE_SOCKET
    ! fullstripe serve $(drive 2 3 4) > /run/said 2>&1 || fail "drives that md has are served"
    grep -q 'is in use by Linux md array md' /run/said || fail "drives of md are refused with other words: $(cat /run/said)"
    ! fullstripe create other --level 0 --size 8m /dev/vda $(drive 4) > /run/said 2>&1 || fail "the root's drive was taken"
    grep -q 'the root file system of this machine lies on /dev/vda, .*leave this array to Linux md' /run/said ||
        fail "the root's drive is refused with other words: $(cat /run/said)" """


def beside_md(bench):
    """An array that the settings do not name, as that of the root file system, is md's at boot, and the one beside it is not."""
    install(bench, 1, "0 1")
    bench.run(MD_TAKES_IT)
    bench.run(SETTINGS + "\ncreate_named system 5 256m '2 3 4'" + COLDPLUG, 120)
    mount(bench, DEVICE)
    for _ in range(2):
        bench.run(HERE + THERE.format(service=SERVICE) + MD_HAS_ITS_OWN + "\nhealthy", 150)
        bench.run(REFUSED)
        bench.reboot()
    bench.run(HERE + THERE.format(service=SERVICE) + MD_HAS_ITS_OWN + "\nhealthy", 150)
    return "md has its array and fullstripe has the other, also after two reboots"


# Mistakes everywhere but in the block of the array that is to be served.
FLAWED = """
    cat >> /etc/fullstripe/fullstripe.toml << END
[array.other]
uuid = "00000000:00000001:00000002:00000003"
shards = 99
[alerts]
mial = ["root"]
[arary.third]
END
    ! fullstripe config check > /run/said 2>&1 || fail "config check finds no mistake"
    grep -q 'array.other.shards cannot be 99' /run/said || fail "config check says $(cat /run/said)"
"""
SERVED_ALL_THE_SAME = """
    journalctl -b -t fullstripe-generator -o cat > /run/said
    for words in ':7: array.other.shards cannot be 99' ':9: alerts has no key "mial"' ':10: "arary" is no key of this file'; do
        grep -qF "$words" /run/said || fail "the generator does not say $words: $(cat /run/said)"
    done
    systemctl is-failed fullstripe@other || fail "the unit of the block with the mistake has not failed"
    journalctl -b -u fullstripe@other -o cat | grep -q ':7: array.other.shards cannot be 99' ||
        fail "$(journalctl -b -u fullstripe@other -o cat)"
    ! systemctl list-units --all | grep fullstripe@third || fail "a block with a wrong name was started"
"""
# The file is spoilt while the array is served and mounted.
NO_TOML = """
    echo '[array' >> /etc/fullstripe/fullstripe.toml
    systemctl daemon-reload
    tries=0
    until journalctl -b -t fullstripe-generator -o cat | grep -q ':11: this is not TOML .*; no array is started'; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || fail "the generator says $(journalctl -b -t fullstripe-generator -o cat)"
        sleep 1
    done
    systemctl is-active mnt.mount {service}
    echo more > /mnt/more; sync"""


def mistakes(bench):
    """What is wrong elsewhere in the settings file keeps no array from being served at boot."""
    begin(bench)
    bench.run(FLAWED)
    bench.reboot()
    bench.run(HERE + THERE.format(service=SERVICE) + SERVED_ALL_THE_SAME + "\nhealthy", 150)
    for words in (":9: alerts has no key", "the array sends no alerts", "array data is served all the same"):
        has(bench, words, there=True)
    bench.run(NO_TOML.format(service=SERVICE), 60)
    return "mounted after a reboot with three mistakes, which the journal names with their lines"


def cases():
    # CI runs the first one, and a boot takes the emulator most of a minute.
    reboots = [(DEVICE, DEVICE, 1), (BY_UUID, "a UUID", 2)]
    return [
        *(Case("boot", f"RAID 5 of 4, mounted by {shown}: reboots", reboot(what, times), reboots=True, way="ublk")
          for what, shown, times in reboots),
        Case("boot", "RAID 1 of 2 with partitions: md leaves it alone", one_owner, reboots=True, way="ublk"),
        Case("boot", "RAID 1 of 2 beside an array of md", beside_md, reboots=True, way="ublk"),
        Case("boot", "RAID 5 of 4: a power cut", power_cut, reboots=True, way="ublk"),
        Case("boot", "RAID 5 of 4: a member is missing, and comes late", late_member, reboots=True, way="ublk"),
        Case("boot", "RAID 5 of 4: a kernel without ublk", without_ublk, reboots=True, way="ublk", needs_ublk=True),
        Case("boot", "RAID 5 of 4: mistakes in the settings", mistakes, reboots=True, way="ublk"),
        Case("boot", "RAID 5 of 4: a server that stands still", watched, reboots=True, way="ublk"),
    ]
