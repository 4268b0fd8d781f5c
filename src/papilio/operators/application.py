"""How a SparseProduct is applied: to vectors, blocks of them and batches of blocks, of any dtype and layout."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_array, as_numbers
from .base import FactoredOperator

if TYPE_CHECKING:
    from .packing import PackedFactor, PackedProduct, PackedSum


class AppliedOperator(FactoredOperator):
    """SciPy's products of an operator with arrays, on all of SciPy's versions as in 1.18."""

    def _times(self, x: Array) -> Array:
        """The fused product with a dense vector, block or batch of blocks of any dtype and layout."""
        if x.shape[-2:][:1] != self.shape[1:]:
            raise ValueError(
                f"x must be a vector of {self.shape[1]} entries or a block of as many rows, got shape {x.shape}"
            )
        if x.ndim > 2:
            return self._times_batch(x)
        dtype = np.result_type(self.dtype, x.dtype)
        if dtype.kind == "c" and self.dtype.kind != "c":
            # A real operator sees real and imaginary parts as two columns.
            parts = np.ascontiguousarray(x, dtype=dtype).reshape(x.shape[0], -1).view(dtype.type(0).real.dtype)
            return self._times(parts).view(dtype).reshape(self.shape[:1] + x.shape[1:])
        converted = self._derived.converted
        if dtype != self.dtype and dtype not in converted:
            converted[dtype] = self.astype(dtype)
        packed = converted.get(dtype, self)._packed()
        x = x.astype(dtype, copy=False)
        return packed.vector(x) if x.ndim == 1 else packed.block(x)

    def _packed(self) -> "PackedProduct | PackedSum":
        derived = self._derived
        if derived.packed is None:
            from .packing import packed_product  # loads numba, which `import papilio` does not

            derived.packed = packed_product(self._factors, self._scale, self._packed_factors())
        return derived.packed

    def _packed_factors(self) -> "list[PackedFactor]":
        """The factors packed one by one; a product of two operators takes over what these have packed."""
        derived = self._derived
        if derived.packed_factors is None:
            from .packing import pack_factor

            if derived.halves:
                derived.packed_factors = [f for half in derived.halves for f in half._packed_factors()]
            else:
                derived.packed_factors = [pack_factor(factor) for factor in self._factors]
        return derived.packed_factors

    def _times_batch(self, x: Array) -> Array:
        """The product with (…, N, K) blocks, as one block of all their columns."""
        turned = np.swapaxes(x, -1, -2)
        if turned.flags.c_contiguous:
            return np.swapaxes(self._matvec(turned), -1, -2)
        rows = np.moveaxis(x, -2, 0)
        product = self._times(rows.reshape(self.shape[1], -1))
        return np.moveaxis(product.reshape(-1, *rows.shape[1:]), 0, -2)

    def _matvec(self, x: ArrayLike) -> Array:
        vectors = as_numbers("x", x)
        if vectors.shape == (self.shape[1], 1):
            vectors = vectors[:, 0]
        if vectors.shape[-1:] != self.shape[1:]:
            raise ValueError(f"x must hold vectors of {self.shape[1]} entries, got shape {vectors.shape}")
        if vectors.ndim == 1:
            return self._times(vectors)
        product = self._times(vectors.reshape(-1, self.shape[1]).T)
        return product.T.reshape(*vectors.shape[:-1], self.shape[0])

    def _matmat(self, X: MatrixLike) -> Any:
        return self.dot(X)

    def matvec(self, x: ArrayLike) -> Array:
        """This operator times one vector or each of several.

        Parameters
        ----------
        x : (..., n_columns) array
            Vectors along the last axis. SciPy's rule holds for a column, of shape (n_columns, 1): it is one
            vector, deprecated since SciPy 1.18.

        Returns
        -------
        (..., n_rows) array

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1, 1], [1, -1]]]).matvec([[3, 1], [0, 1]])
        array([[ 4.,  2.],
               [ 1., -1.]])
        """
        if isinstance(x, list | tuple):
            x = as_array("x", x)
        if np.shape(x) in (self.shape[1:], (self.shape[1], 1)):
            return super().matvec(x)
        return self._matvec(x)  # SciPy takes several from version 1.18 on

    def matmat(self, X: MatrixLike) -> Any:
        """This operator times a block of columns or each of several.

        Parameters
        ----------
        X : (..., n_columns, n_vectors) array or sparse matrix

        Returns
        -------
        (..., n_rows, n_vectors) array, or csr_array for a sparse matrix

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> pp.transforms.hadamard(4).matmat(np.ones((5, 4, 3))).shape
        (5, 4, 3)
        """
        if isinstance(X, list | tuple):
            X = as_array("X", X)
        if np.ndim(X) < 2:
            raise ValueError(f"X must be a block of {self.shape[1]} rows, got {np.ndim(X)} dimensions")
        return self._matmat(X)

    def rmatvec(self, x: ArrayLike) -> Array:
        """The adjoint times one vector or each of several.

        Parameters
        ----------
        x : (..., n_rows) array

        Returns
        -------
        (..., n_columns) array

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1j, 2j]]]).rmatvec([2])
        array([0.-2.j, 0.-4.j])
        """
        return self._adjoint().matvec(x)

    def rmatmat(self, X: MatrixLike) -> Any:
        """The adjoint times a block of columns or each of several.

        Parameters
        ----------
        X : (..., n_rows, n_vectors) array or sparse matrix

        Returns
        -------
        (..., n_columns, n_vectors) array, or csr_array for a sparse matrix

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> pp.SparseProduct([np.ones((3, 4))]).rmatmat(np.ones((5, 3, 2))).shape
        (5, 4, 2)
        """
        return self._adjoint().matmat(X)
