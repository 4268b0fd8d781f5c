"""Codes with an ℓ1 penalty, in dictionaries that are ready for pursuit."""

import warnings
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.active_set import code_by_gram
from ..kernels.pursuit import pack
from ..kernels.working_set import Working, choose, extend_sets, subtract_codes
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
    grams: Array  # (1, n_atoms, n_atoms): the Gram matrix, if it is used
    rows: Array  # the atoms, if they are looked up
    scales: Array  # by which those have unit norms

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
    alpha, positive = as_alpha("alpha", alpha), as_flag("positive", positive)
    tol, max_iter = as_real("tol", tol, 0.0), as_integer("max_iter", max_iter, 1)
    start = _as_start(init, (n_atoms, count), positive)
    if count == 0:
        return sp.csc_array((n_atoms, 0), dtype=coder._dtype)
    by_gram = n_atoms <= _SMALL or (n_atoms <= _LARGE and count >= _PER_ATOM * n_atoms)
    problem = _Problem(coder, alpha, positive, tol, max_iter, *_prepared(coder, by_gram))
    if by_gram:
        length = max(min(_CHUNK // n_atoms, _CHUNK // problem.width), 1)
    else:
        length = int(np.clip(_WORKING_BYTES // (8 * problem.width**2), 16, _TOGETHER))
    code_chunk = _by_gram if by_gram else _by_working_sets
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
    alpha = as_real(name, value)
    if alpha <= 0:
        raise ValueError(
            f"{name} must be above 0, got {alpha:g}: without a penalty, codes are those of least squares"
        )
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


def _prepared(coder: Coder, by_gram: bool) -> tuple[Array, ...]:
    """What the threads only read, in double precision: the kernels are compiled for that alone."""
    inverse_norms, nothing = coder._inverse_norms, np.zeros((0, 0))
    sizes = np.divide(1.0, inverse_norms, where=inverse_norms > 0, out=np.zeros(inverse_norms.size))
    if by_gram:
        if coder._gram is None:
            coder._gram = coder._whole_gram()
        gram = np.ascontiguousarray(coder._gram, dtype=np.float64)[None]
        return sizes, inverse_norms, gram, nothing, nothing.ravel()
    if coder._dense is None:  # working sets look up atoms
        assert coder._product is not None
        coder._dense, coder._is_unit = coder._product.toarray(), False
    coder._dense = np.asfortranarray(coder._dense)
    scales = np.ones(inverse_norms.size) if coder._is_unit else inverse_norms
    return sizes, inverse_norms, nothing[None], coder._dense.T.astype(np.float64, copy=False), scales


def _coded(problem: _Problem, signals: Array, start: Any, code_chunk: Any) -> _Codes:
    """Codes of some signals, one per row."""
    coder = problem.coder
    (unit,) = scratch("lasso", (signals.shape, coder._dtype))
    unit[:] = signals
    norms = coder._normalize(unit)
    is_zero = norms <= 1 / np.finfo(coder._dtype).max
    with np.errstate(over="ignore", under="ignore"):
        levels = problem.alpha / np.where(is_zero, 1, norms)
    levels = np.clip(levels, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    first = _first_codes(problem, start, np.where(is_zero, np.inf, norms))
    return code_chunk(problem, unit, norms, levels, np.flatnonzero(~is_zero), first)


def _first_codes(problem: _Problem, start: Any, norms: Array) -> tuple[Array, Array, Array]:
    """The codes to start from: how many atoms there are per signal, which, and their coefficients."""
    if start is None:
        return np.zeros(len(norms), np.int64), np.zeros((len(norms), 0), np.int64), np.zeros((len(norms), 0))
    lengths = np.diff(start.indptr).astype(np.int64)  # what the kernels are compiled for
    counts = np.where(np.isfinite(norms), np.minimum(lengths, problem.width - 1), 0)
    signal = np.repeat(np.arange(len(norms)), lengths)
    place = np.arange(start.indices.size) - np.repeat(start.indptr[:-1], lengths)
    kept = place < counts[signal]
    atoms = np.zeros((len(norms), int(counts.max(initial=0))), np.int64)
    atoms[signal[kept], place[kept]] = start.indices[kept]
    values = np.zeros(atoms.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = start.data * problem.sizes[start.indices] / norms[signal]
    values[signal[kept], place[kept]] = np.where(np.isfinite(scaled), scaled, 0)[kept]
    return counts, atoms, values


def _by_gram(problem: _Problem, unit: Array, norms: Array, levels: Array, which: Array, first: Any) -> _Codes:
    """Codes of signals of unit norm, one per row, by the whole Gram matrix."""
    coder, (count, n_atoms), shape = problem.coder, (len(unit), problem.coder.shape[1]), (len(unit), problem.width)
    correlations, chosen, codes = scratch(
        "lasso by Gram matrix", ((count, n_atoms), np.float64), (shape, np.int64), (shape, np.float64)
    )
    if coder._dtype == np.float64:
        correlations = coder._correlate(unit, correlations)
    else:
        correlations[:] = coder._correlate(unit)
    counts, width = first[0].copy(), first[1].shape[1]
    chosen[:, :width], codes[:, :width] = first[1:]
    results = chosen, codes, counts, np.zeros(count), np.ones(count, bool)
    weights = problem.sizes[None], problem.penalties[None], levels, np.full(count, n_atoms)

    def run(start: int, stop: int) -> None:
        code_by_gram(correlations, problem.grams, weights, results, which, problem.options, start, stop)

    split_work(run, which.size, 16, shares=4)
    indices = np.empty(int(counts.sum()), np.int64)
    values = np.empty(indices.size, coder._dtype)
    pack(counts, chosen, codes, norms, coder._inverse_norms, indices, values)
    return _Codes(counts, indices, values, int((~results[-1]).sum()))


def _by_working_sets(
    problem: _Problem, unit: Array, norms: Array, levels: Array, which: Array, first: Any
) -> _Codes:
    """Codes of signals of unit norm, one per row, by correlations with their residuals."""
    coder = problem.coder
    unit = unit.astype(np.float64)
    residuals, state = unit.copy(), _working(problem, first)
    state.done[:] = True
    state.done[which] = False
    if state.added.any():
        _refit(problem, state, unit, residuals, levels, np.flatnonzero(state.added))
    for _ in range(problem.max_iter):
        active = np.flatnonzero(~state.done)
        if active.size == 0:
            break
        state = _with_room(problem, state)
        correlations = coder._correlate(residuals[active].astype(coder._dtype)).astype(np.float64, copy=False)
        weights = problem.sizes, problem.penalties, levels
        choose(tuple(state), unit, residuals, correlations, weights, active, problem.options, 0, active.size)
        _refit(problem, state, unit, residuals, levels, active[~state.done[active]])
    chosen = np.take_along_axis(state.atoms, state.chosen, axis=1)
    indices = np.empty(int(state.used.sum()), np.int64)
    values = np.empty(indices.size, coder._dtype)
    pack(state.used, chosen, state.codes, norms, coder._inverse_norms, indices, values)
    return _Codes(state.used, indices, values, int((~state.done | np.isinf(state.gaps)).sum()))


def _refit(problem: _Problem, state: Working, unit: Array, residuals: Array, levels: Array, active: Array) -> None:
    """Solve the problems of some signals on their working sets."""
    rows, scales, parts = problem.rows, problem.scales, tuple(state)
    positive, _, eps, max_iter = problem.options
    correlations = np.empty(state.targets.shape)
    is_solved = np.ones(len(unit), bool)
    codes = state.chosen, state.codes, state.used, np.empty(len(unit)), is_solved
    weights = problem.sizes, problem.penalties, levels

    def run(start: int, stop: int) -> None:
        extend_sets(parts, unit, rows, scales, weights, correlations, active, start, stop)
        own = state.sizes, state.penalties, levels, state.counts
        code_by_gram(correlations, state.grams, own, codes, active, (positive, 0.0, eps, max_iter), start, stop)
        subtract_codes(parts, unit, residuals, rows, scales, active, start, stop)

    split_work(run, active.size, 4, shares=2)
    state.gaps[~is_solved] = np.inf
    state.done[~is_solved] = True


def _working(problem: _Problem, first: tuple[Array, Array, Array]) -> Working:
    """Working sets that hold the codes to start from, and places for more."""
    counts, atoms, codes = first
    (count, begin), room = atoms.shape, _ROOM + atoms.shape[1]
    width = min(problem.width, room + 1)
    state = Working(
        atoms=np.zeros((count, room), np.int64),
        counts=np.zeros(count, np.int64),
        added=counts,
        targets=np.empty((count, room)),
        grams=np.empty((count, room, room)),
        sizes=np.empty((count, room)),
        penalties=np.empty((count, room)),
        chosen=np.zeros((count, width), np.int64),
        codes=np.zeros((count, width)),
        used=counts.copy(),
        gaps=np.zeros(count),
        done=np.zeros(count, bool),
    )
    state.atoms[:, :begin] = atoms
    state.chosen[:, :begin], state.codes[:, :begin] = np.arange(begin), codes
    return state


def _with_room(problem: _Problem, state: Working) -> Working:
    """The same working sets with places for half as many atoms more, at least."""
    needed, room = int(1.5 * state.counts.max()) + 8, state.atoms.shape[1]
    if needed <= room:
        return state
    wider = max(needed, int(1.5 * room))
    widths = {"grams": wider, "chosen": min(problem.width, wider + 1)}
    widths["codes"] = widths["chosen"]
    found = {}
    for name in ("atoms", "targets", "sizes", "penalties", "grams", "chosen", "codes"):
        old = getattr(state, name)
        shape = (len(old), *[widths.get(name, wider)] * (old.ndim - 1))
        found[name] = np.zeros(shape, old.dtype)
        found[name][tuple(map(slice, old.shape))] = old
    return state._replace(**found)


def _warn_of(n_unsolved: int) -> None:
    if n_unsolved:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"the codes of {n_unsolved} signals have a duality gap above tol: increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
