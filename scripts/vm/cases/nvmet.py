"""The kernel's NVMe target exports a volume, and the same guest is the host that connects to it by NVMe over TCP.

Somebody else has a subsystem and a port, which stay as they are. A drive fails and the server is killed while the host
writes. Where the server stops in order, the export goes, and the next server of the settings file brings it back: the host goes on.
"""
import re

from interop.requirement import require

from .. import guest
from ..case import Case
from . import package
from .load import DEGRADED, LOAD_ENDS, longest_request_s, no_errors

MIB, MIB_PER_SECOND = 32, 2
# What jobs of these cases share. The drives are named before the host connects: then there is one more NVMe device.
COMMON = """
    nvmet=/sys/kernel/config/nvmet
    host=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a
    id=00000000-0000-0000-0000-00000000000a
    # refused WORDS COMMAND...: fails unless the program refuses, and says these words.
    refused() {
        words=$1
        shift
        ! fullstripe "$@" > /run/said 2>&1 || fail "$* was not refused: $(cat /run/said)"
        grep -qF "$words" /run/said || fail "$* says: $(cat /run/said)"
    }
    # there: everything in the target's configuration, but what files contain.
    there() { (cd $nvmet; find hosts subsystems ports | sort); }
    # loaded: whether the kernel has the target already.
    loaded() { [ -e /sys/module/nvmet ]; }
    load_modules() {
        modprobe nvmet-tcp
        [ -d $nvmet ] || mount -t configfs none /sys/kernel/config
        modprobe nvme-tcp
        ip link set lo up
    }
    # connect NQN HOST: connects, and tries again for ten minutes when the connection ends.
    connect() {
        nvme connect -t tcp -a ${at:-127.0.0.1} -s ${port:-4420} -n "$1" -q "$2" -I $id --reconnect-delay=1 --ctrl-loss-tmo=600
    }
    # remote NQN: prints the host's device, once it is there. The path to it has the same UUID, and is no device.
    remote() {
        tries=0
        while :; do
            for path in $(grep -lx "${1##*:}" /sys/block/nvme*/uuid); do
                path=${path%/uuid}
                if [ -b "/dev/${path##*/}" ]; then
                    echo "/dev/${path##*/}"
                    return
                fi
            done
            tries=$((tries + 1))
            [ $tries -lt 60 ] || fail "no device with UUID ${1##*:} has come"
            sleep 0.5
        done
    }
"""
# The kernel has no target yet, unless another case has loaded it; then it gets one, and somebody else uses it.
BEGIN = COMMON + """
    create 5 384m "0 1 2 3"
    serve "0 1 2 3"
    if ! loaded; then
        refused 'run `modprobe nvmet-tcp`' attach --nvmet tcp://127.0.0.1 --insecure
        modprobe nvmet-tcp
        refused 'configfs is not mounted' attach --nvmet tcp://127.0.0.1 --insecure
    fi
    load_modules
    mkdir $nvmet/subsystems/nqn.theirs $nvmet/ports/1
    echo tcp > $nvmet/ports/1/addr_trtype
    echo ipv4 > $nvmet/ports/1/addr_adrfam
    echo 127.0.0.1 > $nvmet/ports/1/addr_traddr
    echo 4421 > $nvmet/ports/1/addr_trsvcid
    ln -s $nvmet/subsystems/nqn.theirs $nvmet/ports/1/subsystems/nqn.theirs
    there > /run/before
    refused 'give --nvmet-host NQN for each host' attach --nvmet tcp://127.0.0.1
    refused 'port 1 of the NVMe target has the address tcp://127.0.0.1:4421 already' attach --nvmet tcp://127.0.0.1:4421 --insecure
    refused 'this machine does not have the address 10.9.8.7' attach --nvmet tcp://10.9.8.7 --insecure
    nc -l -p 4420 < /dev/zero > /dev/null 2>&1 & listener=$!
    sleep 1
    refused 'something else listens at tcp://127.0.0.1:4420' attach --nvmet tcp://127.0.0.1 --insecure
    kill $listener
    refused 'its device has to be one of ublk' attach vol0 --as nbd --nvmet tcp://127.0.0.1 --insecure
    [ -z "$(left_over)" ] || fail "a refused export has left $(left_over)"
    there | cmp - /run/before
    fullstripe attach vol0 --nvmet tcp://127.0.0.1 --nvmet-host $host > /run/attached
    cat /run/attached
    echo vol0 > /run/volume0
    grep -o 'nqn[.]2014[^ ]*' /run/attached > /run/nqn
    read -r nqn < /run/nqn
    grep -qF "nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $nqn" /run/attached
    fullstripe status | grep -qxF "tcp://127.0.0.1:4420 $nqn"
    fullstripe status --json | grep -qF '"any_host": false'
    refused 'vol0 is exported at tcp://127.0.0.1:4420 already' attach vol0 --nvmet tcp://127.0.0.1:4422 --insecure
    ! connect $nqn nqn.somebody-else > /run/said 2>&1 || fail "a host that was not named is let in"
    connect $nqn $host
    device=$(remote $nqn)
    [ "$(blockdev --getsize64 $device)" = $((384 << 20)) ] || fail "$device is not as long as the volume"
    grep -qx 'fullstripe *' /sys/block/${device##*/}/device/model || fail "its model is another"
    dd if=/host/content of=$device bs=256k oflag=direct
    echo 3 > /proc/sys/vm/drop_caches
    dd if=$device of=/host/found bs=256k count=16 iflag=direct
    dd if=$(device_of 0) of=/host/local bs=256k count=16 iflag=direct"""
# Prints the members before the host's device is there, which `drive` would ask too.
LOAD = COMMON + """
    read -r nqn < /run/nqn
    device=$(remote $nqn)
    make_fs ext4 $device
    mount_fs ext4 $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}
    fullstripe fail vol0:1""" + DEGRADED
KILLED = COMMON + """
    load_runs
    before=$(device_of 0)
    kill -9 $(cat /run/serve.pid)
    until [ -e /run/serve.code ]; do sleep 0.1; done
    sleep 3
    load_runs
    serve "0 2 3"
    load_runs
    [ "$(device_of 0)" = $before ] || fail "the volume was $before and is $(device_of 0) now"
    read -r nqn < /run/nqn
    fullstripe status | grep -qxF "tcp://127.0.0.1:4420 $nqn" """
ENDS = COMMON + LOAD_ENDS + """
    dmesg > /host/dmesg
    umount /mnt
    read -r nqn < /run/nqn
    check_fs ext4 $(remote $nqn)
    # What this machine uses stays exported, also when the server stops, and the next one takes it over.
    mount_fs ext4 $(device_of 0) /mnt
    refused 'volume vol0 is in use by the file system mounted at /mnt' detach vol0
    fullstripe stop --wait --leave-devices
    until [ -e /run/serve.code ]; do sleep 0.1; done
    there | grep -qx "subsystems/$nqn/namespaces/1" || fail "the export has gone: $(there)"
    serve "0 2 3"
    fullstripe status | grep -qxF "tcp://127.0.0.1:4420 $nqn"
    umount /mnt
    fullstripe detach vol0
    there | cmp - /run/before
    [ -z "$(ls /run/fullstripe/nvmet)" ] || fail "noted is still: $(ls /run/fullstripe/nvmet)"
    [ -z "$(left_over)" ] || fail "there still is $(left_over)"
    nvme disconnect -n $nqn
    # The export alone ends, also while this machine uses the device.
    fullstripe attach vol0 --nvmet tcp://127.0.0.1 --insecure
    mount_fs ext4 $(device_of 0) /mnt
    fullstripe detach vol0 --nvmet
    there | cmp - /run/before
    refused 'volume vol0 is not exported by NVMe over TCP' detach vol0 --nvmet
    umount /mnt
    [ -b $(device_of 0) ] || fail "the device has gone with the export"
    # A server that stops takes the export with it.
    fullstripe attach vol0 --nvmet tcp://127.0.0.1 --insecure
    connect $nqn nqn.somebody-else
    device=$(remote $nqn)
    dd if=$device of=/host/found bs=256k count=1 iflag=direct
    fullstripe stop --wait
    until [ -e /run/serve.code ]; do sleep 0.1; done
    [ "$(cat /run/serve.code)" = 0 ] || fail "the server ended with $(cat /run/serve.code): $(cat /run/serve.log)"
    there | cmp - /run/before
    nvme disconnect -n $nqn
    rm $nvmet/ports/1/subsystems/nqn.theirs
    rmdir $nvmet/ports/1 $nvmet/subsystems/nqn.theirs"""


# The settings export the volume from an address that the machine gets only later.
AT_BOOT = COMMON + """
    at=10.0.0.5
    nqn=$(cat /run/nqn 2> /dev/null) || :
    # said WORDS: waits until the server has said these words.
    said() {
        tries=0
        until grep -qF "$1" /run/serve.log; do
            tries=$((tries + 1))
            [ $tries -lt 60 ] || fail "the server has not said '$1': $(cat /run/serve.log)"
            sleep 0.5
        done
    }
"""
FIRST_BOOT = AT_BOOT + """
    create 5 384m "0 1 2 3"
    load_modules
    there > /run/before
    array_settings 'attach = "ublk"' "nvmet = \\"tcp://$at\\"" "nvmet_hosts = [\\"$host\\"]"
    serve_array data
    said 'this machine does not have the address 10.0.0.5'
    there | cmp - /run/before
    ip addr add $at/32 dev lo
    said 'the volumes are exported by NVMe over TCP now'
    fullstripe status | grep -o 'nqn[.]2014.*' > /run/nqn
    read -r nqn < /run/nqn
    echo vol0 > /run/volume0
    connect $nqn $host
    device=$(remote $nqn)
    make_fs ext4 $device
    mount_fs ext4 $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}"""
NEXT_BOOT = AT_BOOT + """
    load_runs
    fullstripe stop --wait
    until [ -e /run/serve.code ]; do sleep 0.1; done
    [ "$(cat /run/serve.code)" = 0 ] || fail "the server ended with $(cat /run/serve.code): $(cat /run/serve.log)"
    [ -z "$(left_over)" ] || fail "there still is $(left_over)"
    there | cmp - /run/before
    sleep 2
    load_runs
    serve_array data
    fullstripe status | grep -qxF "tcp://$at:4420 $nqn" || fail "it is not exported: $(cat /run/serve.log)"
    load_runs"""
LAST = AT_BOOT + LOAD_ENDS + """
    dmesg > /host/dmesg
    umount /mnt
    check_fs ext4 $(remote $nqn)
    nvme disconnect -n $nqn
    fullstripe stop --wait
    there | cmp - /run/before
    ip addr del $at/32 dev lo
    rm -r /etc/fullstripe"""

# The package's server, with what its unit allows it, exports the volume at an address of IPv6 and a port that only root may use.
SETTINGS = 'nvmet = "tcp://[::1]:420"\\nnvmet_hosts = ["nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a"]'
PACKAGED = COMMON + """
    at=::1
    port=420
    nqn=$(fullstripe status | grep -o 'nqn[.]2014.*')
"""
PACKAGED_BEGIN = PACKAGED + """
    fullstripe status | grep -qxF "tcp://[::1]:420 $nqn"
    ! connect $nqn nqn.somebody-else > /run/said 2>&1 || fail "a host that was not named is let in"
    connect $nqn $host
    device=$(remote $nqn)
    make_fs ext4 $device
    mkdir -p /data
    mount_fs ext4 $device /data
    put_files /host/tree /data/kept"""
PACKAGED_RESTARTED = PACKAGED + f"""
    load /data 64 2
    systemctl stop {package.SERVICE}
    ! there | grep / || fail "a server that has ended exports still"
    load_runs
    systemctl start {package.SERVICE}
    load_runs
    load_ends"""
PACKAGED_ENDS = PACKAGED + """
    same_files /host/tree /data/kept
    dmesg > /host/dmesg
    umount /data
    check_fs ext4 $(remote $nqn)
    nvme disconnect -n $nqn
    dpkg --remove fullstripe > /run/said 2>&1 || fail "$(cat /run/said)"
    ! there | grep / || fail "the package is gone, and the export is not" """
# A host that loses its connection says so.
PACKAGED_CALM = """
    ! dmesg | grep -iE 'nvme.*(error recovery|reconnect)' || fail "the host has lost its connection" """


def is_read_ahead(line):
    """Whether a line of the kernel tells of a read that nobody has asked for (REQ_RAHEAD). Such a read is not repeated when the
    connection ends, and nobody learns of its error."""
    found = re.search(r"op 0x0:\(READ\) flags 0x([0-9a-f]+)", line)
    return found is not None and int(found[1], 16) & 1 << 19 != 0


def at_boot(bench):
    """An export of the settings file comes when its address does, and a host goes on when the server is started anew."""
    bench.tree("tree", files=8)
    for script in (with_load(FIRST_BOOT), NEXT_BOOT, LAST):
        bench.run(script, 180)
    without_read_ahead(bench)
    no_errors(bench)
    return "exported when its address came; a host's ext4 went on after the server was stopped and started, no error"


def packaged(bench):
    """The server of the package exports a volume, and a host's file system goes on through an upgrade and a restart."""
    package.begin(bench, settings=SETTINGS, use=False)
    package.put_fio(bench)
    package.run(bench, PACKAGED_BEGIN)
    upgraded = package.run(bench, package.UPGRADED + PACKAGED_CALM + package.LAST_WORDS, 240)
    longest_s = longest_request_s(bench)
    require(longest_s < 2 * guest.SLOWNESS * guest.patience, f"a request took {longest_s:.1f} s: {upgraded}")
    package.run(bench, PACKAGED_RESTARTED, 240)
    package.run(bench, PACKAGED_ENDS)
    without_read_ahead(bench)
    no_errors(bench)
    return f"upgraded and restarted under a host's ext4, the longest request of the upgrade took {longest_s:.1f} s"


def without_read_ahead(bench):
    told = bench.read("dmesg").decode(errors="replace").splitlines()
    bench.write("dmesg", "\n".join(line for line in told if not is_read_ahead(line)).encode())


def exported(bench):
    """A host uses the volume while a member fails and the server is killed; afterwards nothing of the export is left."""
    bench.write("content", bench.bytes(4 << 20))
    bench.tree("tree", files=8)
    bench.run(BEGIN, 120)
    for name in ("found", "local"):
        require(bench.read(name) == bench.read("content"), f"{name} is not what the host has written")
    bench.run(with_load(LOAD), 120)
    bench.run(KILLED, 120)
    bench.run(ENDS, 180)
    no_errors(bench)
    return "a member failed and the server was killed under a host's ext4, no error; nothing else of the target was changed"


def with_load(script):
    return script.replace("{mib}", str(MIB)).replace("{rate}", str(MIB_PER_SECOND))


def cases():
    return [
        Case("nvmet", "RAID 5 of 4: a member fails, the server is killed", exported, way="ublk", needs_ublk=True),
        Case("nvmet", "RAID 5 of 4, of the settings file", at_boot, way="ublk", needs_ublk=True),
        Case("nvmet", "the package's server, by IPv6", packaged, reboots=True, way="ublk", needs_ublk=True),
    ]
