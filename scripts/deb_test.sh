#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian package in a fresh Debian 12 and a fresh Debian 13, and looks at everything it leaves.
#
# usage: scripts/deb_test.sh [--architecture arm64] [PROGRAM]     (default: the release binary for this machine's processor type)
#
# With --architecture arm64 the package is the one for 64-bit ARM. There is only a Debian 12, of that type too, and each of its programs
# runs in an emulator (emulated.sh), which takes many minutes. The package is also compared with this machine's own, and its program with this
# machine's (deb_arm64.sh).
#
# Each Debian is a folder made by mmdebstrap, once, and kept as an archive in target/deb. No systemd runs in it: programs in the
# place of systemctl, udevadm and update-initramfs write down how the package's scripts call them, so nothing can be started
# without being seen. A device in use is a loop device that is written down as one of fullstripe's. `make test-vm
# ARGS='--long --only package'` does the same with a real systemd, and a mounted array.
#
# Needs root, for chroot and mounts, which are in namespaces of their own. Ends with 'N passed, 0 failed', or at the first check
# that fails.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

suites=(bookworm trixie)
packages=man-db,passwd,zsh,fish
settings=/etc/fullstripe/fullstripe.toml
passed=0
# The Debian of the present checks.
suite=

passed() {
    passed=$((passed + 1))
    say "holds${suite:+ in $suite}: $*"
}

# is WHAT FOUND WANTED: both texts are the same, or the test ends.
is() {
    [[ $2 == "$3" ]] || die "$1: found"$'\n'"$2"$'\n'"and wanted"$'\n'"$3"
    passed "$1"
}

# has WHAT TEXT PART: the text has this part.
has() {
    [[ $2 == *"$3"* ]] || die "$1: '$3' is not in"$'\n'"$2"
    passed "$1"
}

# Everything in the Debian is run by this.
within() { chroot "$place" env -i PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }

# fails TEXT-FILE COMMAND...: the command fails; what it said is in the file.
fails() {
    local file=$1
    shift
    if "$@" >"$file" 2>&1; then die "'$*' should have failed, and said: $(<"$file")"; fi
}

# calls: prints what the package's scripts have called since the last time.
calls() {
    cat "$place/calls"
    : >"$place/calls"
}

# Prints the path of an archive of the Debian.
base() {
    local archive=$store/$suite-${packages//,/-}.tar mirror
    if [[ $architecture != "$(own_architecture)" ]]; then archive=${archive%.tar}-$architecture.tar; fi
    if [[ ! -e $archive ]]; then
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
        [[ -n $mirror ]] || die "apt does not say where Debian's packages come from: run apt-get update first."
        say "making Debian ($suite for $architecture, once)"
        mmdebstrap --quiet --mode=root --variant=essential --architectures="$architecture" --include="$packages" "$suite" \
            "${archive%.tar}.new.tar" "$mirror" >"$scratch/said" 2>&1 ||
            die "no Debian could be made: $(tail -n 20 "$scratch/said")"
        mv "${archive%.tar}.new.tar" "$archive"
    fi
    printf '%s\n' "$archive"
}

# Puts programs in the place of those that the package's scripts call.
put_recorders() {
    local name
    for name in systemctl udevadm update-initramfs; do
        printf '#!/bin/sh\necho "%s $*" >> /calls\n' "$name" >"$place/usr/local/sbin/$name"
    done
    # Nothing is active, until the file /active is there.
    # shellcheck disable=SC2016  # the recorder expands it
    echo 'if [ "$1" = is-active ]; then [ -e /active ]; fi' >>"$place/usr/local/sbin/systemctl"
    chmod 755 "$place"/usr/local/sbin/*
    : >"$place/calls"
    # What shows that systemd and udev run.
    mkdir -p "$place/run/systemd/system" "$place/run/udev"
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$place/run/udev/control"
}

make_place() {
    mkdir "$place"
    tar -C "$place" -xf "$(base)" --exclude='./dev/*'
    mount -t proc proc "$place/proc"
    mount --rbind /sys "$place/sys"
    mount --rbind /dev "$place/dev"
    put_recorders
}

build() { DEB_REVISION=$1 "$root/packaging/deb.sh" "$program" "$2"; }

check_build() {
    local old=$scratch/old
    first=$(build 1 "$scratch/one")
    second=$(build 2 "$scratch/one")
    cmp "$first" "$(build 1 "$scratch/other")" || die "two builds of the package differ."
    passed "two builds give the same bytes"
    has "docs/install.md names the package" "$(<"$root/docs/install.md")" "apt install ./$(basename "$first")"
    mkdir "$old"
    cp -r "$root"/{packaging,Cargo.toml,CHANGELOG.md,LICENSE-MIT} "$old/"
    sed -i 's/^oldest_glibc=.*/oldest_glibc=2.17/' "$old/packaging/deb.sh"
    fails "$scratch/said" env SOURCE_DATE_EPOCH=1 "$old/packaging/deb.sh" "$program" "$old"
    has "a program that needs a newer C library is refused" "$(<"$scratch/said")" "of the C library, but Debian 12 has 2.17"
    fails "$scratch/said" "$root/packaging/deb.sh" "$root/Makefile" "$old"
    has "what is no program is refused" "$(<"$scratch/said")" "is not a program"
}

check_files() {
    local wanted
    wanted="755 /usr/bin/fullstripe
755 /usr/lib/systemd/system-generators/fullstripe-generator
755 /usr/lib/systemd/system-shutdown/fullstripe
755 /usr/share/initramfs-tools/hooks/fullstripe"
    is "what can be run" "$(listed -perm 755)" "$wanted"
    wanted="644 /usr/lib/systemd/system/fullstripe@.service
644 /usr/lib/systemd/system/systemd-hibernate.service.d/fullstripe.conf
644 /usr/lib/systemd/system/systemd-hybrid-sleep.service.d/fullstripe.conf
644 /usr/lib/systemd/system/systemd-suspend-then-hibernate.service.d/fullstripe.conf
644 /usr/lib/sysusers.d/fullstripe.conf
644 /usr/lib/udev/rules.d/59-fullstripe-devices.rules
644 /usr/lib/udev/rules.d/62-fullstripe-members.rules
644 /usr/share/bash-completion/completions/fullstripe
644 /usr/share/doc/fullstripe/changelog.Debian.gz
644 /usr/share/doc/fullstripe/changelog.gz
644 /usr/share/doc/fullstripe/copyright
644 /usr/share/fish/vendor_completions.d/fullstripe.fish
644 /usr/share/lintian/overrides/fullstripe
644 /usr/share/zsh/vendor-completions/_fullstripe"
    is "what can be read, beside manual pages" "$(listed ! -perm 755 ! -path '*/man1/*')" "$wanted"
    is "files are as the package's sums say" "$(within dpkg --verify fullstripe)" ""
    wanted=$(sed -n 's/^version = "\(.*\)"/fullstripe \1/p' "$root/Cargo.toml" | head -n 1)
    has "the program runs" "$(within fullstripe --version)" "$wanted"
    has "both licences are named" "$(<"$place/usr/share/doc/fullstripe/copyright")" "License: Expat or Apache-2.0"
}

# listed CONDITION...: modes and paths of the package's files that find chooses.
listed() {
    within dpkg -L fullstripe | while read -r path; do
        within find "$path" -maxdepth 0 -type f "$@" -user root -group root -printf '%m %p\n'
    done | sort -k 2
}

check_manual() {
    local page pages=0 said
    for page in "$place"/usr/share/man/man1/fullstripe*.1.gz; do
        page=${page#"$place"}
        said=$(within env MANWIDTH=80 man --warnings -l "$page" 2>&1 >"$scratch/page")
        [[ -z $said && -s $scratch/page ]] || die "man says of $page: $said"
        within lexgrog "$page" >"$scratch/said" || die "whatis cannot read $page: $(<"$scratch/said")"
        pages=$((pages + 1))
    done
    [[ $pages -gt 20 ]] || die "there are only $pages manual pages."
    passed "$pages manual pages render without warnings"
}

check_completions() {
    # shellcheck disable=SC2016  # the shell in the Debian expands it
    has "bash completes" "$(within bash -c '. /usr/share/bash-completion/completions/fullstripe
        words=$(complete -p fullstripe); function=${words#*-F }; function=${function%% *}
        COMP_WORDS=(fullstripe doc) COMP_CWORD=1 COMP_TYPE=9; $function fullstripe doc fullstripe; echo "${COMPREPLY[*]}"')" doctor
    # shellcheck disable=SC2016
    has "zsh has the completion" "$(within zsh -c 'autoload -Uz compinit; compinit -u -D; echo $_comps[fullstripe]')" fullstripe
    has "fish completes" "$(within fish -c 'complete -C "fullstripe doc"')" doctor
}

# Nothing of fullstripe runs in this namespace of processes.
nothing_runs() {
    local process
    for process in "$place"/proc/[0-9]*; do
        # A program that is emulated is the second word of its emulator's.
        if { readlink "$process/exe" && tr '\0' '\n' <"$process/cmdline" | sed -n 2p; } | grep -q '/fullstripe\( (deleted)\)\?$'; then
            die "$(tr '\0' ' ' <"$process/cmdline") runs, and nobody has started it."
        fi
    done
    passed "nothing runs"
}

check_install() {
    within dpkg -i /one/"$(basename "$first")" >"$scratch/said" 2>&1 || die "the package cannot be installed: $(<"$scratch/said")"
    is "systemd and udev read what is new, no more" "$(calls)" "systemctl daemon-reload
udevadm control --reload"
    nothing_runs
    is "there is a group for those who may look, without members" "$(within getent group fullstripe | cut -d : -f 1,4)" "fullstripe:"
    is "no settings are made" "$(within find /etc/fullstripe /var/lib/fullstripe 2>/dev/null)" ""
}

# An array on files, which the settings name.
make_array() {
    local drives=(/srv/d0.img /srv/d1.img) uuid
    within truncate -s 64M "${drives[@]}"
    within fullstripe create vol0 --level 1 "${drives[@]}" >"$scratch/said"
    uuid=$(within fullstripe examine /srv/d0.img | sed -n 's/^  container: //p')
    within mkdir -p /etc/fullstripe /var/lib/fullstripe/arrays/x
    printf '[array.data]\nuuid = "%s"\n' "$uuid" >"$place$settings"
    sums=$(within sha256sum "${drives[@]}")
}

check_upgrade() {
    : >"$place/active"
    within dpkg -i /one/"$(basename "$second")" >"$scratch/said" 2>&1 || die "the package cannot be upgraded: $(<"$scratch/said")"
    has "a served array is left alone, and the user told" "$(<"$scratch/said")" "'fullstripe upgrade' switches"
    is "with an array the initramfs is renewed, and nothing is stopped or started" "$(calls)" "systemctl daemon-reload
udevadm control --reload
update-initramfs -u -k all
systemctl is-active --quiet fullstripe@data.service"
}

# Whether this is not in a user namespace.
has_all_users() { grep -q '^ *0 *0 *4294967295$' /proc/self/uid_map; }

check_refusal() {
    local loop
    if ! has_all_users; then
        say "left out: no file system can be mounted in a user namespace, so the refused removal is not tried here"
        return
    fi
    within truncate -s 16M /srv/other.img
    mkfs.ext4 -q "$place/srv/other.img"
    if ! loop=$(losetup --find --show "$place/srv/other.img"); then
        say "left out: this machine has no loop device, so the refused removal is not tried here"
        return
    fi
    mkdir -p "$place/run/fullstripe/devices"
    printf 'FULLSTRIPE_NAME=vol0\n' >"$place/run/fullstripe/devices/$(basename "$loop")"
    mount "$loop" "$place/mnt"
    fails "$scratch/said" within dpkg --remove fullstripe
    has "a removal is refused, and the user of the device named" "$(<"$scratch/said")" \
        "volume vol0 ($loop) is in use by the file system mounted at /mnt; release it first: umount /mnt"
    is "the package stays" "$(within dpkg-query -W -f '${db:Status-Status}' fullstripe)" installed
    is "nothing was stopped" "$(calls)" ""
    umount "$place/mnt"
    losetup --detach "$loop"
}

check_removal() {
    within dpkg --remove fullstripe >"$scratch/said" 2>&1 || die "the package cannot be removed: $(<"$scratch/said")"
    is "servers are stopped in order, and the initramfs renewed" "$(calls)" "systemctl stop fullstripe@*.service
systemctl daemon-reload
udevadm control --reload
update-initramfs -u -k all"
    [[ -e $place$settings && ! -e $place/usr/bin/fullstripe ]] || die "the program should be gone, and the settings stay."
    passed "the settings stay"
    within mkdir -p /var/lib/fullstripe/backups
    within touch /var/lib/fullstripe/backups/kept
    within dpkg --purge fullstripe >"$scratch/said" 2>&1 || die "the package cannot be purged: $(<"$scratch/said")"
    has "backups are kept, and the user told" "$(<"$scratch/said")" "/var/lib/fullstripe/backups is kept"
    is "nothing else is left" "$(within find / -xdev -name '*fullstripe*' | sort)" "/var/lib/fullstripe"
    is "no drive is touched" "$(within sha256sum /srv/d0.img /srv/d1.img)" "$sums"
}

# Looks for mistakes that Debian's own tool knows, where it is installed.
check_lintian() {
    if ! command -v lintian >/dev/null; then
        say "left out: lintian is not installed, so the package is not checked by it"
        return
    fi
    is "lintian finds nothing" "$(lintian --allow-root --fail-on none "$first" 2>&1)" ""
}

check_in_debian() {
    make_place
    mkdir "$place/one"
    cp "$first" "$second" "$place/one/"
    check_install
    check_files
    check_manual
    check_completions
    if [[ $architecture != "$(own_architecture)" ]]; then check_program; fi
    make_array
    check_upgrade
    rm "$place/one"/*.deb
    rmdir "$place/one"
    check_refusal
    check_removal
}

inside() {
    trap 'exit 130' INT TERM HUP
    check_build
    check_lintian
    if [[ $architecture != "$(own_architecture)" ]]; then check_contents; fi
    for suite in "${suites[@]}"; do
        place=$scratch/$suite
        check_in_debian
    done
    echo "$passed passed, 0 failed"
}

# shellcheck disable=SC2317  # called at the end, whatever ends it
clean_up() {
    losetup --list --noheadings --raw --output NAME,BACK-FILE | grep -F "$scratch/" | while read -r device _; do
        losetup --detach "$device" || true
    done || true
    rm -rf --one-file-system "$scratch"
}

store=${CARGO_TARGET_DIR:-$root/target}/deb
if [[ ${1:-} == --inside ]]; then
    architecture=$2
    program=$3
    scratch=$4
    # shellcheck source=scripts/deb_arm64.sh
    if [[ $architecture != "$(own_architecture)" ]]; then source "$root/scripts/deb_arm64.sh"; fi
    inside
    exit
fi

[[ $EUID -eq 0 ]] || die "a Debian in a folder takes root: run this as root."
architecture=$(wanted_architecture)
enter=(unshare --mount --pid --fork --kill-child)
needs=deb
if [[ ${1:-} == --architecture ]]; then
    architecture=$(wanted_architecture "$1" "${2:-}")
    shift 2
fi
if [[ $architecture != "$(own_architecture)" ]]; then
    enter=("$root/scripts/emulated.sh" "${enter[@]}")
    needs=deb-$architecture
    if [[ $# -eq 0 ]]; then "$root/scripts/build.sh" --architecture "$architecture"; fi
fi
program=${1:-$(release_program "$architecture")}
"$root/scripts/setup.sh" "$needs"
program=$(realpath "$program")
mkdir -p "$store"
scratch=$(mktemp -d -p "${TMPDIR:-/var/tmp}" deb.XXXXXX)
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
status=0
"${enter[@]}" "$root/scripts/deb_test.sh" --inside "$architecture" "$program" "$scratch" &
wait $! || status=$?
exit "$status"
