"""Cuts of matrices on Kronecker-sparse supports: blocks of low rank, and products of two factors.

A matrix W on the support I_a ⊗ 1_{b×c} ⊗ I_d is stored as a·d dense blocks, an array (a·d, b, c) whose first index
is αd + δ. A cut writes it as a product X·Y of rank q on two such supports. With b = pn and c = km, it consists of
a·k·n·d blocks of p×m entries: the rows βn + λ and the columns κm + γ of a stored block, for all β and γ. Each is a
product of q columns of X, an array (a·n·d, p, kq), and q rows of Y, an array (a·k·d, qn, m). All kernels take
these numbers as ``cut`` = (a, k, n, d, p, m, q).
"""

import numpy as np

from ..typing import Array
from .cache import kernel

compiled = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"})
inlined = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"}, forceinline=True)

_DIRECT = 8  # Rows of a block up to which rotations find all singular vectors.
_MORE = 4  # Directions that subspace iteration follows beyond those that are kept.
_STEPS = 500  # Most steps of subspace iteration.
_SWEEPS = 40  # Most sweeps of rotations.


@compiled
def split(W: Array, cut: tuple[int, ...], X: Array, Y: Array, from_left: bool) -> float:
    """The best product X·Y, with orthonormal columns of the blocks of X, or rows of Y; returns ‖W − X·Y‖²."""
    a, k, n, d, p, m, q = cut
    side, other = (p, m) if from_left else (m, p)
    block = np.empty((side, other), W.dtype)
    basis = np.empty((max(side, q), side), W.dtype)  # a singular vector in each row
    missed = 0.0
    for top in range(a * d):
        alpha, delta = top // d, top % d
        for lam in range(n):
            x = X[(alpha * n + lam) * d + delta]
            for kappa in range(k):
                y = Y[(alpha * k + kappa) * d + delta]
                for i in range(p):
                    row = W[top, i * n + lam, kappa * m : (kappa + 1) * m]
                    if from_left:
                        block[i] = row
                    else:
                        for j in range(m):
                            block[j, i] = np.conj(row[j])
                missed += _leading(block, q, basis)
                if from_left:
                    for r in range(q):
                        for i in range(p):
                            x[i, kappa * q + r] = basis[r, i]
                        _combine(block, basis[r], y[r * n + lam])
                else:
                    for r in range(q):
                        y[r * n + lam] = np.conj(basis[r])
                        for i in range(p):
                            total = block[0, i] * 0
                            for j in range(m):
                                total += np.conj(block[j, i]) * basis[r, j]
                            x[i, kappa * q + r] = total
    return missed


@compiled
def project(W: Array, cut: tuple[int, ...], X: Array, Y: Array, from_left: bool) -> None:
    """Y = Xᴴ·W, or X = W·Yᴴ, on its support."""
    a, k, n, d, p, m, q = cut
    if from_left:
        Y[:] = 0
    for top in range(a * d):
        alpha, delta = top // d, top % d
        for lam in range(n):
            x = X[(alpha * n + lam) * d + delta]
            for i in range(p):
                for kappa in range(k):
                    row = W[top, i * n + lam, kappa * m : (kappa + 1) * m]
                    for r in range(q):
                        line = Y[(alpha * k + kappa) * d + delta, r * n + lam]
                        if from_left:
                            factor = np.conj(x[i, kappa * q + r])
                            for j in range(m):
                                line[j] += factor * row[j]
                        else:
                            x[i, kappa * q + r] = _inner(line, row)


@compiled
def multiply(cut: tuple[int, ...], X: Array, Y: Array, W: Array) -> None:
    """W = X·Y."""
    a, k, n, d, p, m, q = cut
    for top in range(a * d):
        alpha, delta = top // d, top % d
        for lam in range(n):
            x = X[(alpha * n + lam) * d + delta]
            for i in range(p):
                for kappa in range(k):
                    y = Y[(alpha * k + kappa) * d + delta]
                    row = W[top, i * n + lam, kappa * m : (kappa + 1) * m]
                    row[:] = 0
                    for r in range(q):
                        factor, line = x[i, kappa * q + r], y[r * n + lam]
                        for j in range(m):
                            row[j] += factor * line[j]


@compiled
def orthonormalize(lines: Array, q: int, step: int) -> None:
    """Gram-Schmidt for groups of q lines, ``step`` apart, of each block; (blocks, lines, entries)."""
    for top in range(lines.shape[0]):
        for first in range(0, lines.shape[1], q * step):
            for start in range(first, first + step):
                _orthonormal(lines[top, start : start + (q - 1) * step + 1 : step])


@inlined
def _inner(left: Array, right: Array) -> float:
    """⟨left, right⟩."""
    total = left[0] * 0
    for j in range(left.size):
        total += np.conj(left[j]) * right[j]
    return total


@inlined
def _combine(block: Array, vector: Array, line: Array) -> None:
    """line = vectorᴴ·block."""
    line[:] = 0
    for i in range(vector.size):
        factor = np.conj(vector[i])
        for j in range(line.size):
            line[j] += factor * block[i, j]


@inlined
def _orthonormal(lines: Array) -> None:
    """The lines as an orthonormal basis of what they span, followed by zeros."""
    for i in range(lines.shape[0]):
        line = lines[i]
        before = _inner(line, line).real
        for _ in range(2):  # the second time for rounding
            for other in range(i):
                part = _inner(lines[other], line)
                for j in range(line.size):
                    line[j] -= part * lines[other, j]
        size = np.sqrt(_inner(line, line).real)
        scale = 1 / size if size > 1e-15 * np.sqrt(before) else 0.0
        for j in range(line.size):
            line[j] *= scale


@compiled
def _leading(block: Array, q: int, basis: Array) -> float:
    """The q leading left singular vectors, in the first rows of ``basis``; returns the sum of the other σ²."""
    n, size = block.shape
    basis[:] = 0
    if n <= max(_DIRECT, q):
        for i in range(n):
            basis[i, i] = 1
        squares = _rotate(block.copy(), basis)
        return squares[q:].sum()
    count = min(q + _MORE, n, size)
    lines = np.empty((count, size), block.dtype)
    adjoint = np.conj(block.T)
    if n <= size:
        start = np.linalg.eigh(np.dot(block, adjoint))[1]
    else:
        start = np.dot(block, np.linalg.eigh(np.dot(adjoint, block))[1])
    for r in range(count):
        basis[r] = start[:, start.shape[1] - 1 - r]
    kept = -1.0
    for _ in range(_STEPS):
        _orthonormal(basis[:count])
        for r in range(count):
            _combine(block, basis[r], lines[r])
        squares = _rotate(lines.copy(), basis[:count])
        before, kept = kept, squares[:q].sum()
        if abs(kept - before) <= 1e-14 * kept or count == min(n, size):
            break
        for r in range(count):
            _combine(block, basis[r], lines[r])
        for r in range(count):
            for i in range(n):
                basis[r, i] = _inner(lines[r], block[i])
    missed = 0.0
    rest = np.empty(size, block.dtype)
    for r in range(q):
        _combine(block, basis[r], lines[r])
    for i in range(n):
        rest[:] = block[i]
        for r in range(q):
            for j in range(size):
                rest[j] -= basis[r, i] * lines[r, j]
        missed += _inner(rest, rest).real
    return missed


@compiled
def _rotate(lines: Array, basis: Array) -> Array:
    """Rotate lines until they are orthogonal, longest first, and the rows of ``basis`` with them; returns ‖·‖².

    One-sided Jacobi rotations, on the triangular factor of the lines: these are first expressed in an orthonormal
    basis of what they span.
    """
    n = lines.shape[0]
    triangle = np.zeros((n, n), lines.dtype)
    for i in range(n):
        for r in range(i):
            part = _inner(lines[r], lines[i])
            triangle[i, r] = part
            for j in range(lines.shape[1]):
                lines[i, j] -= part * lines[r, j]
        size = np.sqrt(_inner(lines[i], lines[i]).real)
        triangle[i, i] = size
        scale = 1 / size if size > 0 else 0.0
        for j in range(lines.shape[1]):
            lines[i, j] *= scale
    near = (4 + n) * np.finfo(lines.real.dtype).eps
    for _ in range(_SWEEPS):
        turned = False
        for i in range(n - 1):
            for r in range(i + 1, n):
                first, second = triangle[i], triangle[r]
                a, b = _inner(first, first).real, _inner(second, second).real
                mixed = _inner(second, first)
                size = abs(mixed)
                is_coupled = size > near * np.sqrt(a) * np.sqrt(b)
                if a >= b and not is_coupled:
                    continue
                turned |= is_coupled
                # [first, second] ← [c·first + s·phase·second, −s·conj(phase)·first + c·second]
                angle = 0.5 * np.arctan2(2 * size, a - b)
                c, s = np.cos(angle), np.sin(angle)
                phase = mixed / size if size > 0 else mixed * 0 + 1
                _turn(first, second, c, s * phase)
                _turn(basis[i], basis[r], c, s * np.conj(phase))
        if not turned:
            break
    squares = np.empty(n)
    for i in range(n):
        squares[i] = _inner(triangle[i], triangle[i]).real
    return squares


@inlined
def _turn(first: Array, second: Array, c: float, s: float) -> None:
    """A rotation of two lines."""
    for j in range(first.size):
        f, g = first[j], second[j]
        first[j] = c * f + s * g
        second[j] = c * g - np.conj(s) * f
