"""Quality of dictionaries (error, recovered atoms, coherence) and of images (PSNR and SSIM)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .linalg import column_norms, frobenius, rescaled, wide
from .operators import SparseProduct
from .operators.factors import as_csr
from .typing import Array, ArrayLike, MatrixLike
from .validation import as_array, as_flag, as_matrix, as_numbers, as_real, require_finite

__all__ = ["mean_max_cosine", "mutual_coherence", "psnr", "recovery_rate", "rmse", "ssim"]

_WINDOW, _DEVIATION = 11, 1.5  # Sides and deviation of SSIM's Gaussian window in pixels.
_BLOCK_ENTRIES = 1 << 22  # Entries of a block of similarities: 32 MB in float64.


def rmse(signals: MatrixLike, dictionary: MatrixLike | SparseProduct, codes: MatrixLike) -> float:
    """The root mean square error of DΓ: the paper's RMSE = ‖X − DΓ‖_F / √(d·n).

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal per column.
    dictionary : (d, a) matrix or SparseProduct
        D, one atom per column.
    codes : (a, n) matrix, dense or sparse
        Γ, the code of one signal per column.

    Returns
    -------
    float
        Computed in double precision for all dtypes.

    Examples
    --------
    >>> from papilio.metrics import rmse
    >>> rmse(signals=[[3.0, 0.0], [4.0, 1.0]], dictionary=[[0.0], [1.0]], codes=[[0.0, 1.0]])
    2.5
    """
    X = as_matrix("signals", signals)
    D = _in_double_precision("dictionary", dictionary)
    G = sp.csc_array(as_csr("codes", codes)) if sp.issparse(codes) else as_matrix("codes", codes)
    if D.shape[0] != X.shape[0]:
        raise ValueError(f"dictionary must have {X.shape[0]} rows, as signals has, got shape {D.shape}")
    if G.shape != (D.shape[1], X.shape[1]):
        raise ValueError(
            f"codes must have shape {(D.shape[1], X.shape[1])}, one row per atom and one column per signal, "
            f"got {G.shape}"
        )
    norms = [
        frobenius(X[:, part] - D @ _in_double_precision("codes", G[:, part]))
        for part in _blocks(X.shape[1], max(D.shape))
    ]
    return frobenius(np.array(norms)) / float(np.sqrt(X.size))


def recovery_rate(
    dictionary: MatrixLike | SparseProduct, reference: MatrixLike | SparseProduct, threshold: float = 0.99
) -> float:
    """The share of the reference's atoms that a dictionary holds, up to order and sign, or phase.

    A learned atom d_j matches the atom r_i of the reference if |⟨r_i, d_j⟩|/(‖r_i‖‖d_j‖) > ``threshold``, the
    criterion of Aharon, Elad and Bruckstein (K-SVD, 2006). The result is the size of the largest matching (each
    atom in at most one pair) over the number of reference atoms, so that no learned atom counts twice.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        The learned dictionary, one atom per column, of any norm. Zero atoms match nothing.
    reference : (d, b) matrix or SparseProduct
        The dictionary to recover, one atom per column. Its zero atoms count as not recovered.
    threshold : float, default=0.99
        The similarity above which atoms match, from 0 to 1.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from papilio.metrics import recovery_rate
    >>> recovery_rate([[0.0, -2.0], [1.0, 0.1]], [[1.0, 1.0], [0.0, 1.0]])
    0.5
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    learned, wanted = _two_dictionaries(dictionary, reference)
    threshold = as_real("threshold", threshold, 0.0, 1.0)
    alike = sp.vstack(
        [
            sp.csr_array(_similarities(wanted[:, part], learned) > threshold)
            for part in _blocks(wanted.shape[1], learned.shape[1])
        ],
        format="csr",
    )
    partners = maximum_bipartite_matching(alike, perm_type="column")
    return float(np.mean(partners >= 0))


def mean_max_cosine(
    dictionary: MatrixLike | SparseProduct, reference: MatrixLike | SparseProduct, *, signed: bool = False
) -> float:
    """The mean similarity of the reference's atoms to the learned atoms that are most similar to them.

    With the atoms r_i of the reference and the learned atoms d_j, the mean over i of

        max_j |⟨r_i, d_j⟩|/(‖r_i‖‖d_j‖),

    without the modulus if ``signed``. Sparse autoencoders are judged by it, as mean max cosine similarity (MMCS).
    A learned atom may be the most similar one to several, so that even random atoms are well above 0; for the
    share of atoms that were found, see `recovery_rate`.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        The learned dictionary, one atom per column, of any norm. Zero atoms have a cosine of 0 with all others.
    reference : (d, b) matrix or SparseProduct
        The dictionary to recover, one atom per column.
    signed : bool, default=False
        Whether atoms of opposite signs differ: the right question where codes are not negative, and −d_j cannot
        replace d_j. For complex atoms, it takes the real part of ⟨r_i, d_j⟩.

    Returns
    -------
    float
        From 0 to 1, or from −1 if ``signed``.

    Examples
    --------
    >>> from papilio.metrics import mean_max_cosine
    >>> mean_max_cosine([[0.0, -2.0], [1.0, 0.0]], [[1.0, 3.0], [0.0, 4.0]])
    0.9
    >>> mean_max_cosine([[0.0, -2.0], [1.0, 0.0]], [[1.0, 3.0], [0.0, 4.0]], signed=True)
    0.4
    """
    learned, wanted = _two_dictionaries(dictionary, reference)
    signed = as_flag("signed", signed)
    total = 0.0
    for part in _blocks(wanted.shape[1], learned.shape[1]):
        cosines = _cosines(wanted[:, part], learned).real if signed else _similarities(wanted[:, part], learned)
        total += float(cosines.max(axis=1).sum())
    return max(min(total / wanted.shape[1], 1.0), -1.0)


def mutual_coherence(dictionary: MatrixLike | SparseProduct) -> float:
    """The largest similarity of two atoms, max_{i≠j} |⟨d_i, d_j⟩|/(‖d_i‖‖d_j‖).

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        One atom per column, of any norm. Zero atoms are similar to nothing.

    Returns
    -------
    float
        From 0, for orthogonal atoms or a single one, to 1, for two that are parallel.

    Examples
    --------
    >>> from papilio.metrics import mutual_coherence
    >>> mutual_coherence([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    0.8
    """
    atoms = _unit_atoms("dictionary", dictionary)
    largest = 0.0
    for part in _blocks(atoms.shape[1], atoms.shape[1]):
        similarities = _similarities(atoms[:, part], atoms[:, part.start :])
        np.fill_diagonal(similarities, 0.0)  # Leave out the similarity of each atom to itself.
        largest = max(largest, float(similarities.max()))
    return largest


def psnr(image: ArrayLike, reference: ArrayLike, data_range: float | None = None) -> float:
    """The peak signal-to-noise ratio in decibels, 10·log₁₀(data_range² / mean((image − reference)²)).

    Parameters
    ----------
    image : array
        The image to judge, of real numbers.
    reference : array of the same shape
        The true image.
    data_range : float, optional
        The largest possible value minus the smallest one. By default that of the reference's integer type, 255
        for uint8; for other dtypes it must be given.

    Returns
    -------
    float
        Infinity for equal images; negative if the error is larger than ``data_range``.

    Examples
    --------
    >>> from papilio.metrics import psnr
    >>> round(psnr([[0.0, 0.5]], [[0.0, 0.6]], data_range=1.0), 9)
    23.010299957
    """
    one, other, span = _two_images(image, reference, data_range)
    error = frobenius(one - other) / np.sqrt(one.size)
    return float(20 * (np.log10(span) - np.log10(error))) if error else float("inf")


def ssim(image: ArrayLike, reference: ArrayLike, data_range: float | None = None) -> float:
    """The structural similarity of two images (Wang, Bovik, Sheikh and Simoncelli, 2004).

    The mean, over all positions of a window of 11×11 pixels that lies within the image, of

        (2μ_x μ_y + c₁)(2σ_xy + c₂) / ((μ_x² + μ_y² + c₁)(σ_x² + σ_y² + c₂)),

    with c₁ = (0.01·data_range)² and c₂ = (0.03·data_range)²; means μ, variances σ² and the covariance σ_xy are
    weighted by a Gaussian with a standard deviation of 1.5 pixels. For images with channels, the mean over these.

    Parameters
    ----------
    image : (height, width) or (height, width, channels) array
        The image to judge, of real numbers; at least 11×11 pixels.
    reference : array of the same shape
        The true image.
    data_range : float, optional
        The largest possible value minus the smallest one. By default that of the reference's integer type, 255
        for uint8; for other dtypes it must be given.

    Returns
    -------
    float
        At most 1, the value of equal images. Constant images have no structure to compare: only the first
        fraction is left.

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.metrics import ssim
    >>> image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    >>> ssim(image, image)
    1.0
    """
    # The core does not depend on scikit-image, with which the tests compare this function.
    one, other, span = _two_images(image, reference, data_range)
    if one.ndim not in (2, 3) or min(one.shape[:2]) < _WINDOW:
        accepted = f"(height, width) or (height, width, channels), with at least {_WINDOW}×{_WINDOW} pixels"
        raise ValueError(f"image must have shape {accepted}, got {one.shape}")
    one, other = one / span, other / span
    mean, other_mean = _windowed(one), _windowed(other)
    # Variances do not change with a constant, without which less is lost to rounding.
    one, other, shift, other_shift = one - one.mean(), other - other.mean(), one.mean(), other.mean()
    around, other_around = mean - shift, other_mean - other_shift
    variance = np.maximum(_windowed(one * one) - around**2, 0)
    other_variance = np.maximum(_windowed(other * other) - other_around**2, 0)
    covariance = _windowed(one * other) - around * other_around
    c1, c2 = 0.01**2, 0.03**2
    similarities = (2 * mean * other_mean + c1) / (mean**2 + other_mean**2 + c1)
    similarities *= (2 * covariance + c2) / (variance + other_variance + c2)
    return float(np.mean(similarities))


def _two_images(image: Any, reference: Any, data_range: float | None) -> tuple[Array, Array, float]:
    """Both images in double precision, and the range of their values."""
    kind = as_array("reference", reference).dtype
    one, other = as_numbers("image", image), as_numbers("reference", reference)
    if "c" in (one.dtype.kind, other.dtype.kind):
        raise TypeError(f"image and reference must be real, got {one.dtype} and {other.dtype}")
    one, other = one.astype(np.float64), other.astype(np.float64)
    if one.shape != other.shape or not one.size:
        raise ValueError(
            f"image and reference must have the same shape and not be empty, got {one.shape} and {other.shape}"
        )
    require_finite("image", one)
    require_finite("reference", other)
    if data_range is None:
        if kind.kind not in "iu":
            raise ValueError(f"data_range must be given for images of {kind}: 1.0, for example, or 255")
        return one, other, float(np.iinfo(kind).max) - float(np.iinfo(kind).min)
    span = as_real("data_range", data_range, 0.0)
    if span == 0.0:
        raise ValueError("data_range must be above 0, got 0")
    return one, other, span


def _windowed(image: Array) -> Array:
    """Means weighted by a Gaussian window, at all positions where it lies within the image."""
    from scipy.ndimage import gaussian_filter

    reach = _WINDOW // 2
    return gaussian_filter(image, _DEVIATION, radius=reach, axes=(0, 1))[reach:-reach, reach:-reach]


def _blocks(count: int, length: int) -> Iterator[slice]:
    """Slices of ``count`` lines with ``length`` entries each, of bounded size."""
    width = max(_BLOCK_ENTRIES // length, 1)
    return (slice(start, min(start + width, count)) for start in range(0, count, width))


def _in_double_precision(name: str, value: Any) -> Any:
    """``value`` in double precision: a SparseProduct as it is, everything else as a dense matrix."""
    matrix = value if isinstance(value, SparseProduct) else as_matrix(name, value)
    return matrix if matrix.dtype == wide(matrix.dtype) else matrix.astype(wide(matrix.dtype))


def _unit_atoms(name: str, dictionary: Any) -> Array:
    """The atoms in double precision, divided by their norms; zero atoms stay zero."""
    atoms = rescaled(as_matrix(name, _in_double_precision(name, dictionary)), axis=0)
    norms = column_norms(atoms)
    return atoms / np.where(norms > 0.0, norms, 1.0)


def _two_dictionaries(dictionary: Any, reference: Any) -> tuple[Array, Array]:
    """Both with atoms of unit norm, in double precision."""
    learned, wanted = _unit_atoms("dictionary", dictionary), _unit_atoms("reference", reference)
    if learned.shape[0] != wanted.shape[0]:
        raise ValueError(
            f"dictionary must have {wanted.shape[0]} rows, as reference has, got shape {learned.shape}"
        )
    return learned, wanted


def _cosines(left: Array, right: Array) -> Array:
    """⟨l_i, r_j⟩ of unit atoms l_i and r_j."""
    return left.conj().T @ right


def _similarities(left: Array, right: Array) -> Array:
    """|⟨l_i, r_j⟩| of unit atoms, at most one despite rounding."""
    return np.minimum(np.abs(_cosines(left, right)), 1.0)
