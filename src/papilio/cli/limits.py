"""What this machine can hold: files that claim more are refused before anything is allocated."""

import os


def memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 1 << 34


def check_sides(shape: tuple[int, ...]) -> None:
    """A sparse matrix may claim any size with few entries, but each line of it takes a pointer."""
    if any(side < 0 or 32 * side > memory() for side in shape):
        raise ValueError(f"a matrix of shape {shape} does not fit into this machine's memory")
