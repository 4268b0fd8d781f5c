"""Gradient steps of PALM: spectral norms, whole steps for small matrices, other metrics, sparse forms."""

import numpy as np

from ..typing import Array
from .cache import kernel

LEAST_WEIGHT = 1e-3  # of a line in the metric of moments, relative to the largest

plain = kernel(nogil=True)
# Entries are independent of each other: there is no sum whose order might change.
compiled = kernel(nogil=True, fastmath={"contract", "nsz"})
# Sums may be reordered, so that they run on vector units. No loop both sums up and writes: whether such a loop
# runs on vector units, and so the order of its sum, depends on how near to each other its arrays happen to lie.
summing = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"})
# Part of its caller: a second copy beside one from the cache might sum in another order.
inlined = kernel(nogil=True, fastmath={"contract", "nsz", "reassoc"}, forceinline=True)


@inlined
def norm_squared(matrix: Array, probe: Array, push: float, start: Array, tol: float) -> float:
    """‖matrix‖₂² by power iteration on matrixᴴ·matrix: see `papilio.linalg.largest_eigenvalue`.

    ``start`` is the singular vector of the last time (zero at first) and becomes that of this time; ``push`` says
    how much of ``probe`` is mixed in.
    """
    size = matrix.shape[1]
    vector = np.empty(size, matrix.dtype)
    following = np.empty(size, matrix.dtype)
    estimate, increment, missing, length = 0.0, np.inf, 0.0, 0.0
    for k in range(size):
        vector[k] = start[k] + push * probe[k]
    for k in range(size):
        length += (np.conj(vector[k]) * vector[k]).real
    for iteration in range(1000):
        shrink = 1 / np.sqrt(length)
        previous = estimate
        estimate, length = 0.0, 0.0
        for k in range(size):
            vector[k] *= shrink
            following[k] = 0
        for i in range(matrix.shape[0]):
            along = 0 * vector[0]
            for k in range(size):
                along += matrix[i, k] * vector[k]
            estimate += (np.conj(along) * along).real
            for k in range(size):
                following[k] += np.conj(matrix[i, k]) * along
        for k in range(size):
            length += (np.conj(following[k]) * following[k]).real
        if length == 0.0:
            return 0.0
        if iteration > 0:
            last, increment = increment, estimate - previous
            ratio = increment / last
            if increment <= 1e-15 * estimate:
                break
            if 0.0 < ratio < 1.0:
                missing = increment * ratio / (1.0 - ratio)
                if max(increment, missing) <= tol * estimate:
                    break
        for k in range(size):
            vector[k] = following[k]
    for k in range(size):
        start[k] = vector[k]
    return estimate + min(missing, tol * estimate)


@summing
def gradient_step(
    head: Array,
    rest: Array,
    goal: Array,
    left: Array,
    right: Array,
    point: Array,
    vectors: Array,
    push: float,
    tol: float,
    margin: float,
    result: Array,
) -> None:
    """result = point − Lᴴ(head·rest − goal)Rᴴ/(margin·‖L‖₂²‖R‖₂²); empty matrices stand for the identity.

    ``vectors`` are the ``start`` of `norm_squared` for L and R, and its ``probe``.
    """
    product, modulus = head, 1.0
    if rest.size > 0:
        product = np.dot(head, rest)
    gradient = np.empty(goal.shape, goal.dtype)
    for i in range(goal.shape[0]):
        for j in range(goal.shape[1]):
            gradient[i, j] = product[i, j] - goal[i, j]
    for side in range(2):  # a loop, so that what it calls is compiled into it once
        matrix = left if side == 0 else right
        if matrix.size > 0:
            modulus *= norm_squared(matrix, vectors[2], push, vectors[side], tol)
            adjoint = np.empty((matrix.shape[1], matrix.shape[0]), matrix.dtype)
            for i in range(matrix.shape[0]):
                for j in range(matrix.shape[1]):
                    adjoint[j, i] = np.conj(matrix[i, j])
            first, second = (adjoint, gradient) if side == 0 else (gradient, adjoint)
            gradient = np.dot(first, second)
    length = goal.real.dtype.type(0)
    if modulus > 0.0:
        length = goal.real.dtype.type(1 / (margin * modulus))
    for i in range(point.shape[0]):
        for j in range(point.shape[1]):
            result[i, j] = point[i, j] - gradient[i, j] * length


@summing
def weighted_gradient_step(
    gram: Array,
    cross: Array,
    left: Array,
    point: Array,
    vectors: Array,
    unit: float,
    push: float,
    tol: float,
    margin: float,
    result: Array,
    score: Array,
) -> None:
    """result = point − Lᴴ(L·point·K − cross/unit) in the metric of `ChainOnMoments`, and its ``score``.

    An empty L stands for the identity. ``vectors`` are the ``start`` of `norm_squared` for L and K, and its
    ``probe``.
    """
    gradient, v, w = np.dot(point, gram), np.ones(point.shape[0]), np.empty(point.shape[1])
    c = margin
    for j in range(w.size):
        w[j] = np.sqrt(max(gram[j, j].real, 0.0))
    w = np.maximum(w, LEAST_WEIGHT * w.max())
    if left.size > 0:
        gradient = np.dot(left, gradient)
        squares = np.zeros(v.size)
        for i in range(left.shape[0]):
            for j in range(v.size):
                squares[j] += (np.conj(left[i, j]) * left[i, j]).real
        v = np.sqrt(squares)
        v = np.maximum(v, LEAST_WEIGHT * v.max())
    for i in range(cross.shape[0]):
        for j in range(cross.shape[1]):
            gradient[i, j] -= cross[i, j] / unit
    for side in range(2):  # a loop, so that what it calls is compiled into it once
        if side == 1 or left.size > 0:
            matrix, columns = (left, v) if side == 0 else (gram, w)
            scaled = np.empty(matrix.shape, matrix.dtype)
            for i in range(matrix.shape[0]):
                row = 1.0 if side == 0 else w[i]
                for j in range(matrix.shape[1]):
                    scaled[i, j] = matrix[i, j] / (row * columns[j]) if row * columns[j] > 0.0 else 0
            size = norm_squared(scaled, vectors[2], push, vectors[side], tol)
            c *= size if side == 0 else np.sqrt(size)
    if left.size > 0:
        adjoint = np.empty((left.shape[1], left.shape[0]), left.dtype)
        for i in range(left.shape[0]):
            for j in range(left.shape[1]):
                adjoint[j, i] = np.conj(left[i, j])
        gradient = np.dot(adjoint, gradient)
    for i in range(point.shape[0]):
        for j in range(point.shape[1]):
            steepness, value = c * v[i] * v[i] * w[j] * w[j], point[i, j]
            if steepness > 0.0:
                value -= gradient[i, j] * gram.real.dtype.type(1 / steepness)
            result[i, j] = value
            score[i, j] = abs(value) * (v[i] * w[j])


@compiled
def weighted_step(
    point: Array, gradient: Array, rows: Array, columns: Array, v: Array, w: Array, score: Array
) -> None:
    """point ← point − rows_i·columns_j·gradient, in place, and score = |point|·v_i·w_j."""
    for i in range(point.shape[0]):
        row, weight = rows[i], v[i]
        for j in range(point.shape[1]):
            value = point[i, j] - (row * columns[j]) * gradient[i, j]
            point[i, j] = value
            score[i, j] = abs(value) * (weight * w[j])


@plain
def count_entries(matrix: Array) -> Array:
    """The row pointers of ``matrix`` in CSR form."""
    pointers = np.zeros(matrix.shape[0] + 1, dtype=np.int32)
    for i in range(matrix.shape[0]):
        count = 0
        for j in range(matrix.shape[1]):
            count += matrix[i, j] != 0
        pointers[i + 1] = pointers[i] + count
    return pointers


@plain
def fill_entries(matrix: Array, pointers: Array) -> tuple[Array, Array]:
    """The indices and values of ``matrix`` in CSR form."""
    indices = np.empty(pointers[-1], dtype=np.int32)
    values = np.empty(pointers[-1], dtype=matrix.dtype)
    n = 0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if matrix[i, j] != 0:
                indices[n] = j
                values[n] = matrix[i, j]
                n += 1
    return indices, values
