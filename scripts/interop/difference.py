"""Describes how drives differ from what they should hold. Some failures occur once in many runs, so the message must
suffice."""
import time

from .requirement import require

SECTOR = 512
# Most ranges that a failure names.
MOST_RANGES = 6
# Most rows that a failure names.
MOST_ROWS = 9
# A write that reaches the drives too late, after everybody has reported success, is there after this time.
LATER_SECONDS = 2


def ranges(found, expected):
    """The ranges in which sectors differ: pairs of begin and end in bytes."""
    runs = []
    for at in range(0, max(len(found), len(expected)), SECTOR):
        if found[at : at + SECTOR] == expected[at : at + SECTOR]:
            continue
        if runs and runs[-1][1] == at:
            runs[-1][1] = at + SECTOR
        else:
            runs.append([at, at + SECTOR])
    return runs


def what_is_there(part, texts):
    """Where the bytes come from. `texts` names everything that was ever written."""
    if part.count(0) == len(part):
        return "zeros"
    for name, text in texts.items():
        at = text.find(part[:SECTOR])
        if at >= 0:
            return f"bytes {at} of {name}"
    return "bytes never written"


def describe(found, expected, texts):
    runs = ranges(found, expected)
    words = [f"{begin}..{end} has {what_is_there(found[begin:end], texts)}" for begin, end in runs[:MOST_RANGES]]
    sectors = sum(end - begin for begin, end in runs) // SECTOR
    return f"{len(found)} bytes, {sectors} sectors in {len(runs)} ranges differ: {', '.join(words)}"


def other_content(volume, expected, earlier=()):
    """Describes wrong content of the volume; None if it holds what is expected. `earlier` is its former content, oldest
    first: with it the description says which bytes came back."""
    found = volume.content()
    if found == expected:
        return None
    texts = {"what it should hold": expected}
    texts.update((f"what it held {len(earlier) - at} writes before", text) for at, text in enumerate(earlier))
    words = [describe(found, expected, texts)]
    if volume.level in (1, 10):
        words.append(f"rows whose copies differ: {volume.wrong_rows()[:MOST_ROWS]}")
    time.sleep(LATER_SECONDS)
    later = volume.content()
    then = "right" if later == expected else "the same" if later == found else describe(later, expected, texts)
    return "; ".join([*words, f"{LATER_SECONDS} s later: {then}"])


def wrong_rows(volume):
    """Rows whose parity does not match or whose copies differ, in words; None if there are none."""
    wrong = volume.wrong_rows()
    if not wrong:
        return None
    time.sleep(LATER_SECONDS)
    later = volume.wrong_rows()
    then = "none" if not later else "the same" if later == wrong else str(later[:MOST_ROWS])
    return f"{len(wrong)} rows are wrong: {wrong[:MOST_ROWS]}; {LATER_SECONDS} s later: {then}"


def require_content(volume, expected, message, earlier=()):
    other = other_content(volume, expected, earlier)
    require(other is None, f"{message}: {other}")


def require_no_wrong_rows(volume, more=""):
    wrong = wrong_rows(volume)
    require(wrong is None, f"{wrong}{more}")
