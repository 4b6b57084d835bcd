"""Small sequential writes: how many bytes are written to the members for each byte of the client."""
from common import Aim, Column, Comparison, bench

WRITTEN = "written per client byte"
MEMBERS = (("null", "null:64g"), ("RAM", "ram:256m"), ("throttled", "null:64g,read-iops=20k,write-iops=10k"))


def comparison(options):
    table = Comparison("sequential", "Sequential writes of 4 KiB to RAID 5 of 4, chunk 16 KiB, QD 64, one core; "
                       "full stripes write 1.33 bytes for each byte, read-modify-write writes 2 and reads 2:", options, [
        Column(WRITTEN, lambda r: r["ours"]["stats"]["member_write_bytes"] / r["ours"]["stats"]["write_bytes"], 3),
        Column("read per client byte",
               lambda r: r["ours"]["stats"]["member_read_bytes"] / r["ours"]["stats"]["write_bytes"], 3),
        Column("k IOPS", lambda r: r["ours"]["iops"] / 1e3)])
    for name, member in MEMBERS:
        table.row(f"{name} members", Aim(WRITTEN, most=1.45),
                  ours=bench(options.seconds, level=5, member=member, count=4, rw="write", qd=64, chunk="16k"))
    return table
