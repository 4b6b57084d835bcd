"""What the server of an array is to keep across a reboot: its spare, an ordered rate, and its events.

/var has a file system of its own, which is mounted after the array has been started. So a server that is started at boot and one
that is started later would find different folders below /var.
"""
import re

from interop.requirement import require

from ..case import Case
from .boot import HERE, IS_BACK, SERVICE, THERE, begin

# The settings have no spare: the note on the drive says whose it is.
ORDERED = """
    mkdir /srv/var
    cp -a /var/. /srv/var
    echo '/srv/var /var none bind 0 0' >> /etc/fstab
    systemctl daemon-reload
    systemctl stop mnt.mount
    systemctl restart {service}
    systemctl start mnt.mount
    fullstripe add-spare $(drive 4)
    fullstripe rate 7m"""
KEPT = """
    mountpoint /var
    tries=0
    until fullstripe status --json | grep -q '"state": "spare"'; do
        tries=$((tries + 1))
        [ $tries -lt 30 ] || fail "the spare is forgotten: $(fullstripe status; journalctl -b -u {service} -o cat)"
        sleep 1
    done
    fullstripe status | grep 'limited to 7 MiB/s' || fail "the rate is forgotten: $(fullstripe status)"
    fullstripe events --json > /run/events
    [ "$(grep -o server-started /run/events | wc -l)" -ge {starts} ] || fail "events are forgotten: $(cat /run/events)"
    [ ! -e /var/lib/fullstripe/arrays ] || [ -z "$(find /var/lib/fullstripe/arrays -newer /etc/fstab)" ] ||
        fail "the server writes below /var: $(find /var/lib/fullstripe)"
    ls /etc/fullstripe/state/arrays/*/events"""


def kept(bench):
    begin(bench)
    bench.run(HERE + ORDERED.format(service=SERVICE), 120)
    bench.reboot()
    bench.run(HERE + THERE.format(service=SERVICE) + KEPT.format(service=SERVICE, starts=2), 150)
    bench.run(HERE + f"systemctl stop mnt.mount\nsystemctl restart {SERVICE}\nsystemctl start mnt.mount" +
              KEPT.format(service=SERVICE, starts=3), 120)
    said = bench.run(HERE + "fullstripe rate unlimited\nfullstripe fail vol0:1" + IS_BACK + "\nfullstripe status", 150)
    require(re.search(r"drive4 .*vol0:1 +active", said), f"the spare was not used: {said}")
    bench.run(HERE + THERE.format(service=SERVICE) + "\nhealthy", 60)
    return "spare, rate and events are there after a reboot and a restart; the spare took the failed drive's place"


def cases():
    return [Case("boot", "RAID 5 of 4 and a spare, /var of its own", kept, reboots=True, way="ublk")]
