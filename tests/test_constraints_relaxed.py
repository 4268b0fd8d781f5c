"""Relaxed sets: larger ones of the same kind, from the set itself to everything."""

import numpy as np
import pytest

from papilio import constraints as c

from .brute_force import sample
from .helpers import for_each, gaussian
from .registry import CONSTRAINTS

SIZED = {
    "Sparse": lambda size: c.Sparse((4, 6), size),
    "SparseRows": lambda size: c.SparseRows((4, 6), size),
    "SparseColumns": lambda size: c.SparseColumns((6, 4), size),
    "SparseBlocks": lambda size: c.SparseBlocks((4, 6), size, block=(3, 2), row_order=[3, 0, 2, 1]),
    "SparseRowsAndColumns": lambda size: c.SparseRowsAndColumns((4, 6), size),
}
SIZED |= {
    f"NonNegative-{name}": (lambda size, make=make: c.NonNegative(make(size))) for name, make in SIZED.items()
}
SHARES = np.linspace(0, 1, 11)


@for_each("name", CONSTRAINTS)
def test_no_share_at_all_leaves_the_set_as_it_is(name):
    constraint = CONSTRAINTS[name]()
    same = constraint.relaxed(0)
    assert type(same) is type(constraint)
    assert repr(same) == repr(constraint)
    for seed in range(3):
        matrix = gaussian(constraint.shape, seed=seed)
        np.testing.assert_array_equal(same.project(matrix), constraint.project(matrix))


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@for_each("name", CONSTRAINTS)
def test_members_are_members_of_the_relaxed_set_and_their_own_projection(name, share):
    constraint = CONSTRAINTS[name]()
    relaxed = constraint.relaxed(share)
    assert relaxed.shape == constraint.shape
    assert relaxed.n_nonzero >= constraint.n_nonzero
    for matrix in (gaussian(constraint.shape), sample(constraint.shape, "nearly equal")):
        member = constraint.project(matrix)
        assert relaxed.contains(member)
        np.testing.assert_allclose(relaxed.project(member), member, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", SIZED)
def test_the_whole_share_allows_everything(name, size):
    everything = SIZED[name](size).relaxed(1)
    assert everything.n_nonzero == 24
    matrix = np.abs(gaussian(everything.shape))
    np.testing.assert_allclose(everything.project(matrix), matrix / np.linalg.norm(matrix))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", SIZED)
def test_sets_grow_with_the_share(name, size):
    sets = [SIZED[name](size).relaxed(share) for share in SHARES]
    entries = [relaxed.n_nonzero for relaxed in sets]
    assert entries == sorted(entries)
    assert entries[0] < entries[5] < entries[10]
    matrix = np.abs(gaussian(sets[0].shape))
    kept = [np.count_nonzero(relaxed.project(matrix)) for relaxed in sets]
    assert kept == sorted(kept)
