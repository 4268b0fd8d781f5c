"""`lasso`: sparse codes with an ℓ1 penalty."""

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..runtime.session import Session
from ..typing import MatrixLike
from ..validation import as_flag
from .coder import Coder
from .l1 import MAX_ITER, TOL, lasso_codes
from .matching_pursuit import HasOperator, as_dictionary, as_signals


def lasso(
    dictionary: MatrixLike | SparseProduct | HasOperator,
    signals: MatrixLike,
    alpha: float,
    *,
    positive: bool = False,
    init: MatrixLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
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
        scikit-learn's ``ConvergenceWarning`` tells so.
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
    per signal, which a fast product speeds up.

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
    coder = Coder(D if D.dtype == dtype else D.astype(dtype))
    if not as_flag("progress", progress):
        return lasso_codes(coder, X, alpha, positive, init, tol, max_iter)
    with Session(progress=True, title="lasso") as session:
        return lasso_codes(coder, X, alpha, positive, init, tol, max_iter, session)
