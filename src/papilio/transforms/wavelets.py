"""Wavelet transforms: Haar, and every discrete wavelet of PyWavelets, periodic or padded with zeros."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array
from ..validation import as_choice, as_flag, as_integer, as_power_of_two

MODES = ("periodization", "zero")
_LONGEST = 2**31 - 1


def haar(n: int) -> SparseProduct:
    """The orthonormal Haar transform, all levels: coefficients from coarse to fine.

    T = S_L…S₂S₁ with L = log₂ n. S_k maps the coarse signal a of the level before, of size m = n/2^(k−1), to the
    sums (a_{2i} + a_{2i+1})/√2 and the differences (a_{2i} − a_{2i+1})/√2, i < m/2, and leaves the other n − m
    values unchanged.

    Parameters
    ----------
    n : int
        Rows and columns: a power of two.

    Returns
    -------
    SparseProduct
        log₂ n orthogonal factors, float64; factor S_k has 2m + (n − m) entries.

    Examples
    --------
    >>> from papilio.transforms import haar
    >>> haar(32).nnz
    222
    """
    n, depth = as_power_of_two("n", n)
    return _filter_bank(n, _orthogonal(np.full(2, np.sqrt(0.5))), depth, "periodization", False)


def wavelet(
    n: int, name: str = "db4", level: int | None = None, *, mode: str = "periodization", inverse: bool = False
) -> SparseProduct:
    """A wavelet transform, ``pywt.wavedec(x, name, mode, level)``, or its inverse, ``pywt.waverec``.

    T = S_J…S₂S₁ with J = ``level``. With the low-pass taps g and the high-pass taps h of the analysis, F each, S_k
    maps the coarse signal a of the level before, of size m, to

        Σ_t g_t a_{2i + s − t} and Σ_t h_t a_{2i + s − t},

    and leaves the other values unchanged. On the circle, i < m/2, s = F/2, and places are taken modulo m; padded
    with zeros, i < ⌊(m + F − 1)/2⌋, s = 1, and a is zero outside of its m places: the Toeplitz form, with some F
    coefficients more per level than the signal has values. The coefficients are in the order of
    ``numpy.concatenate(pywt.wavedec(…))``: from coarse to fine.

    Parameters
    ----------
    n : int
        The length of the signal: on the circle it must be divisible by 2^J.
    name : str, default="db4"
        A discrete wavelet of PyWavelets: "haar", Daubechies ("db1" to "db38"), symlets, coiflets, the biorthogonal
        "bior…" and "rbio…", or "dmey", whose truncated taps are orthogonal only to 2e-3.
    level : int, optional
        The number of levels J; 0 is the identity. By default ``pywt.dwt_max_level(n, F)``, or fewer on the circle
        if n cannot be halved so often. Where a level's signal is shorter than the filter, on the circle the taps
        wrap around it and add up.
    mode : {"periodization", "zero"}
        What stands outside of the signal: its periodic continuation, or zeros.
    inverse : bool
        The synthesis from coefficients, with the synthesis filters, instead of the analysis. For orthogonal
        wavelets on the circle, that is ``T.H``.

    Returns
    -------
    SparseProduct
        One factor per level, float64.

    Raises
    ------
    ImportError
        If PyWavelets is not installed, and ``name`` is not "db4".

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.transforms import wavelet
    >>> wavelet(64, "db2", level=3).nnz
    528
    >>> analysis, synthesis = (wavelet(50, "bior2.2", mode="zero", inverse=each) for each in (False, True))
    >>> analysis.shape, np.allclose(synthesis @ analysis @ np.ones(50), 1)
    ((63, 50), True)
    """
    n = as_integer("n", n, 1, _LONGEST)
    as_choice("mode", mode, MODES)
    # The number of times that n can be halved, exactly on the circle, rounded down for zeros.
    deepest = (n & -n if mode == "periodization" else n).bit_length() - 1
    filters = _filters(name)
    if level is None:
        level = min(max((n // (filters.low.size - 1)).bit_length() - 1, 0), deepest)
    return _filter_bank(n, filters, as_integer("level", level, 0, deepest), mode, as_flag("inverse", inverse))


# The taps of "db4" are stored because `factorize` compresses kernels with them, also without PyWavelets.
_DB4 = (
    *(-0.010597401785069032, 0.0328830116668852, 0.030841381835560764, -0.18703481171909309),
    *(-0.027983769416859854, 0.6308807679298589, 0.7148465705529157, 0.2303778133088965),
)


class Filters(NamedTuple):
    """The low-pass and high-pass taps of the analysis and of the synthesis, all of the same even length."""

    low: Array
    high: Array
    synthesis_low: Array
    synthesis_high: Array


def _orthogonal(low: Array) -> Filters:
    """The filters of an orthogonal wavelet: h_t = −(−1)^t g_{F−1−t}; the synthesis reverses the analysis."""
    high = np.where(np.arange(low.size) % 2, 1, -1) * low[::-1]
    return Filters(low, high, low[::-1], high[::-1])


def _filters(name: str) -> Filters:
    if isinstance(name, str) and name == "db4":
        return _orthogonal(np.array(_DB4))
    try:
        import pywt
    except ImportError as error:
        raise ImportError("wavelets other than db4 need PyWavelets: pip install PyWavelets") from error
    if not isinstance(name, str) or name not in pywt.wavelist(kind="discrete"):
        raise ValueError(
            "name must be a discrete wavelet of PyWavelets ('haar', 'db1' to 'db38', 'sym2' to 'sym20', "
            f"'coif1' to 'coif17', 'bior1.1' to 'bior6.8', 'rbio1.1' to 'rbio6.8' or 'dmey'), got {name!r}"
        )
    return Filters(*map(np.array, pywt.Wavelet(name).filter_bank))


def _filter_bank(n: int, filters: Filters, levels: int, mode: str, inverse: bool) -> SparseProduct:
    """The transform of `wavelet` for these taps: the deepest level is the leftmost factor of the analysis."""
    factors: list[sp.csr_array] = []
    # The lengths of the coarse signal, and of the details of the levels before.
    size, rest = n, 0
    for _ in range(levels):
        if inverse:
            step = _level(size, filters.synthesis_low[::-1], filters.synthesis_high[::-1], mode).T
            factors.append(sp.block_diag([step, sp.eye_array(rest)], format="csr"))
        else:
            step = _level(size, filters.low, filters.high, mode)
            factors.insert(0, sp.block_diag([step, sp.eye_array(rest)], format="csr"))
        count = max(step.shape) // 2 if mode == "zero" else size // 2
        size, rest = count, rest + count
    return SparseProduct(factors or [sp.eye_array(n, format="csr")])


def _level(size: int, low: Array, high: Array, mode: str) -> sp.csr_array:
    """One level of the filter bank on a signal of ``size`` values: coarse ones, then details."""
    taps = np.arange(low.size)
    is_periodic = mode == "periodization"
    count, shift = (size // 2, low.size // 2) if is_periodic else ((size + low.size - 1) // 2, 1)
    rows = np.broadcast_to(np.arange(count)[:, np.newaxis], (count, low.size))
    columns = 2 * rows + shift - taps
    if is_periodic:
        columns %= size
    inside = (columns >= 0) & (columns < size)
    halves = [
        sp.coo_array(
            (np.broadcast_to(filter_, rows.shape)[inside], (rows[inside], columns[inside])), shape=(count, size)
        )
        for filter_ in (low, high)
    ]
    return sp.vstack(halves, format="csr")
