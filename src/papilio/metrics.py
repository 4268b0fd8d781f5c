"""How good a dictionary is: its error on signals, the atoms it recovers, how alike its atoms are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .csr import as_csr
from .linalg import column_norms, frobenius, rescaled, wide
from .operators import SparseProduct
from .validation import Array, as_matrix, as_real

_BLOCK_ENTRIES = 1 << 22  # of the largest matrix that is formed at once: 32 MB of float64


def rmse(signals: Any, dictionary: Any, codes: Any) -> float:
    """The root mean square error of DΓ: the paper's RMSE = ‖X − DΓ‖_F / √(d·n).

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    dictionary : (d, a) matrix or SparseProduct
        D, one atom a column.
    codes : (a, n) matrix, dense or sparse
        Γ, the code of one signal a column.

    Returns
    -------
    float
        Computed in double precision, whatever the dtypes; infinity where DΓ is beyond its range.

    Examples
    --------
    >>> from papilio.metrics import rmse
    >>> rmse(signals=[[3.0, 0.0], [4.0, 1.0]], dictionary=[[0.0], [1.0]], codes=[[0.0, 1.0]])
    2.5
    """
    X = as_matrix("signals", signals)
    D = _in_double_precision("dictionary", dictionary)
    G = sp.csc_array(as_csr("codes", codes)) if sp.issparse(codes) else as_matrix("codes", codes)
    if D.shape[0] != X.shape[0]:
        raise ValueError(f"dictionary must have {X.shape[0]} rows, as signals has, got shape {D.shape}")
    if G.shape != (D.shape[1], X.shape[1]):
        raise ValueError(
            f"codes must have shape {(D.shape[1], X.shape[1])}, one row an atom and one column a signal, "
            f"got {G.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        norms = [
            frobenius(X[:, part] - D @ _in_double_precision("codes", G[:, part]))
            for part in _blocks(X.shape[1], max(D.shape))
        ]
        error = frobenius(np.array(norms)) / np.sqrt(X.size)
    return float("inf" if np.isnan(error) else error)  # NaN: terms of DΓ overflowed with both signs


def recovery_rate(dictionary: Any, reference: Any, threshold: float = 0.99) -> float:
    """The share of the reference's atoms that a dictionary holds, up to order and sign, or phase.

    A learned atom d_j can stand for the atom r_i of the reference if |⟨r_i, d_j⟩|/(‖r_i‖‖d_j‖) > ``threshold``.
    As many pairs as possible are formed, no atom being in two of them, and their number is divided by that of the
    reference's atoms. The criterion is that of Aharon, Elad and Bruckstein (K-SVD, 2006); the pairing, which is
    theirs wherever no two atoms of the reference are alike, keeps one learned atom from standing for several.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        The learned dictionary, one atom a column, of any norm. Zero atoms stand for nothing.
    reference : (d, b) matrix or SparseProduct
        The dictionary to be found. Its zero atoms count as not recovered.
    threshold : float
        From 0 to 1.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from papilio.metrics import recovery_rate
    >>> recovery_rate([[0.0, -2.0], [1.0, 0.1]], [[1.0, 1.0], [0.0, 1.0]])
    0.5
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    learned, wanted = _unit_atoms("dictionary", dictionary), _unit_atoms("reference", reference)
    if learned.shape[0] != wanted.shape[0]:
        raise ValueError(
            f"dictionary must have {wanted.shape[0]} rows, as reference has, got shape {learned.shape}"
        )
    threshold = as_real("threshold", threshold, 0.0, 1.0)
    alike = sp.vstack(
        [
            sp.csr_array(_similarities(wanted[:, part], learned) > threshold)
            for part in _blocks(wanted.shape[1], learned.shape[1])
        ],
        format="csr",
    )
    partners = maximum_bipartite_matching(alike, perm_type="column")
    return float(np.mean(partners >= 0))


def mutual_coherence(dictionary: Any) -> float:
    """The largest similarity of two atoms, max_{i≠j} |⟨d_i, d_j⟩|/(‖d_i‖‖d_j‖).

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        One atom a column, of any norm. Zero atoms are similar to nothing.

    Returns
    -------
    float
        From 0, for orthogonal atoms or a single one, to 1, for two that are parallel.

    Examples
    --------
    >>> from papilio.metrics import mutual_coherence
    >>> mutual_coherence([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    0.8
    """
    atoms = _unit_atoms("dictionary", dictionary)
    largest = 0.0
    for part in _blocks(atoms.shape[1], atoms.shape[1]):
        similarities = _similarities(atoms[:, part], atoms[:, part.start :])
        np.fill_diagonal(similarities, 0.0)  # each atom with itself
        largest = max(largest, float(similarities.max()))
    return largest


def _blocks(count: int, length: int) -> Iterator[slice]:
    """Parts of ``count`` lines of ``length`` entries that are small enough to be worked on at once."""
    width = max(_BLOCK_ENTRIES // length, 1)
    return (slice(start, min(start + width, count)) for start in range(0, count, width))


def _in_double_precision(name: str, value: Any) -> Any:
    """A SparseProduct as such, everything else as a dense matrix."""
    matrix = value if isinstance(value, SparseProduct) else as_matrix(name, value)
    return matrix if matrix.dtype == wide(matrix.dtype) else matrix.astype(wide(matrix.dtype))


def _unit_atoms(name: str, dictionary: Any) -> Array:
    """The atoms in double precision, divided by their norms; zero atoms stay zero."""
    atoms = rescaled(as_matrix(name, _in_double_precision(name, dictionary)), axis=0)
    norms = column_norms(atoms)
    return atoms / np.where(norms > 0.0, norms, 1.0)


def _similarities(left: Array, right: Array) -> Array:
    """|⟨l_i, r_j⟩| of unit atoms, which rounding must not lift above one."""
    return np.minimum(np.abs(left.conj().T @ right), 1.0)
