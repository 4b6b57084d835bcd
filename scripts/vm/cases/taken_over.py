"""A mounted device whose next server cannot take it over as it should: its memory does not suffice, it is killed meanwhile,
again and again, the device's node is missing, or there is no room for its name.

A server that asks the kernel to let a ublk device be taken over and then serves no queue of it cannot ask again on Linux before
6.15. So what may be missing has to be looked at before, and a server goes on where another one has begun.
"""


from ..case import Case
from .load import begin, compared, no_errors
from .recovered import ENDS, KILLED

DRIVES = "0 1 2 3"
MIB, MIB_PER_SECOND = 24, 1
KILLS = 20
# A server here has taken a device over about so long after its start.
TAKEN_OVER_AFTER_SECONDS = 2.0
# killed: ends the server; refused MEMORY WORDS...: fails unless a server with so much memory refuses to start, and says the words.
BEGINS = """
    members=$(drive {drives})
    before=$(device_of 0)
    killed() {{
        load_runs
        {end}
        until [ -e /run/serve.code ]; do sleep 0.1; done
        [ "$(cat /run/serve.code)" = {code} ] || fail "the server ended otherwise: $(cat /run/serve.log)"
        sleep 1
    }}
    refused() {{
        memory=$1
        shift
        ! fullstripe serve --nbd unix:/run/nbd.sock --memory $memory $members > /run/said 2>&1 || fail "it was served: $(cat /run/said)"
        grep -F "$*" /run/said || fail "it says: $(cat /run/said)"
    }}
    goes_on() {{
        [ "$(device_of 0)" = $before ] || fail "the volume was $before and is $(device_of 0) now"
        sync
        load_runs
    }}
"""
# Twice: what was refused once has changed nothing.
TOO_LITTLE = """
    killed
    refused 16m '/dev/ublkb0 of an earlier server would need 14.0 MiB of memory on each data thread, and each has 8 MiB for devices'
    refused 16m 'serve with --memory 29m or more'
    serve "{drives}"
    goes_on"""
# The kernel has been asked to begin when the server looks for the node. The second server begins where the first one ended.
NO_NODE = """
    killed
    number=$(cat /sys/class/ublk-char/ublkc0/dev)
    rm /dev/ublkc0
    refused 32m '/dev/ublkc0: No such file or directory'
    refused 32m '/dev/ublkc0: No such file or directory'
    mknod /dev/ublkc0 c ${{number%:*}} ${{number#*:}}
    serve "{drives}"
    goes_on"""
# /run has a file system of its own here, as on other machines, with no room in it.
NO_ROOM = """
    killed
    mkdir -p /run/fullstripe/devices
    echo FULLSTRIPE_UUID=another > /run/fullstripe/devices/${{before##*/}}
    mkdir /run/kept
    mount -t tmpfs -o size=64k tmpfs /run/kept
    mount --bind /run/kept /run/fullstripe/devices
    echo FULLSTRIPE_UUID=another > /run/fullstripe/devices/${{before##*/}}
    ! dd if=/dev/zero of=/run/kept/filled bs=4k 2> /run/dd.log || fail "there is no end of the room"
    serve "{drives}"
    goes_on
    grep "volume vol0 is served as $before, but without its name" /run/serve.log || fail "it says: $(cat /run/serve.log)"
    grep -q another /run/fullstripe/devices/${{before##*/}} || fail "the old file is lost"
    rm /run/kept/filled
    until grep "volume vol0, $before, has its name now" /run/serve.log; do sleep 0.5; done
    grep FULLSTRIPE_NAME=vol0 /run/fullstripe/devices/${{before##*/}}"""

# At any moment between the start of a server and a while after it serves.
KILLED_AGAIN = """
    killed
    served=0
    for moment in {moments}; do
        start_serving
        sleep $moment
        until [ -s /run/serve.pid ]; do sleep 0.1; done
        kill -9 $(cat /run/serve.pid) || fail "the server ended by itself: $(cat /run/serve.log)"
        until [ -e /run/serve.code ]; do sleep 0.1; done
        if grep -q '^serving' /run/serve.log; then served=$((served + 1)); fi
    done
    load_runs
    serve "{drives}"
    goes_on
    echo "$served of them served" """


def killed_again(bench):
    begin(bench, 5, DRIVES, "ext4", "", MIB, MIB_PER_SECOND)
    moments = [bench.random.uniform(0, 1.5 * TAKEN_OVER_AFTER_SECONDS) for _ in range(KILLS)]
    job = BEGINS + KILLED_AGAIN.replace("{moments}", " ".join(f"{moment:.2f}" for moment in moments))
    served = bench.run(job.format(drives=DRIVES, **KILLED), 180).splitlines()[-1]
    bench.run(ENDS.format(drives=DRIVES), 120)
    no_errors(bench)
    return f"{KILLS} servers killed, {served}, no error, " + compared(bench, "ext4", DRIVES, MIB)


def taken_over(script, then=""):
    def run(bench):
        begin(bench, 5, DRIVES, "ext4", "", MIB, MIB_PER_SECOND)
        job = BEGINS + script
        bench.run(job.format(drives=DRIVES, **KILLED), 120)
        bench.run(ENDS.format(drives=DRIVES) + then, 120)
        no_errors(bench)
        return "no error, " + compared(bench, "ext4", DRIVES, MIB)
    return run


def cases():
    name = "RAID 5 of 4, ext4: "
    unmounted = "\n    umount /run/fullstripe/devices /run/kept"
    return [
        Case("recovered", name + "too little memory, then enough", taken_over(TOO_LITTLE), way="ublk", needs_ublk=True),
        Case("recovered", name + "the node is missing, then there", taken_over(NO_NODE), way="ublk", needs_ublk=True),
        Case("recovered", name + f"killed {KILLS} times while it is taken over", killed_again, way="ublk"),
        Case("recovered", name + "no room for the name", taken_over(NO_ROOM, unmounted), way="ublk"),
    ]
