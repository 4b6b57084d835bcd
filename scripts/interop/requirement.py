"""What a case says when it does not hold."""


class Failed(Exception):
    """A case does not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)


class NotTried(Failed):
    """Because of md or its machine the case did not come to what it tries: a job did not end, a stopped array keeps a
    drive open, md did not stop where it was told to. Says nothing about what is on the drives."""
