# Makes volumes block devices of the kernel by ublk: the server is told to make and to remove them. attach_nbd.sh says what
# these functions offer. There is no `abandon`: a device whose server is gone waits for the next one, which takes it over.

attach_options="--nbd unix:/run/nbd.sock"

attach_init() { modprobe ublk_drv; }

# What the server promises to NBD clients holds for its devices too.
promised() { (. /attach_nbd.sh; promised "$1"); }

device_of() { readlink -f "/dev/fullstripe/$(cat "/run/volume$1")"; }

attach() {
    echo "$1" > "/run/volume$2"
    fullstripe attach "$1" --as ublk || fail "$1 does not become a block device"
    device=$(device_of "$2")
    [ -b "$device" ] || fail "$1 is no block device: $(ls -l /dev/fullstripe 2>&1)"
}

detach() { fullstripe detach "$(cat "/run/volume$1")"; }

# The device can be made again at once.
gone() { :; }

# left_over: prints what there still is of devices.
left_over() { ls -d /dev/ublkb* /dev/fullstripe/* 2> /dev/null || :; }
