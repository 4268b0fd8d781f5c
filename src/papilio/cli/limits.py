"""How much this machine can hold: files that claim more are refused before anything is allocated."""

from ..runtime.memory import memory as memory


def check_sides(shape: tuple[int, ...]) -> None:
    """A sparse matrix with few entries may claim any size, but each row or column takes a pointer."""
    if any(side < 0 or 32 * side > memory() for side in shape):
        raise ValueError(f"a matrix of shape {shape} does not fit into this machine's memory")
