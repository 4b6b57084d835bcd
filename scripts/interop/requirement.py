"""What a case says when it does not hold."""


class Failed(Exception):
    """A case does not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)
