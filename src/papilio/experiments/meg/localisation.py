"""Two sources, found again by matching pursuit with two atoms."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...coding import omp
from ...operators import SparseProduct
from ...typing import Array
from .gain import Gain


class Draws(NamedTuple):
    """Pairs of sources (n, 2), and what the sensors measure of each pair, one per column."""

    pairs: Array
    signals: Array


def draw(gain: Gain, low: float, high: float, count: int, seed: Sequence[int]) -> Draws:
    """Pairs of sources with a distance from ``low`` to ``high`` centimetres, and normal amplitudes."""
    random = np.random.default_rng(seed)
    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        first = int(random.integers(len(gain.places)))
        distances = np.linalg.norm(gain.places - gain.places[first], axis=1)
        others = np.flatnonzero((distances >= low) & (distances <= high))
        if others.size:
            pairs.append((first, int(random.choice(others))))
    chosen = np.array(pairs)
    amplitudes = random.standard_normal((count, 2))
    return Draws(chosen, np.einsum("msi,si->ms", gain.matrix[:, chosen], amplitudes))


def distances(matrix: Array | SparseProduct, gain: Gain, draws: Draws) -> Array:
    """The distance of each source (n, 2) from the one that was found for it, in the better of both orders.

    A source that was not found, because one atom explains the signal, counts with the distance of the other atom.
    """
    codes = omp(matrix, draws.signals, 2)
    found = np.array([_two_of(codes.indices[slice(*codes.indptr[i : i + 2])]) for i in range(len(draws.pairs))])
    true = gain.places[draws.pairs]
    orders = [np.linalg.norm(true - gain.places[order], axis=2) for order in (found, found[:, ::-1])]
    is_turned = orders[1].sum(axis=1) < orders[0].sum(axis=1)
    return np.where(is_turned[:, None], orders[1], orders[0])


def _two_of(indices: Array) -> tuple[int, int]:
    return int(indices[0]), int(indices[-1])
