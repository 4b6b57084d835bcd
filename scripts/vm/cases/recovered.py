"""The server ends under a mounted file system that is being written to, and the next server takes its device over.

ublk devices, and NBD devices that the server has connected itself, outlive a server that is killed, and a server that is
stopped while its device is in use leaves it. Requests wait in the kernel, and those that were not answered go to the next
server. The load and the file system may notice nothing but a pause.

With NBD the kernel looks at requests that were sent and not answered only when their time is over: 30 s on a single connection,
and 30 s more than --deadline on several. They go on within 5 s then.
"""
import re

from interop.requirement import require

from .. import guest
from ..case import Case
from .load import LOAD_ENDS, begin, compared, longest_request_s, no_errors

# fio catches up after a pause, so it has to have enough for both.
MIB, MIB_PER_SECOND = 40, 2
# How long there is no server, for each time that it ends. At once, the kernel may not have noticed yet that it has ended.
PAUSES_SECONDS = (3, 0)
# When the kernel's NBD client looks at requests again, and how soon they go on then.
REQUEST_TIMEOUT_SECONDS, GO_ON_SECONDS = 30, 5
# The server's end is put in between.
END_OF_SERVER = """
    load_runs
    before=$(device_of 0)
    {end}
    until [ -e /run/serve.code ]; do sleep 0.1; done
    [ "$(cat /run/serve.code)" = {code} ] || fail "the server ended otherwise: $(cat /run/serve.log)"
    {then}
    sleep {pause}
    load_runs
    read -r reads _ _ _ writes _ _ _ waiting _ < /sys/block/${{before##*/}}/stat
    serve "{drives}" {again}
    [ "$(device_of 0)" = $before ] || fail "the volume was $before and is $(device_of 0) now"
    echo "$waiting wait" """
KILLED = {"end": "kill -9 $(cat /run/serve.pid)", "code": 137, "then": ":"}
# Without being told to leave the device, it does not stop.
STOPPED_UNDER_LOAD = """
    ! fullstripe stop --wait > /run/said 2>&1 || fail "the array was stopped under its file system"
    grep -q 'is in use by the file system mounted at /mnt; release it first: umount /mnt; with --leave-devices it waits' /run/said ||
        fail "it was refused with other words: $(cat /run/said)"
    fullstripe stop --wait --leave-devices"""
# Every drive's record says then that the volume is clean.
STOPPED = {"end": STOPPED_UNDER_LOAD, "code": 0, "then": """
    ! fullstripe destroy vol0 $members --yes > /run/said 2>&1 || fail "a volume whose device waits was destroyed"
    grep -q 'volume vol0 is still the block device' /run/said || fail "it was refused with other words: $(cat /run/said)"
    grep 'vol0 is in use' /run/serve.log || fail "the server does not say that its device is in use: $(cat /run/serve.log)"
    fullstripe examine $members > /run/examine
    ! grep '^    state' /run/examine | grep -qv ', clean' || fail "a volume is not clean: $(cat /run/examine)" """}
ENDS = LOAD_ENDS + """
    touch /mnt/written
    sync
    dmesg > /host/dmesg
    umount /mnt
    fullstripe scrub vol0 --wait
    healthy
    stop "$(drive {drives})"
    [ -z "$(left_over)" ] || fail "there still is $(left_over) after the server has ended in order" """


def recovered(level, drives, kind, options="", again="", how=KILLED, longest_seconds=None):
    """`options` are the first server's, `again` those of the others. No request may take longer than `longest_seconds`, if given."""
    def run(bench):
        begin(bench, level, drives, kind, options, MIB, MIB_PER_SECOND)
        waited = 0
        for pause in PAUSES_SECONDS:
            end = END_OF_SERVER.format(drives=drives, again=again, pause=pause, **how)
            said = bench.run(f"members=$(drive {drives})" + end, 90)
            waited += int(re.search(r"^(\d+) wait$", said, re.MULTILINE)[1])
            bench.run("sleep 1")
        require(waited > 0, "no request waited while there was no server")
        bench.run(ENDS.format(drives=drives), 120)
        no_errors(bench)
        found = compared(bench, kind, drives, MIB)
        longest = longest_request_s(bench)
        require(longest_seconds is None or longest <= longest_seconds * guest.patience,
                f"a request took {longest:.1f} s, {longest_seconds} s are allowed")
        pauses = " and ".join(f"{pause} s" for pause in PAUSES_SECONDS)
        return f"{pauses} without a server, {waited} requests waited, the longest {longest:.1f} s, no error, {found}"
    return run


def cases():
    # The timeout is the kernel's and passes as on a real machine; what the server does after it does not.
    bound = REQUEST_TIMEOUT_SECONDS + GO_ON_SECONDS * guest.SLOWNESS
    two_connections = recovered(10, "0 1 2 3", "xfs", "--shards 2 --deadline 5", "--deadline 5", longest_seconds=5 + bound)
    return [
        Case("recovered", "RAID 5 of 4, ext4: killed", recovered(5, "0 1 2 3", "ext4"), way="ublk"),
        Case("recovered", "RAID 5 of 4, ext4: stopped", recovered(5, "0 1 2 3", "ext4", how=STOPPED), way="ublk"),
        Case("recovered", "RAID 10 of 4, xfs, 2 shards: killed", recovered(10, "0 1 2 3", "xfs", "--shards 2"), way="ublk"),
        Case("recovered", "RAID 5 of 4, ext4, 3 shards, then 1: killed", recovered(5, "0 1 2 3", "ext4", "--shards 3", "--shards 1"), way="ublk"),
        Case("recovered", "RAID 5 of 4, ext4: killed", recovered(5, "0 1 2 3", "ext4", longest_seconds=bound), way="kernel_nbd"),
        Case("recovered", "RAID 5 of 4, ext4: stopped", recovered(5, "0 1 2 3", "ext4", how=STOPPED), way="kernel_nbd"),
        Case("recovered", "RAID 10 of 4, xfs, 2 shards: killed", two_connections, way="kernel_nbd"),
    ]
