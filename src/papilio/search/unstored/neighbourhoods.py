"""Which clusters of rows and columns are near each other."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from ...typing import Array
from ..nested.clusters import Clusters, clusters_in_order, clusters_of_points

_FEATURES = 12  # dimensions in which lines are compared
_LINKS = 4  # of a line with the nearest ones of the other side


class Neighbourhood(NamedTuple):
    """Clusters of rows and of columns, and pairs of lines that are near each other."""

    name: str
    rows: Clusters
    columns: Clusters
    links: tuple[Array, Array]  # rows and columns

    def near(self, level: int, most: int) -> list[Array]:
        """For each cluster of rows, the clusters of columns near it: those with most links, at most ``most``.

        A cluster of columns is near at most as many clusters of rows.
        """
        shape = (self.rows.sizes(level).size, self.columns.sizes(level).size)
        labels = _labels(self.rows, level)[self.links[0]], _labels(self.columns, level)[self.links[1]]
        counts = sp.coo_array((np.ones(labels[0].size), labels), shape=shape).tocsr()
        if self.is_shared:
            counts = counts + counts.T + sp.eye_array(shape[0]) * counts.sum()  # itself first
        kept = _largest_of_rows(counts.tocsr(), most).multiply(_largest_of_rows(counts.T.tocsr(), most).T).tocsr()
        kept.sort_indices()
        return np.split(kept.indices, kept.indptr[1:-1])

    @property
    def is_shared(self) -> bool:
        """Whether rows and columns have the same clusters."""
        return self.rows is self.columns


def in_given_order(shape: tuple[int, int], depth: int) -> Neighbourhood:
    """Lines are near each other if they have about the same place in their order."""
    rows, columns = ((np.arange(size)[:, None] + 0.5) / size for size in shape)
    if shape[0] == shape[1]:
        clusters = clusters_in_order(shape[0], depth)
        return Neighbourhood("given order", clusters, clusters, _links(rows, columns))
    trees = clusters_in_order(shape[0], depth), clusters_in_order(shape[1], depth)
    return Neighbourhood("given order", *trees, _links(rows, columns))


def by_points(name: str, rows: Array, columns: Array, depth: int) -> Neighbourhood:
    """Lines are near each other if their points are."""
    if rows.shape == columns.shape and np.array_equal(rows, columns):
        clusters = clusters_of_points(rows, depth)
        return Neighbourhood(name, clusters, clusters, _links(rows, rows))
    trees = clusters_of_points(rows, depth), clusters_of_points(columns, depth)
    return Neighbourhood(name, *trees, _links(rows, columns))


def features_of(samples: Array) -> Array:
    """Points, one per line, that are near each other if the lines of a matrix M point into similar directions.

    ``samples`` are MΩ with a random Ω: a random projection of the lines, which keeps their angles approximately.
    """
    parts = np.hstack([samples.real, samples.imag]) if np.iscomplexobj(samples) else samples
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    directions = parts / np.where(norms > 0, norms, 1.0)
    directions -= directions.mean(axis=0)
    vectors = np.linalg.eigh(directions.T @ directions)[1]
    return np.asarray(directions @ vectors[:, ::-1][:, :_FEATURES])


def _links(rows: Array, columns: Array) -> tuple[Array, Array]:
    """Each row with the nearest columns, and each column with the nearest rows."""
    there, back = (_nearest(of, to) for of, to in ((rows, columns), (columns, rows)))
    return (
        np.concatenate([np.repeat(np.arange(len(rows)), there.shape[1]), back.ravel()]),
        np.concatenate([there.ravel(), np.repeat(np.arange(len(columns)), back.shape[1])]),
    )


def _nearest(points: Array, others: Array) -> Array:
    count = min(_LINKS + 1, len(others))
    return np.asarray(cKDTree(others).query(points, k=count)[1]).reshape(len(points), count)


def _labels(clusters: Clusters, level: int) -> Array:
    labels = np.empty(clusters.order.size, np.int64)
    labels[clusters.order] = np.repeat(np.arange(clusters.sizes(level).size), clusters.sizes(level))
    return labels


def _largest_of_rows(counts: sp.csr_array, most: int) -> sp.csr_array:
    """Ones at the largest entries of each row, at most ``most`` of them."""
    lines = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    order = np.lexsort((counts.indices, -counts.data, lines))
    place = np.arange(order.size) - counts.indptr[lines[order]]
    chosen = order[place < most]
    ones = np.ones(chosen.size)
    return sp.csr_array((ones, (lines[chosen], counts.indices[chosen])), shape=counts.shape)
