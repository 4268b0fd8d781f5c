"""One iteration of PALM on small matrices, compiled: what `papilio.solvers.palm` does, without its overhead.

The blocks S₁, …, S_M lie one after the other in a flat array, row by row; ``sizes`` are the sides d₀, d₁, …, d_M
of the chain, so that S_j is d_{j−1} × d_j. ``kinds`` says which set a block lies in.
"""

import numpy as np
from numba import njit

from ..typing import Array
from .select import keep_largest, keep_largest_of_lines

FIXED, ENTRIES, ROWS, COLUMNS = range(4)
MARGIN = 1.001  # the step is 1/c with c > the Lipschitz modulus, by this factor

# Sums may be reordered here, for the vector units' sake: an iteration is not reproduced to the last bit by the
# general code, but by itself it is. For that no loop may both sum up and write: whether such a loop runs on vector
# units, and with it the order of its sum, depends on how near to each other its arrays happen to lie.
compiled = njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})


@compiled
def multiply(left: Array, right: Array, result: Array) -> None:
    """result = left @ right; zeros on the left cost nothing."""
    for i in range(left.shape[0]):
        result[i] = 0
        for k in range(left.shape[1]):
            value = left[i, k]
            if value != 0:
                for j in range(right.shape[1]):
                    result[i, j] += value * right[k, j]


@compiled
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


@compiled
def _in_range(square: float, rounding: float) -> bool:
    """Whether a sum of squares is far from where squares of the blocks' own precision lose digits."""
    least = 1e-200 if rounding < 1e-10 else 1e-25
    return least < square < 1 / least


@compiled
def select(kind: int, count: int, slack: float, guess: float, worth: Array, keep: Array) -> float:
    """Which entries the projection keeps (`papilio.constraints.sparsity`); a guess for the next time."""
    if kind == ENTRIES:
        return keep_largest(worth.ravel(), count, slack, guess, keep.ravel())
    if kind == ROWS:
        keep_largest_of_lines(worth, count, slack, keep)
    else:
        lines = np.empty((worth.shape[1], worth.shape[0]), worth.dtype)
        kept = np.empty(lines.shape, dtype=np.bool_)
        for i in range(worth.shape[0]):
            for j in range(worth.shape[1]):
                lines[j, i] = worth[i, j]
        keep_largest_of_lines(lines, count, slack, kept)
        for i in range(worth.shape[0]):
            for j in range(worth.shape[1]):
                keep[i, j] = kept[j, i]
    return 0.0


@compiled
def replace(
    old: Array, point: Array, kind: int, count: int, slack: float, guess: float, rounding: float, member: bool
) -> float:
    """old ← the projection of ``point``, unless ``old`` is a nearer member.

    Returns a guess for the next selection; −1 for zero and extreme matrices, which general code takes care of.
    """
    worth = np.empty(point.shape, point.real.dtype)
    keep = np.empty(point.shape, dtype=np.bool_)
    values, sizes, kept, before = point.ravel(), worth.ravel(), keep.ravel(), old.ravel()
    whole = 0.0
    for i in range(values.size):
        sizes[i] = abs(values[i])
    for i in range(values.size):
        whole += sizes[i] * sizes[i]
    if not _in_range(whole, rounding):
        return -1.0
    guess = select(kind, count, slack, guess, worth, keep)
    norm = 0.0
    for i in range(values.size):
        norm += kept[i] * (sizes[i] * sizes[i])
    shrink = point.real.dtype.type(1 / np.sqrt(norm))
    gain, change = 0.0, 0.0  # ⟨new − old, point⟩ and ‖new − old‖²
    for i in range(values.size):
        difference = (kept[i] * shrink) * values[i] - before[i]
        gain += (np.conj(values[i]) * difference).real
        change += (np.conj(difference) * difference).real
    if not member or gain >= -rounding * np.sqrt(change * whole):
        for i in range(values.size):
            before[i] = (kept[i] * shrink) * values[i]
    return guess


@compiled
def _matrix(flat: Array, begin: int, rows: int, columns: int) -> Array:
    """The rows × columns matrix that begins at ``begin`` in a flat array."""
    return flat[begin : begin + rows * columns].reshape(rows, columns)


@compiled
def _assign(result: Array, source: Array) -> None:
    for i in range(result.shape[0]):
        for j in range(result.shape[1]):
            result[i, j] = source[i, j]


@compiled
def _extend_left(blocks: Array, begin: Array, sizes: Array, j: int, prefix: Array) -> None:
    """prefix[j + 1] = prefix[j] @ S_j, where prefix[0] is the identity."""
    block = _matrix(blocks, begin[j], sizes[j], sizes[j + 1])
    result = _matrix(prefix[j + 1], 0, sizes[0], sizes[j + 1])
    if j == 0:
        _assign(result, block)
    else:
        np.dot(_matrix(prefix[j], 0, sizes[0], sizes[j]), block, result)


@compiled
def _extend_right(blocks: Array, begin: Array, sizes: Array, j: int, suffix: Array) -> None:
    """suffix[j] = S_j @ suffix[j + 1], where the last suffix is the identity."""
    columns = sizes[sizes.size - 1]
    block = _matrix(blocks, begin[j], sizes[j], sizes[j + 1])
    result = _matrix(suffix[j], 0, sizes[j], columns)
    if j == sizes.size - 2:
        _assign(result, block)
    else:
        multiply(block, _matrix(suffix[j + 1], 0, sizes[j + 1], columns), result)


@compiled
def _fit_of(product: Array, goal: Array, fit: Array) -> bool:
    """fit = (Re⟨G, X̂⟩/‖X̂‖², ‖G − fit[0]·X̂‖); False where squares leave the number range."""
    along, size, misfit = 0.0, 0.0, 0.0
    for i in range(goal.shape[0]):
        for j in range(goal.shape[1]):
            along += (np.conj(product[i, j]) * goal[i, j]).real
            size += abs(product[i, j]) ** 2
    if not 1e-200 < size < 1e200:
        return False
    for i in range(goal.shape[0]):
        for j in range(goal.shape[1]):
            misfit += abs(goal[i, j] - along / size * product[i, j]) ** 2
    fit[0] = along / size
    fit[1] = np.sqrt(misfit)
    return bool(misfit < 1e200)


@compiled
def iterate(
    target: Array,
    scale: float,
    is_complex: bool,
    blocks: Array,
    before: Array,
    inertia: float,
    sizes: Array,
    kinds: Array,
    counts: Array,
    members: Array,
    guesses: Array,
    starts: Array,
    probe: Array,
    push: float,
    fit: Array,
    rightwards: bool,
    slack: float,
    rounding: float,
    tol: float,
) -> bool:
    """Update all blocks for the goal G = X/scale. False if general code must take over.

    ``before`` are the blocks one iteration ago; gradients are taken ``inertia`` times the last change ahead.
    ``fit`` becomes Re⟨G, X̂⟩/‖X̂‖² with X̂ = S₁…S_M, by which the scale changes, and ‖G − fit[0]·X̂‖.
    """
    count = kinds.size
    rows, columns = target.shape
    goal = target / target.real.dtype.type(scale)
    product = np.empty((rows, columns), goal.dtype)
    size = 0.0
    for i in range(rows):
        for j in range(columns):
            size += abs(goal[i, j]) ** 2
    if not _in_range(size, rounding):
        return False
    begin = np.zeros(count + 1, dtype=np.int64)
    for j in range(count):
        begin[j + 1] = begin[j] + sizes[j] * sizes[j + 1]
    # The products before and from each block on, as in `papilio.solvers.chain`; those of no block stay unused.
    prefix = np.empty((count + 1, rows * sizes.max()), goal.dtype)
    suffix = np.empty((count + 1, columns * sizes.max()), goal.dtype)
    for step in range(count):
        if rightwards:
            _extend_right(blocks, begin, sizes, count - 1 - step, suffix)
        else:
            _extend_left(blocks, begin, sizes, step, prefix)
    for step in range(count):
        j = step if rightwards else count - 1 - step
        block = _matrix(blocks, begin[j], sizes[j], sizes[j + 1])
        left = _matrix(prefix[j], 0, rows, sizes[j])
        right = _matrix(suffix[j + 1], 0, sizes[j + 1], columns)
        if kinds[j] != FIXED:
            cut = j if rightwards else j + 1
            ahead = block
            if inertia > 0.0:
                ahead = block + target.real.dtype.type(inertia) * (
                    block - _matrix(before, begin[j], sizes[j], sizes[j + 1])
                )
                inner = ahead
                if j < count - 1:
                    inner = np.empty((sizes[j], columns), goal.dtype)
                    multiply(ahead, right, inner)
                if j > 0:
                    np.dot(left, inner, product)
                else:
                    _assign(product, inner)
            elif cut == 0:
                _assign(product, _matrix(suffix[0], 0, rows, columns))
            elif cut == count:
                _assign(product, _matrix(prefix[count], 0, rows, columns))
            else:
                first = _matrix(prefix[cut], 0, rows, sizes[cut])
                after = _matrix(suffix[cut], 0, sizes[cut], columns)
                np.dot(first, after, product)
            gradient = product - goal
            modulus = 1.0
            if j > 0:
                modulus *= norm_squared(left, probe, push, starts[0, j], tol)
                through = np.empty((sizes[j], columns), goal.dtype)
                np.dot(np.conj(left).T if is_complex else left.T, gradient, through)
                gradient = through
            if j < count - 1:
                modulus *= norm_squared(right, probe, push, starts[1, j], tol)
                through = np.empty((sizes[j], sizes[j + 1]), goal.dtype)
                np.dot(gradient, np.conj(right).T if is_complex else right.T, through)
                gradient = through
            if modulus == 0.0:
                return False
            point = ahead - gradient / goal.real.dtype.type(MARGIN * modulus)
            bound = members[j] and inertia == 0.0
            guesses[j] = replace(block, point, kinds[j], counts[j], slack, guesses[j], rounding, bound)
            if guesses[j] < 0.0:
                return False
            members[j] = True
        if rightwards:
            _extend_left(blocks, begin, sizes, j, prefix)
        else:
            _extend_right(blocks, begin, sizes, j, suffix)
    return _fit_of(_matrix(prefix[count] if rightwards else suffix[0], 0, rows, columns), goal, fit)
