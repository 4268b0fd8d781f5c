"""Products on fixed supports in plain PyTorch, for any device and dtype."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch


class Layout(NamedTuple):
    """How the entries of a factor are arranged, so that one batched product of dense blocks takes them all.

    ``per_row`` entries in each row, and ``run`` neighbouring rows with the same columns; zeros if rows have
    different numbers of entries.
    """

    n_rows: int
    n_columns: int
    first: int  # among the values of all factors
    last: int
    per_row: int
    run: int


def layout_of(support: sp.csr_array, first: int) -> Layout:
    """The layout of a support whose values begin at ``first``."""
    n_rows, n_columns = support.shape
    counts = np.diff(support.indptr)
    per_row = int(counts[0]) if (counts == counts[0]).all() else 0
    run = 0
    if per_row:
        columns = support.indices.reshape(n_rows, per_row)
        changes = 1 + np.flatnonzero((columns[1:] != columns[:-1]).any(axis=1))
        run = int(np.gcd.reduce([n_rows, *changes]))
    return Layout(n_rows, n_columns, first, first + support.nnz, per_row, run)


def multiply(
    x: torch.Tensor, values: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, layouts: tuple[Layout, ...]
) -> torch.Tensor:
    """x (S₁…S_M)ᵀ for the rows of x."""
    for layout in reversed(layouts):
        part = slice(layout.first, layout.last)
        x = _factor(x, values[part], rows[part], columns[part], layout)
    return x


def _factor(
    x: torch.Tensor, values: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, layout: Layout
) -> torch.Tensor:
    n_rows, n_columns, *_, per_row, run = layout
    if per_row == n_columns:
        return x @ values.view(n_rows, n_columns).T
    if run == 0:
        products = x.index_select(1, columns) * values
        return x.new_zeros((x.shape[0], n_rows)).index_add(1, rows, products)
    n_runs = n_rows // run
    chosen = columns.view(n_rows, per_row)[::run].reshape(-1)
    gathered = x.index_select(1, chosen).view(x.shape[0], n_runs, per_row)
    if run == 1:
        return (gathered * values.view(n_rows, per_row)).sum(dim=-1)
    blocks = values.view(n_runs, run, per_row)
    return torch.bmm(gathered.transpose(0, 1), blocks.transpose(1, 2)).transpose(0, 1).reshape(x.shape[0], n_rows)
