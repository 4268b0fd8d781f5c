"""How a command may end other than well."""


class BadInput(Exception):
    """A usage error: an argument or a file that cannot be used. Exit code 2."""


class Failed(Exception):
    """The work could not be done. Exit code 1."""


class Stopped(Exception):
    """Ctrl-C or SIGTERM; the message says what is kept. Exit code 130 or 143."""
