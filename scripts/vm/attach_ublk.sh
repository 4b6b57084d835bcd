# Makes volumes block devices of the kernel by ublk: the server makes a device of each volume when it starts, and removes it
# when it ends. attach_nbd.sh says what these functions offer. There is no `abandon`: a device whose server is gone waits for
# the next one.

attach_options="--nbd unix:/run/nbd.sock --ublk"

attach_init() { modprobe ublk_drv; }

# What the server promises to NBD clients holds for its devices too.
promised() { (. /attach_nbd.sh; promised "$1"); }

device_of() { readlink -f "/dev/fullstripe/$(cat "/run/volume$1")"; }

attach() {
    echo "$1" > "/run/volume$2"
    device=$(device_of "$2")
    [ -b "$device" ] || fail "$1 is no block device: $(ls -l /dev/fullstripe 2>&1)"
}

# The device stays as long as the server, and can be used again at once.
detach() { :; }
gone() { :; }
