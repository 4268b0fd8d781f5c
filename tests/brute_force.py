"""The constraint sets a second time, straight from their definitions, with nearest members by exhaustive search.

Nothing here calls the package: a definition says how a member is rebuilt from some of its entries and how many
non-zeros it may have, the search tries every admissible support.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from .registry import MASK, MATRIX

Array = np.ndarray[Any, Any]
UNLIMITED = 99
SHIFTS = np.array([[1], [0], [1], [1]])  # the places −1, 0 and 2 of four
BLOCKS = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]], dtype=bool)


@dataclass(frozen=True)
class UnitNorm:
    """Matrices of unit Frobenius norm that ``rebuild`` leaves as they are, with limited numbers of non-zeros."""

    shape: tuple[int, int]
    rebuild: Callable[[Array], Array] = np.array
    entries: int = UNLIMITED
    values: int = UNLIMITED  # free values: a whole diagonal of a Toeplitz matrix is one
    per_row: int = UNLIMITED
    per_column: int = UNLIMITED
    blocks: int = UNLIMITED
    grid: Array | None = None  # the number of each place's block, from 0
    spared: int = 0  # columns that count as one entry (block) if they are zero, in groups of this size

    @cached_property
    def labels(self) -> Array:
        """Places with the same label must hold the same value, and those with label 0 must be zero."""
        return self.rebuild(np.arange(1, self.shape[0] * self.shape[1] + 1).reshape(self.shape))

    @cached_property
    def groups(self) -> Array:
        """Which places belong to each free value: group × row × column, by first place in row-major order."""
        labels = sorted(set(self.labels.ravel()) - {0}, key=lambda label: np.argmax(self.labels.ravel() == label))
        return np.array([self.labels == label for label in labels])

    @cached_property
    def supports(self) -> Array:
        """All admissible non-empty supports as sets of groups: support × group."""
        bits = np.arange(len(self.groups))
        subsets = np.arange(1, 2 ** len(self.groups))[:, None] >> bits & 1 == 1
        return subsets[self.admits(np.einsum("sg,gij->sij", subsets, self.groups), subsets.sum(axis=1))]

    def admits(self, places: Array, values: Array) -> Array:
        """Which supports of a stack do not have too many non-zeros."""
        return (
            (places.sum(axis=(1, 2)) + self.n_empty(places) <= self.entries)
            & (places.sum(axis=2).max(axis=1) <= self.per_row)
            & (places.sum(axis=1).max(axis=1) <= self.per_column)
            & (values <= self.values)
            & (self.n_blocks(places) + self.n_empty(places) <= self.blocks)
        )

    def n_empty(self, places: Array) -> Array:
        """The number of groups of columns of each support of a stack that are zero, if these are spared."""
        used = places.any(axis=1)
        groups = [~used[:, j : j + self.spared].any(axis=1) for j in range(0, self.shape[1], self.spared or 99)]
        return np.sum(groups, axis=0) * (self.spared > 0)

    def n_blocks(self, places: Array) -> Array:
        """The number of non-zero blocks of each support of a stack."""
        numbers = [] if self.grid is None else range(self.grid.max() + 1)
        used = [(places * (self.grid == number)).any(axis=(1, 2)) for number in numbers]
        return np.sum(used, axis=0) if used else np.zeros(len(places), dtype=int)

    def matrix(self, coordinates: Array) -> Array:
        """Σ_g u_g 1_g / √|g|: the Frobenius norm is that of u."""
        sizes = self.groups.sum(axis=(1, 2))
        return np.einsum("g,gij->ij", coordinates / np.sqrt(sizes), self.groups)

    def coordinates(self, matrix: Array) -> Array:
        sizes = self.groups.sum(axis=(1, 2))
        return np.array([matrix[group].sum() for group in self.groups]) / np.sqrt(sizes)

    def nearest(self, matrix: Array, nonnegative: bool) -> Array:
        """A nearest member: for a unit vector u on a given support, ‖u − t‖ is least where Re⟨u, t⟩ is largest."""
        t = self.coordinates(matrix)
        if nonnegative:
            t = t.real
            inner = np.sqrt(self.supports @ np.square(np.maximum(t, 0)))
            inner = np.where(inner > 0, inner, np.where(self.supports, t, -np.inf).max(axis=1))
        else:
            inner = np.sqrt(self.supports @ np.square(np.abs(t)))
        support = self.supports[np.argmax(inner)]
        u = np.where(support, np.maximum(t, 0) if nonnegative else t, 0)
        if not u.any():
            u[np.argmax(np.where(support, t.real, -np.inf))] = 1
        return self.matrix(u / np.linalg.norm(u))

    def first_of_the_best_supports(self, matrix: Array) -> Array:
        """Of the supports with most energy, the one whose places come first in row-major order."""
        energies = self.supports @ np.square(np.abs(self.coordinates(matrix)))
        best = self.supports[energies > energies.max() * (1 - 1e-9)]
        masks = np.einsum("sg,gij->sij", best, self.groups)
        return max(masks, key=lambda mask: tuple(mask.ravel()))

    def require(self, matrix: Array, tol: float) -> None:
        assert (self.rebuild(matrix) == matrix).all(), "broken structure"
        support = matrix != 0
        values = np.unique(self.labels[support]).size
        assert self.admits(support[None], np.array([values])).all(), "too many non-zero entries"
        assert abs(np.linalg.norm(matrix) - 1) <= tol, "norm is not one"


@dataclass(frozen=True)
class UnitLines:
    """Matrices whose rows (``axis`` 0) or columns (``axis`` 1) have unit norm: each is a set by itself."""

    shape: tuple[int, int]
    axis: int

    def nearest(self, matrix: Array, nonnegative: bool) -> Array:
        lines = np.moveaxis(matrix, self.axis, 0)
        line = UnitNorm((1, lines.shape[1]))
        nearest = [line.nearest(values[None], nonnegative)[0] for values in lines]
        return np.moveaxis(np.array(nearest), 0, self.axis)

    def require(self, matrix: Array, tol: float) -> None:
        norms = np.linalg.norm(matrix, axis=1 - self.axis)
        assert (np.abs(norms - 1) <= tol).all(), "norm of a line is not one"


@dataclass(frozen=True)
class Only:
    """One matrix."""

    only: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.only.shape

    def nearest(self, matrix: Array, nonnegative: bool) -> Array:
        return self.only

    def require(self, matrix: Array, tol: float) -> None:
        assert np.abs(matrix - self.only).max() <= tol, "another matrix"


def toeplitz(matrix: Array) -> Array:
    return scipy.linalg.toeplitz(matrix[:, 0], matrix[0])


def hankel(matrix: Array) -> Array:
    return scipy.linalg.hankel(matrix[:, 0], matrix[-1])


def circulant(matrix: Array) -> Array:
    return scipy.linalg.circulant(matrix[:, 0])


def convolution(matrix: Array, places: list[tuple[int, int]] | None = None) -> Array:
    """The periodic convolution on a grid of 2×3 with the kernel in the first column, at the places only."""
    kernel, points = matrix[:, 0].reshape(2, 3), list(np.ndindex(2, 3))
    kept = [(row % 2, column % 3) for row, column in places or points]
    masked = np.where([[(row, column) in kept for column in range(3)] for row in range(2)], kernel, 0)
    return np.array([[masked[(i - k) % 2, (j - m) % 3] for k, m in points] for i, j in points])


def symmetric(matrix: Array) -> Array:
    return np.triu(matrix) + np.triu(matrix, 1).T


Definition = UnitNorm | UnitLines | Only
WIDE, TALL, SQUARE = (3, 4), (4, 3), (3, 3)
DEFINITIONS: dict[str, Definition] = {
    "Dense": UnitNorm(WIDE),
    "Sparse-1": UnitNorm(WIDE, entries=1),
    "Sparse-5": UnitNorm(WIDE, entries=5),
    "Sparse-full": UnitNorm(WIDE, entries=12),
    "Sparse-columns-4": UnitNorm(WIDE, entries=4, spared=1),
    "Sparse-columns-6": UnitNorm(WIDE, entries=6, spared=1),
    "SparseRows-1": UnitNorm(WIDE, per_row=1),
    "SparseRows-2": UnitNorm(WIDE, per_row=2),
    "SparseRows-full": UnitNorm(WIDE, per_row=4),
    "SparseColumns-1": UnitNorm(WIDE, per_column=1),
    "SparseColumns-2": UnitNorm(WIDE, per_column=2),
    "SparseRowsAndColumns-1": UnitNorm(WIDE, per_row=1, per_column=1),
    "SparseRowsAndColumns-2": UnitNorm(TALL, per_row=2, per_column=2),
    "SparseRowsAndColumns-full": UnitNorm(WIDE, per_row=4, per_column=4),
    "SparseBlocks-2x2": UnitNorm(WIDE, blocks=2, grid=np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]])),
    "SparseBlocks-2x1": UnitNorm(TALL, blocks=3, grid=np.array([[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]])),
    "SparseBlocks-1x2": UnitNorm(WIDE, blocks=1, grid=np.array([[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]])),
    "SparseBlocks-2x3": UnitNorm(WIDE, blocks=3, grid=np.array([[0, 0, 0, 1], [0, 0, 0, 1], [2, 2, 2, 3]])),
    "SparseBlocks-columns": UnitNorm(
        TALL, blocks=3, grid=np.array([[0, 0, 1], [0, 0, 1], [2, 2, 3], [2, 2, 3]]), spared=2
    ),
    "SparseBlocks-full": UnitNorm(TALL, blocks=4, grid=np.array([[0, 0, 1], [0, 0, 1], [2, 2, 3], [2, 2, 3]])),
    "SparseBlocks-orders": UnitNorm(WIDE, blocks=2, grid=np.array([[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1]])),
    "Support": UnitNorm(WIDE, lambda matrix: np.where(MASK, matrix, 0)),
    "Support-3": UnitNorm(WIDE, lambda matrix: np.where(MASK, matrix, 0), entries=3),
    "Triangular-lower": UnitNorm(WIDE, np.tril),
    "Triangular-upper-4": UnitNorm(TALL, np.triu, entries=4),
    "Diagonal": UnitNorm(WIDE, lambda matrix: np.tril(np.triu(matrix))),
    "Diagonal-2": UnitNorm(SQUARE, lambda matrix: np.diag(np.diag(matrix)), entries=2),
    "BlockDiagonal": UnitNorm(WIDE, lambda matrix: np.where(BLOCKS, matrix, 0)),
    "BlockDiagonal-3": UnitNorm(WIDE, lambda matrix: np.where(BLOCKS, matrix, 0), entries=3),
    "Symmetric": UnitNorm(SQUARE, symmetric),
    "Symmetric-1": UnitNorm(SQUARE, symmetric, entries=1),
    "Symmetric-4": UnitNorm(SQUARE, symmetric, entries=4),
    "Circulant": UnitNorm(SQUARE, circulant),
    "Circulant-1": UnitNorm(SQUARE, circulant, values=1),
    "Circulant-support": UnitNorm((4, 4), lambda matrix: circulant(matrix * SHIFTS)),
    "Circulant-support-2": UnitNorm((4, 4), lambda matrix: circulant(matrix * SHIFTS), values=2),
    "Circulant-grid": UnitNorm((6, 6), convolution),
    "Circulant-grid-support": UnitNorm(
        (6, 6), lambda matrix: convolution(matrix, [(0, 0), (0, 2), (1, 1)]), values=2
    ),
    "Toeplitz-1": UnitNorm(WIDE, toeplitz, values=1),
    "Toeplitz-3": UnitNorm(WIDE, toeplitz, values=3),
    "Hankel-1": UnitNorm(TALL, hankel, values=1),
    "Hankel-3": UnitNorm(TALL, hankel, values=3),
    "UnitColumns": UnitLines(WIDE, 1),
    "UnitRows": UnitLines(WIDE, 0),
    "Fixed": Only(MATRIX),
    "NonNegative-Fixed": Only(np.abs(MATRIX)),
}


def is_nonnegative(name: str) -> bool:
    return name.startswith("NonNegative-")


def definition(name: str) -> Definition:
    """The definition of a registered set, less the sign."""
    return DEFINITIONS.get(name) or DEFINITIONS[name.removeprefix("NonNegative-")]


def tolerance(matrix: Array) -> float:
    """For values of order one that were computed in the precision of ``matrix``."""
    return 1e-12 if matrix.dtype.itemsize // (1 + np.iscomplexobj(matrix)) == 8 else 2e-6


def assert_member(name: str, matrix: Array) -> None:
    """Raise AssertionError unless ``matrix`` is in the set ``name``, by definition."""
    assert matrix.shape == definition(name).shape, "wrong shape"
    assert np.isfinite(matrix).all(), "not finite"
    definition(name).require(matrix, tolerance(matrix))
    if is_nonnegative(name):
        assert (matrix.real >= 0).all(), "negative entry"
        assert (matrix.imag == 0).all(), "entry that is not real"


def distances(name: str, matrix: Array, member: Array) -> tuple[float, float]:
    """How far ``member`` is from ``matrix``, and how far a nearest member is."""
    nearest = definition(name).nearest(matrix, is_nonnegative(name))
    return float(np.linalg.norm(matrix - member)), float(np.linalg.norm(matrix - nearest))


def assert_nearest(name: str, matrix: Array, member: Array) -> None:
    """Raise AssertionError unless ``member`` is as near to ``matrix`` as the best of all supports allows."""
    assert_member(name, member)
    distance, best = distances(name, matrix, member)
    assert abs(distance - best) <= 1e-8 * best + 1e-12, f"distance {distance}, but the least is {best}"


def matrices(name: str, seeds: int) -> Iterator[Array]:
    """Test matrices of all kinds for a set, each also as its nearest member with small noise."""
    for kind, seed in itertools.product(KINDS, range(seeds)):
        matrix = sample(definition(name).shape, kind, seed)
        yield matrix
        yield definition(name).nearest(matrix, is_nonnegative(name)) + 1e-5 * sample(
            matrix.shape, "gaussian", seed
        )


def sample(shape: tuple[int, int], kind: str, seed: int = 0) -> Array:
    """A test matrix; the kinds are the keys of `KINDS`."""
    rng = np.random.default_rng([seed, *shape])
    return KINDS[kind](rng, shape)


def _one_huge(size: float) -> Callable[[np.random.Generator, tuple[int, int]], Array]:
    def make(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        matrix = rng.standard_normal(shape)
        matrix.flat[rng.integers(matrix.size)] *= size
        return matrix

    return make


def _complex(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "complex": _complex,
    "minus one, zero, one": lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
    "signs": lambda rng, shape: rng.choice([-0.7, 0.7], shape),
    "fourth roots of one": lambda rng, shape: rng.choice([1, 1j, -1, -1j], shape),
    "equal": lambda rng, shape: np.full(shape, 0.3),
    "equal negative": lambda rng, shape: np.full(shape, -0.3),
    "many zeros": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.3),
    "zero diagonal": lambda rng, shape: rng.standard_normal(shape) * (1 - np.eye(*shape)),
    "negative": lambda rng, shape: -0.1 - rng.random(shape),
    "complex, negative real parts": lambda rng, shape: 1j * _complex(rng, shape).real - rng.random(shape) - 0.1,
    "zero": lambda rng, shape: np.zeros(shape),
    "complex zero": lambda rng, shape: np.zeros(shape, dtype=complex),
    "magnitudes from 1e-8 to 1": lambda rng, shape: _complex(rng, shape).real * 10.0 ** rng.integers(-8, 1, shape),
    "one large": _one_huge(1e3),
    "one huge": _one_huge(1e12),
    "skew": lambda rng, shape: np.subtract.outer(np.arange(shape[0]), np.arange(shape[1])).astype(float),
    "nearly equal": lambda rng, shape: 1 + 0.01 * rng.random(shape),
}
