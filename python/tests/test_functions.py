"""The functions, compared with the commands of the same names: both halves say the same, and nothing is lost."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fullstripe
import pytest
from cattrs import unstructure
from fullstripe import drives, explanations, functions, reports, sweeps

PROGRAM = os.environ["FULLSTRIPE"]
ARRAY: dict[str, Any] = {"platform": "epyc-9554p-24", "count": 3, "level": 5}
LOAD: dict[str, Any] = {"op": "randread", "bs": "4k", "threads": 1, "qd": 4}
PLAN = "plan --drive p4510-2tb --count 3 --level 5 --platform epyc-9554p-24".split()
PLAN_LOAD = "--op randread --bs 4k --threads 1 --qd 4".split()


def command(*words: str) -> Any:
    """What the command prints with --json."""
    ran = subprocess.run([PROGRAM, *words, "--json"], capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


def plain(report: Any) -> Any:
    """A report as what JSON can hold, without what is missing."""
    return without_missing(json.loads(json.dumps(unstructure(report))))


def without_missing(value: Any) -> Any:
    """The same without None, empty lists and False, which the command leaves out in some places."""
    if isinstance(value, dict):
        cleaned = {key: without_missing(item) for key, item in value.items()}
        return {key: item for key, item in cleaned.items() if item not in (None, [], {}, False)}
    if isinstance(value, list):
        return [without_missing(item) for item in value]
    return value


def same(report: Any, printed: Any) -> None:
    """Both say the same, except how fast this machine computed it."""
    ours, other = plain(report), without_missing(printed)
    ours.pop("simulator", None), other.pop("simulator", None)
    assert ours == other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, []),
        ({"degraded": True}, ["--degraded"]),
        ({"rebuilding": True, "rebuild_mb_s": [50, 0]}, ["--rebuilding", "--rebuild-rate", "50,0"]),
        ({"as_vroc": "boot"}, ["--as-vroc=boot"]),
        ({"provenance": True}, ["--provenance"]),
        ({"chunk_kib": 64, "engine_cores": 2, "export": "nbd"}, "--chunk 64k --engine-cores 2 --export nbd".split()),
        ({"from_sheet": True}, ["--from-sheet"]),
        ({"spares": 1, "annual_failure_percent": 2.5}, "--spares 1 --afr 2.5".split()),
    ],
)
def test_a_plan_says_what_the_command_says(arguments: dict[str, Any], words: list[str]) -> None:
    planned = fullstripe.plan("p4510-2tb", **ARRAY, **LOAD, **arguments)
    same(planned, command(*PLAN, *PLAN_LOAD, *words))


def test_a_plan_of_several_levels_leaves_out_the_impossible(tmp_path: Path) -> None:
    planned = fullstripe.plan("p4510-2tb", platform="epyc-9554p-24", count=3, **LOAD)
    assert [point.setup for point in planned.points] == ["RAID 0", "RAID 5"]
    [left_out] = planned.left_out
    assert left_out.reason == "RAID 10 needs an even number of drives from 4 to 64"


def test_a_plan_with_files_says_what_the_command_says(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('schema = 1\ncurrency = "EUR"\n[drive]\n"p4510-2tb" = 210\n')
    other = tmp_path / "other.toml"
    other.write_text(
        'schema = 1\n[setup.mirrors]\ndrive = "p4510-2tb"\ncount = 4\nlevel = 10\nplatform = "epyc-9554p-24"\n'
        'host = "linux-6.12"\nstack = "fullstripe"\n'
    )
    planned = fullstripe.plan("p4510-2tb", **ARRAY, **LOAD, prices=prices)
    same(planned, command(*PLAN, *PLAN_LOAD, "--prices", str(prices)))
    [point] = planned.points
    assert point.sizing and point.sizing.price and point.sizing.price.total == 630
    compared = fullstripe.plan("p4510-2tb", **ARRAY, **LOAD, compare=other)
    same(compared, command(*PLAN, *PLAN_LOAD, "--compare", str(other)))
    assert compared.compared[0].loads[0].times is not None


def test_a_drive_of_a_sheet_has_a_range_for_each_figure() -> None:
    [point] = fullstripe.plan("p4510-2tb", **ARRAY, **LOAD, from_sheet=True).points
    band = point.band("iops")
    assert band and band[0] and band[1] and band[0] < band[1]
    assert band[0] <= (point.value("iops") or 0) <= band[1]
    row = point.row()
    assert (row["iops.band_low"], row["iops.band_high"]) == band
    [fitted] = fullstripe.plan("p4510-2tb", **ARRAY, **LOAD).points
    assert fitted.band("iops") is None


POINTS: dict[str, Any] = {
    "setup": {
        "array": {
            "drive": "p4510-2tb",
            "count": 3,
            "level": 5,
            "platform": "epyc-9554p-24",
            "host": "linux-6.12",
            "stack": "fullstripe",
        }
    },
    "points": {
        "reads": {
            "setup": "array",
            "state": "steady",
            "workload": {"op": "randread", "bs": "4k", "threads": 1, "qd": 4, "seconds": 1},
        }
    },
}


def test_points_are_predicted_from_data_and_from_a_file_alike(tmp_path: Path) -> None:
    file = tmp_path / "points.toml"
    setup = "\n".join(f"{key} = {json.dumps(value)}" for key, value in POINTS["setup"]["array"].items())
    load = 'op = "randread", bs = "4k", threads = 1, qd = 4, seconds = 1'
    file.write_text(
        f"schema = 1\n[setup.array]\n{setup}\n[points]\n"
        f'reads = {{ setup = "array", state = "steady", workload = {{ {load} }} }}\n'
    )
    predicted = fullstripe.predict(file)
    assert fullstripe.predict(POINTS) == predicted
    same(predicted, command("predict", str(file)))
    [point] = predicted.points
    assert point.name == "reads" and (point.value("iops") or 0) > 1000


def test_a_request_is_explained_as_by_the_command() -> None:
    request: dict[str, Any] = {"offset_bytes": 1 << 20, "length_bytes": 12288}
    explained = fullstripe.explain("write", **request, level=5, members=4, failed=[1])
    same(explained, command(*"explain --level 5 --members 4 --write 12k@1m --failed 1".split()))
    assert explained.failed == [1] and explained.totals.writes > 0


def test_a_volume_on_drives_is_examined_and_explained(tmp_path: Path) -> None:
    images = [str(tmp_path / f"d{number}.img") for number in range(3)]
    for image in images:
        with open(image, "wb") as made:
            made.truncate(64 << 20)
    create = [PROGRAM, "create", "vol0", "--level", "5", *images]
    subprocess.run(create, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    examined = fullstripe.examine(*images)
    same(examined, command("examine", *images))
    record = examined.drives[0].record
    assert record and record.volumes[0].name == "vol0" and record.volumes[0].level == 5
    explained = fullstripe.explain("read", offset_bytes=0, length_bytes=4096, volume="vol0", drives=images)
    same(explained, command("explain", "vol0", *images, "--read", "4k@0"))
    missing = fullstripe.examine(tmp_path / "none.img")
    assert missing.drives == [] and "none.img" in missing.unreadable[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"drive": "p4511-2tb"}, 'drive does not know "p4511-2tb"'),
        ({"platform": "epyc"}, 'platform does not know "epyc"'),
        ({"chunk_kib": 3}, "chunk_kib must be a power of two from 4 to 1024, is 3"),
        ({"count": "many"}, 'count must be a whole number of 0 or more, is "many"'),
        ({"count": 2}, "count 2 is impossible: RAID 5 needs 3 to 64 drives; give another count or level"),
        ({"level": 7}, 'level must be 0, 1, 5, 10 or "none", is 7'),
        ({"bs": 4097}, "bs: a size is whole sectors of 512 bytes"),
        ({"demand_iops": -1}, "demand_iops must be a whole number of 0 or more, is -1"),
        ({"op": "reads"}, "op must be one of randread, "),
        ({"annual_failure_percent": 101}, "annual_failure_percent must be from 0 to below 100"),
        ({"rebuild_mb_s": 50}, "rebuild_mb_s is the limit of a rebuild: give rebuilding=True too"),
        ({"degraded": True, "rebuilding": True}, "degraded and rebuilding exclude each other"),
        ({"workload": "loads.toml"}, "workload is a file with whole loads: leave out op"),
        ({"prices": "none.toml"}, "none.toml"),
        ({"qd": object()}, "is neither a number nor a text"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    given = {"drive": "p4510-2tb", **ARRAY, **LOAD, **arguments}
    with pytest.raises(fullstripe.Error) as refused:
        fullstripe.plan(**given)
    assert sentence in str(refused.value)
    assert "--" not in str(refused.value) and "\n" not in str(refused.value)


def test_wrong_requests_are_refused_in_one_sentence() -> None:
    array: dict[str, Any] = {"level": 5, "members": 4}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"offset_bytes": 1, "length_bytes": 4096, **array}, "must be multiples of the block size, 512 bytes"),
        ({"offset_bytes": 0, "length_bytes": 4096, "level": 5, "members": 2}, "RAID 5"),
        ({"offset_bytes": 0, "length_bytes": 4096, "level": 6, "members": 4}, "level must be 0, 1, 5 or 10, is 6"),
        ({"offset_bytes": 0, "length_bytes": 4096, "level": 5}, "members is missing"),
        ({"offset_bytes": 0, "length_bytes": 4096}, "give level and members of an array, or volume and drives"),
        ({"offset_bytes": 0, "length_bytes": 4096, **array, "failed": [0, 1]}, "does not survive the loss of"),
        ({"offset_bytes": 0, "length_bytes": 4096, **array, "failed": [9]}, "there is no slot 9"),
    ]
    for request, sentence in wrong:
        with pytest.raises(fullstripe.Error, match=sentence):
            fullstripe.explain("write", **request)
    with pytest.raises(fullstripe.Error, match='operation must be "read" or "write", is "trim"'):
        fullstripe.explain("trim", offset_bytes=0, length_bytes=512, **array)
    with pytest.raises(fullstripe.Error, match="name at least one drive"):
        fullstripe.examine()


def test_a_plan_becomes_a_table() -> None:
    table = fullstripe.plan("p4510-2tb", platform="epyc-9554p-24", level=[5, 10], **LOAD).to_frame()
    assert list(table["level"]) == [5, 10]
    for column in ("iops", "iops.low", "latency_us.p99", "watts", "usable_bytes", "limited_by", "second_loss"):
        assert table[column].notna().all(), column
    steps = fullstripe.explain("write", offset_bytes=0, length_bytes=4096, level=5, members=4).to_frame()
    assert list(steps["kind"]) == ["read", "read", "xor", "write", "write"]


def test_without_pandas_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pandas'] = None\n"
        "import fullstripe\n"
        "explained = fullstripe.explain('read', offset_bytes=0, length_bytes=512, level=0, members=2)\n"
        "explained.to_frame()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 'pip install "fullstripe[frame]"' in ran.stderr


def test_ctrl_c_ends_a_long_plan_soon() -> None:
    """The plan of a sheet's four loads and three levels takes tens of seconds; the interrupt comes after one."""
    script = (
        "import fullstripe, signal, time\n"
        "signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "begun = time.monotonic()\n"
        "try:\n"
        "    fullstripe.plan('p4510-2tb', platform='epyc-9554p-24', from_sheet=True)\n"
        "except KeyboardInterrupt:\n"
        "    print(time.monotonic() - begun)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert 0.9 < float(ran.stdout) < 10, ran.stderr


def test_everything_public_is_documented_and_units_are_said() -> None:
    for module in (fullstripe, drives, explanations, functions, reports, sweeps):
        assert module.__doc__
        for name, thing in vars(module).items():
            is_ours = getattr(thing, "__module__", "").startswith("fullstripe")
            if is_ours and not name.startswith("_") and inspect.isclass(thing) | inspect.isfunction(thing):
                # A dataclass without a docstring gets its signature for one.
                assert thing.__doc__ and not thing.__doc__.startswith(f"{name}("), name
    for name in inspect.signature(fullstripe.plan).parameters:
        assert f"\n        {name}: " in (fullstripe.plan.__doc__ or ""), name
