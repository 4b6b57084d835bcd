"""What is different where drives do not hold what they should: the words of a failure that nobody sees a second time."""
import time

from .requirement import Failed

SECTOR = 512
# Ranges that a failure names.
MOST_RANGES = 6
# A write that comes late, after everybody has said it is done, is there by then.
LATER_SECONDS = 2


def ranges(found, expected):
    """Where sectors differ: pairs of begin and end in bytes."""
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
    """Where those bytes come from: `texts` gives names to what was ever written."""
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


def require_content(volume, expected, message, earlier=()):
    """The volume holds that. `earlier` is what it held before, oldest first: a failure says which bytes came back."""
    found = volume.content()
    if found == expected:
        return
    texts = {"what it should hold": expected}
    texts.update((f"what was written {len(earlier) - at} before", text) for at, text in enumerate(earlier))
    copies = []
    if volume.level in (1, 10):
        wrong = volume.wrong_rows()
        copies = [f"rows whose copies differ: {wrong[:9]} of {len(wrong)}"]
    first = describe(found, expected, texts)
    time.sleep(LATER_SECONDS)
    later = volume.content()
    then = "right" if later == expected else "the same" if later == found else describe(later, expected, texts)
    raise Failed("; ".join([message, first, *copies, f"{LATER_SECONDS} s later: {then}"]))


def require_no_wrong_rows(volume, more=""):
    """Parity matches, and copies are the same."""
    wrong = volume.wrong_rows()
    if not wrong:
        return
    time.sleep(LATER_SECONDS)
    later = volume.wrong_rows()
    then = "none" if not later else "the same" if later == wrong else str(later[:9])
    raise Failed(f"{len(wrong)} rows are wrong: {wrong[:9]}; {LATER_SECONDS} s later: {then}{more}")
