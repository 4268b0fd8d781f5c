"""Atoms to start from, the signals that an iteration works on, and the replacement of bad atoms."""

from math import ceil
from typing import Any

import numpy as np

from ..linalg import column_norms, rescaled
from ..typing import Array
from .learner import as_start

RARE = 0.25  # atoms used less often than this share of the mean are replaced
COHERENT = 0.9  # of two atoms whose inner product exceeds this, one is replaced
_FIRST_SHARE = 0.1  # of the signals, in the first iteration of `growing_share`
_EARLY_SHARE = 0.4  # of the signals, in early iterations
_USES = 10  # of each atom on average, at least, by the signals of an iteration


def first_atoms(rows: Array, n_components: int, init: Any, random: np.random.RandomState) -> Array:
    """Unit-norm atoms to start from, one per row: those of ``init`` (d, a), or different signals drawn at random.

    If there are too few different signals, the rest are random directions.
    """
    if init is not None:
        atoms = as_start(init, (rows.shape[1], n_components), rows.dtype).T
    else:
        order = random.permutation(np.flatnonzero(rows.any(axis=1)))[: 4 * n_components]
        drawn = order[np.sort(np.unique(rows[order], axis=0, return_index=True)[1])][:n_components]
        filling = random.standard_normal((n_components - drawn.size, rows.shape[1]))
        atoms = np.concatenate([rows[drawn], filling.astype(rows.dtype)])
    atoms = rescaled(atoms, axis=1)
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
    """The signals of an iteration: a random tenth at first, all of them in the last quarter.

    With few signals the dictionary moves more, which leads out of poor minima as noise does, and an iteration
    costs less. Each atom has at least ten uses on average.
    """
    least = max(_FIRST_SHARE, _USES * n_components / (len(rows) * n_nonzero_coefs))
    share = least + 1.2 * iteration / max(max_iter, 1)
    if share >= 1 or iteration == max_iter:
        return rows
    return _some(rows, share * len(rows), random)


def early_signals(
    rows: Array,
    n_components: int,
    n_nonzero_coefs: int,
    iteration: int,
    max_iter: int,
    random: np.random.RandomState,
) -> tuple[Array, int]:
    """The signals of an iteration from a poor start, and the number of atoms that code each.

    These are a random two fifths in the first three quarters of the iterations, and half as many atoms in the
    first half. While atoms are far from the truth, only the largest coefficients are right; smaller ones fit what
    others leave. And if each iteration sees the same signals, the dictionary soon fits just these. Each atom has
    at least ten uses on average.
    """
    count = max(_EARLY_SHARE * len(rows), _USES * n_components / n_nonzero_coefs)
    is_early = 4 * iteration < 3 * max_iter and count < len(rows)
    n_atoms = (n_nonzero_coefs + 1) // 2 if 2 * iteration < max_iter else n_nonzero_coefs
    return _some(rows, count, random) if is_early else rows, n_atoms


def _some(rows: Array, count: float, random: np.random.RandomState) -> Array:
    """So many rows, drawn at random, in their order."""
    return rows[np.sort(random.permutation(len(rows))[: ceil(count)])]


def replace_bad_atoms(atoms: Array, uses: Array, rows: Array, energies: Array, positive: bool = False) -> Array:
    """Replace atoms that are rarely used, or nearly equal to another one, by the signals with the largest errors.

    ``energies`` are the squared errors of ``rows``. Atoms that differ by a factor of modulus 1 are equal, unless
    codes are ``positive``: then d and −d do not replace each other. Returns the indices of the atoms that were
    replaced.
    """
    products = atoms.conj() @ atoms.T
    matches = np.triu((products if positive else np.abs(products)) > COHERENT, 1)
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
