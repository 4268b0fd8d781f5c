"""Neighbouring factors multiplied out where that makes a product faster."""

from collections.abc import Sequence

import numpy as np

from .cost import rates
from .csr import Factor, entries, frozen, is_moderate
from .packing import PackedFactor, modelled_times, pack_factor

_LEAST_GAIN = 0.02  # of both times together, below which a merger is not worth its rounding errors
_SMALL = 100_000  # entries: products of so many are always tried
_LARGE = 16  # times the entries of its factors: a product of more cannot pay, as BLAS gains less per entry
_FILLED = 3  # times the work of its parts: a product that takes so much is not extended, as it only fills up


def merged(factors: Sequence[Factor]) -> list[Factor]:
    """Factors of which none is slower to apply, by the model, for one vector or for a block; equal up to rounding.

    Of all runs of neighbours, the one whose product saves most is merged, as long as any saves anything.
    """
    search = _Search(factors)
    spans = [(i, i + 1) for i in range(len(factors))]
    times = search.times(spans)
    while True:
        options = []
        for trial in search.mergers(spans):
            new = search.times(trial)
            gain = sum(1 - after / before for after, before in zip(new, times, strict=True))
            if gain > _LEAST_GAIN and all(after <= before for after, before in zip(new, times, strict=True)):
                options.append((gain, trial, new))
        if not options:
            return [search.factor(span) for span in spans]
        _, spans, times = max(options)


Span = tuple[int, int]  # the factors from the first to before the second, multiplied out


class _Search:
    """The products of runs of neighbours, each made once."""

    def __init__(self, factors: Sequence[Factor]) -> None:
        self._dtype = factors[0].dtype
        self._products: dict[Span, Factor | None] = {(i, i + 1): factor for i, factor in enumerate(factors)}
        self._packed: dict[Span, PackedFactor] = {}

    def factor(self, span: Span) -> Factor:
        product = self._products[span]
        assert product is not None
        return product

    def packed(self, span: Span) -> PackedFactor:
        if span not in self._packed:
            self._packed[span] = pack_factor(self.factor(span))
        return self._packed[span]

    def times(self, spans: Sequence[Span]) -> tuple[float, float]:
        return modelled_times([self.packed(span) for span in spans], self._dtype)

    def mergers(self, spans: list[Span]) -> list[list[Span]]:
        """``spans`` with one run of neighbours merged, in every way that may pay."""
        trials = []
        for begin in range(len(spans)):
            for end in range(begin + 2, len(spans) + 1):
                whole = spans[begin][0], spans[end - 1][1]
                if not self._multiply((whole[0], spans[end - 2][1]), spans[end - 1], whole):
                    break
                trials.append([*spans[:begin], whole, *spans[end:]])
                if self._work(whole) > _FILLED * sum(map(self._work, spans[begin:end])):
                    break
        return trials

    def _multiply(self, left: Span, right: Span, whole: Span) -> bool:
        """Whether ``whole`` is known; not so if it is far too large, or might leave the number range."""
        if whole not in self._products:
            parts = self.factor(left), self.factor(right)
            is_safe = _is_small(*parts) and all(is_moderate(entries(part)) for part in parts)
            self._products[whole] = frozen(parts[0] @ parts[1]) if is_safe else None
        return self._products[whole] is not None

    def _work(self, span: Span) -> float:
        """The least time of a factor within a product, for vectors and blocks together, in units of one entry."""
        unit = self.packed(span)
        each = (rates(self._dtype, block) for block in (False, True))
        return sum(min(rate.kernel(unit), rate.blas(unit.shape) - rate.call) / rate.one for rate in each)


def _is_small(left: Factor, right: Factor) -> bool:
    """Whether a product may pay, by what is known before it is made."""
    most = left.shape[0] * right.shape[1]
    if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        most = min(most, int(np.bincount(left.indices, minlength=left.shape[1]) @ np.diff(right.indptr)))
    return most <= max(_SMALL, _LARGE * (left.size + right.size))
