"""How much memory this machine has, and what does not fit into it.

A few bytes of a file can stand for gigabytes. Plain arrays are as large as their file; compressed, sparse and
image files are not, and their readers ask here before they allocate.
"""

import os

_VARIABLE = "PAPILIO_MAX_FILE_BYTES"
_CEILING = 1 << 30  # bytes
_RATIO = 4  # what grows no more than this is no surprise: text of short numbers, packed measurements
_PER_LINE = 32  # bytes for a row or column of a sparse matrix: its pointer, and copies of it in other formats


def memory() -> int:
    """The bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 1 << 34


def require_fits(name: str, n_bytes: int) -> None:
    """Refuse a size called ``name`` whose result, of ``n_bytes``, this machine cannot hold."""
    if n_bytes > memory():
        raise ValueError(
            f"{name} must leave a result that fits into memory, {memory():,} bytes, got one of {n_bytes:,} bytes"
        )


class TooLarge(ValueError):
    """A file, perhaps sound, that takes more memory than it may."""


def require_room(n_bytes: int, held: int = 0) -> None:
    """Refuse to unpack ``held`` bytes of a file into ``n_bytes``, if these are too many.

    Accepted are 1 GiB, or four times ``held`` if that is more, up to the memory of this machine; or what the
    environment variable ``PAPILIO_MAX_FILE_BYTES`` says.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and not (wanted.isdecimal() and int(wanted) > 0):
        raise ValueError(f"the environment variable {_VARIABLE} must be a positive integer, got {wanted!r}")
    limit = int(wanted) if wanted else min(max(_CEILING, _RATIO * held), memory())
    if n_bytes > limit:
        raise TooLarge(
            f"it is too large: it unpacks to {n_bytes:,} bytes, and {limit:,} are accepted; "
            f"the environment variable {_VARIABLE} sets another limit"
        )


def require_memory(n_bytes: int) -> None:
    """Refuse what this machine cannot hold, be it all in the file; a file may have holes, which take no place."""
    if n_bytes > memory():
        raise TooLarge(f"it takes {n_bytes:,} bytes, more than this machine's memory")


def require_sides(shape: tuple[int, ...], held: int = 0) -> None:
    """Refuse the shape of a sparse matrix: it may claim any, but each row or column takes memory."""
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"it must be a matrix with rows and columns, got shape {shape}")
    require_room(_PER_LINE * max(shape), held)
