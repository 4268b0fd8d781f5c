"""Codes with an ℓ1 penalty, in dictionaries that are ready for pursuit."""

import warnings
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.active_set import code_by_gram
from ..kernels.pursuit import pack
from ..kernels.working_set import Working, choose, refit
from ..runtime.session import Session
from ..runtime.threads import one_blas_thread, scratch, split_work
from ..typing import Array, MatrixLike
from ..validation import as_flag, as_integer, as_matrix, as_real, as_sparse, require_finite
from .coder import Coder
from .rows import as_columns

TOL = 1e-9
MAX_ITER = 10_000
_CHUNK = 1 << 18  # correlations that a thread works on at a time
_SMALL, _LARGE = 512, 2048  # atoms: coded by the whole Gram matrix, and not by it, however many signals there are
_PER_ATOM = 0.25  # signals from which on the whole Gram matrix pays, in between
_TOGETHER = 64  # signals whose correlations are computed together
_WORKING_BYTES = 1 << 28  # of the Gram matrices of working sets, at worst
_ROOM = 24  # atoms in a working set, at first
_ROUNDING = 8  # rounding errors of a duality gap, in which no tolerance is smaller


class _Problem(NamedTuple):
    """What all signals share; they and the atoms have unit norms, so that the penalty has weights."""

    coder: Coder
    alpha: float
    positive: bool
    tol: float
    max_iter: int
    sizes: Array  # ‖d_j‖
    penalties: Array  # 1/‖d_j‖

    @property
    def options(self) -> tuple[bool, float, float, int]:
        eps = float(np.finfo(self.coder._dtype).eps)
        return self.positive, max(0.5 * self.tol, _ROUNDING * eps), eps, self.max_iter

    @property
    def width(self) -> int:
        """One more than the largest number of independent atoms."""
        return min(self.coder.shape) + 1


class _Codes(NamedTuple):
    counts: Array
    indices: Array
    values: Array
    n_unsolved: int


def lasso_codes(
    coder: Coder,
    signals: Array,
    alpha: float,
    positive: bool = False,
    init: MatrixLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    session: Session | None = None,
) -> sp.csc_array:
    """What `lasso` does, for a matrix of signals that is known to be finite; a session may show the progress."""
    (n_features, n_atoms), count = coder.shape, signals.shape[1]
    if signals.shape[0] != n_features:
        raise ValueError(f"signals must have {n_features} rows, as the dictionary has, got {signals.shape[0]}")
    if coder._dtype.kind == "c":
        raise ValueError(f"dictionary and signals must be real for a lasso, got {coder._dtype}")
    problem = _Problem(
        coder,
        as_alpha("alpha", alpha),
        as_flag("positive", positive),
        as_real("tol", tol, 0.0),
        as_integer("max_iter", max_iter, 1),
        np.divide(1.0, coder._inverse_norms, where=coder._inverse_norms > 0, out=np.zeros(n_atoms)).astype(
            coder._dtype
        ),
        coder._inverse_norms,
    )
    start = _as_start(init, (n_atoms, count), problem.positive)
    if count == 0:
        return sp.csc_array((n_atoms, 0), dtype=coder._dtype)
    if by_gram := n_atoms <= _SMALL or (n_atoms <= _LARGE and count >= _PER_ATOM * n_atoms):
        length = max(min(_CHUNK // n_atoms, _CHUNK // problem.width), 1)
    else:
        length = int(np.clip(_WORKING_BYTES // (8 * problem.width**2), 16, _TOGETHER))
    code_chunk = _by_gram if by_gram else _by_working_sets
    _prepare(coder, by_gram)
    starts, caller = range(0, count, length), get_ident()
    parts: list[Any] = [None] * len(starts)
    if session is not None:
        session.tick("signal", 0, count)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            some = slice(starts[i], min(starts[i] + length, count))
            parts[i] = _coded(problem, signals[:, some].T, None if start is None else start[:, some], code_chunk)
            if session is not None and get_ident() == caller:
                session.tick("signal", min((len(parts) - parts.count(None)) * length, count), count)

    if len(starts) > 1:
        with one_blas_thread:
            split_work(run, len(starts), 1, shares=len(starts))
    else:
        run(0, 1)
    *found, unsolved = zip(*parts, strict=True)
    counts, indices, values = map(np.concatenate, found)
    coder._require_finite(values)
    _warn_of(sum(unsolved))
    return as_columns(counts, indices, values, n_atoms)


def as_alpha(name: str, value: Any) -> float:
    """``value`` as a penalty."""
    alpha = as_real(name, value, 0.0)
    if alpha == 0:
        raise ValueError(f"{name} must be above 0, got 0: without a penalty, codes are those of least squares")
    return alpha


def _as_start(init: MatrixLike | None, shape: tuple[int, int], positive: bool) -> Any:
    """``init`` as a csc_array without zeros."""
    if init is None:
        return None
    start = as_sparse("init", init) if sp.issparse(init) else as_matrix("init", init)
    if start.shape != shape:
        raise ValueError(f"init must have shape {shape}, one code per signal, got {start.shape}")
    if start.dtype.kind == "c":
        raise ValueError(f"init must be real, got {start.dtype}")
    codes = sp.csc_array(start, dtype=np.float64, copy=True)
    codes.sum_duplicates()
    require_finite("init", codes.data)
    if positive:
        np.maximum(codes.data, 0, out=codes.data)
    codes.eliminate_zeros()
    return codes


def _prepare(coder: Coder, by_gram: bool) -> None:
    """Compute what the threads only read."""
    if by_gram:
        if coder._gram is None:
            coder._gram = coder._whole_gram()
        return
    if coder._dense is None:  # working sets look up atoms
        assert coder._product is not None
        coder._dense, coder._is_unit = coder._product.toarray(), False
    coder._dense = np.asfortranarray(coder._dense)


def _coded(problem: _Problem, signals: Array, start: Any, code_chunk: Any) -> _Codes:
    """Codes of some signals, one per row."""
    coder = problem.coder
    (unit,) = scratch("lasso", (signals.shape, coder._dtype))
    unit[:] = signals
    norms = coder._normalize(unit)
    levels = np.full(len(norms), np.inf)
    is_zero = norms <= 1 / np.finfo(coder._dtype).max
    with np.errstate(over="ignore", under="ignore"):
        np.divide(problem.alpha, norms, out=levels, where=~is_zero)
    np.maximum(levels, np.finfo(np.float64).tiny, out=levels)
    init = np.zeros(len(norms) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    if start is not None:
        values = start.data * problem.sizes[start.indices]
        with np.errstate(over="ignore", invalid="ignore"):
            values /= np.repeat(np.where(is_zero, 1, norms), np.diff(start.indptr))
        values[~np.isfinite(values)] = 0
        init = start.indptr.astype(np.int64), start.indices.astype(np.int64), values
    return code_chunk(problem, unit, norms, levels, init)


def _by_gram(problem: _Problem, unit: Array, norms: Array, levels: Array, init: Any) -> _Codes:
    """Codes of signals of unit norm, one per row, by the whole Gram matrix."""
    coder, shape = problem.coder, (len(unit), problem.width)
    correlations, chosen, codes = scratch(
        "lasso by Gram matrix", ((len(unit), coder.shape[1]), coder._dtype), (shape, np.int64), (shape, np.float64)
    )
    correlations = coder._correlate(unit, correlations)
    counts, gaps, done = np.zeros(len(unit), np.int64), np.zeros(len(unit)), np.ones(len(unit), bool)
    results = chosen, codes, counts, gaps, done

    def run(start: int, stop: int) -> None:
        code_by_gram(
            correlations,
            coder._gram,
            problem.sizes,
            problem.penalties,
            levels,
            init,
            results,
            problem.options,
            start,
            stop,
        )

    split_work(run, len(unit), 16, shares=4)
    indices = np.empty(int(counts.sum()), np.int64)
    values = np.empty(indices.size, coder._dtype)
    pack(counts, chosen, codes, norms, coder._inverse_norms, indices, values)
    return _Codes(counts, indices, values, int((~done).sum()))


def _by_working_sets(problem: _Problem, unit: Array, norms: Array, levels: Array, init: Any) -> _Codes:
    """Codes of signals of unit norm, one per row, by correlations with their residuals."""
    coder, count = problem.coder, len(unit)
    assert coder._dense is not None
    rows, scales = coder._dense.T, np.ones_like(coder._scales) if coder._is_unit else coder._scales
    weights, options = (problem.sizes, problem.penalties, levels), problem.options
    residuals, state = unit.copy(), _working(problem, init, count)
    state.done[:] = levels == np.inf

    def solve(active: Array, state: Working) -> None:
        def run(start: int, stop: int) -> None:
            refit(
                tuple(state),
                unit,
                residuals,
                rows,
                scales,
                weights,
                active,
                problem.width,
                options,
                start,
                stop,
            )

        split_work(run, active.size, 4, shares=2)

    if state.added.any():
        solve(np.flatnonzero((state.added > 0) & ~state.done), state)
    for _ in range(problem.max_iter):
        active = np.flatnonzero(~state.done)
        if active.size == 0:
            break
        state = _with_room(state)
        correlations = coder._correlate(residuals if active.size == count else residuals[active])
        choose(tuple(state), unit, residuals, correlations, weights, active, options, 0, active.size)
        solve(active[~state.done[active]], state)
    signal, place = np.nonzero(state.codes)
    atoms = state.atoms[signal, place]
    order = np.lexsort((atoms, signal))
    signal, atoms = signal[order], atoms[order]
    with np.errstate(over="ignore", invalid="ignore"):  # refused later
        values = state.codes[signal, place[order]] * norms[signal] * coder._inverse_norms[atoms]
        values = values.astype(coder._dtype)
    unsolved = int((~state.done | np.isinf(state.gaps)).sum())
    return _Codes(np.bincount(signal, minlength=count), atoms, values, unsolved)


def _working(problem: _Problem, init: Any, count: int) -> Working:
    """Working sets that hold the codes to start from."""
    pointers, indices, values = init
    sizes = np.minimum(np.diff(pointers), problem.width - 1)
    room, dtype = _ROOM + int(sizes.max(initial=0)), problem.coder._dtype
    state = Working(
        atoms=np.zeros((count, room), np.int64),
        counts=np.zeros(count, np.int64),
        added=sizes,
        codes=np.zeros((count, room)),
        targets=np.empty((count, room), dtype),
        grams=np.empty((count, room, room), dtype),
        gaps=np.zeros(count),
        done=np.zeros(count, bool),
    )
    for s in np.flatnonzero(sizes):
        own = slice(pointers[s], pointers[s] + sizes[s])
        state.atoms[s, : sizes[s]], state.codes[s, : sizes[s]] = indices[own], values[own]
    return state


def _with_room(state: Working) -> Working:
    """The same working sets with room for half as many atoms more, at least."""
    needed = int(1.5 * state.counts.max()) + 8
    old = state.atoms.shape[1]
    if needed <= old:
        return state
    count, room = len(state.counts), max(needed, int(1.5 * old))
    grams = np.empty((count, room, room), state.grams.dtype)
    grams[:, :old, :old] = state.grams
    wider = {
        name: np.concatenate([array, np.zeros((count, room - old), array.dtype)], axis=1)
        for name in ("atoms", "codes", "targets")
        for array in (getattr(state, name),)
    }
    return state._replace(grams=grams, **wider)


def _warn_of(n_unsolved: int) -> None:
    if n_unsolved:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"the codes of {n_unsolved} signals have a duality gap above tol: increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
