"""Sums over signals and their codes: residuals, moments and energies."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.atoms import add_energies, add_moments, subtract_codes
from ..linalg import frobenius, shifted, wide
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..runtime.threads import scratch, split_work
from ..typing import Array

_MOST_SHARES, _SHARE_BYTES = 8, 1 << 27  # of the signals, whose moments are summed in parallel
SMALL = 1 << 15  # entries of a dictionary that BLAS is quick with
_LEAST_SHARE = 8192  # signals that make a share worthwhile


def unit_for(largest: float) -> float:
    """A power of two near ``largest``; 1 unless squares of such numbers might overflow or underflow."""
    return 1.0 if largest == 0.0 or 1e-5 < largest < 1e5 else 2.0 ** min(int(np.frexp(largest)[1]), 1023)


def scaled(rows: Array, unit: float) -> Array:
    """``rows`` divided by a power of two."""
    return shifted(rows, 1 - int(np.frexp(unit)[1]))


def in_unit(codes: sp.csc_array, unit: float) -> sp.csc_array:
    """Codes of signals that were divided by a power of two, in the unit of these signals."""
    data = shifted(codes.data, int(np.frexp(unit)[1]) - 1)
    if not np.isfinite(data).all():
        raise ValueError(
            f"signals must have codes within the range of {codes.dtype}, got signals that are too large: divide "
            "them by a power of two"
        )
    return sp.csc_array((data, codes.indices, codes.indptr), shape=codes.shape)


def residuals_of(rows: Array, atoms: Array, codes: sp.csc_array) -> Array:
    """x − Dγ, one signal per row."""
    residuals, where = rows.copy(), (codes.indptr, codes.indices, codes.data)
    split_work(lambda start, stop: subtract_codes(residuals, atoms, *where, start, stop), len(rows), 256)
    return residuals


def moments_of_rows(rows: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """ΓΓᴴ, and XΓᴴ with one atom per row, in double precision.

    Shares of the signals are summed, by one thread or several, and then added in order, so that any number of
    threads gives the same bits.
    """
    kind, (count, n_features), n_components = wide(rows.dtype), rows.shape, codes.shape[0]
    room = _SHARE_BYTES // (kind.itemsize * n_components * (n_components + n_features))
    share = max(-(-count // min(max(room, 1), _MOST_SHARES)), _LEAST_SHARE)
    starts = range(0, count, share)
    shape = len(starts), n_components
    grams, crosses = scratch("moments", ((*shape, n_components), kind), ((*shape, n_features), kind))
    grams.fill(0)
    crosses.fill(0)
    where = codes.indptr, codes.indices, codes.data

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            add_moments(rows, *where, grams[i], crosses[i], starts[i], min(starts[i] + share, count))

    split_work(run, len(starts), 1, shares=len(starts))
    half = grams.sum(axis=0)
    gram = half + half.conj().T
    np.fill_diagonal(gram, half.diagonal())
    return gram, crosses.sum(axis=0)


def energies_of(rows: Array, residuals: Array) -> Array:
    """‖r‖² of each residual, and 0 where it is no more than rounding."""
    energies = _squares(residuals)
    energies[is_rounding(energies, _squares(rows), rows.dtype)] = 0
    return energies


def is_rounding(errors: Array, energies: Array, dtype: np.dtype[Any]) -> Array:
    """Which squared errors are no more than rounding, given the energies of the signals."""
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


def multiplied(product: SparseProduct) -> Array:
    """The dense matrix of a product: by BLAS if it is small, for which it need not be packed first."""
    rows, columns = product.shape
    if rows * columns > SMALL or not 1e-30 < abs(product.scale) < 1e30:
        return product.toarray()
    first, *others = (to_dense(factor) for factor in product.factors)
    matrix = first * product.dtype.type(product.scale)
    for factor in others:
        matrix = matrix @ factor
    return matrix
