"""The cost model's figures as they are on this machine: measured once per process, in some tenths of a second."""

from collections.abc import Callable, Iterator
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from ..kernels.simd import HEIGHTS
from ..runtime.threads import get_num_threads, one_blas_thread
from ..typing import Array
from .cost import BLOCK, Rates, cost_of, rates
from .packing import PackedFactor, pack_factor
from .product import SparseProduct
from .segments import Fused
from .speed import compare

_SHAPES = ((64, 64), (64, 128), (256, 256), (512, 512), (128, 1024))
_DENSITIES = (0.04, 0.4)
_SECONDS = 0.005  # for each measurement
_REFERENCE_SECONDS = 0.05  # for that of the dense matrix
_COMPARISON_SECONDS = 0.08  # for a product and the dense matrix
_PRIOR = 0.02  # the weight of the fixed figures beside the measurements


def best_seconds(call: Callable[[], Any], budget: float = _SECONDS) -> float:
    """The shortest time of a call, of as many as the budget allows, but at least three."""
    call()
    best, count, end = np.inf, 0, perf_counter() + budget
    while count < 3 or perf_counter() < end:
        begin = perf_counter()
        call()
        best, count = min(best, perf_counter() - begin), count + 1
    return best


@cache
def calibrated(dtype: np.dtype[Any], vectors: int, threads: int) -> Rates:
    """The figures of `papilio.operators.cost`, in nanoseconds per vector, for ``vectors`` at a time.

    The time of a product is a sum of its parts' numbers times these figures. They are fitted to the times of some
    factors by least squares of relative errors, with none of them negative.
    """
    probes = list(_probes(dtype))
    times = [best_seconds(_call(*probe, dtype, vectors)) * 1e9 / vectors for probe in probes]
    units = [Rates(*row) for row in np.eye(len(Rates._fields))]
    counts = np.array([[cost_of([factor], [by_blas], unit) for unit in units] for factor, by_blas in probes])
    # In units of the fixed figures, which decide where measurements tell nothing.
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
    seconds = best_seconds(lambda: dense @ x, _REFERENCE_SECONDS)
    with one_blas_thread:
        seconds = min(seconds, best_seconds(lambda: dense @ x, _REFERENCE_SECONDS))
    return Reference(seconds, vectors, calibrated(dtype, vectors, get_num_threads()))


def vectors_of(length: int, dtype: np.dtype[Any], vectors: int) -> Array:
    return np.ones(length if vectors == 1 else (length, vectors), dtype)


def _probes(dtype: np.dtype[Any]) -> Iterator[tuple[PackedFactor, bool]]:
    """Factors with random supports of groups of each height, and then some for BLAS.

    Threads of BLAS look for more work for a while after a product, and would disturb the kernels.
    """
    random, dense = np.random.default_rng(0), []
    for m, n in _SHAPES:
        for density in _DENSITIES:
            for height in HEIGHTS:
                mask = np.repeat(random.random((m // height, n)) < density, height, axis=0)
                factor = pack_factor(sp.csr_array(mask.astype(dtype)))
                yield factor, False
        dense.append(factor)
    for factor in dense:
        yield factor, True


def _call(factor: PackedFactor, by_blas: bool, dtype: np.dtype[Any], vectors: int) -> Callable[[], Any]:
    x = vectors_of(factor.shape[1], dtype, vectors)
    if by_blas:
        matrix = factor.matrix
        return lambda: matrix @ x
    fused = Fused([factor], dtype)
    return lambda: fused.vector(x) if vectors == 1 else fused.block(x)
