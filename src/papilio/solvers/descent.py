"""PALM's iteration: one projected gradient step per block, then the scale."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..constraints import Constraint, Dense, Fixed, Sparse, SparseColumns, SparseRows
from ..constraints.selection import slack_of
from ..kernels import descent as kernel
from ..linalg import frobenius, inner, probe
from ..moments import Moments
from ..validation import Array
from .chain import Chain
from .products import Matrix, adjoint, dense, spectral_norm_squared, times

_MARGIN = 1.001  # the step is 1/c with c > the Lipschitz modulus, by this factor
_TOLERANCE = 1e-7  # of squared spectral norms
_SMALL = 1 << 18  # multiplications in a product of blocks up to which the compiled iteration is faster
_KINDS = {
    Fixed: kernel.FIXED,
    Dense: kernel.ENTRIES,
    Sparse: kernel.ENTRIES,
    SparseRows: kernel.ROWS,
    SparseColumns: kernel.COLUMNS,
}


def descent_for(moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], order: str) -> "Descent":
    """The iteration for this problem: compiled for small matrices in sets that the kernel knows."""
    longest = max(max(constraint.shape) for constraint in sets)
    small = longest * longest * moments.compressed.target.shape[1] <= _SMALL
    known = all(type(constraint) in _KINDS for constraint in sets)
    return (CompiledDescent if small and known else Descent)(moments, sets, factors, order)


class Descent:
    """PALM's iteration on one problem, and what it keeps warm from one iteration to the next."""

    def __init__(self, moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], order: str) -> None:
        self._sets = sets
        self._chain = Chain(
            moments,
            [c.matrix if isinstance(c, Fixed) else factor for c, factor in zip(sets, factors, strict=True)],
            order,
        )
        self._is_member = np.array([isinstance(constraint, Fixed) for constraint in sets])
        self._singular_vectors: dict[tuple[str, int], Array | None] = {}

    @property
    def factors(self) -> list[Array]:
        return list(self._chain.factors)

    def error(self, scale: float) -> float:
        """The relative error of the blocks as they are."""
        return self._chain.error(self._chain.whole(), scale)

    def advance(self, scale: float, error: float) -> tuple[float, float]:
        """Update all blocks, then the scale; returns the scale and the relative error."""
        before = self.factors
        new_scale, new_error = self._iterate(scale, exact_norms=False)
        if new_error > error * (1 + self._chain.rounding) + self._chain.rounding:
            # Power iteration missed a largest singular value, and a step was too long: take it again.
            self._chain.factors = before
            new_scale, new_error = self._iterate(scale, exact_norms=True)
        return new_scale, new_error

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
        modulus = self._norm_squared(("left", j), left, exact_norms)
        modulus *= self._norm_squared(("right", j), right, exact_norms)
        if modulus > 0:
            gradient = dense(times(times(adjoint(left), residual), adjoint(right)))
            point = old - gradient / old.real.dtype.type(_MARGIN * modulus)
        new = self._sets[j]._project(point, nonnegative=False)
        # All members of a set have the same norm, so that the nearer to the point is the one with the larger
        # inner product. A nearest member always wins here, save for ties.
        change = new - old
        rounding = self._chain.rounding * frobenius(change) * frobenius(point)
        if self._is_member[j] and inner(change, point) < -rounding:
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


class CompiledDescent(Descent):
    """The same iteration as one call of a kernel, for small problems that Python's overhead would drown."""

    def __init__(self, moments: Moments, sets: Sequence[Constraint], factors: Sequence[Array], order: str) -> None:
        super().__init__(moments, sets, factors, order)
        target, tail = self._chain.target, self._chain.tail
        fixed = [] if tail is None else [tail]  # one more block for the kernel
        blocks = [*self._chain.factors, *fixed]
        longest = max(max(block.shape) for block in blocks)
        ends = np.cumsum([0, *(block.size for block in blocks)])
        self._places = [(slice(*place), block.shape) for place, block in zip(pairwise(ends), blocks, strict=True)]
        self._flat = np.concatenate([block.ravel() for block in blocks])
        self._sizes = np.array([blocks[0].shape[0], *(block.shape[1] for block in blocks)])
        self._kinds = np.array([_KINDS[type(constraint)] for constraint in sets] + [kernel.FIXED] * len(fixed))
        limits = [getattr(constraint, "k", constraint.max_nonzero) for constraint in sets]
        self._limits = np.array(limits + [0] * len(fixed))
        self._is_member = np.append(self._is_member, [True] * len(fixed))
        self._guesses = np.zeros(len(blocks))
        longest = max(longest, *target.shape)
        self._starts = np.zeros((2, len(blocks), longest), dtype=target.dtype)
        self._probe = probe(longest).astype(target.dtype)
        self._slack = slack_of(target.real)
        self._iteration = 0

    def _iterate(self, scale: float, exact_norms: bool) -> tuple[float, float]:
        chain = self._chain
        flat = self._flat.copy()
        fit = np.empty(2)
        # Late iterations change little: singular vectors stay, and need less of a push to be found again.
        push = max(0.1 / (1 + self._iteration) ** 2, 1e-3)
        self._iteration += 1
        done = not exact_norms and kernel.iterate(
            chain.target,
            scale,
            chain.target.dtype.kind == "c",
            flat,
            self._sizes,
            self._kinds,
            self._limits,
            self._is_member,
            self._guesses,
            self._starts,
            self._probe,
            push,
            fit,
            chain.rightwards,
            self._slack,
            chain.rounding,
            _TOLERANCE,
        )
        if done:
            self._flat = flat
            chain.factors = [flat[place].reshape(shape) for place, shape in self._places[: len(self._sets)]]
            return scale * float(fit[0]), chain.relative(abs(scale) * float(fit[1]))
        result = super()._iterate(scale, exact_norms)
        self._flat = self._flat.copy()
        for (place, _), block in zip(self._places, chain.factors, strict=False):
            self._flat[place] = block.ravel()
        return result
