"""Treelets: rotations that merge the most correlated variables, two at a time, into a tree."""

from typing import NamedTuple

import numpy as np

from ..kernels.rotations import CORRELATION
from ..typing import Array
from .chain import Chain
from .greedy import Growth


class Tree(NamedTuple):
    """Merges from the leaves upwards, at most one less than variables; the basis of level l is G₁…G_l."""

    chain: Chain  # one rotation per level
    merges: (
        Array  # (n_levels, 2): the variable that stays, as the sum, and the one that retires, as the difference
    )
    correlations: Array  # (n_levels,) of the two before the rotation, from −1 to 1
    variances: Array  # (n_levels, 2) of the two after it
    leaves: Array  # (p,) the variances before any rotation

    def energies(self, n_components: int) -> Array:
        """The share of all variance that the so many largest coordinates of each level have, from level 0."""
        total = self.leaves.sum()
        if not total or n_components == len(self.leaves):
            return np.ones(len(self.merges) + 1)
        energies = np.empty(len(self.merges) + 1)
        for level in range(len(energies)):
            energies[level] = np.partition(self.at_level(level), -n_components)[-n_components:].sum() / total
        return energies

    def at_level(self, level: int) -> Array:
        """The variances of all coordinates."""
        variances = self.leaves.copy()
        # A coordinate is written by its last merge: assignment with repeated indices keeps the last value.
        variances[self.merges[:level].ravel()] = self.variances[:level].ravel()
        return variances

    def basis(self, level: int) -> Chain:
        """The rotations up to a level."""
        return Chain(self.chain.size, self.chain.pairs[:level], self.chain.blocks[:level])


def grow_tree(covariance: Array, n_levels: int) -> Tree:
    """Merge the two variables with the largest |correlation|, again and again (Lee, Nadler, Wasserman, 2008).

    The Jacobi rotation of the two makes them uncorrelated. The one with the lower variance then is the difference,
    which retires; the other, the sum, may be merged again. The tree ends early, as a forest, if no two of the
    variables that are left are correlated beyond rounding. A variable without variance is never merged.
    """
    leaves = np.array(covariance.diagonal())
    growth = Growth(CORRELATION, covariance.copy(), width=1)
    merges, correlations, variances = [], [], []
    before = leaves.copy()
    while growth.count < n_levels:
        if not growth.add(1):
            break
        pair, block = growth.last()
        after = growth.matrix.diagonal()[pair]
        # What the rotation made zero: the entry of the pair in G·diag(after)·Gᵀ.
        covaried = block[0] @ (after * block[1])
        correlations.append(covaried / np.sqrt(before[pair[0]] * before[pair[1]]))
        order = [0, 1] if after[0] >= after[1] else [1, 0]
        merges.append(pair[order])
        variances.append(after[order])
        before[pair] = after
        growth.retire(int(pair[order[1]]))
    return Tree(
        growth.chain(),
        np.array(merges, np.int64).reshape(-1, 2),
        np.clip(np.array(correlations, np.float64), -1, 1),
        np.array(variances, np.float64).reshape(-1, 2),
        leaves,
    )
