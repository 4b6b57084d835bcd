"""Linux md compared, in a virtual machine whose emulated processor is the limit: what either engine costs there."""
from common import Column, Comparison
from md import DEPTH, SHARE, add_rows, needs_mdadm

UNLIMITED = 0
TIME = "us of processor, ours / md"


def comparison(options):
    needs_mdadm()
    table = Comparison("md_processor", f"4 KiB random requests, queue depth {DEPTH}, by ublk and by md, in a virtual machine by software "
                       "emulation whose drives have no limit; chunk 64 KiB. Processor time is the guest's for each request, fio's included:",
                       options, [
        Column("IOPS", lambda r: r["ours"]["iops"], 0),
        Column("md, IOPS", lambda r: r["md"]["iops"], 0),
        Column(SHARE, lambda r: r["ours"]["iops"] / r["md"]["iops"], 2),
        Column("us of processor", lambda r: r["ours"]["processor_us"], 0),
        Column("md, us of processor", lambda r: r["md"]["processor_us"], 0),
        Column(TIME, lambda r: r["ours"]["processor_us"] / r["md"]["processor_us"], 2)])
    # Emulated instructions cost neither what a processor's cost, nor in the same proportions, so there is nothing to aim at.
    add_rows(table, options, UNLIMITED, lambda rw: [])
    return table
