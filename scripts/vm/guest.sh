# Runs inside the virtual machine, at the beginning of each job: functions that jobs use. $way says how volumes become block
# devices: nbd, kernel_nbd or ublk. A job ends at its first command that fails.
export PATH=/sbin:/bin DM_DISABLE_UDEV=1 FULLSTRIPE_SOCKET=/run/api.sock
set -e
. /attach_${way:-nbd}.sh

# Busybox has commands of these names that can do less.
blkdiscard() { /sbin/blkdiscard "$@"; }
blockdev() { /sbin/blockdev "$@"; }
fstrim() { /sbin/fstrim "$@"; }

# Within a job, $members has the devices of the array's drives after `create` or `serve`.

fail() { echo "$*" >&2; exit 1; }

# drive NUMBER...: prints the devices of drives, which keep their serial number under every name.
drive() {
    for wanted in "$@"; do
        found=
        for path in /sys/block/nvme*; do
            read -r serial < "$path/device/serial" || continue
            if [ "$serial" = "drive$wanted" ]; then found=/dev/${path##*/}; fi
        done
        [ -n "$found" ] || fail "the kernel shows no drive with serial number drive$wanted"
        echo "$found"
    done
}

# begin: empties all drives. The case before has to have given everything up.
begin() {
    ! pidof fullstripe > /dev/null || fail "a server of an earlier case still runs"
    for path in $(drive 0 1 2 3 4); do blkdiscard -f "$path"; done
    rm -rf /var/lib/fullstripe /run/serve.* /run/fio.*
    dmesg -c > /run/dmesg
}

# create LEVEL SIZE DRIVES [OPTION...]: makes the volume vol0 on the drives with these numbers, like "0 1 2".
create() { create_named vol0 "$@"; }

create_named() {
    name=$1 level=$2 size=$3 members=$(drive $4)
    shift 4
    if [ "$level" != 1 ]; then set -- --chunk 64k "$@"; fi
    fullstripe create "$name" --level "$level" --size "$size" "$@" $members
}

# serve DRIVES [OPTION...]: starts the server on the drives with these numbers, and waits until it serves.
serve() {
    members=$(drive $1)
    shift
    start_serving "$@"
    until_serving
}

# start_serving [OPTION...]: starts the server on $members. It gets little memory, because it touches all of it when it starts,
# which takes seconds here.
start_serving() {
    rm -f /run/serve.code /run/serve.pid
    : > /run/serve.log
    setsid sh -c 'fullstripe serve "$@" & echo $! > /run/serve.pid; wait $!; echo $? > /run/serve.code' serve \
        $attach_options --memory 32m "$@" $members >> /run/serve.log 2>&1 &
}

# until_serving: waits until the server that was started serves; the job fails if the server ends instead.
until_serving() {
    until grep -q '^serving' /run/serve.log; do
        [ ! -e /run/serve.code ] || fail "the server did not start: $(cat /run/serve.log)"
        sleep 0.1
    done
}

# array_settings [LINE...]: writes the settings file, with the array of drive 0 as `data`, and more lines.
array_settings() {
    mkdir -p /etc/fullstripe
    uuid=$(fullstripe examine $(drive 0) | sed -n 's/^  container: *//p')
    printf '%s\n' '[array.data]' "uuid = \"$uuid\"" 'memory = "32m"' 'nbd = ["unix:/run/nbd.sock"]' "$@" > /etc/fullstripe/fullstripe.toml
    fullstripe config check
}

# serve_array NAME: starts the server of an array of the settings file, and waits until it serves.
serve_array() {
    rm -f /run/serve.code
    : > /run/serve.log
    setsid sh -c 'fullstripe serve --array "$1" --socket $FULLSTRIPE_SOCKET & echo $! > /run/serve.pid; wait $!; echo $? > /run/serve.code' \
        serve "$1" >> /run/serve.log 2>&1 &
    until_serving
}

# healthy: fails unless every volume has its redundancy.
healthy() { fullstripe status --check || fail "the array lacks redundancy: $(fullstripe status)"; }

# stop: ends the server in order, and has the drives' records say that each volume is clean.
stop() {
    fullstripe stop --wait
    until [ -e /run/serve.code ]; do sleep 0.1; done
    [ "$(cat /run/serve.code)" = 0 ] || fail "the server ended with $(cat /run/serve.code): $(cat /run/serve.log)"
    fullstripe examine ${1:-$members} > /run/examine
    grep -q '^    state' /run/examine || fail "no record tells of a volume: $(cat /run/examine)"
    ! grep '^    state' /run/examine | grep -qv ', clean' || fail "a volume is not clean: $(cat /run/examine)"
}

# memory_without_io PID: fails unless each of the server's threads that the write path waits for gets memory without I/O
# (PF_MEMALLOC_NOIO, 0x80000, among a task's flags). The others are known by name: a new one belongs into one of the two lists.
# The threads of a ring count as the one that made it. Prints the names of those that were looked at.
memory_without_io() {
    looked=
    for task in /proc/$1/task/*; do
        # A thread that has ended meanwhile is passed over.
        name=$(cat $task/comm 2> /dev/null) && stat=$(cat $task/stat 2> /dev/null) || continue
        flags=$(echo "${stat##*) }" | cut -d ' ' -f 7)
        case $name in iou-*) name=$(cat /proc/$1/task/${name##*-}/comm 2> /dev/null) || continue ;; esac
        case $name in
        shard-* | member-io | notes-* | nbd-tls)
            looked="$looked $name"
            [ $((flags & 0x80000)) -ne 0 ] || fail "the kernel may wait for I/O to give thread '$name' memory" ;;
        # This one marks itself before it writes.
        spare-notes) ;;
        fullstripe | api | events | announcer | newcomers | drive-watch | watch-* | drive-health | health-* | alerts | \
            event-hook | ping | offer | nvmet | swap-watch | scrub-keeper | state-keeper | watchdog | signals | end | nbd-tls-accept) ;;
        *) fail "nobody has said whether the write path waits for thread '$name'" ;;
        esac
    done
    case $looked in *shard-*) echo "$looked" ;; *) fail "the server has no data thread: $(cat /proc/$1/task/*/comm)" ;; esac
}

# make_fs TYPE DEVICE: without trimming the whole device first, which takes long here.
make_fs() {
    case $1 in
        ext4) mkfs.ext4 -q -F -E nodiscard "$2" ;;
        xfs) mkfs.xfs -q -f -K "$2" ;;
        btrfs) mkfs.btrfs -q -f -K "$2" ;;
    esac
}

# check_fs TYPE DEVICE: has the file system's own program look for errors, and change nothing.
check_fs() {
    case $1 in
        ext4) e2fsck -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
        btrfs) btrfs check "$2" ;;
    esac > /run/fsck 2>&1 || fail "$1 on $2 has errors: $(cat /run/fsck)"
}

mount_fs() { mkdir -p "$3"; mount -t "$1" "$2" "$3"; }

# put_files TREE FOLDER: copies files to a mounted file system, down to the drives.
put_files() { mkdir "$2"; cp "$1"/* "$2"; sync; }

# same_files TREE FOLDER: compares every file's bytes, and the number of files.
same_files() {
    compared=0
    for file in "$1"/*; do
        cmp "$file" "$2/${file##*/}" || fail "${file##*/} differs"
        compared=$((compared + 1))
    done
    [ $compared -gt 0 ] && [ "$(ls "$2" | wc -l)" = $compared ] || fail "$2 has not the $compared files that it should have"
    echo "$compared files compared"
}

# load FOLDER MIB MIB_PER_SECOND: begins to write a file with sums in its blocks, which fio then reads and checks. Its figures are
# in /host/fio.json at the end.
load() {
    rm -f /run/fio.code "$1/load.0.0"
    setsid sh -c 'fio "$@" > /run/fio.log 2>&1; echo $? > /run/fio.code' load --name=load --directory="$1" --size="$2m" \
        --rate="$3m" --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c \
        --verify_fatal=1 --randseed=1 --allow_mounted_write=1 --output=/host/fio.json --output-format=json &
    until [ -s "$1/load.0.0" ]; do
        [ ! -e /run/fio.code ] || fail "fio ended at once: $(cat /run/fio.log)"
        sleep 0.1
    done
    sleep 1
}

# load_runs: fails if the load has ended already.
load_runs() { [ ! -e /run/fio.code ] || fail "the load ended too early ($(cat /run/fio.code)): $(cat /run/fio.log)"; }

# load_ends: waits until fio has read and checked everything that it wrote.
load_ends() {
    until [ -e /run/fio.code ]; do sleep 0.2; done
    [ "$(cat /run/fio.code)" = 0 ] || fail "fio failed: $(cat /run/fio.log)"
}
