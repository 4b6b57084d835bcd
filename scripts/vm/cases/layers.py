"""What administrators put between a block device and a file system: partitions, LVM, encryption; and two volumes at once."""
from ..case import Case

BEGIN = """
    create 5 384m "0 1 2 3"
    serve "0 1 2 3"
    attach vol0 0"""
AGAIN = """
    serve "0 1 2 3"
    healthy
    attach vol0 0"""
END = """
    detach 0
    stop "$(drive 0 1 2 3)" """


def layered(make, use, leave, kinds):
    """`make` makes devices on the array, `use` finds them again, `leave` gives them up; both put them into $devices.
    Each gets a file system."""
    def run(bench):
        bench.tree("tree", files=12)
        each = f"""
            number=0
            for kind in {' '.join(kinds)}; do
                number=$((number + 1))
                set -- $devices
                shift $((number - 1))"""
        bench.run(f"""{BEGIN}
            {make}
            {use}
            {each}
                make_fs $kind $1
                mount_fs $kind $1 /mnt/$number
                put_files /host/tree /mnt/$number/kept
            done
            umount /mnt/*
            {leave}{END}""", 90)
        said = bench.run(f"""{AGAIN}
            {use}
            {each}
                check_fs $kind $1
                mount_fs $kind $1 /mnt/$number
                same_files /host/tree /mnt/$number/kept
            done
            umount /mnt/*
            rmdir /mnt/*
            {leave}{END}""", 90).splitlines()
        found = [line for line in said if line.endswith("files compared")]
        return f"{', '.join(kinds)}: {', '.join(found)}"
    return run


PARTITIONS = layered(
    "sgdisk -n 1:0:+128M -n 2:0:0 $device; blockdev --rereadpt $device",
    """devices="${device}p1 ${device}p2"
       tries=0
       until [ -b ${device}p2 ]; do tries=$((tries + 1)); [ $tries -lt 50 ] || fail "no partitions"; sleep 0.1; done""",
    "", ["ext4", "btrfs"])
LVM = layered(
    """pvcreate -q $device
       vgcreate -q group $device
       lvcreate -q -Wn -Zn -L 64m -n one group
       lvcreate -q -Wn -Zn -l 100%FREE -n two group""",
    "vgchange -q -ay group; devices='/dev/group/one /dev/group/two'",
    "vgchange -q -an group", ["ext4", "btrfs"])
ENCRYPTED = layered(
    "head -c 64 /dev/urandom > /run/key\n"
    "cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /run/key $device",
    "cryptsetup open --key-file /run/key $device secret; devices=/dev/mapper/secret",
    "cryptsetup close secret", ["ext4"])


def two_volumes(bench):
    """Two volumes of different levels on the same drives are two devices, used at the same time."""
    bench.tree("tree", files=12)
    begin = """
        attach vol0 0
        first=$device
        attach vol1 1
        second=$device"""
    bench.run(f"""
        create 5 320m "0 1 2 3"
        create_named vol1 10 384m "0 1 2 3"
        serve "0 1 2 3"
        {begin}
        make_fs ext4 $first
        make_fs xfs $second
        mount_fs ext4 $first /mnt/1
        mount_fs xfs $second /mnt/2
        put_files /host/tree /mnt/1/kept &
        put_files /host/tree /mnt/2/kept
        wait $!
        umount /mnt/1 /mnt/2
        detach 0
        detach 1
        stop""", 90)
    said = bench.run(f"""
        serve "0 1 2 3"
        healthy
        {begin}
        check_fs ext4 $first
        check_fs xfs $second
        mount_fs ext4 $first /mnt/1
        mount_fs xfs $second /mnt/2
        same_files /host/tree /mnt/1/kept
        same_files /host/tree /mnt/2/kept
        umount /mnt/1 /mnt/2
        rmdir /mnt/1 /mnt/2
        detach 0
        detach 1
        stop""", 90).splitlines()
    return "RAID 5 and RAID 10: " + ", ".join(line for line in said if line.endswith("files compared"))


def cases():
    return [
        Case("layers", "partitions", PARTITIONS),
        Case("layers", "LVM", LVM),
        Case("layers", "encryption by dm-crypt", ENCRYPTED),
        Case("layers", "two volumes on the same drives", two_volumes),
    ]
