"""Shows the progress of long work on standard error: on a terminal in one line that stays in place, elsewhere in a
dated line from time to time.

    with Progress("bugs", len(bugs)) as progress:
        for number, bug in enumerate(bugs):
            progress.at(number, bug)
"""
import shutil
import sys
import threading
import time

# Seconds between two lines, if standard error is not a terminal.
QUIET_SECONDS = 60
# Work that is shorter than this prints nothing.
SHOWN_AFTER_SECONDS = 2
CLEAR = "\r\033[K"


class Progress:
    """Work called `what`; `total` is the number of steps, if known."""

    def __init__(self, what, total=None):
        self.what, self.total, self.done, self.words = what, total, 0, ""
        self.begun = self.said = time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def at(self, done, words=""):
        """`done` steps are finished, and `words` say what comes next."""
        self.done, self.words = done, words

    def say(self, text, file=None):
        """Prints a line that stays on the screen."""
        if self.is_terminal:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
        print(text, file=file or sys.stderr, flush=True)

    def _line(self):
        seconds = int(time.monotonic() - self.begun)
        of = f" {self.done} of {self.total}" if self.total else ""
        return f"{self.what}{of}, {seconds // 60} min {seconds % 60} s  {self.words}".rstrip()

    def _go_on(self):
        while not self.is_over.wait(1):
            now = time.monotonic()
            if self.is_terminal and now - self.begun >= SHOWN_AFTER_SECONDS:
                width = shutil.get_terminal_size().columns - 1
                sys.stderr.write(CLEAR + self._line()[:width])
                sys.stderr.flush()
            elif not self.is_terminal and now - self.said >= QUIET_SECONDS:
                self.said = now
                print(time.strftime("%F %T ") + self._line(), file=sys.stderr, flush=True)
        if self.is_terminal:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
