"""How fast an operator is on this machine: the timer, speed-ups over the dense matrix, calibration of the model.

Everything here is measured, and so not the same in each run; `papilio.operators.cost` is the model with fixed
figures.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import isnan, nan
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from ..runtime.threads import get_num_threads, one_blas_thread
from ..typing import Array
from ..validation import memory
from .cost import BLOCK, HEIGHTS, Rates, cost_of, rates
from .product import SparseProduct

if TYPE_CHECKING:
    from .engine import PackedFactor

BELOW_ONE = "Below 1× the dense matrix is faster. Products gain with size, with blocks and with fewer entries."
_SPINNING = 0.02  # seconds: after a product, threads of BLAS look for more work, and keep a core busy
_SHORTEST = 2e-5  # seconds of a measurement: shorter calls are repeated
_BURST = 0.004  # seconds of measurements in a row
_FIRST = 0.003  # Seconds for the first measurements, which determine how many follow.

# When a product counts as slower: so far below 1 that noise does not decide, and so large that the call does not.
_SLOWER = 0.9
_LEAST_SIZE = 128 * 128  # entries of the dense matrix, which take BLAS a few microseconds


_SHAPES = ((64, 64), (64, 128), (256, 256), (512, 512), (128, 1024))
_DENSITIES = (0.04, 0.4)
_PROBE_SECONDS = 0.005  # Duration of each measurement.
_REFERENCE_SECONDS = 0.05  # Duration of the measurement of the dense matrix.
_COMPARISON_SECONDS = 0.08  # Duration for a product and the dense matrix.
_PRIOR = 0.02  # Weight of the fixed figures relative to the measurements.


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
    gains = []
    for is_block in (False, True):
        rate = rates(op.dtype, is_block)
        gains.append(rate.blas(op.shape) / op._packed().cost(rate, is_block))
    return Speedup(*gains)


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


# -- calibration ---------------------------------------------------------------------------------------


@cache
def calibrated(dtype: np.dtype[Any], vectors: int, threads: int) -> Rates:
    """The figures of `papilio.operators.cost`, in nanoseconds per vector, for ``vectors`` at a time.

    The time of a product is a sum of its parts' numbers times these figures. They are fitted to the times of some
    factors by least squares of relative errors, with none of them negative.
    """
    probes = list(_probes(dtype))
    times = [best_times([_call(*probe, dtype, vectors)], _PROBE_SECONDS)[0] * 1e9 / vectors for probe in probes]
    units = [Rates(*row) for row in np.eye(len(Rates._fields))]
    counts = np.array([[cost_of([factor], [by_blas], unit) for unit in units] for factor, by_blas in probes])
    # In units of the fixed figures, which decide where there are no measurements.
    known = np.array(rates(dtype, vectors > 1))
    known[Rates._fields.index("call")] *= 1 if vectors == 1 else BLOCK / vectors
    known = np.maximum(known, 1e-6)
    matrix = counts * known / np.array(times)[:, None]
    prior = _PRIOR * np.linalg.norm(matrix, axis=0).mean() * np.eye(len(units))
    wanted = np.concatenate([np.ones(len(times)), prior.sum(axis=1)])
    return Rates(*(nnls(np.vstack([matrix, prior]), wanted)[0] * known))


class Reference(NamedTuple):
    """How long a dense matrix of one shape takes, and the figures for products in its place."""

    seconds: float
    vectors: int
    rates: Rates

    def share_of(self, op: SparseProduct) -> float:
        """The modelled time of a product over that of the dense matrix."""
        return 1e-9 * self.vectors * op._packed().cost(self.rates, self.vectors > 1) / self.seconds

    def measured_share_of(self, op: SparseProduct) -> float:
        """The same, measured: both in turns, so that they see the same machine."""
        return 1 / compare(op, np.ones(op.shape, op.dtype), self.vectors, _COMPARISON_SECONDS).gain


def reference_for(shape: tuple[int, int], dtype: np.dtype[Any], vectors: int) -> Reference:
    """Measures the dense matrix, with one thread or all, whichever is faster."""
    dense, x = np.ones(shape, dtype), vectors_of(shape[1], dtype, vectors)
    times = best_times([lambda: dense @ x] * 2, 2 * _REFERENCE_SECONDS, [nullcontext(), one_blas_thread])
    return Reference(min(times), vectors, calibrated(dtype, vectors, get_num_threads()))


def _probes(dtype: np.dtype[Any]) -> "Iterator[tuple[PackedFactor, bool]]":
    """Factors with random supports of groups of each height, and then some for BLAS.

    Threads of BLAS look for more work for a while after a product, and would disturb the kernels.
    """
    from .engine import PackedFactor  # loads numba, which `import papilio` does not

    random, dense = np.random.default_rng(0), []
    for m, n in _SHAPES:
        for density in _DENSITIES:
            for height in HEIGHTS:
                mask = np.repeat(random.random((m // height, n)) < density, height, axis=0)
                factor = PackedFactor(sp.csr_array(mask.astype(dtype)))
                yield factor, False
        dense.append(factor)
    for factor in dense:
        yield factor, True


def _call(factor: "PackedFactor", by_blas: bool, dtype: np.dtype[Any], vectors: int) -> Callable[[], Any]:
    x = vectors_of(factor.shape[1], dtype, vectors)
    if by_blas:
        matrix = factor.matrix
        return lambda: matrix @ x
    from .engine import Fused

    fused = Fused([factor], dtype)
    return lambda: fused.vector(x) if vectors == 1 else fused.block(x)
