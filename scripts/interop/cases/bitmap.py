"""Arrays with a write-intent bitmap, which mdadm and md read and firmware does not."""
from ..case import Case
from . import clean, crash
from .common import REDUNDANT


def cases():
    for level, members in REDUNDANT.items():
        name = f"RAID {level}, bitmap"
        policy = ["--write-hole", "bitmap"]
        yield Case("bitmap", name, "ours", members, clean.ours(level, 64, policy))
        yield Case("bitmap", name, "md's", members, clean.mds(level, 64, "--bitmap=internal"),
                   long=level == 10)
        yield Case("bitmap", f"{name}, killed in writes", "ours", members, crash.ours(level, policy),
                   long=level == 10)
        yield Case("bitmap", f"{name}, killed in writes", "md's", members, crash.mds(level, "--bitmap=internal"))
