"""The methods of `factorize`, in the order in which they run: the cheapest first."""

from . import (
    butterfly,
    convolution,
    kronecker,
    layers,
    low_rank,
    nested,
    rotations,
    sparse_basis,
    sparse_factors,
    sparse_plus_low_rank,
    subspaces,
    thresholding,
    transform,
)

METHODS = (
    thresholding.METHOD,
    low_rank.METHOD,
    subspaces.METHOD,
    convolution.METHOD,
    kronecker.METHOD,
    transform.METHOD,
    layers.METHOD,
    rotations.METHOD,
    sparse_basis.METHOD,
    nested.METHOD,
    butterfly.METHOD,
    sparse_plus_low_rank.METHOD,
    sparse_factors.METHOD,
    sparse_factors.LOW_RANK_ALONE,
)
NAMES = tuple(dict.fromkeys(method.name for method in METHODS))
