"""The redundant DCT dictionary of image patches."""

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..runtime.memory import require_fits
from ..validation import as_integer


def redundant_dct(patch_size: int, atoms_per_side: int) -> SparseProduct:
    """The overcomplete two-dimensional DCT dictionary of Elad and Aharon (2006).

    C is the p × K matrix of cos(πik/K), i < p, k < K. The mean of each column except the first is subtracted, and
    all columns are scaled to unit norm. The dictionary is C ⊗ C, with the sparse factors C ⊗ I and I ⊗ C.

    Parameters
    ----------
    patch_size : int
        p, the side of a patch in pixels.
    atoms_per_side : int
        K, at least p: there are K² atoms.

    Returns
    -------
    SparseProduct
        (p², K²), one atom of unit norm per column, for patches as `extract_patches` returns them.

    Examples
    --------
    >>> from papilio.images import redundant_dct
    >>> redundant_dct(8, 16)
    <SparseProduct 64×256 float64: 2 factors (64×128×256), 3072 entries, relative complexity 0.1875>
    """
    p = as_integer("patch_size", patch_size, 1)
    # On a single pixel every cosine is constant.
    K = as_integer("atoms_per_side", atoms_per_side, p, 1 if p == 1 else None)
    require_fits("atoms_per_side", 16 * p * K * (K + p))
    cosines = np.cos(np.pi / K * np.outer(np.arange(p), np.arange(K)))
    cosines[:, 1:] -= cosines[:, 1:].mean(axis=0)
    cosines /= np.linalg.norm(cosines, axis=0)
    across, down = sp.kron(sp.eye_array(K), cosines, format="csr"), sp.kron(cosines, sp.eye_array(p), format="csr")
    return SparseProduct([down, across])
