"""Vectors x as matrices xxᴴ in real coordinates, where |uᴴx|² is a scalar product.

The coordinates of xxᴴ are |xᵢ|² for each i, then √2·Re(xᵢx̄ⱼ) for each i < j, followed for complex x by
√2·Im(xᵢx̄ⱼ). Sums over vectors are thus products of matrices, and so is the energy that a direction u captures.
"""

from itertools import combinations

import numpy as np

from ..typing import Array


def lifted(vectors: Array) -> Array:
    """The coordinates (k, c, m) of m vectors in each of k sets (k, r, m)."""
    k, r, m = vectors.shape
    is_complex = np.iscomplexobj(vectors)
    root = vectors.real.dtype.type(np.sqrt(2))
    lifts = np.empty((k, r * r if is_complex else r * (r + 1) // 2, m), vectors.real.dtype)
    lifts[:, :r] = vectors.real**2 + vectors.imag**2 if is_complex else vectors**2
    place = r
    for i, j in combinations(range(r), 2):
        mixed = root * vectors[:, i] * vectors[:, j].conj()
        lifts[:, place] = mixed.real
        if is_complex:
            lifts[:, place + 1] = mixed.imag
        place += 2 if is_complex else 1
    return lifts


def leading_directions(sums: Array, r: int) -> Array:
    """Of sums (k, c, p) of lifted vectors of size r: the lifted unit vectors that capture most of them."""
    k, c, p = sums.shape
    is_complex = c == r * r and r > 1
    grams = np.zeros((k, p, r, r), np.result_type(sums, 1j) if is_complex else sums.dtype)
    for i in range(r):
        grams[..., i, i] = sums[:, i]
    place = r
    for i, j in combinations(range(r), 2):
        mixed = sums[:, place] + 1j * sums[:, place + 1] if is_complex else sums[:, place]
        grams[..., i, j] = mixed / np.sqrt(2)
        grams[..., j, i] = mixed.conj() / np.sqrt(2)
        place += 2 if is_complex else 1
    leading = np.linalg.eigh(grams)[1][..., -1]  # (k, p, r)
    return lifted(leading.transpose(0, 2, 1))
