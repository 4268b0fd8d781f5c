"""SparseProducts in the .mat files of FAµST (pyfaust and matfaust): a cell array of the factors.

The variable ``faust_factors`` is a 1 × M cell array of matrices, sparse or dense, from left to right. There is no
scale: it goes into a factor.
"""

import os
from os import fspath

import numpy as np
import scipy.sparse as sp

from ..runtime.files import open_regular, replacing
from ..runtime.unpacking import TooLarge, require_memory
from ..typing import Path
from .adapters import absorbed
from .matlab import is_mat, read_cells
from .product import SparseProduct

VARIABLE = "faust_factors"


def write_faust(op: SparseProduct, path: Path) -> None:
    """Write ``op`` to ``path`` as FAµST does; see `SparseProduct.save`."""
    from scipy.io import savemat

    factors = absorbed(op)
    cells = np.empty((1, len(factors)), dtype=object)
    for i, factor in enumerate(factors):
        cells[0, i] = sp.csc_matrix(factor) if sp.issparse(factor) else factor
    with replacing(path) as partial, open(partial, "xb") as file:
        savemat(file, {VARIABLE: cells})


def is_faust(path: Path) -> bool:
    """Whether ``path`` is a .mat file, judged by how it begins."""
    with open_regular(path) as file:
        return is_mat(file.read(128))


def read_faust(path: Path) -> SparseProduct:
    """The product in a .mat file of FAµST; see `papilio.load`."""
    with open_regular(path) as file:
        require_memory(os.fstat(file.fileno()).st_size)
        content = file.read()
    try:
        return SparseProduct(read_cells(content, VARIABLE))
    except TooLarge as error:
        raise TooLarge(f"{fspath(path)!r}: {error}") from error
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"{fspath(path)!r} does not hold a product of factors: {error}") from error
