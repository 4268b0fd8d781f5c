"""How fast an operator is on this machine, compared with its dense matrix."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..runtime.threads import one_blas_thread
from ..typing import Array

BELOW_ONE = "Below 1× the dense matrix is faster. Products gain with size, with blocks and with fewer entries."
_SHORTEST = 2e-5  # seconds of a measurement: shorter calls are repeated
_BURST = 5


class Speed(NamedTuple):
    """Seconds for a block of vectors with the dense matrix and with the product."""

    form: str  # what was applied: the operator or its adjoint
    vectors: int
    dense: float
    product: float

    @property
    def gain(self) -> float:
        return self.dense / self.product


def both_ways(op: SparseProduct, dense: Array, block: int, budget: float = 0.3) -> Iterator[Speed]:
    """The operator and its adjoint, each for one vector and for a block; see `compare`."""
    adjoint = np.ascontiguousarray(dense.conj().T)
    for form, product, matrix in (("operator", op, dense), ("adjoint", op.H, adjoint)):
        for vectors in (1, block):
            yield compare(product, matrix, vectors, budget)._replace(form=form)


def compare(op: SparseProduct, dense: Array, vectors: int, budget: float = 0.3) -> Speed:
    """The best of several measurements of each, taken in turns, so that both see the same machine.

    The dense matrix is measured with one thread and with all. ``vectors`` is the number of columns of a block, and
    ``budget`` the seconds for all measurements.
    """
    random = np.random.default_rng(0)
    x: Any = random.standard_normal(op.shape[1] if vectors == 1 else (op.shape[1], vectors)).astype(op.dtype)
    calls: list[Callable[[], Any]] = [lambda: dense @ x, lambda: op @ x]
    repeats = [_repeats(call) for call in calls]
    best = [np.inf, np.inf]
    end = perf_counter() + budget
    while np.inf in best or perf_counter() < end:
        for i, call in enumerate(calls):
            # In bursts: after its turn, the threads of the other one still spin for a while.
            best[i] = min(best[i], *(_seconds(call, repeats[i]) for _ in range(_BURST)))
        with one_blas_thread:  # on a busy machine, several threads wait for each other
            best[0] = min(best[0], *(_seconds(calls[0], repeats[0]) for _ in range(_BURST)))
    return Speed("operator", vectors, best[0], best[1])


def _repeats(call: Callable[[], Any]) -> int:
    call()  # compiles
    return max(int(_SHORTEST / max(min(_seconds(call, 1) for _ in range(5)), 1e-9)), 1)


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Seconds per call."""
    begin = perf_counter()
    for _ in range(repeats):
        call()
    return (perf_counter() - begin) / repeats
