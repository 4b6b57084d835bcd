"""What an array goes through in its first year, told as one case: `make test-vm ARGS=--story`.

On a fresh Debian the package is installed, an array is made on four drives, and ext4 on it is mounted by fstab. The machine
reboots. While the file system is written to, a drive is pulled out, root gets a mail, a new drive takes its place, and during the
rebuild a newer package is installed and switched to. The machine reboots again. No program may see an error, and every byte
is compared. The commands are those of docs/install.md, as they stand there.
"""
import json
import re

from interop.requirement import require

from ..case import Case
from .load import READ_AGAIN, longest_request_s, no_errors
from .package import (HEALTH_IS, INSTALL, MOUNTED_AT_BOOT, SAME_FILES, SERVER, SERVICE, begin, blocks, put_fio,
                      run)

# What fio writes lasts longer than all that happens meanwhile; it also catches up after a pause.
MIB, MIB_PER_SECOND = 300, 1
# A local mail program. It keeps what it is given, in the order in which it came.
MAIL = """
    mkdir -p /var/mail
    printf '#!/bin/sh\\ncat >> /var/mail/root\\n' > /usr/sbin/sendmail
    chmod 755 /usr/sbin/sendmail
    printf '\\n[alerts]\\nmail = ["root"]\\n' >> /etc/fullstripe/fullstripe.toml
    fullstripe config check
    systemctl reload {service}
    fullstripe alert test
    grep -q '^Subject: .*test' /var/mail/root || fail "the mail of the test has not come: $(cat /var/mail/root)" """.format(service=SERVICE)
# The subject of a mail that comes within a minute.
MAILED = """
    tries=0
    until grep '^Subject: .*{words}' /var/mail/root; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || fail "no mail says '{words}': $(cat /var/mail/root; journalctl -b -u {service} -o cat)"
        sleep 1
    done"""
LOAD = """
    load /data {mib} {rate}"""
# The rebuild has to last until the new program serves, and go on there.
REBUILDS = """
    fullstripe status | grep rebuilding || fail "nothing is rebuilt: $(fullstripe status)"
    load_runs"""
UPGRADED = INSTALL.format(server=SERVER, revision=2) + REBUILDS + f"""
    /usr/bin/fullstripe upgrade > /run/said 2>&1 || fail "$(cat /run/said; journalctl -b -u {SERVICE} -o cat)"
    [ "$(readlink /proc/$({SERVER})/exe)" = /usr/bin/fullstripe ] || fail "the new program does not serve"
    cat /run/said""" + REBUILDS
WHOLE = """
    load_ends
    dmesg > /host/dmesg"""
COMPARED = READ_AGAIN.format(folder="/data", mib=MIB) + """
    fullstripe scrub vol0 --wait
    fullstripe status --check
    fullstripe events > /run/events
    ! grep -e 'did not match' -e 'could not be read' /run/events || fail "the scrub has found differences"
    dmesg > /host/dmesg"""


def numbers_of(bench, *names):
    """The numbers of drives by their devices. The kernel's names are not in the order of the numbers."""
    serials = run(bench, "cat " + " ".join(f"/sys/block/{name}/device/serial" for name in names)).split()
    return [int(serial.removeprefix("drive")) for serial in serials]


def story(bench):
    begin(bench)
    old, new = numbers_of(bench, "nvme1n1", "nvme4n1")
    run(bench, MAIL)
    put_fio(bench)
    bench.reboot()
    run(bench, MOUNTED_AT_BOOT + SAME_FILES)
    run(bench, LOAD.format(mib=MIB, rate=MIB_PER_SECOND))
    bench.unplug(old)
    run(bench, HEALTH_IS.format(code=3) + MAILED.format(words="critical: .* is failed", service=SERVICE))
    _, replaced = blocks("Replace a drive")
    _, add, wait = replaced.splitlines()
    run(bench, "fullstripe rate 1m\n" + add.replace("/dev/nvme4n1", f"$(drive {new})"))
    upgraded = run(bench, UPGRADED, 240)
    run(bench, "fullstripe rate unlimited\n" + wait + HEALTH_IS.format(code=0) + MAILED.format(words="resolved", service=SERVICE), 300)
    run(bench, WHOLE, 600)
    no_errors(bench)
    bench.reboot()
    run(bench, MOUNTED_AT_BOOT + SAME_FILES + COMPARED, 300)
    no_errors(bench)
    job = json.loads(bench.read("fio.json"))["jobs"][0]
    require(job["error"] == 0 and job["read"]["io_bytes"] == job["write"]["io_bytes"] == MIB << 20, f"fio says {job}")
    waited = re.search(r"waited for ([0-9.]+ s) at most", upgraded)
    require(waited, f"upgrade says {upgraded}")
    return (f"switched in {waited[1]} during a rebuild, the longest request took {longest_request_s(bench):.1f} s; {MIB} MiB and "
            "12 files compared, no error")


def cases():
    return [Case("story", "docs/install.md: an array's first year", story, reboots=True, way="ublk", by_name=True)]
