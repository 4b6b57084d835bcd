# Makes a volume a block device of the kernel, by its NBD client. Another way of attaching has to offer the same:
#
#   attach_init          loads what the kernel needs, once after booting
#   $attach_options      what `fullstripe serve` gets in addition
#   promised VOLUME      prints what the server promises: size, block size, and whether it flushes and trims
#   attach VOLUME NUMBER makes the volume a block device and puts its path into $device; fails if that fails
#   device_of NUMBER     prints that path, for later jobs
#   detach NUMBER        gives the device up; it is not in use any more
#   abandon NUMBER       makes all requests to a device fail whose server is gone; it may be in use
#   gone NUMBER          waits until an abandoned device can be attached again

attach_options="--nbd unix:/run/nbd.sock"

# By its path: the busybox of Debian 13 has an nbd-client of its own, which knows few of its options and comes before PATH.
nbd_client=/sbin/nbd-client

attach_init() { modprobe nbd nbds_max=4 max_part=8; }

uri() { echo "nbd+unix:///$1?socket=/run/nbd.sock"; }

promised() {
    echo "size $(nbdinfo --size "$(uri "$1")")"
    echo "block $(nbdinfo --json --no-content "$(uri "$1")" | sed -n 's/.*"block_size_minimum": \([0-9]*\).*/\1/p')"
    for ability in flush trim; do
        if nbdinfo --can $ability "$(uri "$1")"; then echo "$ability yes"; else echo "$ability no"; fi
    done
}

device_of() { echo "/dev/nbd$1"; }

# nbd-client does not ask the server for its block size.
attach() {
    device=$(device_of "$2")
    "$nbd_client" -unix /run/nbd.sock "$device" -name "$1" -block-size "$(promised "$1" | sed -n 's/^block //p')" \
        > /run/attach.log 2>&1 || fail "$1 does not become a block device: $(cat /run/attach.log)"
}

abandon() {
    "$nbd_client" -d "$(device_of "$1")" > /run/detach.log 2>&1 || fail "$(device_of "$1") is not given up: $(cat /run/detach.log)"
}

gone() {
    tries=0
    while "$nbd_client" -c "$(device_of "$1")" > /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "$(device_of "$1") is still attached after 10 s"
        sleep 0.1
    done
}

detach() { abandon "$1"; gone "$1"; }
