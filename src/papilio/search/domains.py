"""Matrices that are sparse, or nearly so, in the domain of a fast transform.

M = T_mᴴ B T_n with orthonormal transforms T_m and T_n on the left and right, or on one side only. Keeping the
largest entries of the core B gives the lowest error for their number. Circulant matrices have two entries per row
in the Hartley domain, kernels that are smooth apart from their diagonal have few large ones in that of wavelets.
"""

from collections.abc import Callable, Iterator
from functools import cache
from math import isqrt

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..operators.factors import joined
from ..transforms import dct, dft, haar, hadamard, hartley, wavelet
from ..typing import Array
from .curves import Curve, thresholding
from .targets import Target

_SMALLEST = 8  # sizes below gain nothing

_MAKERS: dict[str, Callable[[int], SparseProduct]] = {
    "Haar": haar,
    "db4": wavelet,
    "DCT": dct,
    "Hadamard": hadamard,
    "Hartley": hartley,
    "DFT": dft,
}


def domains(matrix: Array, target: Target) -> Iterator[Curve]:
    """The curves of all domains in which the matrix's product may have fewer entries than the target allows."""
    names = [name for name in _MAKERS if name != ("DFT" if matrix.dtype.kind != "c" else "Hartley")]
    for name in names:
        for grid in ("", " 2-D"):
            left, right = (transform(name + grid, size) for size in matrix.shape)
            sides = (
                [(left, right)] if left is None or right is None else [(left, right), (left, None), (None, right)]
            )
            for side in sides:
                curve = _curve(matrix, target, name + grid, *side)
                if curve is not None:
                    yield curve


@cache
def transform(name: str, n: int) -> SparseProduct | None:
    """An orthonormal transform of size n, on a square grid if the name ends with "2-D"; None if there is none."""
    name, _, grid = name.partition(" ")
    side = isqrt(n) if grid else n
    if side & (side - 1) or side < _SMALLEST or (grid and side * side != n):
        return None
    line = _MAKERS[name](side)
    if name in ("Hadamard", "Hartley", "DFT"):
        line = line / np.sqrt(side)
    if not grid:
        return line
    eye = sp.eye_array(side)
    rows = SparseProduct([sp.kron(factor, eye) for factor in line.factors], line.scale)
    return rows @ SparseProduct([sp.kron(eye, factor) for factor in line.factors], line.scale)


def _curve(
    matrix: Array, target: Target, name: str, left: SparseProduct | None, right: SparseProduct | None
) -> Curve | None:
    fixed = sum(each.nnz for each in (left, right) if each is not None)
    if fixed == 0 or fixed >= (matrix.size if target.budget is None else target.budget):
        return None
    core = matrix if left is None else left @ matrix
    core = core if right is None else (right @ core.conj().T).conj().T
    core = core.astype(matrix.dtype)

    def around(kept: sp.csr_array) -> SparseProduct:
        # A core with one entry per line, and more, disappears in its neighbours.
        before, after = SparseProduct([left.H, kept] if left is not None else [kept]), right
        whole = before if after is None else SparseProduct([before, after])
        return SparseProduct(joined(list(map(sp.csr_array, whole.factors))), whole.scale).astype(matrix.dtype)

    side = "" if left is not None and right is not None else ", rows" if left is None else ", columns"
    return thresholding(core, target, around, fixed, "transform", f"{name}{side}, ")
