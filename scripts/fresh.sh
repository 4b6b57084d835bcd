#!/usr/bin/env bash
# Runs the README's two commands exactly as written on fresh Debian systems in folders.
#
# usage: scripts/fresh.sh [--release 12|13] [--user root|sudo] [--command demo|test]
#
#   --release   Debian 12 or 13 (default: both)
#   --user      root, or a user who may use sudo without a password (default: both)
#   --command   the README's demo or its test (default: both)
#
# Each combination gets a system of its own: Debian's smallest, with Rust, Python, sudo and the certificates that
# installing Rust needs. Rust is this machine's, mounted read-only; cargo's registry is a copy of what this machine has
# fetched. The tree comes without .git and without build results. The output of each run is in target/fresh/; the last
# line is 'N passed, N failed'. All eight combinations take some hours, and 6 GB in TMPDIR (/var/tmp).
#
# All mounts and processes are in their own namespaces and end with them, however this script ends. Needs root.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$root/scripts/progress.sh"

releases="12 13"
users="root sudo"
commands="demo test"
demo_limit_seconds=2400
test_limit_seconds=6000
logs=${CARGO_TARGET_DIR:-$root/target}/fresh

# one_of OPTION VALUE ALLOWED...: fails unless VALUE is allowed.
one_of() {
    [[ " ${*:3} " == *" $2 "* ]] || die "$1 is '$2': use one of ${*:3}."
}

parse() {
    while [[ $# -gt 0 ]]; do
        [[ $# -ge 2 ]] || die "unknown or incomplete option '$1': see the top of scripts/fresh.sh."
        case $1 in
        --release) one_of "$1" "$2" 12 13 && releases=$2 ;;
        --user) one_of "$1" "$2" root sudo && users=$2 ;;
        --command) one_of "$1" "$2" demo test && commands=$2 ;;
        *) die "unknown option '$1': use --release, --user and --command." ;;
        esac
        shift 2
    done
}

# readme_command demo|test: prints the line for it in the README's first block of commands.
readme_command() {
    local line
    line=$(awk '/^## Two commands/ { there = 1 }
        there && /^```/ { if (inside) exit; inside = 1; next }
        inside { sub(/ *#.*/, ""); print }' "$root/README.md" | grep -w "$1") || true
    [[ -n $line && $line != *$'\n'* ]] || die "the README's two commands have not one for $1."
    printf '%s\n' "$line"
}

# repository LABEL: prints where this machine gets packages with this label from.
repository() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Label: $1" | head -n 1
}

# make_base RELEASE: makes the system from which all runs on this release start, in $scratch/base-RELEASE.
make_base() {
    local base=$scratch/base-$1 log=$logs/$1-base.log suite mirror
    case $1 in
    12) suite=bookworm ;;
    13) suite=trixie ;;
    esac
    mirror=$(repository Debian)
    [[ -n $mirror ]] || die "apt does not say where Debian's packages come from: run apt-get update first."
    if ! waiting_for "making Debian $1" "$log" \
        debootstrap --variant=minbase --include=ca-certificates,python3,sudo "$suite" "$base" "$mirror"; then
        tail -n 20 "$log" >&2
        die "Debian $1 could not be made: see above."
    fi
    furnish "$base" "$suite" "$mirror"
}

# furnish BASE SUITE MIRROR: adds what an installed machine has besides its packages.
furnish() {
    local base=$1 suite=$2 mirror=$3 security sources
    security=$(repository Debian-Security)
    sources="deb $mirror $suite main\ndeb $mirror $suite-updates main\n"
    if [[ -n $security ]]; then sources+="deb $security $suite-security main\n"; fi
    printf "$sources" >"$base/etc/apt/sources.list"
    apt-config dump Acquire | grep -i proxy >"$base/etc/apt/apt.conf.d/proxy" || true
    cp -L /etc/resolv.conf /etc/hosts /etc/hostname "$base/etc/"
    # Services are not started, because no init system runs.
    printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
    chmod +x "$base/usr/sbin/policy-rc.d"
    chroot "$base" useradd --create-home --shell /bin/bash somebody
    echo 'somebody ALL=(ALL) NOPASSWD: ALL' >"$base/etc/sudoers.d/somebody"
    mkdir -p "$base/opt/rust"
    # shellcheck disable=SC2016  # the shell that logs in expands it
    echo 'export PATH=/opt/rust/bin:$PATH CARGO_TERM_COLOR=never' >"$base/etc/profile.d/rust.sh"
}

# Mounts what a machine provides and a folder lacks.
mount_machine() {
    mount -t proc proc "$place/proc"
    mount --rbind /sys "$place/sys"
    mount --rbind /dev "$place/dev"
    mount -t tmpfs tmpfs "$place/run"
    mount --bind "$rust" "$place/opt/rust"
    mount -o remount,bind,ro "$place/opt/rust"
}

# Unmounts everything there, including what a run has left mounted and nothing serves any more.
unmount_machine() {
    awk '{ print $5 }' /proc/self/mountinfo | grep -F "$place/" | sort -r | while read -r mounted; do
        umount --lazy "$mounted"
    done
}

# copy_tree FOLDER: copies the tree and cargo's registry into a user's home folder.
copy_tree() {
    local home=$1 from=${CARGO_HOME:-$HOME/.cargo}/registry part
    mkdir -p "$home/fullstripe" "$home/.cargo/registry"
    tar -C "$root" -c --exclude=./.git --exclude=./target --exclude=./fuzz/target --exclude=__pycache__ . |
        tar -x -C "$home/fullstripe"
    for part in index cache; do
        if [[ -d $from/$part ]]; then cp -r "$from/$part" "$home/.cargo/registry/"; fi
    done
}

used_mb() { du -xsm "$1" | awk '{ print $1 }'; }

# run_one RELEASE USER demo|test: runs one combination, reports its result and counts it in `passed` or `failed`.
#
# Do not call it in a condition: the shell would then continue after a mount that failed.
run_one() {
    local place=$scratch/run login=root home=/root line limit_seconds log=$logs/$1-$2-$3.log status=0 began before_mb
    line=$(readme_command "$3")
    limit_seconds=$3_limit_seconds
    if [[ $2 == sudo ]]; then
        login=somebody
        home=/home/somebody
    fi
    cp -a "$scratch/base-$1" "$place"
    copy_tree "$place$home"
    if [[ $login != root ]]; then chroot "$place" chown -R "$login:" "$home"; fi
    before_mb=$(used_mb "$place")
    mount_machine
    began=$SECONDS
    waiting_for "Debian $1, $2: $line" "$log" timeout --kill-after=30 "${!limit_seconds}" \
        chroot "$place" su --login "$login" --command "cd fullstripe && $line" </dev/null || status=$?
    end_all
    local verdict=passed shown_lines=1
    if [[ $status -eq 0 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        verdict="FAILED (exit code $status)"
        shown_lines=40
    fi
    say "$verdict: Debian $1, $2: $line: $((SECONDS - began)) s, $(($(used_mb "$place") - before_mb)) MB of disk"
    tail -n "$shown_lines" "$log" | sed 's/^/    /' >&2
    unmount_machine
    rm -rf --one-file-system "$place"
}

# Ends whatever a run has left, and frees its loop devices. As the first process of its namespace this script can kill
# everything that it started, and nothing else.
end_all() {
    [[ $$ -eq 1 ]] || die "this is to be run in a namespace of its own."
    kill -KILL -1 2>/dev/null || true
    wait
    give_back_loops
}

# Loop devices are not part of a namespace, so they have to be freed.
give_back_loops() {
    losetup --list --noheadings --raw --output NAME,BACK-FILE | grep -F "$scratch/" | while read -r device _; do
        losetup --detach "$device" || true
    done || true
}

# Runs inside the namespaces.
inside() {
    local release user command
    passed=0
    failed=0
    mount -t proc proc /proc
    for release in $releases; do
        make_base "$release"
        for user in $users; do
            for command in $commands; do run_one "$release" "$user" "$command"; done
        done
        rm -rf --one-file-system "$scratch/base-$release"
    done
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
}

# shellcheck disable=SC2317  # called at the end, whatever ends it
clean_up() {
    # When the first process of the namespace ends, everything in it ends. That process ignores other signals.
    if [[ -n $namespace_pid ]]; then kill -KILL "$namespace_pid" 2>/dev/null || true; fi
    wait
    give_back_loops
    rm -rf --one-file-system "$scratch"
}

if [[ ${1:-} == --inside ]]; then
    scratch=$2
    rust=$3
    parse "${@:4}"
    inside
    exit
fi

parse "$@"
[[ $EUID -eq 0 ]] || die "making systems in folders takes root: run this as root."
use_toolchain
"$root/scripts/setup.sh" fresh
rust=$(rustc --print sysroot)
scratch=$(mktemp -d -p "${TMPDIR:-/var/tmp}" fresh.XXXXXX)
namespace_pid=
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$logs"
status=0
unshare --mount --pid --fork --kill-child "$root/scripts/fresh.sh" --inside "$scratch" "$rust" "$@" &
namespace_pid=$!
wait "$namespace_pid" || status=$?
namespace_pid=
exit "$status"
