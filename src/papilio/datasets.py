"""Signals to learn from: the paper's synthetic RAND and FACT, patches of photographs, and files of any size."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .linalg import column_norms
from .operators import SparseProduct
from .samples import Samples, on_disk
from .typing import Array, DTypeLike, MatrixLike, RandomState
from .validation import (
    as_choice,
    as_dtype,
    as_factor_count,
    as_flag,
    as_integer,
    as_matrix,
    as_random,
    as_shape,
    require_fits,
)

__all__ = [
    "Samples",
    "Synthetic",
    "fact",
    "factorizable_dictionary",
    "image_patches",
    "on_disk",
    "rand",
    "random_dictionary",
    "synthetic_signals",
]

_VALUES = ("normal", "half-normal", "uniform")
_IMAGES = ("china", "flower")
_LUMINANCE = (0.299, 0.587, 0.114)  # Weights of red, green and blue (ITU-R BT.601).
_BLOCK_ENTRIES = 1 << 20  # random numbers to draw at once when atoms are chosen


class Synthetic(NamedTuple):
    """Synthetic signals X = D₀Γ, with the dictionary and the codes that made them.

    Attributes
    ----------
    signals : (d, n) ndarray
        X, one signal per column.
    dictionary : (d, a) ndarray or SparseProduct
        D₀, one atom per column.
    codes : (a, n) csc_array
        Γ, the code of one signal per column.

    Examples
    --------
    >>> from papilio.datasets import rand
    >>> data = rand(100, random_state=0)
    >>> bool(abs(data.signals - data.dictionary @ data.codes).max() < 1e-12)
    True
    """

    signals: Array
    dictionary: Array | SparseProduct
    codes: sp.csc_array


def random_dictionary(
    n_features: int = 32, n_components: int | None = None, *, random_state: RandomState = None
) -> Array:
    """A dictionary of i.i.d. standard Gaussian entries, not normalised: the D₀ of the paper's RAND (section 4.2).

    Parameters
    ----------
    n_features : int, default=32
        Features, d.
    n_components : int, optional
        Atoms, a; as many as features by default.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    (d, a) ndarray of float64

    Examples
    --------
    >>> from papilio.datasets import random_dictionary
    >>> random_dictionary(8, 12, random_state=0).shape
    (8, 12)
    """
    n_features = as_integer("n_features", n_features, 1)
    n_components = n_features if n_components is None else as_integer("n_components", n_components, 1)
    require_fits("n_features", 8 * n_features * n_components)
    return as_random(random_state).standard_normal((n_features, n_components))


def factorizable_dictionary(
    n_features: int = 32, n_factors: int = 5, *, random_state: RandomState = None
) -> SparseProduct:
    """A product of random sparse square factors with unit-norm atoms: the D₀ of the paper's FACT (section 4.2).

    D₀ = S₁S₂…S_M. The number p_i of entries of each factor is drawn uniformly from 2d, …, 4d (64 to 128 for the
    paper's d = 32), both at most d². The entries are i.i.d. standard Gaussian; the columns of the last factor are
    then divided by the norms of the product's columns.

    Each factor has full rank with probability one: its support contains a random permutation, and the other
    p_i − d places are drawn uniformly from the rest, so that the determinant is a non-zero polynomial.

    Parameters
    ----------
    n_features : int, default=32
        Features, d; also the number of atoms.
    n_factors : int, default=5
        Factors, M.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    SparseProduct
        d × d, with columns of norm one.

    Examples
    --------
    >>> from papilio.datasets import factorizable_dictionary
    >>> dictionary = factorizable_dictionary(random_state=0)
    >>> dictionary.shape, len(dictionary.factors)
    ((32, 32), 5)
    """
    n_features = as_integer("n_features", n_features, 1)
    n_factors = as_factor_count("n_factors", n_factors, 1)
    require_fits("n_features", 8 * n_features**2)  # Each place is drawn from all.
    random = as_random(random_state)
    factors = [_full_rank_factor(n_features, random) for _ in range(n_factors)]
    norms = column_norms(reduce(operator.matmul, factors).toarray())
    factors[-1] = factors[-1] @ sp.diags_array(1.0 / norms)
    return SparseProduct(factors)


def synthetic_signals(
    dictionary: MatrixLike | SparseProduct,
    n_signals: int = 500,
    n_nonzero_coefs: int = 5,
    *,
    values: str = "normal",
    random_state: RandomState = None,
) -> tuple[Array, sp.csc_array]:
    """Signals X = DΓ that are sparse in a dictionary.

    Each signal uses ``n_nonzero_coefs`` different atoms, all choices equally likely, with i.i.d. coefficients.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        D, one atom per column.
    n_signals : int, default=500
        Signals, n.
    n_nonzero_coefs : int, default=5
        Atoms per signal, at most a.
    values : {"normal", "half-normal", "uniform"}, default="normal"
        The distribution of coefficients: standard Gaussian, its modulus, or uniform between 0 and 1. The last two
        are not negative, as the features that sparse autoencoders look for.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    signals : (d, n) ndarray
        X, one signal per column, in the dictionary's dtype.
    codes : (a, n) csc_array
        Γ, real, in the dictionary's precision.

    Examples
    --------
    >>> import numpy as np
    >>> from papilio.datasets import synthetic_signals
    >>> signals, codes = synthetic_signals(np.eye(6), n_signals=4, n_nonzero_coefs=2, random_state=0)
    >>> np.count_nonzero(signals, axis=0)
    array([2, 2, 2, 2])
    """
    D = dictionary if isinstance(dictionary, SparseProduct) else as_matrix("dictionary", dictionary)
    n_components = D.shape[1]
    n_signals = as_integer("n_signals", n_signals, 1)
    n_nonzero_coefs = as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, n_components)
    kind = as_choice("values", values, _VALUES)
    require_fits("n_signals", n_signals * (16 * n_nonzero_coefs + D.dtype.itemsize * D.shape[0]))
    random = as_random(random_state)
    atoms = _different_atoms(n_signals, n_nonzero_coefs, n_components, random)
    coefficients = random.random_sample(atoms.size) if kind == "uniform" else random.standard_normal(atoms.size)
    coefficients = np.abs(coefficients) if kind == "half-normal" else coefficients
    coefficients = coefficients.astype(D.dtype.type(0).real.dtype)
    starts = np.arange(0, atoms.size + 1, n_nonzero_coefs)
    codes = sp.csc_array((coefficients, atoms.ravel(), starts), shape=(n_components, n_signals))
    signals = D @ codes
    return np.ascontiguousarray(signals.toarray() if sp.issparse(signals) else signals), codes


def rand(
    n_signals: int = 500, *, n_features: int = 32, n_nonzero_coefs: int = 5, random_state: RandomState = None
) -> Synthetic:
    """The paper's RAND (section 4.2): `synthetic_signals` of a square `random_dictionary`.

    Parameters
    ----------
    n_signals : int, default=500
        Signals, n.
    n_features : int, default=32
        Features, d; also the number of atoms.
    n_nonzero_coefs : int, default=5
        Atoms per signal.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    Synthetic
        (signals, dictionary, codes), the dictionary as an ndarray.

    Examples
    --------
    >>> from papilio.datasets import rand
    >>> signals, dictionary, codes = rand(random_state=0)
    >>> signals.shape, dictionary.shape, codes.shape
    ((32, 500), (32, 32), (32, 500))
    """
    random = as_random(random_state)
    dictionary = random_dictionary(n_features, random_state=random)
    signals, codes = synthetic_signals(dictionary, n_signals, n_nonzero_coefs, random_state=random)
    return Synthetic(signals, dictionary, codes)


def fact(
    n_signals: int = 500, *, n_features: int = 32, n_nonzero_coefs: int = 5, random_state: RandomState = None
) -> Synthetic:
    """The paper's FACT (section 4.2): `synthetic_signals` of a `factorizable_dictionary` of five factors.

    Parameters
    ----------
    n_signals : int, default=500
        Signals, n.
    n_features : int, default=32
        Features, d; also the number of atoms.
    n_nonzero_coefs : int, default=5
        Atoms per signal.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    Synthetic
        (signals, dictionary, codes), the dictionary as a `SparseProduct`.

    Examples
    --------
    >>> from papilio.datasets import fact
    >>> signals, dictionary, codes = fact(random_state=0)
    >>> len(dictionary.factors), codes.nnz
    (5, 2500)
    """
    random = as_random(random_state)
    dictionary = factorizable_dictionary(n_features, random_state=random)
    signals, codes = synthetic_signals(dictionary, n_signals, n_nonzero_coefs, random_state=random)
    return Synthetic(signals, dictionary, codes)


def image_patches(
    n_patches: int = 10_000,
    patch_size: int | tuple[int, int] = 8,
    *,
    images: str | Sequence[str] = _IMAGES,
    remove_mean: bool = True,
    random_state: RandomState = None,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Grey-scale patches, at random places, of the photographs that scikit-learn ships.

    Patches are rows, as scikit-learn's estimators take them; the other functions of this module have one signal
    per column. Nothing is downloaded. Needs Pillow (``pip install pillow``).

    Parameters
    ----------
    n_patches : int, default=10_000
        Patches may overlap, but none is drawn twice unless there are more patches than places.
    patch_size : int or (int, int), default=8
        Rows and columns of a patch in pixels; one integer stands for both.
    images : str or sequence of str, default=("china", "flower")
        "china", "flower" or both; all places of all images are equally likely.
    remove_mean : bool, default=True
        Whether to subtract its mean from each patch.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.
    dtype : dtype, default=float64
        Of the result: float64 or float32.

    Returns
    -------
    (n_patches, rows · columns) ndarray
        The pixels of a patch, row by row: luminances 0.299 R + 0.587 G + 0.114 B from 0 to 1, less their mean if
        ``remove_mean``.

    Raises
    ------
    ImportError
        If Pillow is not installed.

    Examples
    --------
    >>> from papilio.datasets import image_patches
    >>> image_patches(100, 8, images="china", random_state=0).shape
    (100, 64)
    """
    n_patches = as_integer("n_patches", n_patches, 1)
    rows, columns = as_shape("patch_size", patch_size)
    several = isinstance(images, Sequence) and not isinstance(images, str)
    names = [as_choice("images", name, _IMAGES) for name in (images if several else [images])]
    if not names:
        raise ValueError("images must name at least one image, got none")
    dtype, is_centred = as_dtype("dtype", dtype), as_flag("remove_mean", remove_mean)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype must be float32 or float64, got {dtype}")
    require_fits("n_patches", n_patches * rows * columns * dtype.itemsize)
    random = as_random(random_state)

    windows = []  # All patches of each image, by their upper left corners.
    for name in names:
        image = _luminances(name).astype(dtype)
        if rows > image.shape[0] or columns > image.shape[1]:
            limit = f"at most {image.shape}, the size of {name!r}"
            raise ValueError(f"patch_size must be {limit}, got {(rows, columns)}")
        windows.append(np.lib.stride_tricks.sliding_window_view(image, (rows, columns)))
    ends = np.cumsum([window.shape[0] * window.shape[1] for window in windows])

    places = random.choice(ends[-1], n_patches, replace=n_patches > ends[-1])
    sources = np.searchsorted(ends, places, side="right")
    patches: Array = np.empty((n_patches, rows, columns), dtype)
    for i, window in enumerate(windows):
        here = sources == i
        start = ends[i] - window.shape[0] * window.shape[1]
        patches[here] = window[np.divmod(places[here] - start, window.shape[1])]
    patches = patches.reshape(n_patches, rows * columns)
    if is_centred:
        patches -= patches.mean(axis=1, keepdims=True, dtype=np.float64)
    return patches


def _full_rank_factor(side: int, random: np.random.RandomState) -> sp.csr_array:
    """A factor of `factorizable_dictionary`, before the division by norms."""
    size = side * side
    count = random.randint(min(2 * side, size), min(4 * side, size) + 1)
    permutation = np.arange(side) * side + random.permutation(side)
    others = np.setdiff1d(np.arange(size), permutation, assume_unique=True)
    places = np.concatenate([permutation, random.choice(others, count - side, replace=False)])
    while True:
        values = random.standard_normal(count)
        factor = sp.csr_array((values, np.divmod(places, side)), shape=(side, side))
        # Without rounding, zeros and singular matrices have probability zero.
        if values.all() and np.linalg.matrix_rank(factor.toarray()) == side:
            return factor


def _different_atoms(
    n_signals: int, n_nonzero_coefs: int, n_components: int, random: np.random.RandomState
) -> Array:
    """The sorted indices of each signal's atoms, one signal per row: where i.i.d. numbers are smallest."""
    chosen = np.empty((n_signals, n_nonzero_coefs), dtype=np.int64)
    height = max(_BLOCK_ENTRIES // n_components, 1)
    for start in range(0, n_signals, height):
        block = chosen[start : start + height]
        draws = random.random_sample((len(block), n_components))
        block[:] = np.argpartition(draws, n_nonzero_coefs - 1, axis=1)[:, :n_nonzero_coefs]
    chosen.sort(axis=1)
    return chosen


def _luminances(name: str) -> Array:
    """An image that scikit-learn ships, as a grey-scale matrix with values from 0 to 1."""
    from sklearn.datasets import load_sample_image

    try:
        pixels = load_sample_image(f"{name}.jpg")
    except ImportError as error:
        raise ImportError("papilio.datasets.image_patches needs Pillow: pip install pillow") from error
    return np.minimum(pixels @ np.array(_LUMINANCE) / 255.0, 1.0)
