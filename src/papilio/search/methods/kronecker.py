"""Kronecker products and sums of them: M ≈ Σ A_i ⊗ B_i, after Van Loan and Pitsianis.

For A of shape m₁×n₁ and B of shape m₂×n₂, the entries of A ⊗ B, rearranged as an m₁n₁ × m₂n₂ matrix R with one row
per entry of A, are vec(A) vec(B)ᵀ. So the best sum of r Kronecker products is the best approximation of rank r of
the rearranged matrix. Which shapes fit is not known: all are tried at a few entries before R is formed.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...linalg import column_norms, frobenius, wide
from ...operators import SparseProduct
from ...operators.factors import joined, pruned, without_rounding
from ...runtime.threads import one_blas_thread
from ...typing import Array
from ..curves import Curve, divisors, exact_error, of_factors
from ..search import Method, Search

_SAMPLES = 64  # Entries whose rows and columns in R are tested first.
_MOST_TERMS = 48
_MOST_SPLITS = 3  # Splits for which R is formed.
_HOPELESS = 0.9  # estimated error + relative complexity
_NEAR = 0.1  # an error of one product, below which products of more parts are tried
_EXTRA, _ROUNDS = 8, 2  # Oversampling and iterations of the randomised decomposition.


class Split(NamedTuple):
    """The shapes m₁×n₁ and m₂×n₂ of two parts."""

    m1: int
    n1: int
    m2: int
    n2: int

    def rearranged(self, matrix: Array) -> Array:
        """R, in double precision."""
        blocks = matrix.reshape(self.m1, self.m2, self.n1, self.n2).swapaxes(1, 2)
        return blocks.astype(wide(matrix.dtype)).reshape(self.m1 * self.n1, self.m2 * self.n2)

    def places(self, rows: Array, columns: Array) -> tuple[Array, Array, Array, Array]:
        """The rows and columns of A and of B that make these entries of the matrix."""
        return rows // self.m2, columns // self.n2, rows % self.m2, columns % self.n2


class Term(NamedTuple):
    """A ⊗ B as the product of two sparse matrices: (A ⊗ I)(I ⊗ B) or (I ⊗ B)(A ⊗ I), with fewer entries."""

    A: Array
    B: Array

    def _counts(self) -> tuple[Any, Any]:
        """The entries of both products, without rows and columns that only meet zeros."""
        in_a, in_b = np.count_nonzero(self.A), np.count_nonzero(self.B)
        (a_rows, a_columns), (b_rows, b_columns) = (
            (np.count_nonzero(part.any(axis=1)), np.count_nonzero(part.any(axis=0))) for part in self
        )
        return in_a * b_rows + a_columns * in_b, a_rows * in_b + in_a * b_columns

    def entries(self) -> int:
        return int(min(self._counts()))

    def factors(self) -> list[sp.csr_array]:
        (m1, n1), (m2, n2) = self.A.shape, self.B.shape
        a_first, b_first = self._counts()
        if a_first <= b_first:
            pair = sp.kron(self.A, sp.eye_array(m2)), sp.kron(sp.eye_array(n1), self.B)
        else:
            pair = sp.kron(sp.eye_array(m1), self.B), sp.kron(self.A, sp.eye_array(n2))
        return pruned([sp.csr_array(factor, dtype=self.A.dtype) for factor in pair])


def kronecker(matrix: Array) -> list[Curve]:
    """The Kronecker product that a matrix is, or else the sums of Kronecker products that may be near it."""
    with one_blas_thread:  # most decompositions are small, or thin
        return _found(matrix) if matrix.any() else []


def _found(matrix: Array) -> list[Curve]:
    parts = _parts(matrix, exact_error(matrix.dtype))
    if len(parts) > 1:
        curve = of_factors("kronecker", _described(parts), matrix, _product_of(parts))
        return [curve] if curve else []
    curves = [_sums(matrix, split, terms) for split, terms in _promising(matrix)]
    found = [curve for curve in curves if curve is not None]
    lowest = min((float(curve.errors[0]) for curve in found), default=1.0)
    return found + (_near_products(matrix, 1.1 * lowest) if lowest < _NEAR else [])


def _splits(shape: tuple[int, int]) -> Iterator[Split]:
    """All shapes of two parts, neither of them 1×1, the smallest first parts first."""
    m, n = shape
    for m1, n1 in sorted(product(divisors(m), divisors(n)), key=prod):
        if 1 < m1 * n1 < m * n:
            yield Split(m1, n1, m // m1, n // n1)


def _described(parts: Sequence[Array]) -> str:
    return " ⊗ ".join("×".join(map(str, part.shape)) for part in parts)


def _samples(matrix: Array, count: int) -> tuple[Array, Array]:
    """The rows and columns of entries drawn in proportion to their squares, the largest first."""
    random = np.random.default_rng(0)
    squares = np.square(column_norms(matrix.T))
    rows = random.choice(len(matrix), count, p=squares / squares.sum())
    sums = np.cumsum(np.square(np.abs(matrix[rows]), dtype=np.float64), axis=1)
    columns = np.count_nonzero(sums <= random.random((count, 1)) * sums[:, -1:], axis=1)
    order = np.argsort(-np.abs(matrix[rows, columns]))
    return rows[order], columns[order]


# -- one product -----------------------------------------------------------------------------------------


def _parts(matrix: Array, limit: float) -> list[Array]:
    """As many matrices as possible whose Kronecker product the matrix is; no split's error exceeds the limit."""
    if not matrix.any():
        return [matrix]
    samples = _samples(matrix, 2 * _SAMPLES)
    for split in _splits(matrix.shape):
        if _may_split(matrix, split, samples, limit):
            A, B, error = _nearest(matrix, split, (samples[0][0], samples[1][0]))
            if error <= limit:
                return [A, *_parts(B, limit)]
    return [matrix]


def _may_split(matrix: Array, split: Split, samples: tuple[Array, Array], limit: float) -> bool:
    """Whether R is near rank one at the samples: then its 2×2 minors with the largest entry vanish."""
    # Other places, too, where a product would be non-zero.
    rows, columns = (np.concatenate([each, np.roll(each, 1)]) for each in samples)
    columns[columns.size // 2 :] = samples[1]
    i1, j1, i2, j2 = split.places(rows, columns)
    entries = matrix[rows, columns]
    in_row = matrix[i1[0] * split.m2 + i2, j1[0] * split.n2 + j2]
    in_column = matrix[i1 * split.m2 + i2[0], j1 * split.n2 + j2[0]]
    differences = entries - in_row * (in_column / entries[0])
    return frobenius(differences) <= 8 * limit * frobenius(entries)


def _nearest(matrix: Array, split: Split, largest: tuple[int, int]) -> tuple[Array, Array, float]:
    """The nearest A ⊗ B and its error, by power iteration from the largest entry; that of A is 1."""
    R = split.rearranged(matrix)
    i1, j1, _, _ = split.places(*(np.array([place]) for place in largest))
    right = R[i1[0] * split.n1 + j1[0]]
    for _ in range(_ROUNDS + 1):
        left = R @ right.conj()
        left /= left[np.abs(left).argmax()]
        right = left.conj() @ R / frobenius(left) ** 2
    error = frobenius(R - np.multiply.outer(left, right)) / frobenius(R)
    return left.reshape(split.m1, split.n1), right.reshape(split.m2, split.n2), error


def _near_products(matrix: Array, limit: float) -> list[Curve]:
    """The Kronecker product of three or more matrices that is near a matrix, if there is one."""
    parts = _parts(matrix, limit)
    if len(parts) < 3:
        return []
    curve = of_factors("kronecker", _described(parts), matrix, _product_of(parts))
    return [curve] if curve else []


def _product_of(parts: Sequence[Array]) -> list[sp.csr_array]:
    """K₁ ⊗ K₂ ⊗ … as a product with one factor per part, in the order with the fewest entries.

    Applied one after the other, a part K costs its entries times the sizes of the others, which are their rows if
    they were applied before and their columns if not. Exchanging neighbours shows which order is best.
    """
    matrices = [without_rounding(sp.csr_array(part)) for part in parts]
    shrinking = [(part.shape[1] - part.shape[0]) / part.nnz for part in matrices]
    sizes = [part.shape[1] for part in matrices]
    factors: list[sp.csr_array] = []
    for i in np.argsort(shrinking, kind="stable")[::-1]:
        before, after = (sp.eye_array(prod(part)) for part in (sizes[:i], sizes[i + 1 :]))
        factors.insert(0, sp.csr_array(sp.kron(sp.kron(before, matrices[i]), after)))
        sizes[i] = matrices[i].shape[0]
    return joined(pruned(factors))


# -- sums of products --------------------------------------------------------------------------------------


def _promising(matrix: Array) -> list[tuple[Split, int]]:
    """The splits with the lowest error + relative complexity at samples, and how many terms they may have."""
    rows, columns = _samples(matrix, _SAMPLES)
    count = int(np.count_nonzero(matrix))
    support = np.nonzero(matrix) if 2 * count < matrix.size else None
    scores = []
    for split in _splits(matrix.shape):
        is_low_rank = split.m1 * split.n2 == 1 or split.n1 * split.m2 == 1
        terms = 0 if is_low_rank else _most_terms(split, count, support)
        if terms:
            errors = _errors_at(matrix, split, rows, columns)[:terms]
            complexities = np.arange(1, errors.size + 1) / terms * (count / matrix.size)
            scores.append((float(np.min(errors + complexities, initial=np.inf)), split, terms))
    return [(split, terms) for score, split, terms in sorted(scores)[:_MOST_SPLITS] if score < _HOPELESS]


def _most_terms(split: Split, count: int, support: tuple[Array, ...] | None) -> int:
    """About how many terms have fewer than ``count`` entries, if the matrix is zero outside of a support."""
    in_a, in_b = split.m1 * split.n1, split.m2 * split.n2
    if support is not None:
        i1, j1, i2, j2 = split.places(*support)
        in_a = int(np.count_nonzero(np.bincount(i1 * split.n1 + j1)))
        in_b = int(np.count_nonzero(np.bincount(i2 * split.n2 + j2)))
    per_term = min(in_a * split.m2 + split.n1 * in_b, split.m1 * in_b + in_a * split.n2)
    return (count - 1) // per_term


def _errors_at(matrix: Array, split: Split, rows: Array, columns: Array) -> Array:
    """Estimates of the errors of 1, 2, … terms.

    Half of the sampled rows and columns of R give an approximation of its other entries: for R of rank r it is
    exact, and for noise it is no better than zero, however few the samples are.
    """
    i1, j1, i2, j2 = split.places(rows, columns)
    left, right = np.unique(i1 * split.n1 + j1), np.unique(i2 * split.n2 + j2)
    half, other = slice(0, None, 2), slice(1, None, 2)  # Even and odd places of the sorted entries.

    def entries(of_rows: slice, of_columns: slice) -> Array:
        a_row, a_column = np.divmod(left[of_rows, np.newaxis], split.n1)
        b_row, b_column = np.divmod(right[of_columns], split.n2)
        return matrix[a_row * split.m2 + b_row, a_column * split.n2 + b_column].astype(wide(matrix.dtype))

    U, values, V = np.linalg.svd(entries(half, half), full_matrices=False)
    rank = np.count_nonzero(values > 1e-6 * values[0])
    across = entries(other, half) @ V[:rank].conj().T / values[:rank]
    down = U[:, :rank].conj().T @ entries(half, other)
    rest = entries(other, other)
    terms = across.T[:, :, np.newaxis] * down[:, np.newaxis, :]
    residuals = np.linalg.norm(rest - np.cumsum(terms, axis=0), axis=(1, 2))
    size = np.linalg.norm(rest)
    return residuals / size if size else np.zeros(0)


def _sums(matrix: Array, split: Split, most_terms: int) -> Curve | None:
    """The best sums of 1, 2, … Kronecker products of these shapes, as far as they have fewer entries."""
    R = split.rearranged(matrix)
    size = frobenius(R)
    left, values, right = _leading(R, min(most_terms + 1, _MOST_TERMS))
    useful = values > 4 * np.finfo(matrix.dtype).eps * size
    values = values[useful]
    roots = np.sqrt(values)
    columns = _cleaned(left[:, useful] * roots).astype(matrix.dtype)
    rows = _cleaned(right[useful].T * roots).T.astype(matrix.dtype)
    terms = [
        Term(column.reshape(split.m1, split.n1), row.reshape(split.m2, split.n2))
        for column, row in zip(columns.T, rows, strict=True)
    ]
    entries = np.cumsum([term.entries() for term in terms])
    count = int(np.searchsorted(entries, np.count_nonzero(matrix)))
    if count == 0:
        return None
    rest = frobenius(R - columns[:, :count].astype(R.dtype) @ rows[:count])
    tails = np.append(np.cumsum(np.square(values[1:count])[::-1])[::-1], 0)

    def build(i: int) -> SparseProduct:
        pairs = [term.factors() for term in terms[: i + 1]]
        return SparseProduct([sp.hstack([pair[0] for pair in pairs]), sp.vstack([pair[1] for pair in pairs])])

    def detail(i: int) -> str:
        return _described(terms[0]) + (f", {i + 1} terms" if i else "")

    return Curve("kronecker", entries[:count], np.sqrt(rest**2 + tails) / size, build, detail)


def _cleaned(columns: Array) -> Array:
    """Columns with zeros in place of what are rounding errors of their largest entries."""
    sizes = np.abs(columns)
    return np.where(sizes > 64 * np.finfo(np.float64).eps * sizes.max(axis=0), columns, 0)


def _leading(R: Array, count: int) -> tuple[Array, Array, Array]:
    """The leading singular vectors and values, by subspace iteration on the shorter side from a random start."""
    if R.shape[0] > R.shape[1]:
        left, values, right = _leading(R.T, count)
        return right.T, values, left.T
    count = min(count, len(R))
    basis = np.random.default_rng(0).standard_normal((len(R), min(count + _EXTRA, len(R)))).astype(R.dtype)
    for _ in range(_ROUNDS + 1):
        basis = np.linalg.qr(basis)[0]
        basis = R @ (R.conj().T @ basis)
    basis = np.linalg.qr(basis)[0]
    long, small = np.linalg.qr(R.conj().T @ basis)
    left, values, right = np.linalg.svd(small.conj().T)
    return (basis @ left)[:, :count], values[:count], (right @ long.conj().T)[:count]


def _of(search: Search) -> Iterator[Curve]:
    yield from search.session.wait(lambda: kronecker(search.problem.matrix))


METHOD = Method("kronecker", "Kronecker products of any number of small matrices, and short sums of them", _of)
