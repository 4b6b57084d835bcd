"""A bar with the time that is left, on a terminal only, and only for what takes longer than two seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

# Shorter work needs no bar.
_DELAY_SECONDS = 2.0


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with the work done and all work."""
    # disable=None: no bar unless standard error is a terminal.
    with tqdm(
        desc=what,
        total=0,
        delay=_DELAY_SECONDS,
        disable=None,
        leave=False,
        bar_format="{desc} {percentage:3.0f} % |{bar}| {elapsed}, {remaining} left",
    ) as shown:

        def show(done: int, all_of_it: int) -> None:
            shown.total = all_of_it
            shown.update(done - shown.n)

        yield show
