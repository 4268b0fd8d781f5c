"""Which rows and which columns of a factor should share blocks."""

from collections.abc import Iterator

import numpy as np

from ..constraints import SparseBlocks
from ..constraints.blocks import sums_of_groups
from ..kernels.grouping import exchange_labels
from ..typing import Array

_MAX_SWEEPS = 30
_ALL = 1 - 1e-12  # of the energy, up to rounding
_LEAST_GAIN = 1e-3  # of a sweep that is worth another one, relative


def regrouped(constraint: SparseBlocks, matrix: Array) -> SparseBlocks:
    """The set with other orders of rows and columns, in which its blocks hold much of ‖matrix‖_F².

    If the grid of some orders has no more than n_blocks blocks with non-zeros, and these have no zeros except in
    lines of zeros, such orders are found. Otherwise similar lines make groups, those whose magnitudes correlate,
    if their blocks hold more than those of ``constraint``. As in k-means, the best blocks for the groups and
    better groups for these blocks alternate: rows of two groups are exchanged while the blocks hold more after
    it, then columns. The orders depend on the set and the matrix only, so that a factor is enough to continue in
    the orders that it was found in.
    """
    energies = np.square(np.abs(matrix), dtype=np.float64)
    all_but_rounding = _ALL * energies.sum()
    for groups in _quick_starts(constraint, energies):
        if _kept(energies, *groups, constraint.n_blocks) >= all_but_rounding:
            break
    else:
        groups = _best_groups(constraint, energies)
    return constraint.regrouped(*(np.argsort(labels, kind="stable") for labels in groups))


def _best_groups(constraint: SparseBlocks, energies: Array) -> tuple[Array, Array]:
    """The start that holds most, after exchanges."""
    starts = [*_quick_starts(constraint, energies), _similar_lines(constraint, energies)]
    kept = [_kept(energies, *start, constraint.n_blocks) for start in starts]
    best = int(np.argmax(kept))
    _improve(energies, *starts[best], constraint.n_blocks, kept[best])
    return starts[best]


def _quick_starts(constraint: SparseBlocks, energies: Array) -> Iterator[tuple[Array, Array]]:
    """Groups of rows and of columns as they are, and by equal supports; the last group may be smaller."""
    height, width = constraint.block
    yield _labels(constraint.row_order, height), _labels(constraint.column_order, width)
    used = energies > 0
    yield _with_equal_supports(used, height), _with_equal_supports(used.T, width)


def _similar_lines(constraint: SparseBlocks, energies: Array) -> tuple[Array, Array]:
    """Groups of similar rows, and of columns that are similar in these groups."""
    height, width = constraint.block
    rows = _similar(np.sqrt(energies), height)
    return rows, _similar(np.sqrt(sums_of_groups(energies, rows).T), width)


def _labels(order: Array, size: int) -> Array:
    labels = np.empty(order.size, dtype=np.int64)
    labels[order] = np.arange(order.size) // size
    return labels


def _similar(magnitudes: Array, size: int) -> Array:
    """Groups of similar lines: the largest one left, then one by one the most similar to those in the group."""
    lines = magnitudes - magnitudes.mean(axis=0)  # what all lines have in common tells nothing
    norms = np.linalg.norm(lines, axis=1)
    lines /= np.where(norms > 0, norms, 1)[:, None]
    sizes = np.linalg.norm(magnitudes, axis=1)
    free = np.ones(len(lines), dtype=bool)
    order: list[int] = []
    while len(order) < len(lines):
        likeness = sizes if len(order) % size == 0 else lines @ lines[order[-(len(order) % size) :]].sum(axis=0)
        order.append(int(np.argmax(np.where(free, likeness, -np.inf))))
        free[order[-1]] = False
    return _labels(np.array(order), size)


def _with_equal_supports(used: Array, size: int) -> Array:
    """Groups of lines with the same support; lines with a smaller one fill up what is left.

    In any groups if there are more supports than groups.
    """
    keys = np.ascontiguousarray(np.packbits(used, axis=1))
    _, first, which = np.unique(keys.view(f"V{keys.shape[1]}").ravel(), return_index=True, return_inverse=True)
    supports = used[first]
    if len(supports) > len(used) // size + 2:
        return _labels(np.arange(len(used)), size)
    largest_first = np.argsort(-supports.sum(axis=1), kind="stable")
    if not (np.bincount(which) % size).any():  # whole groups of each
        return _labels(np.argsort(np.argsort(largest_first)[which], kind="stable"), size)
    complete: list[int] = []
    open_groups: list[tuple[Array, list[int]]] = []  # each with its support
    for s in largest_first:
        for line in np.flatnonzero(which == s):
            fitting = [group for group in open_groups if not (supports[s] & ~group[0]).any()]
            if not fitting:
                fitting = [(supports[s], [])]
                open_groups += fitting
            home = min(fitting, key=lambda group: int(group[0].sum()))
            home[1].append(int(line))
            if len(home[1]) == size:
                complete += home[1]
                open_groups = [group for group in open_groups if group is not home]
    return _labels(np.array(complete + [line for _, group in open_groups for line in group]), size)


def _kept(energies: Array, rows: Array, columns: Array, n_blocks: int) -> float:
    """The energy of the best blocks."""
    blocks = sums_of_groups(sums_of_groups(energies, rows).T, columns)
    return float(np.sort(blocks, axis=None)[-n_blocks:].sum())


def _improve(energies: Array, rows: Array, columns: Array, n_blocks: int, kept: float) -> None:
    """Exchange lines of ``rows`` and ``columns`` while the best blocks, which hold ``kept``, hold more."""
    for _ in range(_MAX_SWEEPS):
        before = kept
        for lines, groups, others in ((energies, rows, columns), (energies.T, columns, rows)):
            parts = sums_of_groups(lines.T, others).T  # of each line in the groups of the other side
            blocks = sums_of_groups(parts, groups)
            chosen = np.zeros(blocks.size)
            chosen[np.argsort(-blocks, axis=None, kind="stable")[:n_blocks]] = 1
            exchange_labels(-(parts @ chosen.reshape(blocks.shape).T), groups, _MAX_SWEEPS)
        kept = _kept(energies, rows, columns, n_blocks)
        if kept <= before * (1 + _LEAST_GAIN):
            break
