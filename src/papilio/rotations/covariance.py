"""The sparse matrix transform: a covariance U Λ Uᵀ where U is a chain of rotations (Cao, Bachega, Bouman, 2011)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kernels.rotations import CORRELATION, gaussian_path, rotated_energies
from ..typing import Array
from .chain import Chain
from .greedy import Growth

FLOOR = 1e-10  # of the mean variance: the least variance of a coordinate
_AT_A_TIME = 256  # rotations, between which Ctrl-C is heard
_PER_VARIABLE = 32  # rotations that are tried at most
# Shares a/(1 − a) from 10⁻⁴ to 10², six to a tenfold.
_SHARES = (0.0, *(ratio / (1 + ratio) for ratio in np.geomspace(1e-4, 1e2, 37).tolist()))


class Choice(NamedTuple):
    """How many rotations, and how to shrink variances λ: scale · ((1 − share)λ + share · mean λ)."""

    n_rotations: int
    share: float
    scale: float
    log_likelihoods: Array  # per held-out sample, after 0, 1, 2, … rotations, each with its best share and scale


def most_rotations(n_variables: int) -> int:
    """As many rotations as pairs, and at most 32 per variable."""
    return min(n_variables * (n_variables - 1) // 2, _PER_VARIABLE * n_variables)


def most_correlated(covariance: Array, n_rotations: int) -> Chain:
    """Rotations of the pair with the largest |correlation|, by the angle that makes it zero; fewer if none is left."""
    growth = Growth(CORRELATION, covariance.copy(), width=1)
    while growth.count < n_rotations:
        count = min(_AT_A_TIME, n_rotations - growth.count)
        if growth.add_in_turn(count) < count:
            break
    return growth.chain()


def variances_of(signals: Array, chain: Chain) -> Array:
    """The mean squares of all coordinates of UᵀX, one signal per column, but at least `FLOOR` of their mean."""
    variances = np.square(chain.apply(signals, inverse=True)).mean(axis=1)
    return np.maximum(variances, FLOOR * variances.mean())


def choose(
    signals: Array,
    splits: Sequence[tuple[Array, Array]],
    n_rotations: int | None,
    share: float | None,
    is_centered: bool,
) -> Choice:
    """The number of rotations and the shrinkage with the largest cross-validated Gaussian likelihood.

    Signals are columns; ``splits`` are the indices of those to learn from and of those that are held out. What is
    given is not chosen; the scale is 1 if the share is given.

    A fold learns from fewer signals than there are. The share over its complement is what makes up for the
    sampling error, the square of which falls with the number of signals: it is lowered in this proportion.
    """
    shares = np.array(_SHARES if share is None else [share])
    most = most_rotations(len(signals)) if n_rotations is None else n_rotations
    weights, parts = [], []
    for inside, outside in splits:
        mean = 0.0 if is_centered else signals[:, inside].mean(axis=1, keepdims=True)
        learned, held = (np.ascontiguousarray(signals[:, part] - mean) for part in (inside, outside))
        if learned.any():
            parts.append(_path(learned, held, shares, most))
            weights.append(len(outside))
    if not parts:
        return Choice(0 if n_rotations is None else n_rotations, 1.0 if share is None else share, 1.0, np.empty(0))
    logs, forms = (np.average([part[k] for part in parts], axis=0, weights=weights) for k in (0, 1))
    size = len(signals)
    scales = forms / size if share is None else np.ones_like(forms)
    losses = size * np.log(2 * np.pi * scales) + logs + forms / scales
    first = most if n_rotations is not None else 0
    a, k = np.unravel_index(losses[:, first:].argmin(), losses[:, first:].shape)
    chosen = float(shares[a])
    if share is None:
        learned_from = np.average([len(inside) for inside, _ in splits]) / signals.shape[1]
        chosen = learned_from * chosen / (1 - chosen + learned_from * chosen)
    return Choice(first + int(k), chosen, float(scales[a, first + k]), -losses.min(axis=0) / 2)


def _path(learned: Array, held: Array, shares: Array, most: int) -> tuple[Array, Array]:
    """Σ log f and Σ h/f of held-out signals, for each share, after 0 to ``most`` rotations of those learned from."""
    chain = most_correlated(learned @ learned.T / learned.shape[1], most)
    values, energies = (np.square(signals).mean(axis=1) for signals in (learned, held))
    target = values.mean()
    inside, outside = (np.empty(chain.pairs.shape) for _ in range(2))
    rotated_energies(learned, chain.pairs, chain.blocks, inside)
    rotated_energies(held, chain.pairs, chain.blocks, outside)
    sums = np.empty((2, len(shares), len(chain.pairs) + 1))
    least = FLOOR * target
    known = np.maximum(values, least), energies, chain.pairs, np.maximum(inside, least), outside
    gaussian_path(*known, shares, target, *sums)
    # Where the rotations end early, because nothing is correlated any more, the rest of the path is its end.
    filled = np.take(sums, np.minimum(np.arange(most + 1), len(chain.pairs)), axis=2)
    return filled[0], filled[1]
