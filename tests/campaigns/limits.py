"""What a case may take."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Seconds and bytes for one case, and seconds until a process is ready for its first one."""

    seconds: float = 60.0
    bytes: int = 2 << 30
    start: float = 600.0  # kernels may have to be compiled


LIMITS = Limits()
