"""How fast an operator is on this machine, compared with its dense matrix."""

from collections.abc import Callable, Iterator
from math import isnan, nan
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from ..runtime.memory import memory
from ..runtime.threads import one_blas_thread
from ..typing import Array
from .cost import BLOCK
from .product import SparseProduct

BELOW_ONE = "Below 1× the dense matrix is faster. Products gain with size, with blocks and with fewer entries."
_SPINNING = 0.02  # seconds: after a product, threads of BLAS look for more work, and keep a core busy
_SHORTEST = 2e-5  # seconds of a measurement: shorter calls are repeated
_BURST = 0.004  # seconds of measurements in a row
_FIRST = 0.003  # seconds for the first measurements, which tell how many to take

# When a product counts as slower: so far below 1 that noise does not decide, and so large that the call does not.
_SLOWER = 0.9
_LEAST_SIZE = 128 * 128  # entries of the dense matrix, which take BLAS a few microseconds
_QUICK = (0.015, 0.03)  # seconds for one vector and for a block


class Speed(NamedTuple):
    """Seconds for a block of vectors with the dense matrix and with the product."""

    form: str  # what was applied: the operator or its adjoint
    vectors: int
    dense: float
    product: float

    @property
    def gain(self) -> float:
        return self.dense / self.product


class Speedup(NamedTuple):
    """How many times faster than the dense matrix a product is, measured on this machine.

    Below 1, the dense matrix is faster. Products gain with size, with blocks and with fewer entries.

    Attributes
    ----------
    vector : float
        For one vector, ``op @ x``.
    block : float
        For a block of ``block_size`` vectors, ``op @ X``.
    block_size : int
        256.

    Examples
    --------
    >>> from papilio.results import Speedup
    >>> speedup = Speedup(vector=3.1, block=5.2)
    >>> print(speedup)
    one vector 3.1×, 256 vectors 5.2× the dense matrix's speed
    >>> print(Speedup(vector=0.6, block=1.5))
    one vector 0.6× (slower), 256 vectors 1.5× the dense matrix's speed
    """

    vector: float
    block: float

    @property
    def block_size(self) -> int:
        """The number of vectors in the block: 256."""
        return BLOCK

    def __str__(self) -> str:
        if isnan(self.vector):
            return "not measured, as the dense matrix would take too much memory"
        vector, block = map(with_warning, self)
        return f"one vector {vector}, {BLOCK} vectors {block} the dense matrix's speed"


def in_times(gain: float) -> str:
    """A speed-up with two digits, such as "5.2×"."""
    return f"{gain:.2g}×" if gain < 99.5 else f"{gain:,.0f}×"


def is_below_one(gain: float) -> bool:
    """Whether a speed-up is below 1 with the digits that are shown."""
    return float(f"{gain:.2g}") < 1


def with_warning(gain: float) -> str:
    """A speed-up such as "5.2×" or "0.6× (slower)"."""
    return f"{in_times(gain)} (slower)" if is_below_one(gain) else in_times(gain)


def speedup_of(op: SparseProduct, budget: float = 0.15) -> Speedup:
    """An operator against a dense matrix of its shape, with ``budget`` seconds each for one vector and a block.

    The figures are NaN where the dense matrix would take more than a quarter of the machine's memory.
    """
    dense = _dense(op)
    if dense is None:
        return Speedup(nan, nan)
    return Speedup(*(compare(op, dense, vectors, budget).gain for vectors in (1, BLOCK)))


def slower_speedup(op: SparseProduct) -> Speedup | None:
    """The speed-up if the operator `is_slower`, else None.

    Takes less than 0.1 seconds unless a single product with the block does.
    """
    dense = _dense(op) if op.shape[0] * op.shape[1] >= _LEAST_SIZE else None
    if dense is None:
        return None
    vector = compare(op, dense, 1, _QUICK[0]).gain
    if vector >= _SLOWER:
        return None
    speedup = Speedup(vector, compare(op, dense, BLOCK, _QUICK[1]).gain)
    return speedup if is_slower(op, speedup) else None


def is_slower(op: SparseProduct, speedup: Speedup) -> bool:
    """Whether both figures are clearly below 1, for a matrix so large that the cost of a call does not decide."""
    return op.shape[0] * op.shape[1] >= _LEAST_SIZE and max(speedup) < _SLOWER


def both_ways(op: SparseProduct, dense: Array, block: int, budget: float = 0.3) -> Iterator[Speed]:
    """The operator and its adjoint, each for one vector and for a block; see `compare`."""
    adjoint = np.ascontiguousarray(dense.conj().T)
    for form, product, matrix in (("operator", op, dense), ("adjoint", op.H, adjoint)):
        for vectors in (1, block):
            yield compare(product, matrix, vectors, budget)._replace(form=form)


def compare(op: SparseProduct, dense: Array, vectors: int, budget: float = 0.3) -> Speed:
    """The best of several measurements of each, taken in turns, so that both see the same machine.

    The dense matrix is measured with one thread and with all. ``vectors`` is the number of columns of a block, and
    ``budget`` the seconds for all measurements; calls that take longer are measured once.
    """
    x: Any = np.ones(op.shape[1] if vectors == 1 else (op.shape[1], vectors), op.dtype)
    calls: list[Callable[[], Any]] = [lambda: dense @ x, lambda: op @ x]
    best = [_first_seconds(call) for call in calls]
    with one_blas_thread:  # on a busy machine, several threads wait for each other
        best[0] = min(best[0], _first_seconds(calls[0]))
    repeats = [max(int(_SHORTEST / seconds), 1) for seconds in best]
    end = perf_counter() + budget
    while perf_counter() + sum(best) < end:
        best[0] = _best(calls[0], repeats[0], best[0], end)
        with one_blas_thread:
            best[0] = _best(calls[0], repeats[0], best[0], end)
        sleep(_SPINNING)
        best[1] = _best(calls[1], repeats[1], best[1], end)
    return Speed("operator", vectors, best[0], best[1])


def _best(call: Callable[[], Any], repeats: int, best: float, end: float) -> float:
    """The best of a burst, at least one measurement, and what was best so far."""
    end = min(perf_counter() + _BURST, end)
    while True:
        best = min(best, _seconds(call, repeats))
        if perf_counter() > end:
            return best


def _first_seconds(call: Callable[[], Any]) -> float:
    call()  # compiles
    end, best = perf_counter() + _FIRST, _seconds(call, 1)
    while perf_counter() < end:
        best = min(best, _seconds(call, 1))
    return max(best, 1e-9)


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Seconds per call."""
    begin = perf_counter()
    for _ in range(repeats):
        call()
    return (perf_counter() - begin) / repeats


def _dense(op: SparseProduct) -> Array | None:
    """A dense matrix of the same shape, as BLAS is equally fast for all values; None if it takes much memory."""
    rows, columns = op.shape
    n_bytes = (rows * columns + BLOCK * (rows + columns)) * op.dtype.itemsize
    return None if 4 * n_bytes > memory() else np.ones(op.shape, op.dtype)
