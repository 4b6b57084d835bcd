"""Memory runs short for ten minutes while a file system on an array is written to: nothing hangs.

When the kernel needs memory, it writes file data out to the array's device, and the server has to carry that out without
needing memory itself. Most of the memory is filled until as little is left as in a machine of 512 MiB. Then a program takes all
of the rest, again and again, until the kernel ends it. These cases run only when their group is named: --only memory.
"""
from interop.requirement import require

from ..case import Case
from .boot import HERE, IS_BACK, SERVICE, THERE, begin

# Each of three times: whole, with a drive missing, and while the drive that came back is rebuilt.
PRESSURE_SECONDS = 200
# What a machine of 512 MiB has left when it serves an array and is idle.
LEFT_MIB = 224
FULL = f"""
    echo 30 > /proc/sys/kernel/hung_task_timeout_secs
    mkdir -p /full
    mount -t tmpfs -o size=100% none /full
    have=$(sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo)
    dd if=/dev/zero of=/full/ballast bs=1M count=$((have / 1024 - {LEFT_MIB})) 2> /dev/null
    systemctl show -P MainPID {SERVICE} > /run/before
    dmesg -c > /dev/null"""
# Prints how many times the files were written, and how many seconds that took at most.
PRESSURE = f"""
    echo -1000 > /proc/$$/oom_score_adj
    end=$(($(date +%s) + {PRESSURE_SECONDS}))
    (while [ $(date +%s) -lt $end ]; do choom -n 1000 -- tail /dev/zero > /dev/null 2>&1 || :; done) &
    hog=$! count=0 longest=0
    while [ $(date +%s) -lt $end ]; do
        from=$(date +%s)
        rm -rf /mnt/busy
        cp -r /host/tree /mnt/busy
        dd if=/dev/zero of=/mnt/busy/more bs=1M count=48 conv=fsync 2> /dev/null
        rm /mnt/busy/more
        sync -f /mnt
        same_files /host/tree /mnt/busy
        took=$(($(date +%s) - from)) count=$((count + 1))
        [ $took -le $longest ] || longest=$took
    done
    wait $hog
    echo "$count $longest" """
SOUND = f"""
    [ "$(systemctl show -P MainPID {SERVICE})" = "$(cat /run/before)" ] || fail "the server was ended: $(dmesg | tail -50)"
    ! dmesg | grep -A 12 'blocked for more than' || fail "a task was blocked"
    ! dmesg | grep 'I/O error' || fail "the device gave errors"
    dmesg | grep -c 'Out of memory: Killed process .*(tail)' || fail "memory never ran out: this case would prove nothing" """


def pressed(bench):
    """Returns how many times the files were written, and the longest time in seconds."""
    printed = bench.run(PRESSURE, PRESSURE_SECONDS + 200)
    count, longest = (int(word) for word in printed.split()[-2:])
    require(count > 0, "nothing was written")
    return count, longest


def memory(bench):
    """Whole, with a drive missing, and during its rebuild."""
    begin(bench)
    bench.run(FULL, 120)
    rounds = [pressed(bench)]
    bench.unplug(3)
    rounds.append(pressed(bench))
    bench.run(HERE + "fullstripe status --check | grep degraded")
    bench.run(HERE + "fullstripe rate 2m")
    bench.plug(3)
    rounds.append(pressed(bench))
    bench.run(HERE + "fullstripe rate 0" + IS_BACK, 150)
    killed = int(bench.run(SOUND).split()[-1])
    bench.run("""
        umount /full
        echo 3 > /proc/sys/vm/drop_caches
        same_files /host/tree /mnt/busy
        """ + HERE + THERE.format(service=SERVICE) + "\nhealthy", 150)
    written, longest = sum(count for count, _ in rounds), max(longest for _, longest in rounds)
    return f"memory ran out {killed} times; files were written {written} times, in {longest} s at most"


def cases():
    return [Case("memory", "RAID 5 of 4, ext4: ten minutes", memory, reboots=True, way="ublk", by_name=True)]
