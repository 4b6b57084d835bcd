#!/usr/bin/env bash
# Runs a command in which programs for 64-bit ARM run like this machine's own: the kernel starts QEMU's emulator of a processor for
# each of them.
#
# usage: scripts/emulated.sh COMMAND [ARGUMENT...]
#
# The kernel has to be told so once. Debian's packages do that for the whole machine (qemu-user-static with binfmt-support, or from
# Debian 13 on qemu-user-binfmt); then the command is simply run. Otherwise the kernel is told in a user namespace of the command's
# own, and nothing else on the machine notices. That takes root and Linux 6.7. Within the namespace users and files are as
# outside, but nothing can be mounted from a block device.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

list=/proc/sys/fs/binfmt_misc
name=qemu-aarch64
# The first 20 bytes of an ELF program, and which of their bits count:
#   0 magic number, 4 class (2: 64 bits), 5 byte order (1: little), 6 version 1, 7 ABI (any), 8 zeros,
#   16 type (2: at fixed addresses, 3: anywhere), 18 processor type (0xb7: 64-bit ARM)
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# Whether the kernel knows, and has opened the emulator already (F), so that it is found from any root folder.
is_told() { grep -qs '^enabled' "$list/$name" && grep -qs '^flags:.*F' "$list/$name"; }

tell() {
    mount -t binfmt_misc binfmt_misc "$list" &&
        printf ':%s:M::%s:%s:%s:F' "$name" "$magic" "$mask" "$emulator" >"$list/register"
}

# Waits until this process's users are those outside.
wait_for_users() {
    local -i tries
    for ((tries = 0; tries < 100; tries++)); do
        if read -r _ </proc/self/uid_map; then return; fi
        sleep 0.1
    done
    die "the user namespace has got no users within 10 s."
}

# in_own_namespace COMMAND...: has the users 0 to 65535 be the same within and without.
in_own_namespace() {
    local child status=0 file
    unshare --user "$root/scripts/emulated.sh" --with-users "$@" &
    child=$!
    trap 'kill "$child" 2>/dev/null || true; exit 130' INT TERM HUP
    until [[ $(readlink "/proc/$child/ns/user") != "$(readlink /proc/self/ns/user)" ]]; do
        kill -0 "$child" 2>/dev/null || die "no user namespace could be made: see above."
        sleep 0.05
    done
    for file in gid_map uid_map; do echo "0 0 65536" >"/proc/$child/$file"; done
    wait "$child" || status=$?
    exit "$status"
}

emulator=$(command -v "$name-static") || die "$name-static is missing; install qemu-user-static."
case ${1:?"name the command to run: scripts/emulated.sh COMMAND [ARGUMENT...]"} in
--with-users)
    wait_for_users
    exec unshare --mount "$root/scripts/emulated.sh" --tell "${@:2}"
    ;;
--tell)
    tell || die "the kernel cannot be told to emulate 64-bit ARM here (it takes Linux 6.7): install qemu-user-static and" \
        "binfmt-support, which tell it for the whole machine."
    exec "${@:2}"
    ;;
esac
if is_told; then exec "$@"; fi
[[ $EUID -eq 0 ]] || die "the kernel is not told how to emulate 64-bit ARM, and telling it takes root: run this as root."
in_own_namespace "$@"
