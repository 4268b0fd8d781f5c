"""Small pictures of large matrices lose no entry."""

import numpy as np
import pytest
import scipy.sparse as sp

from papilio import SparseProduct
from papilio.plot import matrices
from papilio.plot.matrices import thumbnail


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda a: SparseProduct([a])])
def test_a_small_matrix_is_shown_entry_by_entry(form):
    values = np.array([[0.0, -3.0, 1.0], [2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(thumbnail(form(values), 3), values)


@pytest.mark.parametrize("shape", [(7, 23), (23, 7), (10, 10), (11, 4)])
def test_every_form_shows_the_largest_entry_of_each_cell(shape, monkeypatch):
    monkeypatch.setattr(matrices, "_BLOCK_ENTRIES", 40)  # A product takes several blocks.
    values = np.random.default_rng(0).standard_normal(shape)
    values[np.abs(values) < 0.8] = 0
    cells = [np.array_split(np.arange(n), min(n, 5)) for n in shape]
    pictures = [thumbnail(form, 5) for form in (values, sp.coo_array(values), SparseProduct([values]))]
    for picture in pictures:
        assert picture.shape == tuple(min(n, 5) for n in shape)
        np.testing.assert_array_equal(picture, pictures[0])
        assert np.abs(picture).max() == np.abs(values).max()
    # Cells are runs of rows and columns of nearly equal length: each entry of the picture is the largest in one.
    edges = [np.arange(len(c) + 1) * n // len(c) for c, n in zip(cells, shape, strict=True)]
    for i, j in np.ndindex(*pictures[0].shape):
        cell = values[edges[0][i] : edges[0][i + 1], edges[1][j] : edges[1][j + 1]]
        assert abs(pictures[0][i, j]) == np.abs(cell).max()
        assert pictures[0][i, j] in cell


def test_a_single_entry_of_a_huge_matrix_is_seen():
    one = sp.coo_array(([-2.0], ([123_456], [999_999])), shape=(1_000_000, 1_000_000))
    picture = thumbnail(one, 64)
    assert np.count_nonzero(picture) == 1
    assert picture[7, 63] == -2.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda a: SparseProduct([a])])
def test_a_dense_matrix_keeps_its_mix_of_signs(form):
    values = np.random.default_rng(0).standard_normal((600, 500)) + 0.5
    picture = thumbnail(form(values), 60)
    assert abs(np.mean(picture > 0) - np.mean(values > 0)) < 0.05
    assert np.isin(picture, values).all()
