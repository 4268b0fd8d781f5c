"""What a constraint set is, which entries it keeps, and the projection of all sets of unit Frobenius norm.

In a Hadamard matrix all magnitudes are equal: the first projections consist of ties, and how these are broken
decides whether the factorization succeeds. Ties go to the lowest index. Rounding must not break them, so that
magnitudes that differ by less than `slack_of` times the largest are ties.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..kernels import select
from ..kernels.select import (
    exchange,
    fill,
    keep_largest,
    keep_largest_of_lines,
    keep_largest_with_columns,
    nth_largest,
    project_lines,
)
from ..linalg import rescaled, writeable
from ..typing import Array, MatrixLike
from ..validation import as_matrix, as_numbers, as_real

_SLACK = {4: 16 * float(np.finfo(np.float32).eps), 8: 1e-9}  # The keys are the sizes of a number in bytes.


class Constraint(ABC):
    """A set of matrices that a factor must lie in: the abstract base class of all sets.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns of the members.
    n_nonzero : int
        The largest number of non-zero entries of a member: what a factor costs at most.
    exact : bool
        Whether `project` gives a nearest member (up to ties and rounding), or only a near one.
    free_on_support : bool
        Whether every matrix of unit Frobenius norm whose support lies in a member's support is a member too, so
        that a least-squares fit on this support is free to choose the values.

    Examples
    --------
    >>> from papilio.constraints import Constraint, Sparse
    >>> isinstance(Sparse((2, 3), 4), Constraint), Sparse((2, 3), 4).n_nonzero
    (True, 4)
    """

    exact: bool = True
    free_on_support: bool = False
    shape: tuple[int, int]
    n_nonzero: int

    def project(self, matrix: MatrixLike) -> Array:
        """The member that is nearest to a matrix, argmin ‖A − matrix‖_F over the members A.

        Magnitudes that are equal up to rounding are ties, and ties go to the lowest row-major index.

        Parameters
        ----------
        matrix : matrix of shape ``shape``
            Dense or sparse, real or complex.

        Returns
        -------
        ndarray
            A new dense array. It is a member even if ``matrix`` is zero.
        """
        return self._project(as_matrix("matrix", matrix, self.shape), nonnegative=False)

    @abstractmethod
    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        """`project` without checks, onto the non-negative members if requested; always a new array."""

    def _project_weighted(self, matrix: Array, score: Array) -> Array:
        """The values of ``matrix`` at the places of largest ``score`` > 0, for sets that are `free_on_support`.

        PALM takes such steps in a metric in which entries count differently.
        """
        return self._project(matrix, nonnegative=False)

    def relaxed(self, share: float) -> "Constraint":
        """A larger set of the same kind.

        A limit of n entries, of N possible ones, becomes n^(1 − share)·N^share, rounded down. Sets without a
        limit, and those that cannot be relaxed, return themselves.

        Parameters
        ----------
        share : float
            From 0, which changes nothing, to 1, which removes the limit.

        Examples
        --------
        >>> from papilio.constraints import Sparse
        >>> Sparse((10, 10), 4).relaxed(0.5)
        Sparse((10, 10), 20)
        """
        return self

    def contains(self, matrix: MatrixLike, tol: float | None = None) -> bool:
        """Whether a matrix is a member.

        Parameters
        ----------
        matrix : matrix
            A matrix of another shape, or with entries that are not finite, is not a member.
        tol : float, optional
            How far each entry may be from that of the nearest member: by default 1e-9 in double and 1e-5 in
            single precision, and for `Fixed` 1e-6 times the largest magnitude. Zeros must be exact.

        Examples
        --------
        >>> from papilio.constraints import Sparse
        >>> Sparse((2, 2), 2).contains([[0.6, 0], [0, 0.8]]), Sparse((2, 2), 2).contains([[3, 0], [0, 4]])
        (True, False)
        """
        array = as_numbers("matrix", matrix)
        limit = max(1e-9, 100 * float(np.finfo(array.dtype).eps)) if tol is None else as_real("tol", tol, 0.0)
        if array.shape != self.shape or not np.isfinite(array).all():
            return False
        # The nearest member of a member is the member itself, with the same support.
        nearest = self.project(array)
        return not array[nearest == 0].any() and bool(np.abs(nearest - array).max() <= limit)

    def _describe(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.shape}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._describe()})"


class UnitNorm(Constraint):
    """A set of unit Frobenius norm, described in orthonormal coordinates t of the matrices it allows.

    Its members have unit vectors u as coordinates, on an admissible support. Since
    ‖u − t‖² = ‖t‖² + 1 − 2 Re⟨u, t⟩, the nearest member is t on the admissible support that holds most of
    ‖t‖², divided by its norm (the paper's appendix B). With non-negativity, only the positive parts of t
    count; if there are none, the nearest member has one non-zero coordinate, the largest (least negative) of t.
    By the same rule, the zero matrix, which is equally far from every member, projects to the member with one
    non-zero coordinate: the first in row-major order that may stand alone.
    """

    free_on_support = True

    def _coordinates(self, matrix: Array) -> Array:
        """Orthonormal coordinates of the projection of ``matrix`` onto the span of the set."""
        return matrix

    def _matrix(self, coordinates: Array) -> Array:
        """The matrix with these coordinates, the inverse of `_coordinates` on the span."""
        return coordinates

    def _may_stand_alone(self) -> Array | None:
        """Which coordinates are members by themselves, or None for all; the others are zero in all members."""
        return None

    @abstractmethod
    def _select(self, score: Array) -> Array:
        """A mask of the admissible support with the largest sum of squares of ``score`` ≥ 0."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that selects in a way of its own does not inherit `_lines`, which would bypass it."""
        super().__init_subclass__(**options)
        if "_select" in cls.__dict__ and "_lines" not in cls.__dict__:
            cls._lines = UnitNorm._lines  # type: ignore[method-assign]

    def _lines(self) -> tuple[int, int] | None:
        """For `project_lines`: the entries are n lines, row by row, that keep k each. None if they are not."""
        return None

    def _project(self, matrix: Array, nonnegative: bool) -> Array:
        lines = None if nonnegative else self._lines()
        if lines is not None:
            matrix = writeable(matrix)
            result = np.empty(matrix.shape, matrix.dtype)
            if project_lines(matrix, *lines, _SLACK[matrix.real.itemsize], result):
                return result
        values = writeable(self._coordinates(matrix))
        alone = self._may_stand_alone()
        if alone is not None:
            values = np.where(alone, values, 0)
        # All members have the same norm, so a positive multiple has the same nearest member.
        values = rescaled(values)
        score = np.maximum(values.real, 0) if nonnegative else np.abs(values)
        if score.any():
            kept = score.astype(matrix.dtype) if nonnegative else values
            return self._matrix(at_unit_norm(kept, self._select(score)))
        kept = np.zeros(values.shape, dtype=matrix.dtype)
        kept.flat[first_largest(values.real, alone)] = 1
        return self._matrix(kept)

    def _project_weighted(self, matrix: Array, score: Array) -> Array:
        score = writeable(self._coordinates(score))
        if not score.any():
            return self._project(matrix, nonnegative=False)
        return self._matrix(at_unit_norm(writeable(self._coordinates(matrix)), self._select(score)))


# -- which entries to keep ------------------------------------------------------------------------------


def slack_of(score: Array) -> float:
    """How far apart, relative to the largest, magnitudes may be and still be equal up to rounding."""
    return _SLACK[score.dtype.itemsize]


def largest(score: Array, count: int) -> Array:
    """A mask of the ``count`` largest positive entries of each line (along the last axis)."""
    if count >= score.shape[-1]:
        return score > 0
    keep = np.zeros(score.shape, dtype=bool)
    if count == 0:
        return keep
    score = writeable(score)
    if score.ndim == 1:
        keep_largest(score, count, slack_of(score), keep)
    else:
        lines = score.reshape(-1, score.shape[-1])
        keep_largest_of_lines(lines, count, slack_of(score), keep.reshape(lines.shape))
    return keep


def at_unit_norm(values: Array, keep: Array) -> Array:
    """``values`` where ``keep``, divided by their norm, and zero elsewhere."""
    result = np.empty(values.shape, values.dtype)
    select.at_unit_norm(values.ravel(), writeable(keep).ravel(), result.ravel())
    return result


def largest_with_columns(score: Array, count: int) -> Array:
    """A mask of the ``count`` largest positive entries of a matrix, the largest of each column first."""
    keep = np.zeros(score.shape, dtype=bool)
    keep_largest_with_columns(np.ascontiguousarray(score), count, slack_of(score), keep)
    return keep


def first_largest(values: Array, allowed: Array | None = None) -> int:
    """The flat index of the first entry that equals the largest allowed one up to rounding."""
    flat = values.ravel()
    if allowed is not None:
        flat = np.where(allowed.ravel(), flat, -np.inf)
    top = flat.max()
    return int(np.argmax(flat >= top - slack_of(values) * abs(top)))


def largest_per_row_and_column(score: Array, count: int) -> Array:
    """A mask of at most ``count`` entries in each row and column with a large sum of squares.

    The best mask is a maximum-weight b-matching. This one is filled greedily from the largest entry down, and
    then improved by exchanges of two entries for two, or of one for two where rows and columns have room.
    """
    flat = score.ravel()
    slack = slack_of(score) * float(flat.max())
    mask = np.zeros(score.shape, dtype=bool)
    rows = np.full(score.shape[0], count)
    columns = np.full(score.shape[1], count)
    # Most places go to the few largest entries: the others are looked at only where room is left.
    first = flat > slack
    few = 4 * count * min(score.shape)
    n_first = int(np.count_nonzero(first))
    if n_first > 4 * few:
        first = flat > max(nth_largest(np.ascontiguousarray(flat), few, slack) - slack, slack)
    fill(_descending(flat, np.flatnonzero(first), slack), mask, rows, columns)
    if rows.any() and columns.any():
        others = np.flatnonzero(~first & (flat > 0))
        fill(_descending(flat, others, slack), mask, rows, columns)
    if n_first <= np.count_nonzero(mask) and mask.ravel()[flat > slack].all():
        return mask  # Only rounding is left out.
    squares = np.square(score, dtype=np.float64, order="C")  # the kernel is compiled for each order
    exchange(squares, mask, rows, columns, 4 * slack_of(score) * float(squares.max()))
    return mask


def _descending(values: Array, places: Array, slack: float) -> Array:
    """``places`` of ``values`` from the largest down; values within ``slack`` of the next keep their order."""
    chosen = values[places]
    if chosen.size == 0 or chosen.max() - chosen.min() <= slack:
        return places
    ordered = np.sort(chosen)
    steps = np.flatnonzero(np.diff(ordered) > slack)
    if steps.size == chosen.size - 1:
        return places[np.argsort(-chosen)]
    # Few classes of ties fit into small integers, which sort in linear time.
    classes = steps.size - np.searchsorted(ordered[steps], chosen)
    return places[np.argsort(classes.astype(np.int16 if steps.size < 2**15 else np.int64), kind="stable")]
