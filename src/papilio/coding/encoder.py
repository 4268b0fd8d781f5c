"""Learned encoders: a few layers of an iterative method with trained numbers, on NumPy and fast products."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array

_AT_ONCE = 1 << 20  # coefficients of a block of signals


class Layer(NamedTuple):
    """z ← h(y + step·Wᵀ(x − By)) with y = z + momentum·(z − z₋), where z₋ is what z was one layer before."""

    synthesis: Array | SparseProduct  # B, (d, a)
    analysis: Array | SparseProduct  # W, (d, a)
    step: float
    momentum: float
    thresholds: Array  # one per group

    def astype(self, dtype: Any) -> "Layer":
        """In another precision."""
        same = self.synthesis is self.analysis
        synthesis = self.synthesis.astype(dtype)
        analysis = synthesis if same else self.analysis.astype(dtype)
        return self._replace(synthesis=synthesis, analysis=analysis, thresholds=self.thresholds.astype(dtype))


class Groups:
    """The groups of a penalty Σ_g ‖γ_g‖₂, by a label per atom; each atom is one of its own for the ℓ1 norm."""

    def __init__(self, labels: Array) -> None:
        self.labels = np.unique(labels, return_inverse=True)[1].ravel()
        self.count = int(self.labels.max()) + 1
        self.are_atoms = self.count == len(self.labels)
        if self.are_atoms:
            self.labels = np.arange(self.count)
        entries = np.ones(len(self.labels)), (self.labels, np.arange(len(self.labels)))
        self._members = sp.csr_array(entries, shape=(self.count, len(self.labels)))

    def norms(self, codes: Array) -> Array:
        """‖γ_g‖₂ of each code, one per column."""
        if self.are_atoms:
            return np.abs(codes)
        return np.sqrt(self._members.astype(codes.dtype) @ (codes * codes))

    def shrink(self, codes: Array, thresholds: Array) -> Array:
        """The minimum of ½‖γ − u‖² + Σ_g θ_g‖γ_g‖₂ for each u, one per column, in its place."""
        if self.are_atoms:
            codes -= np.clip(codes, -thresholds[:, None], thresholds[:, None])
            return codes
        norms = self.norms(codes)
        np.maximum(norms, np.finfo(codes.dtype).tiny, out=norms)
        factors = np.maximum(1 - thresholds[:, None] / norms, 0)
        codes *= factors[self.labels]
        return codes


def objectives(
    dictionary: Array | SparseProduct, signals: Array, codes: Array, alpha: float, groups: Groups
) -> Array:
    """½‖x − Dγ‖² + alpha·Σ_g ‖γ_g‖₂ of each signal, one per column."""
    left = signals - dictionary @ codes
    return 0.5 * (left * left).sum(axis=0) + alpha * groups.norms(codes).sum(axis=0)


def encode(layers: list[Layer], signals: Array, groups: Groups) -> Array:
    """The codes of signals, one per column, after all layers; they come in the dtype of the signals."""
    layers = [layer.astype(signals.dtype) for layer in layers]
    n_atoms, count = layers[0].synthesis.shape[1], signals.shape[1]
    codes = np.empty((count, n_atoms), signals.dtype)
    width = max(_AT_ONCE // n_atoms, 1)
    for start in range(0, count, width):
        codes[start : start + width] = _pass(layers, signals[:, start : start + width], groups).T
    return codes.T


def _pass(layers: list[Layer], signals: Array, groups: Groups) -> Array:
    x = np.ascontiguousarray(signals)  # row-major blocks are the fastest for products
    before = z = None
    for layer in layers:
        if z is None:
            u = layer.analysis.T @ x
            u *= u.dtype.type(layer.step)
        else:
            y = z
            if before is not None and layer.momentum != 0:
                y = z - before
                y *= y.dtype.type(layer.momentum)
                y += z
            elif layer.momentum != 0:
                y = z * z.dtype.type(1 + layer.momentum)
            left = layer.synthesis @ y
            np.subtract(x, left, out=left)
            u = layer.analysis.T @ left
            u *= u.dtype.type(layer.step)
            u += y
        before, z = z, groups.shrink(u, layer.thresholds)
    assert z is not None
    return z
