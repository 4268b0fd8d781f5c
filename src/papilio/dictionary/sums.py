"""Signals and their codes, summed up: residuals, moments and energies."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.atoms import add_energies, add_moments, subtract_codes
from ..linalg import frobenius, wide
from ..runtime.threads import scratch, split_work
from ..typing import Array

_MOST_SHARES, _SHARE_BYTES = 8, 1 << 27  # of signals whose moments are summed up side by side
_LEAST_SHARE = 8192  # signals for which sums of their own pay


def unit_for(largest: float) -> float:
    """A power of two near ``largest``; 1 unless squares of such numbers might leave the number range."""
    return 1.0 if largest == 0.0 or 1e-5 < largest < 1e5 else 2.0 ** int(np.frexp(largest)[1])


def scaled(rows: Array, unit: float) -> Array:
    """``rows`` divided by a power of two."""
    if unit == 1.0:
        return rows
    return np.ldexp(rows.view(rows.real.dtype), 1 - int(np.frexp(unit)[1])).view(rows.dtype)


def residuals_of(rows: Array, atoms: Array, codes: sp.csc_array) -> Array:
    """x − Dγ, one signal per row."""
    residuals = rows.copy()
    split_work(
        lambda start, stop: subtract_codes(residuals, atoms, codes.indptr, codes.indices, codes.data, start, stop),
        len(rows),
        256,
    )
    return residuals


def moments_of_rows(rows: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """ΓΓᴴ, and XΓᴴ with one atom per row, in double precision.

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


def relative(residuals: Array, size: float) -> float:
    """‖R‖/‖X‖, and 0 for zero data."""
    return frobenius(residuals) / size if size > 0 else 0.0
