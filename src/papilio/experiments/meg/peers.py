"""pyfaust's hierarchical strategy for a gain matrix, within a limit of time."""

import multiprocessing
from importlib.util import find_spec
from math import ceil
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any, NamedTuple

from ...linalg import frobenius
from ...typing import Array

_FACTORS, _PER_ROW, _DECAY = 4, 8, 0.8  # of "rectmat": the number of factors, entries per row, and rho
_ITERATIONS = 30  # of each split and each global step, also of "rectmat"


class Fit(NamedTuple):
    """Entries, error, seconds, and those of the processor.

    Without a result, the error is infinite, and the seconds are those of the wait.
    """

    entries: int
    error: float
    seconds: float
    cpu_seconds: float


def is_available() -> bool:
    """Whether pyfaust is installed."""
    return find_spec("pyfaust") is not None


def rectmat(shape: tuple[int, int], entries: int) -> tuple[int, float]:
    """The parameters k and P with which all factors have ``entries`` together: P·m²·ρ² + 2·s·m + k·n.

    k is the number of entries per column of the last factor. As few as possible, they leave the first factor with
    as many entries as it can hold.
    """
    m, n = shape
    others = (_FACTORS - 2) * _PER_ROW * m
    k = max(ceil((entries - others - m * m) / n), 1)
    return k, (entries - others - k * n) / (m * m * _DECAY ** (_FACTORS - 2))


def factorize(matrix: Array, entries: int, limit: float) -> Fit:
    """A fit in a process of its own, which is ended after ``limit`` seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, matrix, entries), daemon=True)
    process.start()
    sender.close()
    try:
        started = receiver.poll(60.0) and receiver.recv()  # without the time that imports take
        begin = perf_counter()
        if started and receiver.poll(limit):
            return Fit(*receiver.recv())
        return Fit(entries, float("inf"), perf_counter() - begin, float("nan"))
    except EOFError:
        raise RuntimeError("pyfaust ended without a result") from None
    finally:
        process.terminate()
        process.join()


def _work(sender: Connection, matrix: Array, entries: int) -> None:
    import numpy as np
    from pyfaust.fact import hierarchical

    parameters = _transposed_rectmat(matrix.shape, entries)
    target = np.asfortranarray(matrix.T)
    sender.send(True)
    begin, cpu_begin = perf_counter(), process_time()
    product = hierarchical(target, parameters, backend=2020)
    seconds = perf_counter() - begin, process_time() - cpu_begin
    error = frobenius(target - product.toarray()) / frobenius(target)
    sender.send((int(product.nnz_sum()), float(error), *seconds))


def _transposed_rectmat(shape: tuple[int, int], entries: int) -> Any:
    """The sets and iterations of "rectmat", mirrored, for the transposed matrix.

    In each iteration pyfaust computes all of XᵀX̂ for its trace. For a wide X that takes half a minute, and almost
    all of the time; for the transposed one it is a small product. The problem is the same, and errors differ
    little.
    """
    from pyfaust.factparams import ConstraintInt, ParamsHierarchical, StoppingCriterion

    m, n = shape
    k, dense = rectmat(shape, entries)
    factors = [ConstraintInt("splin", n, m, k)] + [ConstraintInt("sp", m, m, _PER_ROW * m)] * (_FACTORS - 2)
    residuals = [ConstraintInt("sp", m, m, ceil(dense * m * m * _DECAY**i)) for i in range(_FACTORS - 1)]
    limit = StoppingCriterion(num_its=_ITERATIONS)
    return ParamsHierarchical(factors, residuals, limit, limit, is_update_way_R2L=False, is_fact_side_left=False)
