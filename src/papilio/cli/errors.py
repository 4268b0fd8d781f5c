"""How commands end other than well."""


class BadInput(Exception):
    """What was handed in cannot be used: exit code 2."""


class Failed(Exception):
    """What was asked for could not be done: exit code 1."""


class Stopped(Exception):
    """Ctrl-C, after saying what is kept: exit code 130."""
