"""Linux md compared, in a virtual machine whose drives are limited alike: what either engine makes of the same drives."""
import os

from common import Aim, Column, Comparison, Missing
from devices import MEASURE, Guest

from interop.machine import copy_program, find_program

# So slow that an emulated processor is not the limit: the same number of commands per second for every drive.
LIMIT_IOPS = 500
DEPTH = 32
# A multiple of what two and three drives hold of a chunk.
SIZE_MIB = 384
SHARE, COMMANDS = "ours / md", "commands, ours / md"
FOLDER = "md"
# Level, drives, protection against write holes, and whether a drive has failed; and what is measured of each.
ARRAYS = [
    (0, 4, "off", False, ("read", "write")),
    (1, 2, "off", False, ("read", "write")),
    (10, 4, "off", False, ("read", "write")),
    (10, 4, "bitmap", False, ("write",)),
    (5, 4, "off", False, ("read", "write")),
    (5, 4, "log", False, ("write",)),
    (5, 4, "bitmap", False, ("write",)),
    (10, 4, "off", True, ("read", "write")),
    (5, 4, "off", True, ("read", "write")),
    (5, 4, "log", True, ("write",)),
]
BEGIN = """
    way=ublk
    . /guest.sh
    export MDADM_NO_UDEV=1 LD_LIBRARY_PATH=/host/{folder}/lib/x86_64-linux-gnu
    mdadm() {{ /host/{folder}/sbin/mdadm "$@"; }}
    drives="{drives}" """
OURS = """
    begin
    create {level} {size_mib}m "$drives" --write-hole {protection}
    serve "$drives" --no-auto-rebuild
    attach vol0 0
    if [ {failed} = yes ]; then fullstripe fail "$(drive 1)"; fi"""
OURS_ENDS = """
    detach 0
    stop "$(drive $drives)" > /dev/null"""
# Drives that are empty are in sync already. md's own metadata has the same three protections.
MD = """
    begin
    size=$(({size_mib} / {data_drives}))
    case {protection} in
        off) policy=resync ;;
        log) policy=ppl ;;
        bitmap) policy=bitmap ;;
    esac
    case {level} in
        0) options="--chunk=64" ;;
        1) options="--size=${{size}}M --consistency-policy=$policy --assume-clean" ;;
        10) options="--size=${{size}}M --chunk=64 --consistency-policy=$policy --assume-clean" ;;
        5) options="--size=${{size}}M --chunk=64 --layout=left-asymmetric --consistency-policy=$policy --assume-clean" ;;
    esac
    if [ $policy = bitmap ]; then options="$options --bitmap=internal --bitmap-chunk=64M"; fi
    modprobe raid{module}
    mdadm --create /dev/md0 --run --metadata=1.2 --level={level} --raid-devices={count} $options $(drive $drives) \\
        > /run/md 2>&1 || fail "mdadm makes no array: $(cat /run/md)"
    if [ {failed} = yes ]; then mdadm --fail /dev/md0 "$(drive 1)" > /run/md 2>&1; fi
    tries=0
    until [ "$(cat /sys/block/md0/md/sync_action 2> /dev/null || echo idle)" = idle ]; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fail "md synchronises: $(cat /proc/mdstat)"
        sleep 0.2
    done"""
MD_ENDS = """
    mdadm --stop /dev/md0 2> /run/md
    mdadm --zero-superblock $(drive $drives)"""
# Prints how many commands the drives have carried out: reads, writes, discards and flushes.
COUNTED = """
    commands() {{ cat /sys/block/nvme*/stat | awk '{{ sum += $1 + $5 + $12 + $16 }} END {{ print sum }}'; }}
    device={device}
    first=$(commands)
    {measure}
    echo "commands $(($(commands) - first))" """


class LimitedGuest(Guest):
    """The virtual machine, with a limit for every drive that can be switched on."""

    def begin(self):
        root = self.share() / FOLDER
        os.makedirs(root / "sbin")
        copy_program("mdadm", find_program("mdadm"), str(root))
        order = self.guest.qmp.order
        for number in range(4):
            order("object-add", **{"qom-type": "throttle-group", "id": f"limit{number}"})
            order("blockdev-add", driver="throttle", file=f"file{number}", discard="unmap",
                  **{"node-name": f"limited{number}", "throttle-group": f"limit{number}"})
            order("qom-set", path=f"/machine/peripheral/drive{number}", property="drive", value=f"limited{number}")

    def limit(self, iops):
        """Every drive carries out so many commands in a second; 0 for any number."""
        for number in range(4):
            self.guest.qmp.order("qom-set", path=f"/objects/limit{number}", property="limits", value={"iops-total": iops})


def measured(guest, engine, array, rw, seconds, limit_iops):
    """An array is made by an engine, measured on drives with this limit (0: none), and taken apart."""
    level, count, protection, failed, _ = array
    make, end, device = {"ours": (OURS, OURS_ENDS, "$(readlink -f /dev/fullstripe/vol0)"), "md": (MD, MD_ENDS, "/dev/md0")}[engine]
    words = {"level": level, "count": count, "protection": protection, "failed": "yes" if failed else "no",
             "module": {0: 0, 1: 1, 10: 10, 5: 456}[level], "size_mib": SIZE_MIB,
             "data_drives": {0: count, 1: 1, 10: count // 2, 5: count - 1}[level]}
    begin = BEGIN.format(folder=FOLDER, drives=" ".join(map(str, range(count))))

    def measure():
        guest.ready()
        guest.do(begin + make.format(**words))
        try:
            guest.limit(limit_iops)
            load = MEASURE.format(rw=f"rand{rw}", bs="4k", depth=DEPTH, seconds=seconds, more=f"--size={SIZE_MIB}m")
            printed = guest.do(begin + COUNTED.format(device=device, measure=load))
            figures = guest.figures(printed, f"rand{rw}")
        finally:
            guest.limit(0)
            guest.do(begin + end)
        commands = next(int(line.split()[1]) for line in printed.splitlines() if line.startswith("commands "))
        return {**figures, "commands": commands / figures["requests"]}
    return measure


def needs_mdadm():
    if not find_program("mdadm"):
        raise Missing("mdadm is not installed (apt: mdadm)")


def add_rows(table, options, limit_iops, aims):
    """A row for each array and each kind of load that is measured of it, with the aims that `aims(rw)` gives."""
    guest, seconds = LimitedGuest(), max(3, round(options.seconds))
    for array in ARRAYS:
        level, count, protection, failed, kinds = array
        for rw in kinds:
            protected = f", {protection}" if protection != "off" else ""
            name = f"RAID {level} of {count}{protected}{', a drive failed' if failed else ''}, {rw}"
            table.row(name, *aims(rw), **{engine: measured(guest, engine, array, rw, seconds, limit_iops) for engine in ("ours", "md")})


def comparison(options):
    needs_mdadm()
    table = Comparison("md", f"4 KiB random requests, queue depth {DEPTH}, by ublk and by md, in a virtual machine whose drives carry out "
                       f"{LIMIT_IOPS} commands a second each; chunk 64 KiB. Commands are the drives' for each request:", options, [
        Column("IOPS", lambda r: r["ours"]["iops"], 0),
        Column("md, IOPS", lambda r: r["md"]["iops"], 0),
        Column(SHARE, lambda r: r["ours"]["iops"] / r["md"]["iops"], 2),
        Column("commands", lambda r: r["ours"]["commands"], 2),
        Column("md, commands", lambda r: r["md"]["commands"], 2),
        Column(COMMANDS, lambda r: r["ours"]["commands"] / r["md"]["commands"], 2)])
    add_rows(table, options, LIMIT_IOPS,
             lambda rw: [Aim(SHARE, least=0.97)] + ([Aim(COMMANDS, most=1.0)] if rw == "write" else []))
    return table
