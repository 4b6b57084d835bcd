"""What a case says when it does not hold."""


class Failed(Exception):
    """A case does not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)


class Hung(Failed):
    """md's machine stands still: a job did not end, or what it has stopped still holds a drive. Says nothing about what
    is on the drives."""
