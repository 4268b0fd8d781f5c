"""What all learners share: checked signals, first atoms, residuals, the replacement of bad atoms, the result."""

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..coding import as_signals
from ..kernels.atoms import add_energies, add_moments, subtract_codes
from ..linalg import column_norms, frobenius, wide
from ..results import History
from ..runtime.threads import scratch, split_work
from ..typing import Array
from ..validation import as_integer, as_matrix

RARE = 0.25  # atoms used less often than this share of the mean are replaced
COHERENT = 0.9  # and of two atoms that match beyond this, one
_FIRST_SHARE = 0.1  # of the signals, in the first iterations
_MOST_SHARES, _SHARE_BYTES = 8, 1 << 27  # of signals whose moments are summed up side by side
_LEAST_SHARE = 8192  # signals for which sums of their own pay
_PATIENCE = 10  # iterations without progress after which a learner stops


class Learned(NamedTuple):
    """A dictionary D (d, a), the codes Γ (a, n) of the signals in it, and the history of relative errors."""

    dictionary: Any
    codes: sp.csc_array
    history: History


def as_rows(signals: Any) -> Array:
    """Signals (d, n) as a C-contiguous array with one signal a row, without a copy where that is possible."""
    rows = np.ascontiguousarray(as_signals(signals).T)
    if not len(rows):
        raise ValueError(f"signals must hold at least one signal, got shape {rows.T.shape}")
    return rows


def in_range(rows: Array) -> tuple[Array, float]:
    """``rows`` divided by a power of two, and that power: 1 unless squares might leave the number range."""
    unit = unit_for(float(np.abs(rows).max()))
    return scaled(rows, unit), unit


def unit_for(largest: float) -> float:
    """A power of two near ``largest``; 1 unless squares of such numbers might leave the number range."""
    return 1.0 if largest == 0.0 or 1e-5 < largest < 1e5 else 2.0 ** int(np.frexp(largest)[1])


def scaled(rows: Array, unit: float) -> Array:
    """``rows`` divided by a power of two."""
    if unit == 1.0:
        return rows
    return np.ldexp(rows.view(rows.real.dtype), 1 - int(np.frexp(unit)[1])).view(rows.dtype)


def as_start(init: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """A dictionary to start from, in the signals' dtype."""
    start = as_matrix("init", init, shape)
    if start.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError("init must be real, as the signals are, got a complex matrix")
    if not start.any():
        raise ValueError("init must not be zero, got a zero matrix")
    return start.astype(dtype)


def as_sparsity(n_nonzero_coefs: Any, n_features: int, n_components: int) -> int:
    """The number of atoms a signal: a tenth of the features, at least one, by default."""
    if n_nonzero_coefs is None:
        return min(max(n_features // 10, 1), n_components)
    return as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, min(n_features, n_components))


def first_atoms(rows: Array, n_components: int, init: Any, random: np.random.RandomState) -> Array:
    """Unit-norm atoms to start from, one a row: of ``init`` (d, a), or else different signals drawn at random.

    Where there are too few different signals, random directions fill up.
    """
    if init is not None:
        atoms = as_start(init, (rows.shape[1], n_components), rows.dtype).T
    else:
        order = random.permutation(np.flatnonzero(rows.any(axis=1)))[: 4 * n_components]
        drawn = order[np.sort(np.unique(rows[order], axis=0, return_index=True)[1])][:n_components]
        filling = random.standard_normal((n_components - drawn.size, rows.shape[1]))
        atoms = np.concatenate([rows[drawn], filling.astype(rows.dtype)])
    norms = column_norms(atoms.T)
    if not norms.all():
        raise ValueError("init must have no zero column, got at least one")
    return np.ascontiguousarray(atoms / norms[:, None].astype(rows.real.dtype))


def growing_share(
    rows: Array,
    n_components: int,
    n_nonzero_coefs: int,
    iteration: int,
    max_iter: int,
    random: np.random.RandomState,
) -> Array:
    """The signals that an iteration works on: a random tenth at first, all in the last quarter.

    Few signals make the dictionary move more, which leads out of poor minima as noise does, and cost less. They
    are never so few that an atom has less than ten uses on average.
    """
    least = max(_FIRST_SHARE, 10 * n_components / (len(rows) * n_nonzero_coefs))
    share = least + 1.2 * iteration / max(max_iter, 1)
    if share >= 1 or iteration == max_iter:
        return rows
    return rows[np.sort(random.permutation(len(rows))[: ceil(share * len(rows))])]


def residuals_of(rows: Array, atoms: Array, codes: sp.csc_array) -> Array:
    """x − Dγ, one signal a row."""
    residuals = rows.copy()
    split_work(
        lambda start, stop: subtract_codes(residuals, atoms, codes.indptr, codes.indices, codes.data, start, stop),
        len(rows),
        256,
    )
    return residuals


def moments_of_rows(rows: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """ΓΓᴴ, and XΓᴴ with one atom a row, in double precision.

    Shares of the signals are summed up, by one thread or by several, and then added in order: any number of
    threads gives the same bits.
    """
    kind, count = wide(rows.dtype), len(rows)
    room = _SHARE_BYTES // (kind.itemsize * codes.shape[0] * (codes.shape[0] + rows.shape[1]))
    share = max(-(-count // min(max(room, 1), _MOST_SHARES)), _LEAST_SHARE)
    starts = range(0, count, share)
    n_components, n_features = codes.shape[0], rows.shape[1]
    grams, crosses = scratch(
        "moments",
        ((len(starts), n_components, n_components), kind),
        ((len(starts), n_components, n_features), kind),
    )
    grams.fill(0)
    crosses.fill(0)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            add_moments(
                rows,
                codes.indptr,
                codes.indices,
                codes.data,
                grams[i],
                crosses[i],
                starts[i],
                min(starts[i] + share, count),
            )

    split_work(run, len(starts), 1, shares=len(starts))
    half = grams.sum(axis=0)
    gram = half + half.conj().T
    np.fill_diagonal(gram, half.diagonal())
    return gram, crosses.sum(axis=0)


def energies_of(rows: Array, residuals: Array) -> Array:
    """‖r‖² of each residual; what is off by rounding alone is represented well, and has 0."""
    energies = _squares(residuals)
    energies[is_rounding(energies, _squares(rows), rows.dtype)] = 0
    return energies


def is_rounding(errors: Array, energies: Array, dtype: np.dtype[Any]) -> Array:
    """Which squared errors are no more than rounding of signals with such energies."""
    return errors <= (100 * np.finfo(dtype).eps) ** 2 * energies


def energies_of_codes(rows: Array, atoms: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """‖x‖² and ‖x − Dγ‖² of each signal."""
    energies, errors = np.empty((2, len(rows)))
    where = codes.indptr, codes.indices, codes.data
    split_work(
        lambda start, stop: add_energies(rows, atoms, *where, energies, errors, start, stop), len(rows), 256
    )
    return energies, errors


def _squares(rows: Array) -> Array:
    squares = np.einsum("ij,ij->i", rows.real, rows.real)
    if rows.dtype.kind == "c":
        squares += np.einsum("ij,ij->i", rows.imag, rows.imag)
    return squares


def replace_bad_atoms(atoms: Array, uses: Array, rows: Array, energies: Array) -> Array:
    """Put badly represented signals in the place of atoms that are rarely used, or nearly equal to another one.

    ``energies`` are those of the residuals of ``rows``. Returns which atoms were replaced.
    """
    matches = np.triu(np.abs(atoms.conj() @ atoms.T) > COHERENT, 1)
    doubled = np.zeros(len(atoms), dtype=bool)
    for i, j in zip(*np.nonzero(matches), strict=True):
        if not doubled[i] and not doubled[j]:
            doubled[j if uses[j] <= uses[i] else i] = True
    bad = np.flatnonzero(doubled | (uses < max(RARE * uses.mean(), 1)))
    bad = bad[: np.count_nonzero(energies)]
    if bad.size:
        worst = np.argpartition(-energies, min(bad.size, len(rows) - 1))[: bad.size]
        worst = worst[np.argsort(-energies[worst], kind="stable")]
        atoms[bad] = rows[worst] / column_norms(rows[worst].T)[:, None].astype(rows.real.dtype)
    return bad


class Progress:
    """The best dictionary so far, and whether it still gets better."""

    def __init__(self, tol: float) -> None:
        self._tol = tol
        self._stale = 0
        self.error = np.inf
        self.best: Any = None

    def record(self, error: float, candidate: Any) -> None:
        self._stale = 0 if error < self.error * (1 - self._tol) else self._stale + 1
        if error < self.error:
            self.error, self.best = error, candidate

    def to_arrays(self) -> dict[str, Array]:
        """How good, and how long ago; the best itself is for others to keep."""
        return {"progress": np.array([self.error, float(self._stale)])}

    def restore(self, arrays: Mapping[str, Array], best: Any) -> None:
        """Go on from what `to_arrays` returned, with the best at that time."""
        self.error, self._stale = float(arrays["progress"][0]), int(arrays["progress"][1])
        self.best = best

    @property
    def has_ended(self) -> bool:
        """With ``tol=0`` never: exact fits aside."""
        return self.error == 0.0 or (self._tol > 0 and self._stale >= _PATIENCE)


def relative(residuals: Array, size: float) -> float:
    """‖R‖/‖X‖, and 0 for zero data."""
    return frobenius(residuals) / size if size > 0 else 0.0
