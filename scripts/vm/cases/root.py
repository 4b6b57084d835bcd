"""The root file system lies on an array that Linux md runs, and data on one of fullstripe's, as docs/install.md says.

A Debian that runs from a disk is moved to a RAID 1 that `fullstripe create` has made, beside a RAID 5 that fullstripe serves. From then on
the machine has no disk: its firmware, which knows nothing of RAID, finds the EFI partition on a drive of the array, and boots. A drive of
the root's array is pulled out, a new one takes its place, and the initramfs is made anew as an update of the kernel does it. Each time the
machine is down, the drives' records are read outside of it.
"""
import os
import shutil
import subprocess

from interop.requirement import require

from .. import image
from ..case import Case
from .package import FILES, MOUNTED_AT_BOOT, SAME_FILES, SERVICE, TEN_MINUTES, blocks, build, run
from .story import numbers_of

SECTION = "The root file system on an array"
# Two drives have to hold this Debian.
DRIVE_BYTES = 1 << 30
# The page's drives, and which of this machine's five stand for them. The kernel may give them other names at each boot.
PAGE_DATA = "/dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1"
DATA = ["nvme0n1", "nvme1n1", "nvme2n1"]
ROOT = {"nvme5n1": "nvme3n1", "nvme6n1": "nvme4n1"}
# Making an initramfs starts many hundred programs, which takes minutes in this machine.
INITRAMFS_SECONDS = 900
# What Debian's package of the kernel puts into place, with no more modules than this lane has, and a GRUB that does not wait. The
# initramfs gets few modules and weak compression, or it would take longer still; else it has what the packages want.
KERNEL = """
    cp /host/kernel/boot/* /boot
    cp -r /host/kernel/lib/modules /lib
    touch /boot/initrd.img-{version}
    printf 'MODULES=list\\nCOMPRESSLEVEL=1\\n' > /etc/initramfs-tools/conf.d/lane
    printf 'nvme\\next4\\nraid1\\n' > /etc/initramfs-tools/modules
    echo 'GRUB_TIMEOUT=0' > /etc/default/grub
    echo 'GRUB_CMDLINE_LINUX="console=ttyS0 panic=-1 quiet mitigations=off jobs=ttyS1"' >> /etc/default/grub"""
# The lane's folder, which is mounted by what boots from the disk.
LANE = """
    echo 'host /host 9p trans=virtio,version=9p2000.L,msize=262144 0 0' >> /mnt/etc/fstab"""
# What a package of a kernel runs when it is installed.
KERNEL_UPDATE = """
    rm /boot/initrd.img-{version}
    run-parts --exit-on-error --arg={version} --arg=/boot/vmlinuz-{version} /etc/kernel/postinst.d
    [ -s /boot/initrd.img-{version} ] || fail "the initramfs has not been made"
    grep -q 'root=/dev/md/root2' /boot/grub/grub.cfg || fail "$(cat /boot/grub/grub.cfg)" """
# md has the root's drives and no other, and fullstripe the others. {root} and {data} are drives' numbers, {running} is how many
# drives of the root's array work.
OWNERS = """
    source=$(findmnt -n -o SOURCE /)
    case $(readlink -f $source) in /dev/md*p2) ;; *) fail "the root is $source: $(cat /proc/mdstat)" ;; esac
    grep -A 1 '^md.* active raid1 ' /proc/mdstat | grep -q '\\[2/{running}\\]' || fail "$(cat /proc/mdstat)"
    pidof mdmon > /dev/null || fail "nothing keeps the metadata of md's array"
    for path in $(drive {root}); do
        grep -q "^md.* active raid1 .*${{path##*/}}" /proc/mdstat || fail "md has not $path: $(cat /proc/mdstat)"
        ! udevadm info "$path" | grep FULLSTRIPE_ || fail "fullstripe's rules have marked $path"
        ! ls -d /sys/block/${{path##*/}}/${{path##*/}}p* 2> /dev/null || fail "the kernel shows partitions of $path"
    done
    for path in $(drive {data}); do
        ! grep "${{path##*/}}" /proc/mdstat || fail "md has $path"
        udevadm info "$path" | grep -q '^E: FULLSTRIPE_ARRAY=data' || fail "$(udevadm info "$path")"
    done
    served=$(systemctl list-units --all --plain --no-legend 'fullstripe@*' | cut -d ' ' -f 1)
    [ "$served" = {service} ] || fail "started are $served"
    case $(readlink -f $(findmnt -n -o SOURCE /data)) in $node*) ;; *) fail "/data is $(findmnt /data)" ;; esac
    fullstripe status --check || fail "$(fullstripe status)" """
# Every command that takes drives refuses those of the root, in one sentence.
REFUSED = """
    refused() {{
        ! "$@" > /run/said 2>&1 || fail "$* was carried out: $(cat /run/said)"
        [ $(wc -l < /run/said) = 1 ] && grep -q 'the root file system of this machine lies on /dev/nvme' /run/said ||
            fail "$* was refused with other words: $(cat /run/said)"
    }}
    drives=$(drive {root})
    refused fullstripe serve $drives
    refused fullstripe create other --level 1 --force $drives
    refused fullstripe destroy root --yes $drives
    cp /etc/mdadm/mdadm.conf /etc/fullstripe/fullstripe.toml /run
    refused fullstripe enable system $drives
    cmp /run/mdadm.conf /etc/mdadm/mdadm.conf
    cmp /run/fullstripe.toml /etc/fullstripe/fullstripe.toml
    ! fullstripe attach root > /run/said 2>&1 || fail "a volume of md's was attached"
    grep -q 'there is no volume "root"' /run/said || fail "$(cat /run/said)" """
# Nobody is told to stop the array below the root, or to keep md from all arrays.
DOCTOR = """
    fullstripe doctor > /run/said || [ $? = 1 ]
    ! grep -e 'mdadm --stop' -e '-imsm' /run/said || fail "doctor would have the root's array stopped"
    grep -c 'the root file system of this machine lies on' /run/said"""
GOES_ON = """
    tries=0
    until grep -q '\\[2/1\\]' /proc/mdstat; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "md has not noticed that a drive is gone: $(cat /proc/mdstat)"
        sleep 1
    done
    echo more > /written; echo more > /data/written; sync"""
WRITTEN = """
    [ "$(cat /written /data/written)" = "more
more" ] || fail "what was written is not there" """
# md rebuilds slowly while anything else uses the drives, unless it is told how fast it may always be.
FAST = """
    echo 200000 > /proc/sys/dev/raid/speed_limit_min"""


def on_this_machine(commands):
    """The page's commands with the names of this machine's drives."""
    commands = commands.replace(PAGE_DATA, " ".join(f"/dev/{name}" for name in DATA))
    for page, here in ROOT.items():
        commands = commands.replace(page, here)
    return commands


def put_kernel(bench):
    """Has the guest's system get a kernel, as if its package were installed."""
    kernel, place = bench.system.machine.kernel, os.path.join(bench.share, "kernel")
    os.makedirs(os.path.join(place, "boot"))
    image.copy_modules(kernel, place)
    for name in ("vmlinuz", "config"):
        shutil.copy(os.path.join(kernel.folder, "boot", f"{name}-{kernel.version}"), os.path.join(place, "boot"))
    run(bench, KERNEL.format(version=kernel.version))


def begin(bench):
    """What the page's first section does, on three drives, with files on the array."""
    build(bench)
    bench.tree("tree", files=12)
    _, make, use = blocks(TEN_MINUTES)
    run(bench, "dpkg --install /host/deb/*-1_amd64.deb\n" + on_this_machine(make), 300)
    run(bench, use + FILES)


def records(bench, numbers):
    """What the records of drives say of their volume's state. The machine is down."""
    said = []
    for number in numbers:
        words = [bench.system.machine.program, "examine", os.path.join(bench.system.place, f"drive{number}")]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        said += [line.strip() for line in told.splitlines() if line.startswith("    state")]
    return said


def goes_down(bench, root, data, root_state="normal"):
    """Has the machine go down in order; the records of both arrays say that they are clean."""
    bench.go_down()
    for numbers, state in ((root, root_state), (data, "normal")):
        said = records(bench, numbers)
        require(len(said) == len(numbers) and all(line.startswith(f"state {state}, clean") for line in said),
                f"after an orderly shutdown the records of drives {numbers} say {said}")


def moved(bench):
    """Has the root on an array. Returns the numbers of its drives and of the data's."""
    begin(bench)
    put_kernel(bench)
    root, data = numbers_of(bench, *ROOT.values()), numbers_of(bench, *DATA)
    platform, make, copy, boots, _ = (on_this_machine(block) for block in blocks(SECTION))
    run(bench, platform + make, 150)
    run(bench, copy, 300)
    run(bench, LANE + "\n" + boots, INITRAMFS_SECONDS)
    goes_down(bench, root, data)
    bench.system.from_drives = True
    bench.boot()
    return root, data


def root_on_md(bench):
    root, data = moved(bench)

    def owners(drives, running):
        run(bench, MOUNTED_AT_BOOT + OWNERS.format(root=" ".join(map(str, drives)), data=" ".join(map(str, data)), running=running,
                                                   service=SERVICE) + SAME_FILES)

    owners(root, 2)
    run(bench, REFUSED.format(root=" ".join(map(str, root))) + DOCTOR)
    # The firmware tries drives in the order of their slots: it has booted from the first, and then has only the other one.
    gone, left = sorted(root)
    bench.unplug(gone)
    run(bench, GOES_ON)
    owners([left], 1)
    goes_down(bench, [left], data, "degraded")
    # A new drive is in the place of the one that was pulled out.
    os.truncate(os.path.join(bench.system.place, f"drive{gone}"), 0)
    bench.boot()
    owners([left], 1)
    added = blocks(SECTION)[-1].replace("/dev/nvme5n1", f"$(drive {gone})")
    run(bench, WRITTEN + FAST + "\n" + added, 300)
    owners(root, 2)
    run(bench, KERNEL_UPDATE.format(version=bench.system.machine.kernel.version), INITRAMFS_SECONDS)
    goes_down(bench, root, data)
    bench.boot()
    owners(root, 2)
    run(bench, WRITTEN + "\nfullstripe scrub vol0 --wait")
    return "booted from either drive of the root's array, also with one; both arrays clean after three shutdowns"


def cases():
    return [Case("root", "on an array of md's, data on fullstripe's", root_on_md, reboots=True, way="ublk", drive_bytes=DRIVE_BYTES)]
