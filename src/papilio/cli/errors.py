"""How a command may end other than well."""

from .text import printable


class _Ending(Exception):
    """One line for the terminal."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BadInput(_Ending):
    """A usage error: an argument or a file that cannot be used. Exit code 2."""


class Failed(_Ending):
    """The work could not be done. Exit code 1."""


class Stopped(_Ending):
    """Ctrl-C or SIGTERM; the message says what is kept. Exit code 130 or 143."""
