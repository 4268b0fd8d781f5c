"""PALM's iteration: one projected gradient step per block, then the scale."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..constraints import Constraint, Dense, Fixed, Sparse, SparseBlocks, SparseColumns, SparseRows
from ..constraints.selection import slack_of
from ..kernels import descent as kernel
from ..linalg import frobenius, inner, probe
from ..runtime.threads import blas_threads
from ..typing import Array
from .chain import Chain
from .products import Matrix, adjoint, compact, dense, spectral_norm_squared, times

_TOLERANCE = 1e-7  # of squared spectral norms
KINDS = {
    Fixed: kernel.FIXED,
    Dense: kernel.ENTRIES,
    Sparse: kernel.ENTRIES,
    SparseRows: kernel.ROWS,
    SparseColumns: kernel.COLUMNS,
    SparseBlocks: kernel.BLOCKS,
}


class Descent(ABC):
    """PALM's iteration on one problem, with its state: the factors, and their last change.

    With ``inertia``, the k-th iteration after a start takes its gradients at S + k/(k + 3)·(S − S_before), ahead
    in the direction of the last change (iPALM), and starts again from k = 0 when the error would rise.
    """

    def __init__(self, factors: Sequence[Array], sets: Sequence[Constraint], inertia: bool = False) -> None:
        self._sets = sets
        self._is_inertial = inertia
        self._age = 0  # iterations since inertia started anew
        self._inertia = 0.0
        self._before = list(factors)
        self._rounding = 100 * float(np.finfo(factors[0].dtype).eps)
        sides = [factors[0].shape[0], *(factor.shape[1] for factor in factors)]
        self.threads = blas_threads(sides[0] * sides[-1] * max(sides[1:-1], default=1))

    @property
    @abstractmethod
    def factors(self) -> list[Array]:
        """A new list of the factors as they are."""

    @abstractmethod
    def _return_to(self, factors: list[Array]) -> None:
        """Take back an iteration that began with these factors."""

    @abstractmethod
    def error(self, scale: float) -> float:
        """The relative error of the blocks as they are."""

    @abstractmethod
    def _iterate(self, scale: float, exact_norms: bool) -> tuple[float, float]:
        """One step for each factor, and one for the scale; returns the scale and the relative error."""

    def advance(self, scale: float, error: float) -> tuple[float, float]:
        """Update all blocks, then the scale; returns the scale and the relative error."""
        start = self.factors
        limit = error * (1 + self._rounding) + self._rounding
        self._inertia = self._age / (self._age + 3) if self._is_inertial and np.isfinite(error) else 0.0
        new_scale, new_error = self._iterate(scale, exact_norms=False)
        if new_error > limit and self._inertia > 0:
            self._return_to(start)
            self._inertia, self._age = 0.0, 0
            new_scale, new_error = self._iterate(scale, exact_norms=False)
        if new_error > limit:
            # Power iteration missed a largest singular value, and a step was too long: take it again.
            self._return_to(start)
            new_scale, new_error = self._iterate(scale, exact_norms=True)
        self._before = start
        self._age += 1
        return new_scale, new_error


class GeneralDescent(Descent):
    """The iteration for any sets, on the problem of `Moments.compressed`."""

    def __init__(self, chain: Chain, sets: Sequence[Constraint], inertia: bool = False) -> None:
        super().__init__(chain.factors, sets, inertia)
        self._chain = chain
        self._is_member = np.array([isinstance(constraint, Fixed) for constraint in sets])
        self._singular_vectors: dict[tuple[str, int], Array | None] = {}

    @property
    def factors(self) -> list[Array]:
        return list(self._chain.factors)

    def _return_to(self, factors: list[Array]) -> None:
        self._chain.factors = factors

    def error(self, scale: float) -> float:
        return self._chain.error(self._chain.whole(), scale)

    def _iterate(self, scale: float, exact_norms: bool) -> tuple[float, float]:
        chain = self._chain
        goal = chain.target / chain.target.dtype.type(scale)
        for j in chain.sweep():
            if not isinstance(self._sets[j], Fixed):
                chain.factors[j] = self._step(j, chain.product() - goal, exact_norms)
        return chain.fit_scale(chain.product(), scale)

    def _step(self, j: int, residual: Array, exact_norms: bool) -> Array:
        """P(S − Lᴴ(L S R − X/scale)Rᴴ / (1.001‖L‖₂²‖R‖₂²)): Algorithm 2's step, with the scale cancelled."""
        old, left, right = self._chain.factors[j], self._chain.left, self._chain.right
        point = old
        if self._inertia > 0:
            change = (old - self._before[j]) * old.real.dtype.type(self._inertia)
            point = old + change
            residual = residual + dense(times(times(left, compact(change)), right))
        modulus = self._norm_squared(("left", j), left, exact_norms)
        modulus *= self._norm_squared(("right", j), right, exact_norms)
        if modulus > 0:
            gradient = dense(times(times(adjoint(left), residual), adjoint(right)))
            point = point - gradient / old.real.dtype.type(kernel.MARGIN * modulus)
        new = self._sets[j]._project(point, nonnegative=False)
        # All members of a set have the same norm, so that the nearer to the point is the one with the larger inner
        # product. It is always ``new`` if the projection is exact, except for ties.
        if self._is_member[j] and self._inertia == 0:
            change = new - old
            gain = inner(change, point)
            if gain < 0 and gain < -self._chain.rounding * frobenius(change) * frobenius(point):
                return old
        self._is_member[j] = True
        return new

    def _norm_squared(self, key: tuple[str, int], matrix: Matrix | None, exact: bool) -> float:
        if matrix is None:
            return 1.0
        if exact:
            return float(np.linalg.norm(dense(matrix), 2)) ** 2
        start = self._singular_vectors.get(key)
        value, self._singular_vectors[key] = spectral_norm_squared(matrix, start, _TOLERANCE)
        return value


class CompiledDescent(GeneralDescent):
    """The same iteration as one call of a kernel, for small problems, where Python's overhead dominates."""

    def __init__(self, chain: Chain, sets: Sequence[Constraint], inertia: bool = False) -> None:
        super().__init__(chain, sets, inertia)
        # One layout, writeable: the kernel would be compiled again for any other.
        chain.target = target = np.require(chain.target, requirements=["C", "W"])
        tail = [] if chain.tail is None else [chain.tail]  # one more block for the kernel
        blocks = [*chain.factors, *tail]
        ends = np.cumsum([0, *(block.size for block in blocks)])
        self._places = [(slice(*place), block.shape) for place, block in zip(pairwise(ends), blocks, strict=True)]
        self._views: list[Array] = []  # of the blocks in the state
        longest = max(*target.shape, *(max(block.shape) for block in blocks))
        limits = [limit_of(constraint) for constraint in sets]
        groups = np.zeros((2, len(blocks), longest), dtype=int)
        for j, constraint in enumerate(sets):
            groups[:, j] = groups_of(constraint, longest)
        self._problem = kernel.Problem(
            target=target,
            sizes=np.array([blocks[0].shape[0], *(block.shape[1] for block in blocks)]),
            begins=ends[:-1],
            kinds=np.array([kind_of(constraint) for constraint in sets] + [kernel.FIXED] * len(tail)),
            counts=np.array(limits + [0] * len(tail)),
            groups=groups,
            rightwards=chain.rightwards,
            probe=probe(longest).astype(target.dtype),
            slack=slack_of(target.real),
            rounding=chain.rounding,
            tol=_TOLERANCE,
        )
        self._is_member = np.append(self._is_member, np.ones(len(tail), dtype=bool))  # an empty list is of floats
        flat = np.concatenate([block.ravel() for block in blocks])
        self._state = kernel.State(
            blocks=flat,
            before=flat,
            members=self._is_member,
            guesses=np.zeros(len(blocks)),
            starts=np.zeros((2, len(blocks), longest), dtype=target.dtype),
        )
        self._iteration = 0

    def _iterate(self, scale: float, exact_norms: bool) -> tuple[float, float]:
        chain, state = self._chain, self._state
        old = state.blocks if chain.factors is self._views else self._flatten(chain.factors)
        before = self._flatten(self._before) if self._inertia > 0 else old
        new = kernel.State(old.copy(), before, self._is_member.copy(), state.guesses, state.starts)
        fit = np.empty(2)
        # Late iterations change singular vectors little: a smaller perturbation is enough to find them again.
        push = max(0.1 / (1 + self._iteration) ** 2, 1e-3)
        self._iteration += 1
        if not exact_norms and kernel.iterate(tuple(self._problem), tuple(new), scale, self._inertia, push, fit):
            self._state, self._is_member = new, new.members
            self._views = [new.blocks[place].reshape(shape) for place, shape in self._places[: len(self._sets)]]
            chain.factors = self._views
            return scale * float(fit[0]), chain.relative(abs(scale) * float(fit[1]))
        chain.factors = list(chain.factors)  # general code writes into the list
        return super()._iterate(scale, exact_norms)

    def _flatten(self, factors: Sequence[Array]) -> Array:
        """The blocks one after the other, the tail included."""
        flat = self._state.blocks.copy()
        for (place, _), factor in zip(self._places, factors, strict=False):
            flat[place] = factor.ravel()
        return flat


def kind_of(constraint: Constraint) -> int:
    """The kernels' name of a set that they know."""
    if getattr(constraint, "every_column", False):
        return kernel.BLOCKS_IN_COLUMNS if isinstance(constraint, SparseBlocks) else kernel.ENTRIES_IN_COLUMNS
    return KINDS[type(constraint)]


def limit_of(constraint: Constraint) -> int:
    """How many entries, entries per line or blocks the set allows."""
    if isinstance(constraint, SparseBlocks):
        return constraint.n_blocks
    return int(getattr(constraint, "k", constraint.n_nonzero))


def groups_of(constraint: Constraint, longest: int) -> Array:
    """The groups of rows (0) and of columns (1) that share blocks, filled up with zeros."""
    groups = np.zeros((2, longest), dtype=int)
    if isinstance(constraint, SparseBlocks):
        for side, lines in enumerate((constraint.row_groups, constraint.column_groups)):
            groups[side, : lines.size] = lines
    return groups
