"""`omp`: sparse codes by orthogonal matching pursuit."""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..runtime.session import Session
from ..typing import Array, MatrixLike
from ..validation import as_flag, as_matrix, as_numbers
from .coder import Coder


class HasOperator(Protocol):
    """A fitted estimator of this package."""

    operator_: SparseProduct


def omp(
    dictionary: MatrixLike | SparseProduct | HasOperator,
    signals: MatrixLike,
    n_nonzero_coefs: int | None = None,
    *,
    tol: float | None = None,
    positive: bool = False,
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
    A fast product pays in large dictionaries: at relative complexity 0.1, with blocks of 4×4 entries, one core
    codes 200 signals with 10 of 4096 atoms of length 1024 in 72 ms, and 2,000 in 320 ms; with the dense matrix it
    takes 270 and 800 ms. Many signals in a small dictionary are coded by rows of its Gram matrix, whatever its
    form: 10,000 signals with 10 of 256 atoms of length 64 take 50 ms with the product, and 53 ms with the matrix.

    Beside the dictionary, a copy of it, the signals and the codes, it needs up to 1 GiB, for the Gram matrix: that
    of 16,384 atoms in single precision, or 11,585 in double. With more atoms, correlations are computed from the
    residuals at each step instead, which needs no such matrix but more time; for non-negative codes, as many rows
    of it are kept as fit into 1 GiB.

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
    coder = Coder(D if D.dtype == dtype else D.astype(dtype))
    if not as_flag("progress", progress):
        return coder.code(X, n_nonzero_coefs, tol, positive)
    with Session(progress=True, title="omp") as session:
        return coder.code(X, n_nonzero_coefs, tol, positive, session)


def as_dictionary(dictionary: Any) -> Array | SparseProduct:
    """``dictionary`` as a finite matrix, or as the product that it is or stands for."""
    found = getattr(dictionary, "operator_", dictionary)
    if isinstance(found, SparseProduct):
        return found
    if hasattr(found, "fit"):
        name = type(found).__name__
        raise TypeError(
            "dictionary must be a matrix, a SparseProduct or a fitted estimator of papilio, whose operator_ is "
            f"used, got a {name} without operator_"
        )
    return as_matrix("dictionary", found)


def as_signals(signals: MatrixLike) -> Array:
    """``signals`` as a finite matrix with one signal per column; there may be none."""
    array = as_numbers("signals", signals)
    if array.ndim == 1:
        array = array[:, None]
    return array if array.ndim == 2 and array.shape[0] and not array.shape[1] else as_matrix("signals", array)
