#!/usr/bin/env bash
# Installs the packages that a fresh Debian lacks; only missing ones. Prints nothing if none is missing.
#
# usage: scripts/setup.sh [--dry-run] [build|lint|demo|test|wheel|vm|vm-long|vm-arm64|bench|deb|deb-arm64|fresh|prebuilt|arm64]
#
#   build   a linker and the C library's headers, for cargo, and make
#   lint    build, and what reads the scripts in Python for names that do not exist
#   demo    build, and the programs that the demonstration calls
#   test    demo, and the clients and file systems that the tests use (the default)
#   wheel   build, and what makes environments of Python
#   vm      test, and what `make test-vm` needs: an emulator of a PC, and what its guest runs
#   vm-long  vm, and what its long cases need: a second machine's DRBD, firmware, and fsx, which is no package and is built
#           from its crate into target/vm/tools
#   vm-arm64  vm-long without fsx, arm64, and what `make test-vm ARGS='--machine arm64'` needs: an emulator of an ARM machine, and what makes a Debian for it
#   bench   test, and the programs that the benchmarks compare fullstripe with
#   deb     what `make test-deb` needs to make a Debian and a package
#   deb-arm64  deb and arm64, and what making a Debian for 64-bit ARM needs beside them
#   fresh   what `make test-fresh` needs to make Debian systems in folders
#   prebuilt  build, and an emulator for programs of the other processor type
#   arm64   prebuilt, and a compiler that builds for 64-bit ARM, with the C library of that type
#
# --dry-run prints what would be installed and changes nothing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/scripts/progress.sh"

# One line per package: the smallest set it belongs to, its name in Debian, and a file or command that shows that it is
# there if it was not installed as a Debian package.
packages='\
arm64  gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
arm64  libc6-dev-arm64-cross /usr/aarch64-linux-gnu/include/stdio.h
bench  btrfs-progs mkfs.btrfs
bench  libisal-dev /usr/include/isa-l.h
bench  qemu-system-common qemu-storage-daemon
build  gcc         cc
build  libc6-dev   /usr/include/stdio.h
build  make        make
deb    binutils    readelf
deb-arm64 arch-test arch-test
deb    e2fsprogs   mkfs.ext4
deb    mmdebstrap  mmdebstrap
deb    util-linux  losetup
demo   fio         fio
demo   mdadm       mdadm
fresh  debootstrap debootstrap
lint   pyflakes3   pyflakes3
prebuilt qemu-user-static qemu-aarch64-static
test   busybox-static busybox
test   cpio        cpio
test   e2fsprogs   mkfs.ext4
test   fuse3       fusermount3
test   gdisk       sgdisk
test   jq          jq
test   libnbd-bin  nbdfuse
test   nbdkit      nbdkit
test   openssl     openssl
test   procps      pgrep
test   qemu-utils  qemu-io
test   user-mode-linux linux.uml
test   util-linux  losetup
test   valgrind    valgrind
test   xfsprogs    mkfs.xfs
vm     btrfs-progs mkfs.btrfs
vm     cryptsetup-bin cryptsetup
vm-long drbd-utils drbdsetup
vm     fakeroot   fakeroot
vm     kmod        depmod
vm     lvm2        lvm
vm     mmdebstrap mmdebstrap
vm-long ovmf        /usr/share/ovmf/OVMF.fd
vm     nbd-client  nbd-client
vm     nvme-cli    nvme
vm     qemu-system-x86 qemu-system-x86_64
vm     uidmap     newuidmap
vm-arm64 qemu-system-arm qemu-system-aarch64
wheel  python3-venv python3-venv'

# is_present PACKAGE SIGN: whether dpkg has installed it, or its sign is found (also in administrators' folders).
is_present() {
    if [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; then
        return 0
    fi
    if [[ $2 == /* ]]; then
        [[ -e $2 ]]
    else
        PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$2" >/dev/null
    fi
}

# Fills `missing` with the missing packages of the wanted set.
find_missing() {
    local set package sign
    missing=()
    while read -r set package sign; do
        if [[ " $wanted " == *" $set "* ]] && ! is_present "$package" "$sign"; then
            missing+=("$package")
        fi
    done <<<"$packages"
}

# as_root COMMAND...: runs a command as root, through sudo if necessary.
as_root() {
    if [[ $EUID -eq 0 ]]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif [[ -t 0 ]]; then
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

dry_run=
if [[ ${1:-} == --dry-run ]]; then
    dry_run=yes
    shift
fi
case ${1:-test} in
build) wanted="build" ;;
lint) wanted="build lint" ;;
demo) wanted="build demo" ;;
test) wanted="build demo test" ;;
vm) wanted="build demo test vm" ;;
vm-long) wanted="build demo test vm vm-long" ;;
vm-arm64) wanted="build demo test vm vm-long prebuilt arm64 deb deb-arm64 vm-arm64" ;;
bench) wanted="build demo test bench" ;;
deb) wanted="deb" ;;
deb-arm64) wanted="build prebuilt arm64 deb deb-arm64" ;;
fresh) wanted="fresh" ;;
prebuilt) wanted="build prebuilt" ;;
wheel) wanted="build wheel" ;;
arm64) wanted="build prebuilt arm64" ;;
*) die "unknown set '$1': use build, lint, demo, test, wheel, vm, vm-long, vm-arm64, bench, deb, deb-arm64, fresh, prebuilt or arm64." ;;
esac

find_missing
if [[ ${#missing[@]} -gt 0 ]]; then
    if [[ -n $dry_run ]]; then
        say "would install: ${missing[*]}"
        exit 0
    fi
    command -v apt-get >/dev/null ||
        die "these are missing and there is no apt-get to install them: ${missing[*]}." \
            "Install what your system calls them, then run this again."
    [[ $EUID -eq 0 ]] || command -v sudo >/dev/null ||
        die "these are missing: ${missing[*]}. Installing them needs root and there is no sudo:" \
            "run scripts/setup.sh as root."

    say "installing: ${missing[*]}"
    # Asks for the password before the progress line starts; "sudo -v" would ask even if no password is needed.
    if [[ $EUID -ne 0 && -t 0 ]]; then sudo true; fi
    # --no-remove: a conflict with something already installed is reported, never resolved by force.
    apt_options=(-y -q --no-install-recommends --no-remove -o DPkg::Lock::Timeout=120)
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    install_missing() {
        as_root apt-get update -q && as_root apt-get install "${apt_options[@]}" "${missing[@]}"
    }
    if ! waiting_for "installing" "$log" install_missing; then
        tail -n 20 "$log" >&2
        die "apt-get could not install: ${missing[*]} (the end of what it said is above)."
    fi
    find_missing
    [[ ${#missing[@]} -eq 0 ]] || die "apt-get succeeded, but still missing: ${missing[*]}."
elif [[ -n $dry_run ]]; then
    say "nothing to install"
fi

# The virtual machine's kernel is downloaded and not installed; apt only has to know it.
if [[ " $wanted " == *" vm "* && -z $dry_run && -z $(apt-cache pkgnames linux-image-6.12.) ]]; then
    log=${log:-$(mktemp)}
    trap 'rm -f "$log"' EXIT
    waiting_for "asking for packages" "$log" as_root apt-get update -q || {
        tail -n 20 "$log" >&2
        die "apt-get could not update its lists (the end of what it said is above)."
    }
fi

use_toolchain

# The only program that is built here: Debian has no package of it.
if [[ ${1:-test} == vm-long ]]; then
    fsx=(fsx 0.3.2 "$root/target/vm/tools")
    if [[ -z $dry_run ]]; then
        crate_program "${fsx[@]}"
    elif ! has_crate_program "${fsx[@]}"; then
        say "would build: fsx"
    fi
fi
