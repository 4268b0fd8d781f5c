"""SparseProduct: scale · S₁S₂…S_M as an immutable SciPy LinearOperator."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..linalg import largest_part, wide
from ..typing import Array, MatrixLike, Path
from ..validation import as_numbers, as_sparse, is_scalar
from .arithmetic import ArithmeticOperator
from .csr import entries, to_csr, to_dense
from .indexing import read_key

if TYPE_CHECKING:
    import pyfaust
    import pylops

    from ..torch import FastLinear


class SparseProduct(ArithmeticOperator):
    """The matrix scale · S₁S₂…S_M, kept and applied as its sparse factors.

    Applying it costs one pass over the entries of the factors, ``nnz`` in all, where the dense matrix would
    cost rows × columns; `relative_complexity` is the ratio of the two (the paper's RC, eq. 5).

    Parameters
    ----------
    factors : sequence of matrices
        S₁, …, S_M from left to right, dense or sparse, real or complex; a SparseProduct stands for its
        factors. They are copied; all take the common dtype. Integers and booleans become float64.
    scale : float
        A real number in front of the product.

    Attributes
    ----------
    factors : tuple of scipy.sparse.csr_array and numpy.ndarray
        Plain arrays where no entry is zero.
    scale : float
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    nnz : int
        Entries of all factors that are not zero.
    relative_complexity : float
        nnz / (rows · columns).

    Notes
    -----
    ``op @ x`` takes vectors, blocks of columns, batches of blocks (the last two axes are a block, as in NumPy),
    sparse blocks (the result is then sparse) and other SparseProducts (the result is then one too). ``2 * op``,
    ``op / 2``, ``-op``, ``op.T``, ``op.H`` and ``op[rows, columns]`` are SparseProducts. A selection takes the
    chosen rows of the chosen columns (as ``numpy.ix_`` would) and keeps two dimensions, except that ``op[i, j]``
    with two integers is the entry. ``numpy.asarray(op)`` is the dense matrix, which is also what NumPy's functions
    take an operator for, unless they refuse it.

    Sums and differences of two SparseProducts are SparseProducts: [A₁ B₁] · diag(A₂, B₂) ⋯ [A_M; B_M], with the
    entries of both; first and last factors that both have stand once, and the shorter chain is filled up with
    identities, as in `hstack`. Sums with other operators, powers and everything else are SciPy's lazy operators.
    ``op.real`` and ``op.imag`` are products of real factors. Those inside have up to four times the entries, the
    first and the last one twice; what only meets zeros is left out.

    Sparse factors are applied by one fused kernel, compiled on first use and cached, on as many threads as pay
    (`papilio.set_num_threads`); dense ones by BLAS where that is faster. Zeros may take part in sums, as in a
    dense matrix: an infinite entry of ``x`` may give NaN in any row. A complex scalar goes into a factor, as the
    scale is real; scalars never change the precision.

    Examples
    --------
    >>> import papilio as pp
    >>> op = pp.SparseProduct([[[1, 1], [1, -1]], [[1, 0], [0, 3]]], scale=0.5)
    >>> op @ [1, 1]
    array([ 2., -1.])
    """

    def __repr__(self) -> str:
        sizes = [self.shape[0], *(factor.shape[1] for factor in self._factors)]
        chain = "×".join(map(str, sizes)) if len(sizes) <= 6 else f"{sizes[0]}×{sizes[1]}×…×{sizes[-1]}"
        count = len(self._factors)
        return (
            f"<SparseProduct {self.shape[0]}×{self.shape[1]} {self.dtype}: {count} factor{'s' * (count > 1)} "
            f"({chain}), {self.nnz} entries, relative complexity {self.relative_complexity:.4g}>"
        )

    def _repr_html_(self) -> str:
        from ..plot.notebook import html

        return html(self)

    def plot(self, target: "MatrixLike | SparseProduct | None" = None, axes: Any = None) -> Any:
        """Draw the factors, or how near their product is to a target.

        Parameters
        ----------
        target : matrix, optional
            What this operator approximates (`papilio.plot.comparison`). By default the factors are drawn
            (`papilio.plot.factors`).
        axes : sequence of matplotlib axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        sequence of matplotlib axes

        Examples
        --------
        >>> import papilio as pp
        >>> axes = pp.transforms.hadamard(8).plot()
        """
        from .. import plot

        return plot.factors(self, axes) if target is None else plot.comparison(target, self, axes)

    # -- applying it -----------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        # The shortest way for what is called most: dense vectors and blocks of the operator's own dtype.
        if type(other) is np.ndarray and other.dtype == self.dtype and other.shape[:1] == self.shape[1:]:
            if other.ndim == 1:
                return self._packed().vector(other)
            if other.ndim == 2:
                return self._packed().block(other)
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        if sp.issparse(other):
            return sp.csr_array(self.T.dot(as_sparse("x", other).T).T)
        x = as_numbers("x", other)
        return self.T._times(x) if x.ndim < 2 else np.swapaxes(self.T._times(np.swapaxes(x, -1, -2)), -1, -2)

    def dot(self, x: Any) -> Any:
        """This operator times ``x``; the same as ``op @ x``, and as ``op * x`` for scalars.

        Parameters
        ----------
        x : scalar, vector, (..., n_columns, n_vectors) array, sparse matrix or operator

        Returns
        -------
        array, csr_array or LinearOperator
            An array for dense ``x``, sparse for sparse ``x``, and an operator for scalars and operators.

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1, 1], [1, -1]]]).dot([3, 1])
        array([4., 2.])
        """
        if isinstance(x, SparseProduct):
            return self._compose(x)
        if is_scalar(x):
            return self._scaled(x)
        if isinstance(x, LinearOperator):
            return super().dot(x)
        if not sp.issparse(x):
            return self._times(as_numbers("x", x))
        if x.ndim != 2 or x.shape[0] != self.shape[1]:
            raise ValueError(f"x must be a block of {self.shape[1]} rows, got shape {x.shape}")
        block = sp.csr_array(as_sparse("x", x))
        product = reduce(lambda right, left: to_csr(left) @ right, reversed(self._factors), block)
        with np.errstate(over="ignore", invalid="ignore"):
            return (product.astype(wide(product.dtype)) * self._scale).astype(product.dtype)

    # -- parts and forms of it -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        rows, columns, is_entry = read_key(key, self.shape)
        factors = list(self._factors)
        if rows is not None:
            factors[0] = factors[0][rows, :]
        if columns is not None:
            factors[-1] = factors[-1][:, columns]
        part = self._trusted(factors, self._scale)
        return part.toarray()[0, 0] if is_entry else part

    def toarray(self) -> Array:
        """The dense matrix.

        Returns
        -------
        (n_rows, n_columns) array

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1, 2]], [[1, 0], [0, 3]]], scale=0.5).toarray()
        array([[0.5, 3. ]])
        """
        *others, last = self._factors
        if not others:
            with np.errstate(over="ignore", invalid="ignore"):  # beyond the number range
                return to_dense((last.astype(wide(self.dtype)) * self._scale).astype(self.dtype))
        if self.shape[0] < self.shape[1]:
            return self.T.toarray().T
        if largest_part(entries(others[0])) * abs(self._scale) > float(np.finfo(self.dtype).max):
            return self @ np.eye(self.shape[1], dtype=self.dtype)  # the last factor may have to take the scale
        rest = self._trusted(others, self._scale)
        rest._derived.packed_factors = self._packed_factors()[:-1]
        return rest @ to_dense(last)

    def optimized(self) -> "SparseProduct":
        """An equal operator (up to rounding) that is faster to apply.

        Neighbouring factors are multiplied out wherever a model of the kernels and of BLAS says that this saves
        time, and that it costs none, neither for one vector nor for a block; the model is fixed, so that the same
        operator always gives the same result.

        Returns
        -------
        SparseProduct
            This operator itself if it cannot be made faster.

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> op = pp.SparseProduct([np.eye(3), 2 * np.eye(3), np.ones((3, 2))])
        >>> len(op.optimized().factors)
        1
        """
        from .merging import merged

        factors = merged(self._factors)
        return self if len(factors) == len(self._factors) else self._trusted(factors, self._scale)

    def norm(self, ord: float | str = "fro") -> float:
        """The Frobenius norm, the spectral norm, or the largest sum of a column or row, as ``numpy.linalg.norm``.

        The spectral norm is found by Lanczos iteration on the factors; the matrix is not formed. The others are
        exact: they form it, a block of columns at a time, which takes as long as ``toarray()`` and 32 MB.

        Parameters
        ----------
        ord : {"fro", 2, 1, numpy.inf}
            1 for the largest sum of the magnitudes of a column, infinity for that of a row.

        Returns
        -------
        float
            Infinity if it is beyond the number range.

        Examples
        --------
        >>> import papilio as pp
        >>> round(pp.transforms.hadamard(4).norm(), 6), round(pp.transforms.hadamard(4).norm(2), 6)
        (4.0, 2.0)
        >>> pp.SparseProduct([[[1, -3], [2, 0]]]).norm(1)
        3.0
        """
        from .norms import norm_of

        return norm_of(self, ord)

    def to_torch(self) -> "FastLinear":
        """A PyTorch layer that applies this operator, and whose entries can be trained; needs the extra ``torch``.

        Returns
        -------
        papilio.torch.FastLinear
            Without a bias.

        Examples
        --------
        >>> import papilio as pp
        >>> op = pp.transforms.hadamard(4)
        >>> layer = op.to_torch()  # doctest: +SKIP
        """
        from ..torch import FastLinear

        return FastLinear.from_operator(self)

    # -- keeping it ------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the operator to a file without pickle; `papilio.load` reads it back.

        The file is written whole or not at all: a crash leaves what was there before.

        Parameters
        ----------
        path : path
            Taken as it is; no suffix is added. A name that ends in .mat gives a MATLAB file as FAµST has them (see
            `to_faust`): the scale goes into a factor. Names of other formats, such as .npy and .csv, are refused.
            All others give an npz file.

        Examples
        --------
        >>> import tempfile, papilio as pp
        >>> pp.transforms.haar(8).save(tempfile.mkdtemp() + "/haar.npz")
        """
        from .files import save

        save(self, path)

    # -- in other libraries ----------------------------------------------------------------------------

    def to_pylops(
        self, dims: int | Sequence[int] | None = None, dimsd: int | Sequence[int] | None = None
    ) -> "pylops.LinearOperator":
        """This operator for PyLops.

        Parameters
        ----------
        dims, dimsd : int or sequence of int, optional
            The dimensions of the model, which are the columns in order, and those of the data, which are the rows:
            arrays of these shapes are then taken and given. By default one dimension each.

        Returns
        -------
        pylops.LinearOperator

        Raises
        ------
        ImportError
            If PyLops is not installed.

        Examples
        --------
        >>> import papilio as pp
        >>> try:
        ...     shape = pp.transforms.hadamard(4).to_pylops(dims=(2, 2)).shape
        ... except ImportError:  # PyLops is not installed
        ...     shape = (4, 4)
        >>> tuple(map(int, shape))
        (4, 4)
        """
        from .files import to_pylops

        return to_pylops(self, dims, dimsd)

    def to_faust(self) -> "pyfaust.Faust":
        """This operator for pyfaust; `papilio.from_faust` is the inverse.

        The scale goes into the first factor. FAµST has no single precision for complex numbers: complex64 becomes
        complex128.

        Returns
        -------
        pyfaust.Faust

        Raises
        ------
        ImportError
            If pyfaust is not installed.

        Examples
        --------
        >>> import papilio as pp
        >>> try:
        ...     count = pp.transforms.hadamard(8).to_faust().numfactors()
        ... except ImportError:  # pyfaust is not installed
        ...     count = 3
        >>> count
        3
        """
        from .files import to_faust

        return to_faust(self)
