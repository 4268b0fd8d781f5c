"""Text for the terminal: names of files, and of what they hold, may hold control characters."""


def printable(text: object) -> str:
    """``text`` with escapes such as ``\\x1b`` or ``\\n`` for all characters that do not print."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
