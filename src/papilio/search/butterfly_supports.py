"""The supports of a butterfly under unknown permutations, found level by level."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..typing import Array
from .splitting import ROUNDING, STARTS, Split, best_split, leading_vectors

RADICES = (2, 3, 5, 7)  # Prime factors by which a matrix is split; the rest stays a block.
HOPELESS = 0.2  # the share of the energy that a butterfly may miss
_HOPELESS_AT_FIRST = 0.15  # the share that its first split may miss; a Gaussian matrix misses about 0.4
_LOST = 0.3  # the share that all splits may miss: the factors that are fitted afterwards miss less
_MORE_STARTS = 32  # rows to start from if noise does not explain the cost of a small matrix
_SMALL = 64
_UNEXPLAINED = 1.5  # times the cost that noise explains
_FAILURES = 2
_UNLIKE_NOISE, _LEAST_SHARE = 4.0, 1e-3  # times the cost that noise explains, where the first split misses a share


class Node(NamedTuple):
    """A block of the residual, and where its rows and columns are in it."""

    rows: Array
    columns: Array
    block: Array


class Level(NamedTuple):
    """The support of a left factor, the nodes below it, and the energy that splitting into them misses."""

    mask: sp.csr_array
    below: list[Node]
    missed: float


class Effort:
    """From how many rows a split is looked for, and when it is good enough.

    The first level tells the ``share`` of white noise in the energy. Below it, a split whose cost noise explains
    is good enough; if it does not, more rows are tried, until that has been in vain for some nodes: then it is not
    white noise that the structure leaves. With ``balanced``, all lines are scaled to equal norm before each split,
    and how large the noise is then is not known. A matrix that misses much at first, and more below than noise
    explains, is no butterfly.
    """

    def __init__(self, balanced: bool) -> None:
        self.balanced = balanced
        self.share = inf
        self._noise: float | None = None  # its mean energy per entry
        self._failures = 0
        self._cost = self._explained = 0.0  # Sums over all splits below the first level.

    def end_first_level(self, share: float, n: int) -> None:
        """Note the share of the noise in the unit energy of an n×n matrix."""
        self.share = share
        self._noise = None if self.balanced else share / n**2

    @property
    def is_quick(self) -> bool:
        """Whether more rows have been tried in vain."""
        return self._failures >= _FAILURES

    @property
    def is_unlike_noise(self) -> bool:
        """Whether the splits miss far more than noise explains, which the first one has left."""
        return self.share > _LEAST_SHARE and self._cost > _UNLIKE_NOISE * self._explained > 0

    def split(self, session: Session, block: Array, radix: int) -> Split | None:
        """The best split of a node."""
        m = len(block)
        if self.share == inf:
            return best_split(session, block, radix, hopeless=_HOPELESS_AT_FIRST * frobenius(block) ** 2)
        # Rank one misses all but one of r dimensions; the spread of a sum of m²(1 − 1/r) squares is about 2/m.
        enough = None
        if self._noise is not None:
            explained = self._noise * m**2 * (1 - 1 / radix) * (1 + 4 / m)
            enough = max(explained, ROUNDING * frobenius(block) ** 2)
        more = _MORE_STARTS if enough is not None and m <= _SMALL else STARTS
        found = best_split(session, block, radix, enough=enough, starts=1 if self.is_quick else more)
        if enough is not None and found is not None:
            self._failures += found.cost > _UNEXPLAINED * enough
            self._cost, self._explained = self._cost + found.cost, self._explained + enough
        return found


def find_supports(session: Session, matrix: Array, effort: Effort) -> list[sp.csr_array] | None:
    """Supports with a prime number of entries per line, level by level; None if there are none."""
    n = len(matrix)
    if matrix.shape != (n, n) or not matrix.any() or not _radices(n):
        return None
    masks: list[sp.csr_array] = []
    nodes = [Node(np.arange(n), np.arange(n), matrix / frobenius(matrix))]
    kept = 1.0
    while radices := _radices(len(nodes[0].block)):
        if effort.balanced:
            nodes = [node._replace(block=_balance(node.block)) for node in nodes]
        energy = _energy(nodes)
        session.tick("level", len(masks) + 1, _n_levels(n))
        found: Level | None = None
        noise = inf
        for radix in radices:
            level = _split(session, nodes, radix, effort)
            share = inf if level is None else level.missed / (energy * (1 - 1 / radix))
            if share < noise:
                found, noise = level, share
            if noise <= 1e-14:
                break
        if found is None or (not masks and found.missed > _HOPELESS_AT_FIRST * energy):
            return None
        if not masks:
            effort.end_first_level(noise, n)
        masks.append(found.mask)
        nodes = found.below
        kept *= _energy(nodes) / energy
        if 1 - kept > _LOST or effort.is_unlike_noise:
            return None
    rows = np.concatenate([np.repeat(node.rows, len(node.columns)) for node in nodes])
    columns = np.concatenate([np.tile(node.columns, len(node.rows)) for node in nodes])
    return [*masks, _mask(rows, columns, n)]


def _energy(nodes: Sequence[Node]) -> float:
    return sum(frobenius(node.block) ** 2 for node in nodes)


def _n_levels(n: int) -> int:
    """How often a matrix of size n is split."""
    radices = _radices(n)
    return 1 + _n_levels(n // radices[0]) if radices else 0


def _radices(n: int) -> list[int]:
    """The numbers by which a matrix of size n may be split into parts of more than one row."""
    return [radix for radix in RADICES if n % radix == 0 and n > radix]


def _split(session: Session, nodes: Sequence[Node], radix: int, effort: Effort) -> Level | None:
    """All nodes split by one radix; None if one of them cannot be."""
    rows, columns, below = [], [], []
    offset, missed = 0, 0.0
    for node in nodes:
        session.check()
        with blas_threads(8 * node.block.size):  # most products are of a matrix and a few vectors
            split = effort.split(session, node.block, radix)
        if split is None:
            return None
        count = len(split.groups)
        for p, part in enumerate(split.parts):
            inner = offset + p * count + np.arange(count)  # One row for each group.
            rows.append(node.rows[split.groups].ravel())
            columns.append(np.repeat(inner, radix))
            project = partial(leading_vectors, node.block, split.groups, part)
            residual = session.wait(project, 8 * node.block.size)[1][:, part]
            below.append(Node(inner, node.columns[part], residual))
        offset += len(node.block)
        missed += split.cost
    return Level(_mask(np.concatenate(rows), np.concatenate(columns), offset), below, missed)


def _balance(block: Array) -> Array:
    """``block`` with its rows and columns scaled to nearly equal norms."""
    for axis in (1, 0, 1):
        sizes = np.linalg.norm(block, axis=axis, keepdims=True)
        block = block / np.where(sizes > 0, sizes, 1).astype(block.real.dtype)
    return block


def _mask(rows: Array, columns: Array, n: int) -> sp.csr_array:
    return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(n, n))
