"""`omp`: sparse codes by orthogonal matching pursuit."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.nonnegative import pursue_nonnegative
from ..kernels.pursuit import Pursuit, extend, extend_by_entries, pack, pursue, search
from ..linalg import wide
from ..operators import SparseProduct
from ..runtime.session import Session
from ..runtime.threads import scratch, split_work
from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_flag, as_integer, as_real
from .atoms import (
    CHUNK,
    ROOM_BYTES,
    SMALL,
    Atoms,
    GramRows,
    HasOperator,
    as_columns,
    as_dictionary,
    as_signals,
    in_parts,
    inverse,
)

_LOCKSTEP = 1 << 22  # correlations at a time where rows are computed between steps
_STEPS = 10  # per atom of a code, for atoms that leave its support again
_TOGETHER = 8  # signals that a product should have at a time to be fast
_CHANGES_BYTES = 1 << 28  # Products keep changes of at most this size.
_SEARCHED = 1 << 17  # correlations that are worth a thread, once they are known
_ROOM = 64  # atoms per signal for which there is room at first, where their number is not known

# What the ways of a pursuit cost on one core, in nanoseconds, beside the figures of `papilio.operators.cost`. They
# need not hold elsewhere: what counts is how they compare.
_BYTE = 0.06  # One pass over correlations, or over an atom, per byte.
_STEP = 400.0  # A step of one signal takes this besides.
_CALL = 60_000.0  # A step by products takes this for all signals together.


def omp(
    dictionary: MatrixLike | SparseProduct | HasOperator,
    signals: MatrixLike,
    n_nonzero_coefs: int | None = None,
    *,
    tol: float | None = None,
    positive: bool = False,
    norms: ArrayLike | None = None,
    progress: bool = False,
) -> sp.csc_array:
    """Sparse codes Γ with X ≈ DΓ, by orthogonal matching pursuit.

    For each signal, atoms are chosen one after the other, each time the one with the largest correlation
    |⟨d_j, r⟩|/‖d_j‖ with the residual r, and all coefficients are refitted by least squares. A signal is done
    early when no atom would lower its residual by more than rounding: zero signals have empty codes, and no code
    has more entries than the dictionary has independent atoms.

    With ``positive``, the atom is the one with the largest positive correlation ⟨d_j, r⟩/‖d_j‖, and the
    coefficients are those of non-negative least squares, min ‖x − D_S γ‖ with γ ≥ 0, where S is the support so far
    and that atom. Atoms whose coefficients become zero leave the support, and may be chosen again later. A signal
    is done when its support has ``n_nonzero_coefs`` atoms, or when no correlation is positive by more than
    rounding: then its code is that of non-negative least squares on all atoms.

    Parameters
    ----------
    dictionary : (n_features, n_components) matrix, SparseProduct, or fitted estimator of this package
        D, one atom per column, of any norm. A `SparseProduct` correlates by its fast transform if that pays. Of an
        estimator, D is ``operator_``.
    signals : (n_features, n_signals) matrix or (n_features,) vector
        X, one signal per column.
    n_nonzero_coefs : int, optional
        The largest number of atoms per signal. By default a tenth of n_features, at least one; with ``tol``, no
        limit.
    tol : float, optional
        Stop a signal as soon as its squared residual ‖x − Dγ‖² is at most this, as scikit-learn's ``tol``.
    positive : bool, default=False
        Whether coefficients must not be negative; for real data.
    norms : number or (n_components,) array, optional
        The norms ‖d_j‖ of all atoms, where they are known; else they are found, see below.
    progress : bool, default=False
        Show how many signals are done on the standard error.

    Returns
    -------
    codes : (n_components, n_signals) csc_array

    See Also
    --------
    sklearn.linear_model.orthogonal_mp : The same for dense dictionaries.
    scipy.optimize.nnls : Non-negative least squares on all atoms.

    Notes
    -----
    There are three ways to the codes, and a model of their costs chooses:

    - In atoms that are known to be orthogonal, such as those of a DCT or of wavelets of any size, a code has the
      largest coefficients of Dᴴx: it takes one product with Dᴴ.
    - *By Gram matrix*, many signals in few atoms: correlations with the residual follow from rows of DᴴD. It takes
      one product with Dᴴ, and reads a row of DᴴD for each pair of atoms in a code. 10,000 signals with 10 of 256
      atoms of length 64 take 50 ms on one core.
    - *By residuals*, few signals in many atoms: a step takes a product with Dᴴ, for all signals together, and no
      DᴴD. Chosen atoms are looked up in the dense matrix. In products whose dense matrix would take too long, or
      more than 256 MB, a step takes a product with D, too, or two of both where memory ends. A product of more
      than 512 atoms is used so where there are fewer signals than a sixth of its atoms, and with more of them
      where it is faster: at relative complexity 0.1, with blocks of 4×4 entries, one core codes 200 signals with
      10 of 4096 atoms of length 1024 in 72 ms, and 2,000 in 320 ms; with the dense matrix it takes 270 and 800 ms.

    Norms of the atoms of large products follow from the structure of their factors where these are butterflies or
    orthogonal, else from their columns. From 8,192 atoms on, 1,024 random vectors give bounds instead, and atoms
    that might be chosen by these are looked at one by one; a bound is wrong with a probability below 1e-9. Norms
    are kept with the operator.

    Beside the dictionary, the signals and the codes, it needs up to 256 MB, and 1 GiB for a Gram matrix; for
    non-negative codes in more atoms than that allows, as many rows of it are kept as fit.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> codes = pp.omp(pp.transforms.hadamard(4).T, np.array([[3.0], [3.0], [1.0], [1.0]]), n_nonzero_coefs=2)
    >>> codes.toarray().ravel()
    array([2., 0., 1., 0.])

    Parts, as of a spectrum, are added and never subtracted:

    >>> D = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    >>> pp.omp(D, np.array([1.0, -1.0]), 2, positive=True).toarray().ravel()
    array([1., 0., 0.])
    """
    X, D = as_signals(signals), as_dictionary(dictionary)
    dtype = np.result_type(D.dtype, X.dtype)
    atoms = Atoms(D if D.dtype == dtype else D.astype(dtype), norms)
    if not as_flag("progress", progress):
        return omp_codes(atoms, X, n_nonzero_coefs, tol, positive)
    with Session(progress=True, title="omp") as session:
        return omp_codes(atoms, X, n_nonzero_coefs, tol, positive, session)


def omp_codes(
    atoms: Atoms,
    signals: Array,
    n_nonzero_coefs: int | None = None,
    tol: float | None = None,
    positive: bool = False,
    session: Session | None = None,
) -> sp.csc_array:
    """What `omp` does, for a matrix of signals that is known to be finite; a session may show the progress."""
    (n_features, n_atoms), count = atoms.shape, signals.shape[1]
    if signals.shape[0] != n_features:
        raise ValueError(f"signals must have {n_features} rows, as the dictionary has, got {signals.shape[0]}")
    if n_nonzero_coefs is None:
        n_nonzero_coefs = max(n_features // 10, 1) if tol is None else n_features
    limit = min(as_integer("n_nonzero_coefs", n_nonzero_coefs, 1), n_features, n_atoms)
    tol = -np.inf if tol is None else as_real("tol", tol, 0.0)
    if as_flag("positive", positive) and atoms.dtype.kind == "c":
        raise ValueError(f"positive must be False for complex data, got {positive} for {atoms.dtype}")
    if count == 0:
        return sp.csc_array((n_atoms, 0), dtype=atoms.dtype)
    way = _chosen_way(atoms, count, limit, tol, positive)
    parts = in_parts(lambda some: way.code(signals[:, some].T), count, way.length, session, way.is_shared)
    counts, indices, values = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    atoms.require_finite(values)
    return as_columns(counts, indices, values, n_atoms)


# -- the choice ----------------------------------------------------------------------------------------


def _chosen_way(atoms: Atoms, count: int, limit: int, tol: float, positive: bool) -> "_Way":
    if atoms.shape[1] <= SMALL:
        atoms.make_dense()
    if not positive and atoms.is_orthonormal():
        return _Thresholding(atoms, limit, tol)
    way = _ByGram if positive else _cheapest(atoms, count, limit)
    if way is _ByGram:
        if atoms.gram is None or not atoms.is_fast:
            atoms.make_dense()
        atoms.require_norms()
        return _ByGram(atoms, count, limit, tol, positive)
    if way is _ByAtoms:
        atoms.make_dense()
    atoms.find_norms()
    return way(atoms, limit, tol)


def _cheapest(atoms: Atoms, count: int, limit: int) -> "type[_Way]":
    """The way that takes least time by a model, in nanoseconds on one core, among those with enough memory."""
    (n_features, n_atoms), choices = atoms.shape, count * limit
    needs_gram = n_atoms <= SMALL or (limit**2 * 2 * _TOGETHER > _LOCKSTEP and atoms.gram_fits)  # too long codes
    if atoms.product is None:
        return _ByGram if needs_gram or atoms.gram_pays(choices) else _ByAtoms
    if not atoms.fits:
        return _ByProducts
    if needs_gram:
        return _ByGram
    cost, past = atoms.cost, choices * (limit - 1) // 2  # atoms chosen before, over all steps
    line, column = n_atoms * atoms.dtype.itemsize * _BYTE, n_features * atoms.dtype.itemsize * _BYTE
    correlate = min(cost.product, cost.dense)
    dense = 0.0 if atoms.dense is not None else n_atoms * (cost.product + 5 * column)
    by_gram = count * correlate + past * line / 2
    if atoms.gram is None and not (atoms.stays and atoms.count_choices(choices) >= n_atoms):
        by_gram += dense + n_atoms * (correlate + 16 * line) if atoms.gram_fits else np.inf
    by_atoms = dense + choices * (cost.product + line + 2 * column + _STEP) + 2 * past * column
    pair = 2 * (cost.product + (cost.vector - cost.product) / count)
    by_products = limit * _CALL + choices * (pair + 14 * line + _STEP)
    costs: dict[type[_Way], float] = {_ByProducts: by_products, _ByAtoms: by_atoms, _ByGram: by_gram}
    return min(costs, key=lambda way: costs[way])


# -- the ways ------------------------------------------------------------------------------------------


class _Way(ABC):
    """A way to the codes: of ``length`` signals at a time, several times at once if it ``is_shared``."""

    length: int
    is_shared: bool

    def __init__(self, atoms: Atoms, limit: int, tol: float) -> None:
        self.atoms, self.limit, self.tol = atoms, limit, tol
        self.eps = float(np.finfo(atoms.dtype).eps)

    @abstractmethod
    def code(self, signals: Array) -> tuple[Array, Array, Array]:
        """The codes of some signals, one per row: how many entries each has; their atoms; their values."""

    def _tolerances(self, norms: Array) -> Array:
        """The squared residuals at which signals, divided by their norms, are done."""
        inverse_norms = inverse(norms, self.atoms.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # far above any residual; none, for a zero signal
            tolerances = self.tol * inverse_norms * inverse_norms
        # Residuals are not known more precisely: there, rounding decides.
        tolerances[tolerances < 8 * self.eps] = -np.inf
        return tolerances


class _Thresholding(_Way):
    """Codes in orthogonal atoms: the largest coefficients of each signal."""

    is_shared = True

    def __init__(self, atoms: Atoms, limit: int, tol: float) -> None:
        super().__init__(atoms, limit, tol)
        self.length = max(CHUNK // atoms.shape[1], _TOGETHER)

    def code(self, signals: Array) -> tuple[Array, Array, Array]:
        unit = np.array(signals, self.atoms.dtype, order="C")
        norms = self.atoms.normalize(unit)
        coefficients = self.atoms.correlate(unit)
        sizes = np.abs(coefficients)
        is_used = sizes > 8 * self.eps
        if self.limit < sizes.shape[1]:
            _keep_largest(sizes, is_used, self.limit)
        if self.tol >= 0:
            self._end_early(sizes, is_used, self._tolerances(norms))
        which, indices = np.nonzero(is_used)
        with np.errstate(over="ignore", invalid="ignore"):  # refused later
            values = coefficients[which, indices] * (norms[which] * self.atoms.inverse_norms[indices])
            return is_used.sum(axis=1), indices, values.astype(self.atoms.dtype)

    def _end_early(self, sizes: Array, is_used: Array, tolerances: Array) -> None:
        """Leave out what comes after the squared residual of unit signals is within its tolerance."""
        squares = np.where(is_used, sizes, 0).astype(np.float64) ** 2
        order = np.argsort(-squares, axis=1, kind="stable")
        before = 1 - np.cumsum(np.take_along_axis(squares, order, axis=1), axis=1)
        before = np.hstack([np.ones((len(sizes), 1)), before[:, :-1]])  # each coefficient
        is_needed = np.empty_like(is_used)
        np.put_along_axis(is_needed, order, before > tolerances[:, None], axis=1)
        is_used &= is_needed


def _keep_largest(sizes: Array, is_used: Array, most: int) -> None:
    """Unmark all but the largest entries of each row; of equal ones, the first stay."""
    least = np.partition(sizes, -most, axis=1)[:, -most, None]
    is_above = sizes > least
    left = most - is_above.sum(axis=1, keepdims=True)
    ties = sizes == least
    if (ties.sum(axis=1, keepdims=True) > left).any():
        ties &= np.cumsum(ties, axis=1) <= left
    is_used &= is_above | ties


class _Pursuing(_Way):
    """Orthogonal matching pursuit, a step at a time."""

    def _start(self, signals: Array, room: int) -> tuple[Pursuit, Array, Array]:
        """The pursuit of ``signals``, one per row, before its first step; these with unit norms; the norms."""
        count, dtype, kind = len(signals), self.atoms.dtype, wide(self.atoms.dtype)
        unit, chosen, triangles, changes, codes = scratch(
            "omp",
            (signals.shape, dtype),
            ((count, room), np.int64),
            ((count, room, room), kind),
            ((count, room), kind),
            ((count, room), kind),
        )
        unit[:] = signals
        norms = self.atoms.normalize(unit)
        is_zero = inverse(norms, dtype) == 0
        for array in (chosen, changes, codes):
            array.fill(0)
        state = Pursuit(
            tolerances=self._tolerances(norms),
            remaining=(~is_zero).astype(np.float64),
            counts=np.zeros(count, np.int64),
            chosen=chosen,
            triangles=triangles,
            changes=changes,
            codes=codes,
            done=is_zero,
        )
        return state, unit, norms

    def _packed(self, state: Pursuit, norms: Array) -> tuple[Array, Array, Array]:
        """Counts, atoms and values of the codes."""
        values = np.empty(int(state.counts.sum()), self.atoms.dtype)
        indices = np.empty(values.size, np.int64)
        pack(state.counts, state.chosen, state.codes, norms, self.atoms.inverse_norms, indices, values)
        return state.counts, indices, values


class _ByGram(_Pursuing):
    """Correlations with residuals follow from rows of the Gram matrix: all, or for non-negative codes some."""

    def __init__(self, atoms: Atoms, count: int, limit: int, tol: float, positive: bool) -> None:
        super().__init__(atoms, limit, tol)
        is_whole, self._positive = not positive or atoms.gram_pays(count * limit), positive
        self._gram = GramRows(atoms, is_whole, count * limit, limit)
        self.is_shared = self._gram.is_whole
        chunk = CHUNK if self._gram.is_whole else _LOCKSTEP
        length = min(chunk // atoms.shape[1], chunk // limit**2)
        if len(self._gram.rows) < atoms.shape[1]:
            length = min(length, len(self._gram.rows) // limit)  # all atoms that they choose must find room
        self.length = max(length, 1)

    def code(self, signals: Array) -> tuple[Array, Array, Array]:
        gram, limit, count = self._gram, self.limit, len(signals)
        state, unit, norms = self._start(signals, limit)
        room = None  # a product makes its own
        if self.atoms.product is None:
            (room,) = scratch("correlations", ((count, self.atoms.shape[1]), self.atoms.dtype))
        correlations = self.atoms.correlate(unit, room)
        gram.make_room(count * limit)
        kernel, most = (pursue_nonnegative, _STEPS * limit) if self._positive else (pursue, limit)
        calls, steps = (1, most) if gram.is_whole else (most, 1)  # Calls of the kernel, and steps in each.

        def run(start: int, stop: int) -> None:
            kernel(tuple(state), correlations, gram.rows, gram.where, self.eps, steps, start, stop)

        for call in range(calls):
            split_work(run, count, 16, shares=4)
            if call == calls - 1 or state.done.all():
                break
            # All that the next step reads: supports, and atoms that just left them.
            gram.require(state.chosen[((state.codes > 0) | (state.changes != 0)) & ~state.done[:, None]])
        return self._packed(state, norms)


class _InStep(_Pursuing):
    """All signals choose an atom at the same time, by products with Dᴴ."""

    def __init__(self, atoms: Atoms, limit: int, tol: float) -> None:
        super().__init__(atoms, limit, tol)
        self._room = limit if tol < 0 and atoms.dense is not None else min(limit, _ROOM)

    def code(self, signals: Array) -> tuple[Array, Array, Array]:
        state, unit, norms = self._start(signals, self._room)
        np.logical_or(state.done, state.remaining <= state.tolerances, out=state.done)
        step = self._steps(unit)
        while (active := np.flatnonzero(~state.done)).size:
            state = self._with_room(state)
            step(state, active)
        return self._packed(state, norms)

    @abstractmethod
    def _steps(self, unit: Array) -> Callable[[Pursuit, Array], None]:
        """A function that chooses another atom for each active signal."""

    def _with_room(self, state: Pursuit) -> Pursuit:
        """The same pursuit, with twice the room if that of any signal is full."""
        room = state.chosen.shape[1]
        if room >= self.limit or state.counts.max() < room:
            return state
        wider = min(2 * room, self.limit)
        grown = {}
        for name in ("chosen", "triangles", "changes", "codes"):
            old = getattr(state, name)
            grown[name] = np.zeros((len(old), *[wider] * (old.ndim - 1)), old.dtype)
            grown[name][tuple(map(slice, old.shape))] = old
        return state._replace(**grown)

    def _best(self, correlations: Array, scales: Array) -> tuple[Array, Array]:
        """The atoms of largest correlation, a signal per column, and these."""
        (n_atoms, count), integer, found = correlations.shape, np.dtype(f"i{scales.itemsize}"), []

        def run(start: int, stop: int) -> None:
            tops, best, values = (
                np.empty(count, integer),
                np.empty(count, integer),
                np.empty(count, self.atoms.dtype),
            )
            search(correlations[start:stop], scales[start:stop], tops, best, values)
            found.append((start, tops, best + start, values))

        split_work(run, n_atoms, -(-_SEARCHED // count))
        _, all_tops, all_best, all_values = map(np.array, zip(*sorted(found, key=itemgetter(0)), strict=True))
        which = all_tops.argmax(axis=0), np.arange(count)
        return all_best[which], all_values[which]


class _ByAtoms(_InStep):
    """Residuals from which the chosen atoms are subtracted, which are looked up in the dense matrix."""

    def __init__(self, atoms: Atoms, limit: int, tol: float) -> None:
        super().__init__(atoms, limit, tol)
        assert atoms.dense is not None
        # One atom per row, of those that were chosen so far.
        self._is_known = np.full(atoms.shape[1], atoms.dense.flags.f_contiguous)
        self._rows = atoms.dense.T if self._is_known[0] else np.empty(atoms.shape[::-1], atoms.dtype)
        chunk = _LOCKSTEP if atoms.product is None else CHUNK // 2  # BLAS wants more of them than a product
        length = min(max(chunk // atoms.shape[1], 4 * _TOGETHER), _LOCKSTEP // self._room**2)
        self.length = max(length, 1)
        # Between the steps of dense residuals there are long products, for which BLAS has threads of its own.
        self.is_shared = atoms.product is not None

    def _steps(self, unit: Array) -> Callable[[Pursuit, Array], None]:
        atoms, residuals, ones = self.atoms, unit, np.ones_like(self.atoms.scales)
        assert atoms.dense is not None
        columns, rows, is_known = atoms.dense.T, self._rows, self._is_known
        adjoint: Any = atoms.product.H if atoms.product is not None else columns.conj()
        scales = ones if atoms.is_unit else atoms.scales  # These scale the rows.
        norms = ones if atoms.product is None else atoms.scales  # These scale the correlations.

        def step(state: Pursuit, active: Array) -> None:
            some = residuals if active.size == len(residuals) else residuals[active]
            # Row-major, in which products and search are fastest.
            best, values = self._best(adjoint @ np.ascontiguousarray(some.T), norms)
            new = best[~is_known[best]]
            rows[new] = columns[new]
            is_known[new] = True
            arrays = residuals, rows, scales, active, best, values

            def add(start: int, stop: int) -> None:
                extend(tuple(state), *arrays, self.limit, self.eps, start, stop)

            split_work(add, active.size, 16)

        return step


class _ByProducts(_InStep):
    """Products with D and Dᴴ alone, for dictionaries whose dense matrix would take too long, or too much memory.

    With the chosen atoms made orthonormal one after the other, q_i, a step changes the residual by z·q_j = Dδ, and
    the correlations by Dᴴ of that. These changes are kept: they have the next rows of L, d_jᴴq_i, in them. So a
    step takes one product each with D and Dᴴ. Where there is no room for more changes, it takes two: the residual
    is x − Dγ, and Gram entries are those of Dᴴd_j.
    """

    is_shared = False

    def __init__(self, atoms: Atoms, limit: int, tol: float) -> None:
        super().__init__(atoms, limit, tol)
        line = atoms.dtype.itemsize * max(atoms.shape)
        # So many that all changes find room; more than a few tens no longer stay in cache between the steps.
        length = int(np.clip(_CHANGES_BYTES // (self._room * line), _TOGETHER, 4 * _TOGETHER))
        self.length = max(min(length, ROOM_BYTES // (8 * line), _LOCKSTEP // self._room**2), 1)

    def _steps(self, unit: Array) -> Callable[[Pursuit, Array], None]:
        atoms, product, signals = self.atoms, self.atoms.product, np.ascontiguousarray(unit.T)
        assert product is not None
        adjoint, count = product.H, len(unit)
        correlations = adjoint @ signals
        most = min(self.limit - 1, _CHANGES_BYTES // correlations.nbytes)
        sizes = np.empty((most, count), atoms.dtype)
        (kept,) = scratch("changes", ((most, *correlations.shape), atoms.dtype))

        def step(state: Pursuit, active: Array) -> None:
            m, is_all = int(state.counts[active[0]]), active.size == count  # All active ones have as many atoms.
            has_changes = m <= most
            if has_changes:
                current = correlations if is_all else correlations[:, active]
            else:
                left = self._combined(state, state.codes, active, m)
                current = adjoint @ np.subtract(signals if is_all else signals[:, active], left, out=left)
            best, values = self._best(current, atoms.scales)
            if atoms.settle(current, best):
                best, values = self._best(current, atoms.scales)
            if has_changes:
                entries = kept[:m, best, active].T * atoms.scales[best, None] / sizes[:m, active].T
            else:
                chosen, products = state.chosen[active, :m], adjoint @ atoms.columns(best)
                entries = products[chosen, np.arange(active.size)[:, None]].conj() * atoms.scales[chosen]
            entries = np.ascontiguousarray(entries)
            extend_by_entries(tuple(state), entries, not has_changes, active, best, values, self.limit, self.eps)
            active = active[~state.done[active]]
            is_all = active.size == count
            if m >= most or not active.size:
                return
            change = adjoint @ self._combined(state, state.changes, active, m + 1)
            sizes[m, active] = state.changes[active, m] / state.triangles[active, m, m]
            columns = slice(None) if is_all else active

            def keep(start: int, stop: int) -> None:
                kept[m][start:stop, columns] = change[start:stop]
                correlations[start:stop, columns] -= change[start:stop]

            split_work(keep, len(change), -(-_SEARCHED // count))

        return step

    def _combined(self, state: Pursuit, values: Array, signals: Array, m: int) -> Array:
        """The combinations of the first m chosen atoms of some signals with these values, one per column."""
        columns = np.repeat(np.arange(signals.size), m)
        chosen, own = state.chosen[signals, :m], values[signals, :m]
        return self.atoms.combine(chosen.ravel(), columns, own.ravel(), signals.size)
