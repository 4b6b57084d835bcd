"""File systems: their files are the same after the server has stopped and started, and their own checks find no error."""
from ..case import Case

# Of 4 drives; xfs wants at least 300 MiB.
RAID5 = 'create 5 384m "0 1 2 3"', "0 1 2 3"
RAID1 = 'create 1 320m "0 1"', "0 1"
RAID10 = 'create 10 384m "0 1 2 3"', "0 1 2 3"


def keeps_its_files(kind, array):
    """Files are written, others are deleted and free space is trimmed; then the server stops, and starts again. A trim
    of everything would take long here."""
    create, drives = array

    def run(bench):
        bench.tree("tree")
        bench.run(f"""
            {create}
            serve "{drives}"
            attach vol0 0
            make_fs {kind} $device
            mount_fs {kind} $device /mnt
            put_files /host/tree /mnt/deleted
            put_files /host/tree /mnt/kept""", 90)
        trimmed = bench.run(f"""
            members=$(drive {drives})
            rm -r /mnt/deleted
            sync
            fstrim -v -l 128M /mnt
            umount /mnt
            detach 0
            stop""", 90).splitlines()[0]
        compared = bench.run(f"""
            serve "{drives}"
            healthy
            attach vol0 0
            check_fs {kind} $device
            mount_fs {kind} $device /mnt
            same_files /host/tree /mnt/kept
            umount /mnt
            detach 0
            stop""", 90).splitlines()
        found = next(line for line in compared if line.endswith("files compared"))
        return f"{found}, {trimmed.removeprefix('/mnt: ')}"
    return run


def cases():
    return [
        *[Case("files", f"{kind} on RAID 5 of 4", keeps_its_files(kind, RAID5)) for kind in ("ext4", "xfs", "btrfs")],
        Case("files", "ext4 on RAID 1 of 2", keeps_its_files("ext4", RAID1)),
        Case("files", "xfs on RAID 10 of 4", keeps_its_files("xfs", RAID10)),
        Case("files", "ext4 on RAID 5, 4 KiB sectors", keeps_its_files("ext4", RAID5), sector_bytes=4096),
    ]
