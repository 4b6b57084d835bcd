"""Two arrays on one machine, by the commands of docs/install.md on fewer drives; and one that does not come at boot."""
from interop.requirement import require

from ..case import Case
from .package import FILES, MOUNTED_AT_BOOT, SAME_FILES, TEN_MINUTES, blocks, build, run

SECTION = "Many drives, several arrays"
FEWER = {
    "--level 5 --chunk 64k": "--level 1",
    "--level 10 --chunk 64k": "--level 1",
    " /dev/nvme2n1 /dev/nvme3n1": "",
    "/dev/nvme4n1 /dev/nvme5n1 /dev/nvme6n1 /dev/nvme7n1": "/dev/nvme2n1 /dev/nvme3n1",
    # What a server has by default is much for this machine.
    "systemctl daemon-reload": "echo 'memory = \"32m\"' >> /etc/fullstripe/fullstripe.toml; systemctl daemon-reload",
}
# An array whose drives are not in this machine.
DOES_NOT_COME = """
    sed -i '/^.array.logs/,$ s/^uuid.*/uuid = "00000000:00000001:00000002:00000003"/' /etc/fullstripe/fullstripe.toml
    fullstripe config check || fail "$(cat /etc/fullstripe/fullstripe.toml)" """
WAITS_ALONE = """
    ! mountpoint /logs || fail "/logs is mounted: $(cat /etc/fullstripe/fullstripe.toml)"
    ! fullstripe status --socket /run/fullstripe/arrays/logs/api.sock || fail "an array without drives is served"
    fullstripe status --check
    journalctl -b -u fullstripe@logs -o cat | grep 'none is there' || fail "$(journalctl -b -u fullstripe@logs -o cat)" """


def on_fewer(script):
    for words, fewer in FEWER.items():
        script = script.replace(words, fewer)
    return script


def of_logs(script):
    """The same commands and paths for the other array and its volume."""
    words = {"vol0": "logs0", "/data": "/logs", "data.mount": "logs.mount", "fullstripe@data": "fullstripe@logs"}
    for word, other in words.items():
        script = script.replace(word, other)
    return script.replace("status --check", "status --check --socket /run/fullstripe/arrays/logs/api.sock")


def several(bench):
    build(bench)
    bench.tree("tree", files=12)
    install, make, used = blocks(TEN_MINUTES)
    another, status = blocks(SECTION)
    run(bench, "cd /host/deb\n" + install.replace("fullstripe doctor", "fullstripe doctor || [ $? = 1 ]"))
    run(bench, on_fewer(make) + used)
    run(bench, on_fewer(another) + status + of_logs(used))
    run(bench, FILES + of_logs(FILES))
    bench.reboot()
    run(bench, MOUNTED_AT_BOOT + of_logs(MOUNTED_AT_BOOT) + SAME_FILES + of_logs(SAME_FILES))
    run(bench, "umount /logs; systemctl stop fullstripe@logs\n" + SAME_FILES + DOES_NOT_COME)
    bench.reboot()
    said = run(bench, MOUNTED_AT_BOOT + SAME_FILES + WAITS_ALONE)
    require("files compared" in said, said)
    return "both mounted after a reboot; without the drives of one, the other was mounted all the same"


def cases():
    return [Case("package", "docs/install.md: several arrays", several, reboots=True, way="ublk")]
