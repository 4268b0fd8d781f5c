"""`lasso`: sparse codes with an ℓ1 penalty."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..kernels.active_set import code_by_gram
from ..kernels.pursuit import pack
from ..kernels.working_set import Working, choose, extend_sets, subtract_codes
from ..operators import SparseProduct
from ..runtime.session import Session
from ..runtime.threads import scratch, split_work
from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_flag, as_integer, as_matrix, as_real, as_sparse, require_finite
from .atoms import CHUNK, ROOM_BYTES, SMALL, Atoms, HasOperator, as_columns, as_dictionary, as_signals, in_parts

TOL = 1e-9
MAX_ITER = 10_000
_LARGE = 2048  # atoms that are not coded by the whole Gram matrix, however many signals there are
_PER_ATOM = 0.25  # signals from which on the whole Gram matrix pays, in smaller dictionaries
_ATOMS_PER_SIGNAL = 32  # that a signal will look at: from so many on in all, the dense matrix pays
_TOGETHER = 64  # signals whose correlations are computed together
_WORKING_BYTES = 1 << 28  # The Gram matrices of working sets take at most this.
_ROOM = 24  # atoms in a working set, at first
_ROUNDING = 8  # rounding errors of a duality gap, in which no tolerance is smaller


def lasso(
    dictionary: MatrixLike | SparseProduct | HasOperator,
    signals: MatrixLike,
    alpha: float,
    *,
    positive: bool = False,
    init: MatrixLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    norms: ArrayLike | None = None,
    progress: bool = False,
) -> sp.csc_array:
    """Sparse codes Γ with X ≈ DΓ and an ℓ1 penalty: the lasso, or basis pursuit denoising.

    For each signal x the code γ minimises ½‖x − Dγ‖² + alpha·‖γ‖₁. This ``alpha`` is that of scikit-learn's
    ``sparse_encode(algorithm="lasso_cd")``, and ``lambda1`` of SPAMS' ``lasso``; scikit-learn's ``Lasso`` divides
    the first term by n_features, so that its alpha is this one over n_features. Signals with ‖Dᵀx‖_∞ ≤ alpha have
    empty codes.

    Parameters
    ----------
    dictionary : (n_features, n_components) matrix, SparseProduct, or fitted estimator of this package
        D, one atom per column, of any norm; real. A `SparseProduct` correlates by its fast transform if that pays.
        Of an estimator, D is ``operator_``.
    signals : (n_features, n_signals) matrix or (n_features,) vector
        X, one signal per column; real.
    alpha : float
        The penalty, above 0.
    positive : bool, default=False
        Whether coefficients must not be negative.
    init : (n_components, n_signals) matrix, optional
        Codes to start from, such as those of a similar dictionary or another ``alpha``. The result is the same, up
        to ``tol``; it takes less time if they are near.
    tol : float, default=1e-9
        A signal is done when its duality gap is at most tol·½‖x‖²: its objective is then no further than that
        above the optimum. In single precision, rounding sets a limit near 1e-6.
    max_iter : int, default=10000
        The largest number of steps per signal; in each, one atom enters the support. If it is reached,
        scikit-learn's ``ConvergenceWarning`` is given.
    norms : number or (n_components,) array, optional
        The norms ‖d_j‖ of all atoms, where they are known; else they are found as in `omp`.
    progress : bool, default=False
        Show how many signals are done on the standard error.

    Returns
    -------
    codes : (n_components, n_signals) csc_array

    See Also
    --------
    omp : Codes with a given number of atoms, or to a given error.
    sklearn.decomposition.sparse_encode : The same for dense dictionaries.

    Notes
    -----
    Atoms enter and leave the support one at a time, and its coefficients are exact for its signs by a Cholesky
    factor of its Gram matrix: the method has no step size, and ends at the solution itself. Up to 512 atoms it
    works on the whole Gram matrix. In larger dictionaries each signal has a working set of atoms, to which those
    that violate optimality most are added. That takes the correlations of all atoms with the residuals a few times
    per signal, which a fast product speeds up. In more than 512 atoms that are known to be orthogonal, such as
    those of a DCT or of wavelets, the solution is Dᴴx, each entry shrunk towards zero. Few signals in a large
    product need nothing but products with D and Dᵀ, and memory for some vectors.

    With dependent atoms, such as duplicates, the solution need not be unique: one of them is returned, with
    independent atoms in its support.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> codes = pp.lasso(np.eye(3), np.array([3.0, -2.0, 0.5]), alpha=1.0)
    >>> codes.toarray().ravel()
    array([ 2., -1.,  0.])
    """
    X, D = as_signals(signals), as_dictionary(dictionary)
    dtype = np.result_type(D.dtype, X.dtype)
    atoms = Atoms(D if D.dtype == dtype else D.astype(dtype), norms)
    if not as_flag("progress", progress):
        return lasso_codes(atoms, X, alpha, positive, init, tol, max_iter)
    with Session(progress=True, title="lasso") as session:
        return lasso_codes(atoms, X, alpha, positive, init, tol, max_iter, session)


class _Problem(NamedTuple):
    """What all signals share; they and the atoms have unit norms, so that the penalty has weights."""

    atoms: Atoms
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
        eps = float(np.finfo(self.atoms.dtype).eps)
        return self.positive, max(0.5 * self.tol, _ROUNDING * eps), eps, self.max_iter

    @property
    def width(self) -> int:
        """One more than the largest number of independent atoms."""
        return min(self.atoms.shape) + 1


class _Codes(NamedTuple):
    counts: Array
    indices: Array
    values: Array
    n_unsolved: int


def lasso_codes(
    atoms: Atoms,
    signals: Array,
    alpha: float,
    positive: bool = False,
    init: MatrixLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    session: Session | None = None,
) -> sp.csc_array:
    """What `lasso` does, for a matrix of signals that is known to be finite; a session may show the progress."""
    (n_features, n_atoms), count = atoms.shape, signals.shape[1]
    if signals.shape[0] != n_features:
        raise ValueError(f"signals must have {n_features} rows, as the dictionary has, got {signals.shape[0]}")
    if atoms.dtype.kind == "c":
        raise ValueError(f"dictionary and signals must be real for a lasso, got {atoms.dtype}")
    alpha, positive = as_alpha("alpha", alpha), as_flag("positive", positive)
    tol, max_iter = as_real("tol", tol, 0.0), as_integer("max_iter", max_iter, 1)
    start = _as_start(init, (n_atoms, count), positive)
    if count == 0:
        return sp.csc_array((n_atoms, 0), dtype=atoms.dtype)
    is_basis = n_atoms > SMALL and atoms.is_orthonormal()
    by_gram = not is_basis and (n_atoms <= SMALL or (n_atoms <= _LARGE and count >= _PER_ATOM * n_atoms))
    needs_dense = by_gram or (not is_basis and _ATOMS_PER_SIGNAL * count >= n_atoms)
    problem = _Problem(atoms, alpha, positive, tol, max_iter, *_prepared(atoms, by_gram, needs_dense))
    if is_basis:
        length, code_chunk = max(CHUNK // n_atoms, _TOGETHER // 4), _by_threshold
    elif by_gram:
        length, code_chunk = max(min(CHUNK // n_atoms, CHUNK // problem.width), 1), _by_gram
    else:
        length = int(np.clip(_WORKING_BYTES // (8 * problem.width**2), 16, _TOGETHER))
        code_chunk = _by_working_sets

    def code(some: slice) -> _Codes:
        return _coded(problem, signals[:, some].T, None if start is None else start[:, some], code_chunk)

    *found, unsolved = zip(*in_parts(code, count, length, session), strict=True)
    counts, indices, values = map(np.concatenate, found)
    atoms.require_finite(values)
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


def _prepared(atoms: Atoms, by_gram: bool, needs_dense: bool) -> tuple[Array, ...]:
    """What the threads only read, in double precision: the kernels are compiled for that alone."""
    gram, rows, scales = np.zeros((1, 0, 0)), np.zeros((0, 0)), np.zeros(0)
    if needs_dense:
        atoms.make_dense()
    atoms.find_norms()
    if by_gram:
        atoms.require_norms()
        gram = np.ascontiguousarray(atoms.whole_gram(), np.float64)[None]
    elif atoms.dense is not None:
        atoms.dense = np.asfortranarray(atoms.dense)
        rows = atoms.dense.T.astype(np.float64, copy=False)
        scales = np.ones(atoms.shape[1]) if atoms.is_unit else atoms.inverse_norms
    penalties = atoms.inverse_norms.copy()
    sizes = np.divide(1.0, penalties, where=penalties > 0, out=np.zeros(penalties.size))
    return sizes, penalties, gram, rows, scales


def _coded(problem: _Problem, signals: Array, start: Any, code_chunk: Any) -> _Codes:
    """Codes of some signals, one per row."""
    atoms = problem.atoms
    (unit,) = scratch("lasso", (signals.shape, atoms.dtype))
    unit[:] = signals
    norms = atoms.normalize(unit)
    is_zero = norms <= 1 / np.finfo(atoms.dtype).max
    with np.errstate(over="ignore", under="ignore"):
        levels = problem.alpha / np.where(is_zero, 1, norms)
    levels = np.clip(levels, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    first = _first_codes(problem, start, np.where(is_zero, np.inf, norms))
    return code_chunk(problem, unit, norms, levels, np.flatnonzero(~is_zero), first)


def _first_codes(problem: _Problem, start: Any, norms: Array) -> tuple[Array, Array, Array]:
    """The codes to start from: how many atoms there are per signal, which, and their coefficients."""
    if start is None:
        return np.zeros(len(norms), np.int64), np.zeros((len(norms), 0), np.int64), np.zeros((len(norms), 0))
    lengths = np.diff(start.indptr).astype(np.int64)  # The kernels are compiled for this type.
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


def _by_threshold(problem: _Problem, unit: Array, norms: Array, levels: Array, which: Array, first: Any) -> _Codes:
    """Codes of signals of unit norm in orthogonal atoms: correlations, each shrunk towards zero by its penalty."""
    atoms = problem.atoms
    correlations = atoms.correlate(unit)
    sizes = correlations if problem.positive else np.abs(correlations)
    shrunk = np.maximum(sizes - levels[:, None] * problem.penalties, 0)
    signals, indices = np.nonzero(shrunk)
    codes = np.copysign(shrunk[signals, indices], correlations[signals, indices])
    with np.errstate(over="ignore", invalid="ignore"):  # refused later
        values = codes * (norms[signals] * atoms.inverse_norms[indices])
    return _Codes(np.bincount(signals, minlength=len(unit)), indices, values.astype(atoms.dtype), 0)


def _by_gram(problem: _Problem, unit: Array, norms: Array, levels: Array, which: Array, first: Any) -> _Codes:
    """Codes of signals of unit norm, one per row, by the whole Gram matrix."""
    atoms, (count, n_atoms), shape = problem.atoms, (len(unit), problem.atoms.shape[1]), (len(unit), problem.width)
    correlations, chosen, codes = scratch(
        "lasso by Gram matrix", ((count, n_atoms), np.float64), (shape, np.int64), (shape, np.float64)
    )
    if atoms.dtype == np.float64:
        correlations = atoms.correlate(unit, correlations)
    else:
        correlations[:] = atoms.correlate(unit)
    counts, width = first[0].copy(), first[1].shape[1]
    chosen[:, :width], codes[:, :width] = first[1:]
    results = chosen, codes, counts, np.zeros(count), np.ones(count, bool)
    weights = problem.sizes[None], problem.penalties[None], levels, np.full(count, n_atoms)

    def run(start: int, stop: int) -> None:
        code_by_gram(correlations, problem.grams, weights, results, which, problem.options, start, stop)

    split_work(run, which.size, 16, shares=4)
    indices = np.empty(int(counts.sum()), np.int64)
    values = np.empty(indices.size, atoms.dtype)
    pack(counts, chosen, codes, norms, atoms.inverse_norms, indices, values)
    return _Codes(counts, indices, values, int((~results[-1]).sum()))


def _by_working_sets(
    problem: _Problem, unit: Array, norms: Array, levels: Array, which: Array, first: Any
) -> _Codes:
    """Codes of signals of unit norm, one per row, by correlations with their residuals."""
    atoms = problem.atoms
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
        correlations = atoms.correlate(residuals[active].astype(atoms.dtype)).astype(np.float64, copy=False)
        weights = problem.sizes, problem.penalties, levels
        choose(tuple(state), unit, residuals, correlations, weights, active, problem.options, 0, active.size)
        _refit(problem, state, unit, residuals, levels, active[~state.done[active]])
    chosen = np.take_along_axis(state.atoms, state.chosen, axis=1)
    indices = np.empty(int(state.used.sum()), np.int64)
    values = np.empty(indices.size, atoms.dtype)
    pack(state.used, chosen, state.codes, norms, atoms.inverse_norms, indices, values)
    return _Codes(state.used, indices, values, int((~state.done | np.isinf(state.gaps)).sum()))


def _refit(problem: _Problem, state: Working, unit: Array, residuals: Array, levels: Array, active: Array) -> None:
    """Solve the problems of some signals on their working sets."""
    rows, scales, parts = problem.rows, problem.scales, tuple(state)
    positive, _, eps, max_iter = problem.options
    correlations = np.empty(state.targets.shape)
    is_solved = np.ones(len(unit), bool)
    codes = state.chosen, state.codes, state.used, np.empty(len(unit)), is_solved
    weights = problem.sizes, problem.penalties, levels

    by_products = not rows.size
    if by_products:
        _extend_by_products(problem, state, unit, active)
        correlations[active] = state.targets[active]

    def run(start: int, stop: int) -> None:
        if not by_products:
            extend_sets(parts, unit, rows, scales, weights, correlations, active, start, stop)
        own = state.sizes, state.penalties, levels, state.counts
        code_by_gram(correlations, state.grams, own, codes, active, (positive, 0.0, eps, max_iter), start, stop)
        if not by_products:
            subtract_codes(parts, unit, residuals, rows, scales, active, start, stop)

    split_work(run, active.size, 4, shares=2)
    if by_products and active.size:
        _subtract_by_products(problem, state, unit, residuals, active)
    state.gaps[~is_solved] = np.inf
    state.done[~is_solved] = True


def _extend_by_products(problem: _Problem, state: Working, unit: Array, active: Array) -> None:
    """What `extend_sets` does, with products in place of stored atoms."""
    atoms, product = problem.atoms, problem.atoms.product
    assert product is not None
    places = np.arange(state.atoms.shape[1]) - state.counts[:, None]
    is_new = (places >= 0) & (places < state.added[:, None])
    is_new[np.setdiff1d(np.arange(len(unit)), active)] = False
    signals, places = np.nonzero(is_new)
    new = state.atoms[is_new]
    atoms.look_at(new)
    problem.penalties[new] = atoms.inverse_norms[new]
    problem.sizes[new] = np.divide(
        1.0, problem.penalties[new], where=problem.penalties[new] > 0, out=np.zeros(new.size)
    )
    width = max(ROOM_BYTES // (4 * max(atoms.shape) * atoms.dtype.itemsize), 1)
    for start in range(0, new.size, width):
        some = slice(start, start + width)
        columns = atoms.columns(new[some])
        products = product.H @ columns
        for k, (s, i, j) in enumerate(zip(signals[some], places[some], new[some], strict=True)):
            state.targets[s, i] = unit[s] @ columns[:, k]
            state.sizes[s, i], state.penalties[s, i] = problem.sizes[j], problem.penalties[j]
            others = state.atoms[s, :i]
            state.grams[s, i, :i] = state.grams[s, :i, i] = products[others, k] * atoms.scales[others]
            state.grams[s, i, i] = 1
    state.counts[active] += state.added[active]
    state.added[active] = 0


def _subtract_by_products(problem: _Problem, state: Working, unit: Array, residuals: Array, active: Array) -> None:
    """The residuals x − Dγ of the active signals."""
    atoms, product = problem.atoms, problem.atoms.product
    assert product is not None
    which, places = np.nonzero(np.arange(state.chosen.shape[1]) < state.used[active, None])
    signals = active[which]
    indices = state.atoms[signals, state.chosen[signals, places]]
    residuals[active] = unit[active] - atoms.combine(indices, which, state.codes[signals, places], active.size).T


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
