"""Products that are sums of products: lanes that never meet between the first factor and the last.

A sum of chains of different lengths, made one product, has identities that only carry what a short chain gave. To
run each chain on its own, without them, may take a fraction of the time. The inner lines of a product fall apart
into parts that are connected by entries; those that are carried by the same factors make one chain.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..typing import Array
from .csr import Factor, frozen

_MOST_CHAINS = 4


def separate_chains(factors: Sequence[Factor]) -> list[list[Factor]]:
    """Chains whose sum is the product of ``factors``, exactly; none if it does not fall apart into a few."""
    inner, shortest = factors[1:-1], min(factors[0].shape[0], factors[-1].shape[1])
    if not inner or factors[0].shape[1] <= shortest:  # chains side by side are wider inside
        return []
    carried = [_carried_rows(factor) for factor in inner]
    if not any(rows.any() for rows in carried):
        return []
    places = _places(inner, carried)
    if not 1 < len(places) <= _MOST_CHAINS:
        return []
    return [_chain(factors, carried, lines) for lines in places]


def _carried_rows(factor: Factor) -> Array:
    """Which rows have a one as their only entry, in a column that has no other."""
    if isinstance(factor, np.ndarray):
        return np.zeros(factor.shape[0], dtype=bool)
    single = np.diff(factor.indptr) == 1
    places = factor.indptr[:-1][single]
    per_column = np.bincount(factor.indices, minlength=factor.shape[1])
    carried = np.zeros(factor.shape[0], dtype=bool)
    carried[single] = (factor.data[places] == 1) & (per_column[factor.indices[places]] == 1)
    return carried


def _places(inner: Sequence[Factor], carried: Sequence[Array]) -> list[list[Array]]:
    """The lines before, between and behind the inner factors that belong to each chain."""
    sides = [inner[0].shape[0], *(factor.shape[1] for factor in inner)]
    starts = np.concatenate([[0], np.cumsum(sides)])
    edges = [sp.coo_array(factor) for factor in inner]
    rows = np.concatenate([edge.row + start for edge, start in zip(edges, starts, strict=False)])
    columns = np.concatenate([edge.col + start for edge, start in zip(edges, starts[1:], strict=False)])
    graph = sp.coo_array((np.ones(rows.size, np.int8), (rows, columns)), shape=(starts[-1],) * 2)
    count, labels = connected_components(graph.tocsr(), directed=False)
    lines = [labels[begin:end] for begin, end in pairwise(starts)]
    # A component is carried by a factor if all its lines are, those before and as many behind.
    signature = np.zeros((count, len(inner)), dtype=bool)
    for i, is_carried in enumerate(carried):
        before, behind = (np.bincount(each, minlength=count) for each in lines[i : i + 2])
        signature[:, i] = (np.bincount(lines[i], is_carried, minlength=count) == before) & (before == behind)
    _, chain = np.unique(signature, axis=0, return_inverse=True)
    chain = chain.ravel()
    return [[np.flatnonzero(chain[each] == i) for each in lines] for i in range(int(chain.max()) + 1)]


def _chain(factors: Sequence[Factor], carried: Sequence[Array], lines: Sequence[Array]) -> list[Factor]:
    """The factors on these lines, without those that only carry them."""
    chain = [factors[0][:, lines[0]]]
    for i, factor in enumerate(factors[1:-1]):
        part = factor[lines[i]][:, lines[i + 1]]
        if carried[i][lines[i]].all() and part.shape[0] == part.shape[1]:
            chain[-1] = chain[-1] @ part  # of ones: another order of columns
        else:
            chain.append(part)
    return [frozen(each) for each in (*chain, factors[-1][lines[-1]])]
