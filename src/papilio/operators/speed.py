"""How fast an operator is: the timer, speed-ups over the dense matrix, measured on this machine or modelled."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isnan, nan
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..runtime.threads import one_blas_thread
from ..typing import Array
from ..validation import memory
from .cost import BLOCK, rates
from .product import SparseProduct

if TYPE_CHECKING:
    pass

BELOW_ONE = "Below 1× the dense matrix is faster. Products gain with size, with blocks and with fewer entries."
_SPINNING = 0.02  # seconds: after a product, threads of BLAS look for more work, and keep a core busy
_SHORTEST = 2e-5  # seconds of a measurement: shorter calls are repeated
_BURST = 0.004  # seconds of measurements in a row
_FIRST = 0.003  # Seconds for the first measurements, which determine how many follow.

# When a product counts as slower: so far below 1 that noise does not decide, and so large that the call does not.
_SLOWER = 0.9
_LEAST_SIZE = 128 * 128  # entries of the dense matrix, which take BLAS a few microseconds


_COMPARISON_SECONDS = 0.08  # Duration for a product and the dense matrix.


# -- the timer -----------------------------------------------------------------------------------------


def best_times(
    calls: Sequence[Callable[[], Any]],
    budget: float,
    contexts: Sequence[AbstractContextManager[Any]] | None = None,
    pause: float = 0.0,
) -> list[float]:
    """The best of several measurements of each call, in seconds, taken in turns so that all see the same machine.

    ``budget`` is for all measurements; calls that take longer are measured once. A call runs within its context,
    and the last one of each turn begins after a ``pause``, as threads of BLAS keep a core busy for a while.
    """
    contexts = contexts or [nullcontext()] * len(calls)
    best = []
    for call, context in zip(calls, contexts, strict=True):
        with context:
            call()  # compiles
            best.append(max(_burst(call, 1, np.inf, perf_counter() + _FIRST), 1e-9))
    repeats = [max(int(_SHORTEST / seconds), 1) for seconds in best]
    end = perf_counter() + budget
    while perf_counter() + sum(best) < end:
        for i, (call, context) in enumerate(zip(calls, contexts, strict=True)):
            if i == len(calls) - 1:
                sleep(pause)
            with context:
                best[i] = _burst(call, repeats[i], best[i], min(perf_counter() + _BURST, end))
    return best


def _burst(call: Callable[[], Any], repeats: int, best: float, end: float) -> float:
    """Seconds per call: the best of measurements of so many ``repeats``, at least one, and of ``best``."""
    while True:
        begin = perf_counter()
        for _ in range(repeats):
            call()
        now = perf_counter()
        best = min(best, (now - begin) / repeats)
        if now > end:
            return best


# -- speed-ups -----------------------------------------------------------------------------------------


class Speed(NamedTuple):
    """Seconds for a block of vectors with the dense matrix and with the product."""

    form: str  # "operator" or "adjoint".
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


def modelled_speedup(op: SparseProduct) -> Speedup:
    """The speed-up by the model, with its fixed figures: the same in each run, whatever else the machine does."""
    return Speedup(1 / modelled_share(op, 1), 1 / modelled_share(op, BLOCK))


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
    """The best times of both, with ``vectors`` columns and ``budget`` seconds for all measurements.

    The dense matrix is measured with one thread and with all: on a busy machine, several threads wait for each
    other.
    """
    op._packed()  # Measure it in the form that it has after its first uses.
    x = vectors_of(op.shape[1], op.dtype, vectors)
    calls = [lambda: dense @ x, lambda: dense @ x, lambda: op @ x]
    times = best_times(calls, budget, [nullcontext(), one_blas_thread, nullcontext()], _SPINNING)
    return Speed("operator", vectors, min(times[:2]), times[2])


def vectors_of(length: int, dtype: np.dtype[Any], vectors: int) -> Array:
    return np.ones(length if vectors == 1 else (length, vectors), dtype)


def _dense(op: SparseProduct) -> Array | None:
    """A dense matrix of the same shape, as BLAS is equally fast for all values; None if it takes much memory."""
    rows, columns = op.shape
    n_bytes = (rows * columns + BLOCK * (rows + columns)) * op.dtype.itemsize
    return None if 4 * n_bytes > memory() else np.ones(op.shape, op.dtype)


# -- shares of the dense matrix's time -------------------------------------------------------------------


def modelled_share(op: SparseProduct, vectors: int) -> float:
    """The time of a product over that of the dense matrix, by the model with its fixed figures."""
    rate = rates(op.dtype, vectors > 1)
    if vectors > 1:
        rate = rate._replace(call=rate.call * BLOCK / vectors)
    return op._packed().cost(rate, vectors > 1) / rate.blas(op.shape)


def measured_share(op: SparseProduct, vectors: int) -> float:
    """The same, measured: both in turns, so that they see the same machine."""
    return 1 / compare(op, np.ones(op.shape, op.dtype), vectors, _COMPARISON_SECONDS).gain
