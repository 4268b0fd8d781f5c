"""The sparse matrix transform: a covariance UΛUᵀ where U is a chain of rotations (Cao, Bachega, Bouman, 2011)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kernels.likelihood import gaussian_path, rotated_energies
from ..kernels.rotations import CORRELATION
from ..typing import Array
from .chain import Chain
from .greedy import Growth

FLOOR = 1e-10  # of the mean variance: the least variance of a coordinate
_AT_A_TIME = 256  # rotations, between which Ctrl-C is heard
_PER_VARIABLE = 32  # rotations that are tried at most
# Shares a/(1 − a) from 10⁻⁴ to 10², six to a tenfold.
_EXPONENTS = 0.6, 0.7, 0.8, 0.9, 1.0
_SHARES = (0.0, *(ratio / (1 + ratio) for ratio in np.geomspace(1e-4, 1e2, 37).tolist()))


class Shrinkage(NamedTuple):
    """What makes variances λ less different, of mean μ: scale · ((1 − share) μ (λ/μ)^exponent + share · μ)."""

    share: float
    exponent: float = 1.0
    scale: float = 1.0

    def apply(self, variances: Array) -> Array:
        mean = variances.mean()
        return self.scale * ((1 - self.share) * powers(variances, mean, self.exponent) + self.share * mean)


class Choice(NamedTuple):
    """How many rotations, and the shrinkage of their variances."""

    n_rotations: int
    shrinkage: Shrinkage
    log_likelihoods: Array  # per held-out sample, after 0, 1, 2, … rotations, each with its best shrinkage


def powers(variances: Array, mean: float, exponent: float) -> Array:
    """μ (λ/μ)^exponent, where λ is at least `FLOOR` of the mean μ."""
    least = np.maximum(variances, FLOOR * mean)
    return least if exponent == 1 or not mean else mean * (least / mean) ** exponent


def most_rotations(n_variables: int) -> int:
    """As many rotations as pairs, and at most 32 per variable."""
    return min(n_variables * (n_variables - 1) // 2, _PER_VARIABLE * n_variables)


def most_correlated(covariance: Array, n_rotations: int) -> Chain:
    """Rotations of the pair with the largest |correlation|, which make it zero; fewer if nothing is correlated."""
    growth = Growth(CORRELATION, covariance.copy(), width=1)
    while growth.count < n_rotations:
        count = min(_AT_A_TIME, n_rotations - growth.count)
        if growth.add_in_turn(count) < count:
            break
    return growth.chain()


def choose(
    signals: Array,
    splits: Sequence[tuple[Array, Array]],
    n_rotations: int | None,
    share: float | None,
    is_centered: bool,
) -> Choice:
    """The number of rotations and the shrinkage with the largest cross-validated Gaussian likelihood.

    Signals are columns; ``splits`` are the indices of those to learn from and of those that are held out. What is
    given is not chosen; if the share is given, exponent and scale are 1.
    """
    size = len(signals)
    shares, exponents = (np.array(_SHARES), _EXPONENTS) if share is None else (np.array([share]), (1.0,))
    most = most_rotations(size) if n_rotations is None else n_rotations
    sums, total = np.zeros((2, len(exponents), len(shares), most + 1)), 0
    for inside, outside in splits:
        mean = 0.0 if is_centered else signals[:, inside].mean(axis=1, keepdims=True)
        learned, held = (np.ascontiguousarray(signals[:, part] - mean) for part in (inside, outside))
        if learned.any():
            sums += len(outside) * _path(learned, held, shares, exponents, most)
            total += len(outside)
    if not total:
        return Choice(n_rotations or 0, Shrinkage(1.0 if share is None else share), np.empty(0))
    logs, forms = sums / total
    scales = forms / size if share is None else np.ones_like(forms)
    losses = size * np.log(2 * np.pi * scales) + logs + forms / scales
    first = 0 if n_rotations is None else most
    e, a, k = np.unravel_index(losses[..., first:].argmin(), losses[..., first:].shape)
    shrinkage = Shrinkage(float(shares[a]), exponents[e], float(scales[e, a, first + k]))
    return Choice(first + int(k), shrinkage, -losses.min(axis=(0, 1)) / 2)


def _path(learned: Array, held: Array, shares: Array, exponents: Sequence[float], most: int) -> Array:
    """Σ log f and Σ h/f of held-out signals after 0 to ``most`` rotations, for each exponent and share."""
    chain = most_correlated(learned @ learned.T / learned.shape[1], most)
    variances, energies = (np.square(signals).mean(axis=1) for signals in (learned, held))
    mean = variances.mean()
    inside, outside = (np.empty(chain.pairs.shape) for _ in range(2))
    rotated_energies(learned, chain.pairs, chain.blocks, inside)
    rotated_energies(held, chain.pairs, chain.blocks, outside)
    sums = np.empty((2, len(exponents), len(shares), len(chain.pairs) + 1))
    for e, exponent in enumerate(exponents):
        before, after = (powers(values, mean, exponent) for values in (variances, inside))
        gaussian_path(before, energies, chain.pairs, after, outside, shares, mean, sums[0, e], sums[1, e])
    # Where the rotations end early, because nothing is correlated any more, the rest of the path is its end.
    return sums[..., np.minimum(np.arange(most + 1), len(chain.pairs))]
