"""How much memory this machine has, and what does not fit into it."""

import os


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
