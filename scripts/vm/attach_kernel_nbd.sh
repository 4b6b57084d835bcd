# Makes a volume a block device by the kernel's NBD client, which the server itself connects: `fullstripe attach` asks it to.
# attach_nbd.sh says what these functions offer. There is no `abandon`: a device whose server is gone waits for the next one,
# which connects it again without being asked.

attach_options="--nbd unix:/run/nbd.sock"

attach_init() { [ -e /sys/module/nbd ] || modprobe nbd nbds_max=4 max_part=8; }

# What the server promises to all NBD clients holds for its devices too.
promised() { (. /attach_nbd.sh; promised "$1"); }

device_of() { readlink -f "/dev/fullstripe/$(cat "/run/volume$1")"; }

attach() {
    echo "$1" > "/run/volume$2"
    fullstripe attach "$1" --as nbd || fail "$1 does not become a block device"
    device=$(device_of "$2")
    [ -b "$device" ] || fail "$1 is no block device: $(ls -l /dev/fullstripe 2>&1)"
}

detach() { fullstripe detach "$(cat "/run/volume$1")"; }

# The server waits for that itself.
gone() { :; }

# left_over: prints what there still is of devices.
left_over() { ls -d /sys/block/nbd*/pid /dev/fullstripe/* 2> /dev/null || :; }
