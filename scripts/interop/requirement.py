"""The exceptions of failed cases."""


class Failed(Exception):
    """A requirement of a case is not met."""


def require(holds, what):
    if not holds:
        raise Failed(what)


class NotTried(Failed):
    """Because of md or its machine, the case could not do what it tests: a job did not end, a stopped array kept a
    drive open, md did not stop where it was told to. This says nothing about the content of the drives."""
