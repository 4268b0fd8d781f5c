"""Atoms of a product of factors that do nothing: new values on the supports that they have."""

import numpy as np

from ..linalg import column_norms
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..typing import Array
from .signals import Held
from .sums import multiplied, residuals_of

_EQUAL = 0.99  # the inner product of two atoms of which one is too many
_RARE = 0.05  # of the mean number of uses


def reseeded(product: SparseProduct, signals: Held, uses: Array) -> SparseProduct:
    """The product with new values for atoms that are hardly used, or parallel to an atom that is used more.

    ``signals`` have codes in a dictionary near the product. An atom is L s, with L all factors but the last and s
    its column there. It becomes the direction, among those that the support of s allows, in which the residuals of
    the signals have most energy. With few entries per column, such spans are small, and PALM alone makes some of
    their atoms equal: these never differ again. An atom that is zero gets one entry.
    """
    atoms = multiplied(product)
    bad = _bad_atoms(atoms, uses)
    if not bad.size or signals.codes is None:
        return product
    left = to_dense(product.factors[0])
    for factor in product.factors[1:-1]:
        left = left @ to_dense(factor)
    residuals = residuals_of(signals.rows, np.ascontiguousarray(atoms.T), signals.codes)
    energy = residuals.T @ residuals.conj()
    last = to_dense(product.factors[-1]).copy()
    for j in bad:
        support = np.flatnonzero(last[:, j])
        if not atoms[:, j].any():  # a support that gives nothing: one entry in its place, for which there is room
            support, last[:, j] = _best_entry(left, energy), 0
        best = _strongest(left[:, support], energy)
        if best is None:
            continue
        values, atom = best
        last[support, j] = values / product.scale
        # The next one takes another direction.
        energy = energy - np.outer(atom, atom.conj() @ energy)
        energy = energy - np.outer(energy @ atom, atom.conj())
    return SparseProduct([*product.factors[:-1], last], product.scale)


def _bad_atoms(atoms: Array, uses: Array) -> Array:
    """The atoms that are hardly used, and of two parallel ones that with fewer uses."""
    norms = column_norms(atoms)
    unit = atoms / np.where(norms > 0, norms, 1)
    order = np.argsort(-uses, kind="stable")
    likeness = np.triu(np.abs(unit[:, order].conj().T @ unit[:, order]), 1)
    is_doubled = np.zeros(uses.size, dtype=bool)
    is_doubled[order] = (likeness > _EQUAL).any(axis=0)
    return np.flatnonzero(is_doubled | (uses < _RARE * uses.mean()))


def _best_entry(left: Array, energy: Array) -> Array:
    """The column of L in whose direction there is most energy."""
    norms = column_norms(left)
    along = np.einsum("ij,ij->j", left.conj(), energy @ left).real
    return np.array([np.argmax(along / np.where(norms > 0, norms, np.inf) ** 2)])


def _strongest(base: Array, energy: Array) -> tuple[Array, Array] | None:
    """Coefficients in a base, and the unit vector that they give: the direction of most energy in its span."""
    directions, sizes, turned = np.linalg.svd(base, full_matrices=False)
    kept = sizes > 1e-6 * sizes.max(initial=0.0)
    directions = directions[:, kept]
    if not directions.size:
        return None
    within = directions.conj().T @ energy @ directions
    values, vectors = np.linalg.eigh(within)
    if not values[-1] > 0:
        return None
    chosen = vectors[:, -1]
    coefficients = turned[kept].conj().T @ (chosen / sizes[kept])
    return coefficients, directions @ chosen
