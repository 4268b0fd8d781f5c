"""The same operator in the hands of each peer that is installed."""

import warnings
from collections.abc import Callable
from functools import reduce

import numpy as np
import scipy.sparse as sp

import papilio as pp

Apply = Callable[[np.ndarray], object]

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyfaust
        import pyfaust.fact
        import pyfaust.factparams
except ImportError:
    pyfaust = None

try:
    import lazylinop
except ImportError:
    lazylinop = None

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lazylinop.butterfly import Chain, ksd  # needs pandas and psutil, which it does not ask for
except ImportError:
    ksd = Chain = None

try:
    import torch
except ImportError:
    torch = None

try:
    import spams
except ImportError:
    spams = None

try:
    import dictlearn
except ImportError:
    dictlearn = None

try:
    import ksvd as ksvd_package
except ImportError:
    ksvd_package = None

try:
    from h2tools import ClusterTree, Problem
    from h2tools.collections.particles import Particles
    from h2tools.mcbh import mcbh
except ImportError:
    mcbh = None


def h2_matrix(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray, leaf: int, tolerance: float) -> object:
    """h2tools' H²-matrix from a matrix and the coordinates of its lines: the same ones if it is symmetric."""
    trees = [ClusterTree(Particles(x.shape[1], len(x), np.array(x.T)), leaf) for x in (rows, columns)]
    is_symmetric = rows is columns
    problem = Problem(
        lambda _, i, __, j: matrix[np.ix_(i, j)], trees[0], trees[not is_symmetric], symmetric=int(is_symmetric)
    )
    found = mcbh(problem, tolerance)
    found.svdcompress(tolerance)
    return found


def h2_entries(found: object) -> int:
    """The numbers that an H²-matrix stores; blocks that share their memory, as transposes do, count once."""
    sizes = {}
    waiting = [found.row_transfer, found.col_transfer, found.row_interaction, found.row_close]
    while waiting:
        each = waiting.pop()
        if isinstance(each, np.ndarray) and each.dtype != object:
            sizes[each.ctypes.data] = each.size
        elif each is not None:
            waiting.extend(each)
    return sum(sizes.values())


def applications(op: pp.SparseProduct, adjoint: bool = False) -> dict[str, Apply]:
    """x ↦ op @ x, or op.H @ x, by papilio, by the dense matrix, by SciPy, pyfaust and lazylinop."""
    op = op.H if adjoint else op
    dense = op.toarray()
    chain = [sp.csr_array(factor, copy=True) for factor in op.factors]
    peers: dict[str, Apply] = {
        "papilio": lambda x: op @ x,
        "dense NumPy": lambda x: dense @ x,
        "SciPy CSR chain": lambda x: reduce(lambda y, factor: factor @ y, reversed(chain), x),
    }
    if pyfaust is not None:
        faust = pyfaust.Faust([sp.csr_matrix(factor, copy=True) for factor in chain])
        peers["pyfaust"] = lambda x: faust @ x
        peers["pyfaust, column-major"] = _by_columns(lambda x: faust @ x)
    if lazylinop is not None:
        lazy = reduce(lambda a, b: a @ b, (lazylinop.aslazylinop(sp.csr_matrix(factor)) for factor in chain))
        peers["lazylinop"] = lambda x: lazy @ x
    x = np.ones(op.shape[1], dtype=op.dtype)
    for name, apply in peers.items():
        np.testing.assert_allclose(apply(x), dense @ x, rtol=1e-4, atol=1e-4 * np.abs(dense).max(), err_msg=name)
    return peers


def _by_columns(apply: Apply) -> Apply:
    """``apply`` on a column-major copy of its block, which is made only once."""
    copies: dict[int, np.ndarray] = {}

    def run(x: np.ndarray) -> object:
        if id(x) not in copies:
            copies.clear()
            copies[id(x)] = np.asfortranarray(x)
        return apply(copies[id(x)])

    return run


def random_chain(seed: int = 0) -> pp.SparseProduct:
    """Five factors of 512×512 with four entries a row at random places."""
    rng = np.random.default_rng(seed)
    columns = [np.array([rng.choice(512, 4, replace=False) for _ in range(512)]) for _ in range(5)]
    pointers = np.arange(0, 2049, 4)
    return pp.SparseProduct(
        [sp.csr_array((rng.standard_normal(2048), c.ravel(), pointers), shape=(512, 512)) for c in columns]
    )
