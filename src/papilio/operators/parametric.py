"""Products whose supports are fixed and whose values change from call to call, with their gradients."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..kernels.sampled import gather, sample_few, sample_fours, transpose
from ..kernels.simd import HEIGHTS
from ..runtime.threads import scratch, split_work
from ..typing import Array
from .engine import Fused, Groups, PackedFactor, writeable

_SHARED_WORK = 1 << 18  # multiplications from which a second thread pays
_SHARED_NUMBERS = 1 << 16  # the same for numbers that only change places
_BAND = 16  # lines at a time, so that no two threads write to the same line of memory


class ParametricProduct:
    """S₁…S_M on given supports, times blocks of vectors, for values that come with each call.

    ``values`` is one vector with the entries of all factors: S₁ row by row, then S₂, and so on. What depends on
    the supports alone is prepared once; then, values only have to be put in the order of the kernels.

    Parameters
    ----------
    supports : sequence of csr_array
        Sound ones that chain, from left to right, with sorted indices; their values do not matter.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from papilio.operators.parametric import ParametricProduct
    >>> product = ParametricProduct([sp.csr_array(np.eye(2)), sp.csr_array(np.ones((2, 2)))])
    >>> product.apply(np.array([1.0, 2.0, 1.0, 1.0, 1.0, -1.0]), np.array([[3.0], [1.0]]))
    array([[4.],
           [4.]])
    """

    def __init__(self, supports: Sequence[sp.csr_array]) -> None:
        self.supports = tuple(supports)
        self.sizes = (supports[0].shape[0], *(support.shape[1] for support in supports))
        self.ends = np.cumsum([0, *(support.nnz for support in supports)])

    @property
    def n_values(self) -> int:
        """The number of entries of all factors."""
        return int(self.ends[-1])

    @property
    def n_hidden(self) -> int:
        """The rows of the array that `forward` takes: those of all blocks that go into a factor."""
        return sum(self.sizes[1:])

    def apply(self, values: Array, X: Array) -> Array:
        """S₁…S_M X, in the memory order of X."""
        return self._whole(values, X)

    def forward(self, values: Array, vectors: Array, hidden: Array, result: Array) -> None:
        """S₁…S_M X and all products on the way, for vectors that are the rows of a matrix, Xᵀ.

        ``result`` takes (S₁…S_M X)ᵀ, and ``hidden`` takes X, S_M X, S_{M−1}S_M X and so on. All are row-major.
        """
        begin, size = 0, self.sizes[-1]
        _transpose(vectors, hidden[:size])
        for i in reversed(range(1, len(self.supports))):
            end = begin + size
            self._each[i](values, hidden[begin:end], hidden[end : end + self.sizes[i]])
            begin, size = end, self.sizes[i]
        (last,) = scratch("last", ((self.sizes[0], hidden.shape[1]), values.dtype))
        _transpose(self._each[0](values, hidden[begin:], last), result)

    def backward(
        self, values: Array, hidden: Array, gradients: Array, wants_values: bool = True, wants_input: bool = True
    ) -> tuple[Array | None, Array | None]:
        """The gradients by the values and by Xᵀ, from those by the ``result`` of `forward`.

        For complex numbers they are conjugated as PyTorch does it: vectors are multiplied by (S₁…S_M)ᴴ.
        """
        count = len(gradients)
        (gradient,) = scratch("last", ((self.sizes[0], count), values.dtype))
        _transpose(gradients, gradient)
        adjoint = values.conj() if wants_input or len(self.supports) > 1 else values
        found = np.zeros(values.shape, values.dtype) if wants_values else None
        right = hidden.conj() if found is not None and hidden.dtype.kind == "c" else hidden
        end, last = self.n_hidden, len(self.supports) - 1
        for i in range(last + 1):
            if found is not None:
                self._sample(i, gradient, right[end - self.sizes[i + 1] : end], found)
            end -= self.sizes[i + 1]
            if i < last or wants_input:
                names = "even" if i % 2 else "odd"
                (room,) = scratch(names, ((self.sizes[i + 1], count), values.dtype))
                gradient = self._each_turned[i](adjoint, gradient, room)
        by_input = np.empty((count, self.sizes[-1]), values.dtype) if wants_input else None
        if by_input is not None:
            _transpose(gradient, by_input)
        return found, by_input

    def _sample(self, i: int, left: Array, right: Array, found: Array) -> None:
        """Write the entries of left @ right.T on the support of factor ``i`` into their part of ``found``."""
        support, part = self.supports[i], slice(self.ends[i], self.ends[i + 1])
        if support.nnz == support.shape[0] * support.shape[1]:
            np.matmul(left, right.T, out=found[part].reshape(support.shape))
            return
        for groups, places in self._samples[i]:
            sample = sample_fours if groups.height == HEIGHTS[0] else sample_few
            rows = groups.rows.reshape(-1, groups.height)
            work = places.size * left.shape[1] // max(len(rows), 1)
            args = rows, groups.pointers, groups.columns, places, writeable(left), right, found

            # Each value is in one group: no two threads write the same.
            def run(begin: int, end: int, sample=sample, args=args) -> None:  # type: ignore[no-untyped-def]
                sample(*args, begin, end)

            split_work(run, len(rows), max(_SHARED_WORK // max(work, 1), 1))

    # -- what depends on the supports alone, made when it is first needed ---------------------------------

    @cached_property
    def _numbered(self) -> list[sp.csr_array]:
        """The supports with the numbers of their values, from one on, as entries: packed, these are the places."""
        numbers = np.arange(1.0, self.n_values + 1)
        return [
            sp.csr_array((numbers[begin:end], support.indices, support.indptr), shape=support.shape)
            for support, begin, end in zip(self.supports, self.ends[:-1], self.ends[1:], strict=True)
        ]

    @cached_property
    def _packed(self) -> list[PackedFactor]:
        return [PackedFactor(factor, passes=False) for factor in self._numbered]

    @cached_property
    def _whole(self) -> "_Chain":
        return _Chain(self._packed[::-1])

    @cached_property
    def _each(self) -> "list[_Chain]":
        return [self._whole] if len(self._packed) == 1 else [_Chain([factor]) for factor in self._packed]

    @cached_property
    def _each_turned(self) -> "list[_Chain]":
        return [_Chain([PackedFactor(sp.csr_array(factor.T), passes=False)]) for factor in self._numbered]

    @cached_property
    def _samples(self) -> list[list[tuple[Groups, Array]]]:
        """The groups of each factor, with the places of their values."""
        return [
            [(each, _places(factor.values[each.places]).reshape(-1, each.height)) for each in factor.groups]
            for factor in self._packed
        ]


class _Chain:
    """Some factors in the order of application, in one kernel, for values that come with each call."""

    def __init__(self, units: Sequence[PackedFactor]) -> None:
        self._fused = Fused(units, np.dtype(np.float64))
        self._places = _places(self._fused.values)

    def __call__(self, values: Array, X: Array, out: Array | None = None) -> Array:
        packed = np.empty(self._places.size, values.dtype)
        gather(writeable(values), self._places, packed)
        return self._fused.block(X, packed, out)


def _transpose(X: Array, Y: Array) -> None:
    """Y = X.T, for row-major arrays."""
    grain = -(-_SHARED_NUMBERS // max(X.shape[1] * _BAND, 1)) * _BAND
    split_work(lambda begin, end: transpose(writeable(X), Y, begin, end), len(X), grain)


def _places(numbers: Array) -> Array:
    """Where values are, by their numbers from one on; negative for zeros, which only fill up groups."""
    return numbers.astype(np.int64) - 1
