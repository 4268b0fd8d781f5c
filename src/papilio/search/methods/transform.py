"""Fast transforms: matrices that are one, up to the order and scale of lines, or sparse in the domain of one.

A real n×n matrix M is recognised if M_ij = r_i · T_{p(i) q(j)} · c_j with permutations p and q and non-zero
numbers r and c of any sign, where T is ``dct(n)``, ``haar(n)`` or the transpose of one. So is the sine transform
of type 2, which is the cosine transform with its rows reversed and the signs of columns changed. The number of
non-zero entries tells which T it may be: for n = 2^K, the cosine transform has n² and the Haar transform n(K + 1).
A match is only a guess until its error is known.

M = T_mᴴ B T_n with orthonormal transforms T_m and T_n on the left and right, or on one side only. Keeping the
largest entries of the core B gives the lowest error for their number. Circulant matrices have two entries per row
in the Hartley domain, kernels that are smooth apart from their diagonal have few large ones in that of wavelets.
"""

from collections.abc import Callable, Iterator
from functools import cache
from math import isqrt
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.fft import dct as fast_dct

from ...operators import SparseProduct
from ...operators.factors import joined
from ...transforms import dct, dft, haar, hadamard, hartley, wavelet
from ...typing import Array
from ..curves import Curve, exact_error, relative_error, single, thresholding
from ..problems import Stored
from ..search import Method, Search
from ..targets import Target

NAME = "transform"

_SMALLEST = 8  # sizes below gain nothing

_MAKERS: dict[str, Callable[[int], SparseProduct]] = {
    "Haar": haar,
    "db4": wavelet,
    "DCT": dct,
    "Hadamard": hadamard,
    "Hartley": hartley,
    "DFT": dft,
}


def domains(problem: Stored, target: Target) -> Iterator[Curve]:
    """The curves of all domains in which the matrix's product may have fewer entries than the target allows."""
    names = [name for name in _MAKERS if name != ("DFT" if problem.dtype.kind != "c" else "Hartley")]
    for name in names:
        for grid in ("", " 2-D"):
            left, right = (transform(name + grid, size) for size in problem.shape)
            sides = (
                [(left, right)] if left is None or right is None else [(left, right), (left, None), (None, right)]
            )
            for side in sides:
                curve = _curve(problem, target, name + grid, *side)
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
    problem: Stored, target: Target, name: str, left: SparseProduct | None, right: SparseProduct | None
) -> Curve | None:
    matrix = problem.matrix
    fixed = sum(each.nnz for each in (left, right) if each is not None)
    if fixed == 0 or fixed >= (matrix.size if target.budget is None else target.budget):
        return None
    weights = problem.weights if right is None else problem.weights_in(right)
    core = matrix if left is None else left @ matrix
    core = core if right is None else (right @ core.conj().T).conj().T
    core = core.astype(matrix.dtype)

    def around(kept: sp.csr_array) -> SparseProduct:
        # A core with one entry per line, and more, disappears in its neighbours.
        before, after = SparseProduct([left.H, kept] if left is not None else [kept]), right
        whole = before if after is None else SparseProduct([before, after])
        return SparseProduct(joined(list(map(sp.csr_array, whole.factors))), whole.scale).astype(matrix.dtype)

    side = "" if left is not None and right is not None else ", rows" if left is None else ", columns"
    return thresholding(core, target, around, fixed, NAME, f"{name}{side}, ", weights)


# -- transforms with permuted and scaled lines ---------------------------------------------------------

_DOUBTFUL = 1e-3  # a relative error in the search that rounding does not explain, even in single precision


class Match(NamedTuple):
    """Which rows and columns of T a matrix has, and by which numbers they are multiplied."""

    rows: Array
    columns: Array
    row_scales: Array
    column_scales: Array


def recognise(matrix: Array) -> Curve | None:
    """The exact factors of the transform that a matrix is, up to the order and scale of its lines.

    The factors are those of T, with p, q, r and c merged into the first and the last: there are no more entries.
    """
    n = len(matrix)
    if matrix.shape != (n, n) or matrix.dtype.kind == "c" or n < 4 or n & (n - 1):
        return None
    support = _support(matrix)
    entries = np.count_nonzero(support)
    is_full = entries == n * n
    if not is_full and entries != n * n.bit_length():
        return None
    for transposed in (False, True):
        wide = (matrix.T if transposed else matrix).astype(np.float64)
        with np.errstate(all="ignore"):
            match = _dct_match(wide) if is_full else _haar_match(wide, support.T if transposed else support)
            # Quotients of very different scales may overflow.
            if match is None or not np.isfinite(np.array(match[2:]).astype(matrix.dtype)).all():
                continue
        operator = _apply(dct(n) if is_full else haar(n), match)
        operator = (operator.T if transposed else operator).astype(matrix.dtype)
        error = relative_error(matrix, operator)
        if error <= exact_error(matrix.dtype):
            name = ("DCT" if is_full else "Haar") + (", transposed" if transposed else "")
            return single(NAME, name, operator, error)
    return None


def _support(matrix: Array) -> Array:
    """Which entries are more than rounding errors of the largest in their row and column."""
    sizes = np.abs(matrix)
    largest = np.minimum(sizes.max(axis=1, keepdims=True), sizes.max(axis=0))
    return sizes > 100 * np.finfo(matrix.dtype).eps * largest


def _apply(transform: SparseProduct, match: Match) -> SparseProduct:
    """The transform with its lines in the matrix's order, multiplied by the scales."""
    factors = list(transform.factors)
    factors[0] = sp.diags_array(match.row_scales) @ factors[0][match.rows]
    factors[-1] = factors[-1][:, match.columns] @ sp.diags_array(match.column_scales)
    return SparseProduct(factors, transform.scale)


# -- cosine transform ----------------------------------------------------------------------------------


def _dct_match(matrix: Array) -> Match | None:
    """The permutations and scales by which a matrix without zeros may be a cosine transform.

    T_kj ∝ cos(kθ_j) with θ_j = π(2j + 1)/(2n). Multiplying all θ by an odd number permutes the columns and, apart
    from signs, the rows. So all columns hold the same magnitudes, and divided by their geometric means they are
    those of T up to one factor: then rows 0 and n/2, and no others, are constant apart from signs. Dividing by
    row 0 leaves the cosines themselves. By the same symmetry, any row of odd k may be taken for k = 1: sorted by
    its values, the columns are in the order of θ. A cosine transform of each row then tells its k and r.
    """
    logs = np.log(np.abs(matrix))
    row_sizes = np.exp(logs.mean(axis=1))
    column_sizes = np.exp((logs - logs.mean(axis=1, keepdims=True)).mean(axis=0))
    balanced = matrix / row_sizes[:, np.newaxis] / column_sizes
    unevenness = np.abs(np.abs(balanced) - 1).max(axis=1)
    for constant in np.argsort(unevenness)[:2]:
        if unevenness[constant] > _DOUBTFUL:
            break
        cosines = balanced / balanced[constant]
        norms = np.linalg.norm(cosines, axis=1)
        odd = np.argmin(np.abs(cosines).min(axis=1) / norms)  # |cos kθ| is as small as sin(π/2n) for odd k only
        order = np.argsort(-cosines[odd])
        spectra = fast_dct(cosines[:, order], type=2, norm="ortho", axis=1)
        rows = np.abs(spectra).argmax(axis=1)
        peaks = spectra[np.arange(len(rows)), rows]
        if np.all(np.abs(peaks) >= (1 - _DOUBTFUL) * norms) and len(np.unique(rows)) == len(rows):
            return Match(rows, np.argsort(order), peaks * row_sizes, balanced[constant] * column_sizes)
    return None


# -- Haar transform ------------------------------------------------------------------------------------


def _haar_match(matrix: Array, support: Array) -> Match | None:
    """The permutations and scales by which a matrix with this support may be a Haar transform.

    T has two rows with n entries, two with n/2, four with n/4 and so on. The rows of one size divide the columns
    into groups, each within a group of the size before. Columns sorted by their groups are in T's order, up to
    exchanges of the halves of a group, which only change signs and the order of rows. Exchanging the two full rows
    only changes signs of columns and rows: either may be taken for the constant row, which gives c.
    """
    n = len(matrix)
    sizes = np.count_nonzero(support, axis=1)
    levels = [n >> level for level in range(n.bit_length() - 1)]
    if not np.array_equal(np.sort(sizes)[::-1], np.concatenate([[n], *([size] * (n // size) for size in levels)])):
        return None
    groups = [support[sizes == size].argmax(axis=0) for size in levels[1:]]
    order = np.lexsort(groups[::-1])
    begins = support[:, order].argmax(axis=1)
    rows = np.lexsort((begins, -sizes))
    constant = matrix[rows[0]]
    # In T, the first entry of a row with m entries is m^−½.
    row_scales = matrix[np.arange(n), order[begins]] / constant[order[begins]] * np.sqrt(sizes / n)
    return Match(np.argsort(rows), np.argsort(order), row_scales, constant * np.sqrt(n))


def _curves(search: Search) -> Iterator[Curve]:
    known = recognise(search.problem.matrix)
    if known is not None:
        yield known
    for curve in domains(search.problem, search.target):
        search.session.check()
        yield curve


METHOD = Method(
    NAME,
    "permuted and scaled cosine and Haar transforms; matrices that are nearly sparse in the domain of a "
    "fast transform",
    _curves,
)
